//! `cargo xtask ci`: everything a change must pass besides the tests, one step after the other.
//!
//! Needs rustfmt, clippy and what the steps need themselves (`bindgen` and `kernels` fetch pinned
//! packages with pip). Every step runs even if one before it failed. Next: `.ci/run`, which
//! adds the tests.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

/// One step: its words after the program, and what it adds to the environment.
struct Step {
    words: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

const fn step(words: &'static str) -> Step {
    Step { words, environment: &[] }
}

/// An example on the simulated device under the checker, which aborts it if it finds anything.
const fn checked(words: &'static str) -> Step {
    const ENVIRONMENT: &[(&str, &str)] =
        &[("WELLSPRING_DEVICE", "sim"), ("WELLSPRING_CHECK", "abort")];
    Step { words, environment: ENVIRONMENT }
}

/// A rustdoc that checks the codes of what must not compile; from the root of the workspace.
const RUSTDOC: &str = ".ci/rustdoc";

const STEPS: &[Step] = &[
    step("cargo fmt --all --check"),
    step("cargo clippy --workspace --all-targets --all-features -- -D warnings"),
    Step {
        words: "cargo doc --workspace --no-deps",
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    step("cargo check --workspace --all-features"),
    Step {
        words: "cargo test --package streams --package allocator --lib --release loom",
        environment: &[("RUSTFLAGS", "--cfg loom"), ("CARGO_TARGET_DIR", "target/loom")],
    },
    Step {
        words: "cargo test --package wellspring --doc does_not_compile",
        environment: &[("RUSTDOC", RUSTDOC)],
    },
    step("xtask bindgen --check"),
    step("xtask kernels --check"),
    step("xtask tidy"),
    checked("cargo run --quiet --example record_stream"),
    checked("cargo run --quiet --example wait_stream"),
    checked("cargo run --quiet --example overlap_copy"),
    checked("cargo run --quiet --example three_streams"),
    checked("cargo run --quiet --example event_driven"),
    checked("cargo run --quiet --example capture"),
];

pub(crate) fn run() -> Result<()> {
    let mut failed = Vec::new();
    for step in STEPS {
        println!("ci: {}", step.words);
        let start = Instant::now();
        let passed = run_step(step)?;
        let verdict = if passed { "passed" } else { "FAILED" };
        println!("ci: {verdict} after {:.1} s: {}", start.elapsed().as_secs_f64(), step.words);
        if !passed {
            failed.push(step.words);
        }
    }
    ensure!(
        failed.is_empty(),
        "{} of {} steps failed: {}",
        failed.len(),
        STEPS.len(),
        failed.join("; ")
    );
    println!("ci: all {} steps passed; next: cargo test --workspace", STEPS.len());
    Ok(())
}

/// Whether the step ended with success; an error if it could not be started at all.
fn run_step(step: &Step) -> Result<bool> {
    let mut words = step.words.split(' ');
    let mut command = match words.next() {
        Some("xtask") => Command::new(std::env::current_exe()?),
        program => Command::new(program.context("a step without words")?),
    };
    command.args(words).current_dir(crate::workspace_root());
    command.envs(step.environment.iter().copied());
    let status = command.status().with_context(|| format!("starting `{}`", step.words))?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use std::process::Command;

    use super::{RUSTDOC, STEPS, Step, run_step};

    #[test]
    fn every_chore_among_the_steps_exists() {
        let chores = STEPS.iter().filter(|step| step.words.starts_with("xtask "));
        let parsed = chores.map(|step| crate::Arguments::try_parse_from(step.words.split(' ')));
        let wrong: Vec<String> =
            parsed.filter_map(|parsed| Some(parsed.err()?.to_string())).collect();
        assert_eq!(wrong, [""; 0]);
    }

    #[test]
    fn a_step_fails_when_its_program_does_and_sees_its_environment() {
        let step = |words| Step { words, environment: &[("WELLSPRING_STEP", "3")] };
        assert!(run_step(&step("printenv WELLSPRING_STEP")).unwrap());
        assert!(!run_step(&step("printenv WELLSPRING_NO_SUCH_VARIABLE")).unwrap());
        assert!(run_step(&step("wellspring-has-no-such-program")).is_err());
    }

    #[test]
    fn a_mistake_of_another_code_than_the_one_named_fails_in_ci_only() {
        let folder = crate::test_folder("codes");
        let passes = |rustdoc: &str, code: &str| {
            let file = folder.join("example.rs");
            let example = "let moved = String::new();\n/// drop(moved);\n/// drop(moved);";
            let text =
                format!("/// ```compile_fail,{code}\n/// {example}\n/// ```\npub fn f() {{}}\n");
            std::fs::write(&file, text).unwrap();
            let mut command = Command::new(rustdoc);
            command.env_remove("RUSTC_BOOTSTRAP").args(["--test", "--edition", "2024"]).arg(file);
            command.output().unwrap().status.success()
        };
        let checking = crate::workspace_root().join(RUSTDOC);
        let checking = checking.to_str().unwrap();
        assert!(passes(checking, "E0382"), "the right code");
        assert!(!passes(checking, "E0505"), "a wrong one");
        assert!(passes("rustdoc", "E0505"), "codes are checked without it: it is not needed");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
