//! Runs one program with a time limit and keeps what it said.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(5);

/// How a program ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    pub(crate) how: How,
    pub(crate) seconds: f64,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// It returned this exit code.
    Exit(i32),
    /// A signal ended it, a crash for example.
    Signal,
    /// It ran past its limit and was killed.
    TimedOut,
}

impl Ended {
    pub(crate) fn succeeded(&self) -> bool {
        self.how == How::Exit(0)
    }

    /// How it ended, in words.
    pub(crate) fn describe(&self) -> String {
        match self.how {
            How::Exit(code) => format!("exit {code}"),
            How::Signal => String::from("ended by a signal"),
            How::TimedOut => format!("killed at its limit after {:.0} s", self.seconds),
        }
    }
}

/// Runs `command` for at most `limit`; its output goes through files in `scratch`, so that a
/// full pipe can never hold it up.
pub(crate) fn run(command: &mut Command, limit: Duration, scratch: &Path) -> Result<Ended> {
    let (stdout, stderr) = (scratch.join("stdout"), scratch.join("stderr"));
    command.stdin(Stdio::null()).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
    let start = Instant::now();
    let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let how = wait(child, start + limit)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Ended { how, seconds, stdout: read(&stdout)?, stderr: read(&stderr)? })
}

fn wait(mut child: Child, deadline: Instant) -> Result<How> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(how(status));
        }
        if deadline <= Instant::now() {
            child.kill()?;
            child.wait()?;
            return Ok(How::TimedOut);
        }
        std::thread::sleep(POLL);
    }
}

fn how(status: ExitStatus) -> How {
    status.code().map_or(How::Signal, How::Exit)
}

fn read(path: &PathBuf) -> Result<String> {
    let bytes = std::fs::read(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{How, run};

    fn shell(script: &str, limit: Duration) -> super::Ended {
        let folder = crate::test_folder("process");
        let ended = run(Command::new("sh").args(["-c", script]), limit, &folder).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        ended
    }

    #[test]
    fn both_streams_and_the_code_come_back() {
        let ended = shell("echo out; echo err >&2; exit 7", Duration::from_secs(20));
        assert_eq!((ended.how, ended.succeeded()), (How::Exit(7), false));
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn a_program_past_its_limit_is_killed_and_its_words_are_kept() {
        let ended = shell("echo before; exec sleep 60", Duration::from_millis(300));
        assert_eq!(ended.how, How::TimedOut);
        assert_eq!(ended.stdout, "before\n");
        assert!(ended.seconds < 30.0, "{ended:?}");
    }

    #[test]
    fn a_crash_is_a_signal() {
        assert_eq!(shell("kill -SEGV $$", Duration::from_secs(20)).how, How::Signal);
    }
}
