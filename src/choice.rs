//! A device named in words: what a command line or an environment variable says.

use std::fmt;
use std::str::FromStr;

use crate::builder::Builder;
use crate::error::OpenError;
use crate::runtime::Runtime;

/// The variable that [`DeviceChoice::from_environment`] reads.
pub const DEVICE_VARIABLE: &str = "WELLSPRING_DEVICE";

/// A device named in words.
///
/// ```
/// use wellspring::DeviceChoice;
///
/// assert_eq!("cuda:2".parse(), Ok(DeviceChoice::Gpu(2)));
/// assert!("rocm".parse::<DeviceChoice>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DeviceChoice {
    /// `auto`: GPU 0 if there is one, else a simulated device.
    #[default]
    Auto,
    /// `sim`: a simulated device.
    Simulated,
    /// `cuda` or `cuda:N`: that GPU, or an error.
    Gpu(u32),
}

impl FromStr for DeviceChoice {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        let unknown = || OpenError::UnknownChoice { text: text.to_owned() };
        match text {
            "auto" => Ok(Self::Auto),
            "sim" => Ok(Self::Simulated),
            "cuda" => Ok(Self::Gpu(0)),
            _ => {
                let number = text.strip_prefix("cuda:").ok_or_else(unknown)?;
                number.parse().map(Self::Gpu).map_err(|_| unknown())
            }
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Simulated => f.write_str("sim"),
            Self::Gpu(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl DeviceChoice {
    /// What the environment variable `WELLSPRING_DEVICE` names; `auto` where it is not set.
    ///
    /// # Errors
    /// The variable names no device.
    pub fn from_environment() -> Result<Self, OpenError> {
        match std::env::var_os(DEVICE_VARIABLE) {
            None => Ok(Self::default()),
            Some(text) => text.to_string_lossy().parse(),
        }
    }
}

impl Builder {
    /// Opens the device that `choice` names. Without the feature `sim`, `auto` is GPU 0.
    ///
    /// # Errors
    /// What is missing.
    pub fn open_choice(&self, choice: DeviceChoice) -> Result<Runtime, OpenError> {
        match choice {
            DeviceChoice::Gpu(ordinal) => self.clone().device(ordinal).open(),
            #[cfg(feature = "sim")]
            DeviceChoice::Auto => self.open_or_simulated(),
            #[cfg(feature = "sim")]
            DeviceChoice::Simulated => self.simulated(),
            #[cfg(not(feature = "sim"))]
            DeviceChoice::Auto => self.open(),
            #[cfg(not(feature = "sim"))]
            DeviceChoice::Simulated => Err(OpenError::NoSimulator),
        }
    }
}

/// Opens the device that the environment variable `WELLSPRING_DEVICE` names: `auto`, which is
/// also what counts when it is not set, `sim`, `cuda` or `cuda:N`.
///
/// # Errors
/// What is missing, or that the variable names no device.
pub fn open_from_environment() -> Result<Runtime, OpenError> {
    Builder::new().open_choice(DeviceChoice::from_environment()?)
}
