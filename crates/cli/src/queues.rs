//! Gives the process as many hardware queues as a GPU has, before its driver starts.
//!
//! Streams share hardware queues, eight unless an environment variable asks for more, and what
//! stands behind a closed gate holds up every stream of its queue. A replay with more streams
//! than queues could then wait for work that waits for a gate which only the replay would open.
//! The driver reads the variable once, when it starts; so the command starts again with it set.

use std::ffi::OsString;

/// What the driver reads.
const VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
/// The most there are.
const QUEUES: &str = "32";

/// Starts the command again with more queues, unless the environment already says how many. Comes
/// back only if there is nothing to do, or it cannot be done; the replay then runs with what there
/// is.
#[cfg(unix)]
pub(crate) fn widen(arguments: &[OsString]) {
    use std::os::unix::process::CommandExt;

    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let mut again = std::process::Command::new(program);
        again.args(arguments.iter().skip(1)).env(VARIABLE, QUEUES);
        let _it_stays_as_it_is = again.exec();
    }
}

/// Elsewhere the environment is left as it is.
#[cfg(not(unix))]
pub(crate) fn widen(_: &[OsString]) {}
