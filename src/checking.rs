//! The checker in a program: asked for by the program, or by an environment variable.

use std::ffi::OsStr;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use checker::Checker;

use crate::builder::Builder;
use crate::error::OpenError;
use crate::runtime::Runtime;

/// The variable that turns the checker on in every program that opens a runtime. Not set, empty or
/// `0`: off. `1`: what was found is printed to the standard error stream when the runtime goes.
/// `now`: each report is printed when it is found. `abort`: the same, and the first one aborts the
/// program. Anything else is the name of a file, to which it is appended when the runtime goes.
pub const CHECK_VARIABLE: &str = "WELLSPRING_CHECK";

/// What is done with reports that nobody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outlet {
    AtTheEnd,
    Now,
    Abort,
    File(PathBuf),
}

impl Outlet {
    /// What the variable says; none if it says nothing.
    fn parse(value: &OsStr) -> Option<Self> {
        match value.to_str() {
            Some("" | "0") => None,
            Some("1") => Some(Self::AtTheEnd),
            Some("now") => Some(Self::Now),
            Some("abort") => Some(Self::Abort),
            Some(_) | None => Some(Self::File(PathBuf::from(value))),
        }
    }

    fn checker(&self) -> Checker {
        match self {
            Self::AtTheEnd | Self::File(_) => Checker::new(),
            Self::Now => Checker::with_sink(|report| print(&format!("{report}\n"))),
            Self::Abort => Checker::with_sink(|report| {
                print(&format!("{report}\n"));
                std::process::abort();
            }),
        }
    }
}

/// The checker of one runtime. Dropped, it says what was found, if the environment asked.
pub(crate) struct Checking {
    checker: Arc<Checker>,
    outlet: Option<Outlet>,
    /// Whether a runtime was opened with it: of one that was not there is nothing to say.
    is_opened: bool,
}

impl Checking {
    /// The checker that the program asked for, else the one that the environment asks for.
    pub(crate) fn wanted(asked: bool) -> Option<Self> {
        let outlet = std::env::var_os(CHECK_VARIABLE).and_then(|value| Outlet::parse(&value));
        if !asked && outlet.is_none() {
            return None;
        }
        let checker = outlet.as_ref().map_or_else(Checker::new, Outlet::checker);
        Some(Self { checker: Arc::new(checker), outlet, is_opened: false })
    }

    /// A runtime is opened with it.
    pub(crate) fn opened(mut self) -> Self {
        self.is_opened = true;
        self
    }

    pub(crate) fn checker(&self) -> &Arc<Checker> {
        &self.checker
    }

    /// All that was found, in words.
    fn summary(&self) -> String {
        let reports = self.checker.reports();
        let faults = if reports.len() == 1 { "fault" } else { "faults" };
        let mut text = format!("wellspring: the checker found {} {faults}\n", reports.len());
        for report in &reports {
            text += &format!("{report}\n");
        }
        let unlisted = self.checker.unlisted();
        if 0 < unlisted {
            text += &format!("and {unlisted} more\n");
        }
        text
    }
}

impl Drop for Checking {
    fn drop(&mut self) {
        if !self.is_opened {
            return;
        }
        match &self.outlet {
            Some(Outlet::AtTheEnd) => print(&self.summary()),
            Some(Outlet::File(path)) => {
                let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
                let written = file.and_then(|mut file| file.write_all(self.summary().as_bytes()));
                if let Err(error) = written {
                    print(&format!("wellspring: {}: {error}\n{}", path.display(), self.summary()));
                }
            }
            Some(Outlet::Now | Outlet::Abort) | None => {}
        }
    }
}

/// To the standard error stream; that it is closed is no reason to fail.
fn print(text: &str) {
    let _closed = std::io::stderr().lock().write_all(text.as_bytes());
}

impl fmt::Debug for Checking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checking").field("checker", &self.checker).finish()
    }
}

/// Opens GPU 0 with the checker on; see [`Builder::checked`].
///
/// Where a simulated device will do: `Builder::new().checked().open_or_simulated()`.
///
/// ```no_run
/// let runtime = wellspring::checked()?;
/// // … the program …
/// let checker = runtime.checker().expect("it was asked for");
/// for report in checker.reports() {
///     println!("{report}");
/// }
/// # Ok::<(), wellspring::OpenError>(())
/// ```
///
/// # Errors
/// What is missing: the driver, an entry point of it, or the device.
pub fn checked() -> Result<Runtime, OpenError> {
    Builder::new().checked().open()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::{Checking, Outlet};

    #[test]
    fn the_variable_names_an_outlet() {
        let parse = |text: &str| Outlet::parse(OsStr::new(text));
        assert_eq!(parse(""), None);
        assert_eq!(parse("0"), None);
        assert_eq!(parse("1"), Some(Outlet::AtTheEnd));
        assert_eq!(parse("now"), Some(Outlet::Now));
        assert_eq!(parse("abort"), Some(Outlet::Abort));
        assert_eq!(parse("faults.txt"), Some(Outlet::File(PathBuf::from("faults.txt"))));
    }

    #[test]
    fn a_file_gets_what_was_found_when_the_runtime_goes() {
        let name = format!("wellspring-check-{}.txt", std::process::id());
        let path = std::env::temp_dir().join(name);
        for _ in 0..2 {
            let outlet = Outlet::File(path.clone());
            let checker = Arc::new(outlet.checker());
            let checking = || Checking {
                checker: Arc::clone(&checker),
                outlet: Some(outlet.clone()),
                is_opened: false,
            };
            drop(checking());
            drop(checking().opened());
        }
        let written = std::fs::read_to_string(&path).expect("the file was written");
        std::fs::remove_file(&path).expect("the file is there");
        assert_eq!(written, "wellspring: the checker found 0 faults\n".repeat(2));
    }
}
