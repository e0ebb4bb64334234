//! The process of one case: asks the installed driver and prints what it is told at once.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use conformance::{Environment, ask, cases};

/// Asks the case called `name`.
fn try_ask(name: &str) -> Result<(), String> {
    let cases = cases();
    let case = cases.iter().find(|case| case.name() == name);
    let case = case.ok_or_else(|| format!("there is no case {name:?}"))?;
    let table = cuda_sys::load().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let environment = Environment {
        table: &table,
        ptx: kernels::PTX,
        pass_time: &|nanoseconds| std::thread::sleep(Duration::from_nanos(nanoseconds)),
        now: &|| u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
        hazard_seen: &|| false,
        in_forked_child: Some(&in_forked_child),
        announce: &|progress| {
            println!("{progress}");
            std::io::stdout().flush().unwrap_or_default();
        },
    };
    ask(case, &environment);
    Ok(())
}

/// The same, as the end of a process.
pub(crate) fn run(name: &str) -> ExitCode {
    match try_ask(name) {
        Ok(()) => leave(0),
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Ends the process without the driver's own clean-up, which is not what a case asks about.
fn leave(code: i32) -> ! {
    // SAFETY: ends the process; nothing of it is used afterwards.
    unsafe { libc::_exit(code) }
}

fn in_forked_child(body: &dyn Fn()) -> String {
    // SAFETY: the suite has started no other thread in this process, the C library keeps its own
    // locks usable in the child, and what the driver's threads leave behind is the question.
    let child = unsafe { libc::fork() };
    match child {
        0 => {
            body();
            leave(0)
        }
        failed if failed < 0 => String::from("fork failed"),
        child => ending_of(child),
    }
}

fn ending_of(child: libc::pid_t) -> String {
    let mut status = 0;
    // SAFETY: `child` is a child of this process that nobody else waits for.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    if waited != child {
        String::from("was lost")
    } else if libc::WIFEXITED(status) {
        format!("exit {}", libc::WEXITSTATUS(status))
    } else {
        format!("signal {}", libc::WTERMSIG(status))
    }
}
