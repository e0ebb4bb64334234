//! Runs a case in a process of its own and watches how that process ends.

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use conformance::{Answer, Case, HANGS, SIGSEGV, Transcript};

/// The answers of the installed driver to one case.
pub(crate) fn answers(case: &Case) -> Vec<Answer> {
    let program = std::env::current_exe().expect("a running program has a path");
    let mut child = Command::new(program)
        .args(["--case", case.name()])
        .envs(case.variables().iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started again");
    let output = child.stdout.take().expect("the child's output is piped");
    let reader = std::thread::spawn(|| read(output));
    let ended = wait(&mut child, Duration::from_secs(case.limit_seconds()));
    let transcript = reader.join().expect("reading lines does not panic");
    transcript.end(case.name(), ended.as_deref())
}

fn read(output: impl Read) -> Transcript {
    let mut transcript = Transcript::default();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        transcript.read_line(&line);
    }
    transcript
}

/// How the child ended, if not well; one that is too late is ended.
fn wait(child: &mut Child, limit: Duration) -> Option<String> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child is ours to wait for") {
            return ending_of(status);
        }
        if limit < begin.elapsed() {
            child.kill().expect("the child is ours to end");
            child.wait().expect("the child is ours to wait for");
            return Some(HANGS.to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ending_of(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (_, Some(libc::SIGSEGV)) => Some(SIGSEGV.to_owned()),
        (Some(code), _) => Some(format!("exit {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => Some(String::from("ended in an unknown way")),
    }
}
