//! Why a driver could not be loaded, or a call could not be made.

use std::fmt;

use crate::table::EntryPoint;

/// An entry point that the driver in use does not have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MissingEntryPoint {
    /// The driver call, by the name `cuGetProcAddress` knows.
    pub name: &'static str,
    /// The CUDA version that brought it, as `1000 * major + 10 * minor`.
    pub since: u32,
    /// The driver's own version, if it told one.
    pub driver: Option<u32>,
}

impl MissingEntryPoint {
    pub(crate) fn new(entry: &EntryPoint, driver: Option<u32>) -> Self {
        Self { name: entry.name, since: entry.since, driver }
    }
}

impl fmt::Display for MissingEntryPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the driver has no {}, which CUDA {} brought", self.name, Version(self.since))?;
        match self.driver {
            Some(driver) => write!(f, " (this driver is for CUDA {})", Version(driver)),
            None => write!(f, " (this driver does not tell its version)"),
        }
    }
}

impl std::error::Error for MissingEntryPoint {}

/// A CUDA version as people write it.
struct Version(u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// Why the driver could not be loaded, told by what the caller can do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Install the NVIDIA driver, or use the simulated one: there is no such library.
    #[error("no CUDA driver: {library} could not be opened ({reason})")]
    NoLibrary {
        /// The file that was looked for.
        library: String,
        /// The dynamic linker's own words.
        reason: String,
    },
    /// Install a newer driver: this one lacks a call that everything here builds on.
    #[error("{library} cannot be used: {missing}")]
    MissingRequired {
        /// The file that was opened.
        library: String,
        /// The call it lacks.
        missing: MissingEntryPoint,
    },
}
