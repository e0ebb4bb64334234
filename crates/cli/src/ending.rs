//! How a command can end, and the exit code of each way.

use std::fmt::Display;
use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It did what was asked, and all was well.
    Done,
    /// Stamps were wrong, requests found no room, or the work failed on the way.
    Faulty,
    /// The input or the command line is no good.
    BadInput,
    /// The device that was asked for cannot be had.
    NoDevice,
}

impl Ending {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Faulty => 1,
            Self::BadInput => 2,
            Self::NoDevice => 3,
        })
    }
}

/// Why a command could not be done.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) ending: Ending,
    /// At most three lines of it are shown.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn bad_input(message: impl Display) -> Self {
        Self { ending: Ending::BadInput, message: message.to_string() }
    }

    pub(crate) fn no_device(message: impl Display) -> Self {
        Self { ending: Ending::NoDevice, message: message.to_string() }
    }

    pub(crate) fn faulty(message: impl Display) -> Self {
        Self { ending: Ending::Faulty, message: message.to_string() }
    }
}
