//! Runs the command and keeps what it said.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// What one run came to.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("no signal ended it"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Said {
    /// The one line of JSON on stdout.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.matches('\n').count(), 1, "{self:?}");
        assert!(self.stdout.ends_with('\n'), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Checks that this is a failure with that code, told in at most three lines with all `parts`.
    pub(crate) fn check_failure(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stdout.is_empty(), "{self:?}");
        assert!((1..=3).contains(&self.stderr.lines().count()), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in {self:?}");
        }
    }
}

/// Runs `wellspring`.
pub(crate) fn wellspring(arguments: &[&str]) -> Said {
    let program = env!("CARGO_BIN_EXE_wellspring");
    Command::new(program).args(arguments).output().expect("the command was built").into()
}

/// A trace of the project.
pub(crate) fn trace_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{name}.pickle.zst"))
}

/// Replays a trace of the project on the simulated device.
pub(crate) fn replay(name: &str, more: &[&str]) -> Said {
    let file = trace_file(name);
    let mut arguments = vec!["replay", file.to_str().unwrap(), "--device", "sim"];
    arguments.extend(more);
    wellspring(&arguments)
}
