//! Stamps the build with the commit that is checked out, where git can tell it.
//!
//! Needs nothing and never fails: without git, or inside another repository, the stamp is absent.
//! The device kernels come checked in as PTX, so nothing is compiled here.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(root) = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from) else { return };
    if !is_top_level(&root) {
        return;
    }
    // Written by git whenever another commit is checked out or made.
    let log = git(&root, &["rev-parse", "--git-path", "logs/HEAD"]).map(|path| root.join(path));
    if let Some(log) = log.filter(|log| log.is_file()) {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    if let Some(commit) = git(&root, &["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=WELLSPRING_COMMIT={commit}");
    }
}

/// Whether `root` is the top of its own repository: the commit of one around it would mislead.
fn is_top_level(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]);
    let (Some(top), Ok(root)) = (top, root.canonicalize()) else { return false };
    Path::new(&top).canonicalize().is_ok_and(|top| top == root)
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}
