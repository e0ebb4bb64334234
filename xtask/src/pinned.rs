//! Pinned tools and the checked-in files that are made with them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use xshell::{Shell, cmd};

/// The folder below `target/` that holds exactly these packages, fetched with pip if need be.
pub(crate) fn fetch(shell: &Shell, folder: &str, packages: &[&str]) -> Result<PathBuf> {
    let target = crate::workspace_root().join("target").join(folder);
    let wanted = packages.join("\n");
    let mark = target.join("complete");
    if shell.read_file(&mark).is_ok_and(|fetched| fetched == wanted) {
        return Ok(target);
    }
    shell.remove_path(&target)?;
    let pip = "-m pip install --quiet --no-deps --only-binary=:all: --target".split(' ');
    cmd!(shell, "python3 {pip...} {target} {packages...}")
        .run()
        .with_context(|| format!("fetching {} with pip", packages.join(", ")))?;
    shell.write_file(mark, wanted)?;
    Ok(target)
}

/// Writes a generated file, or with `check` compares it with the one that is checked in.
pub(crate) fn settle(
    shell: &Shell,
    path: &Path,
    content: &str,
    check: bool,
    command: &str,
) -> Result<()> {
    if !check {
        return Ok(shell.write_file(path, content)?);
    }
    let present = shell.read_file(path)?;
    ensure!(present == content, "{} is stale: run `cargo xtask {command}`", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use xshell::Shell;

    use super::settle;

    #[test]
    fn a_stale_file_is_refused_and_a_fresh_one_is_not() {
        let folder = crate::test_folder("pinned");
        let (shell, path) = (Shell::new().unwrap(), folder.join("made.txt"));
        settle(&shell, &path, "one", false, "make").unwrap();
        settle(&shell, &path, "one", true, "make").unwrap();
        let refusal = settle(&shell, &path, "two", true, "make").unwrap_err().to_string();
        assert!(refusal.ends_with("is stale: run `cargo xtask make`"), "{refusal}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
