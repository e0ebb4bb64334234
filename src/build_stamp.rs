//! What this build is: its version, and the commit it was made from where git could tell.

use std::fmt;

/// What a build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildStamp {
    /// The version of the package.
    pub version: &'static str,
    /// The commit that was checked out; changes that were not committed do not show. `None`
    /// without git, and where the sources lie inside another repository.
    pub commit: Option<&'static str>,
}

/// This build.
pub const BUILD: BuildStamp =
    BuildStamp { version: env!("CARGO_PKG_VERSION"), commit: option_env!("WELLSPRING_COMMIT") };

impl fmt::Display for BuildStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wellspring {}", self.version)?;
        self.commit.map_or(Ok(()), |commit| write!(f, " ({commit})"))
    }
}
