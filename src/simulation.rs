//! What a simulated machine is to be: its devices and who runs next.

use cuda_sim::{DeviceProfile, Machine, Schedule};

use crate::error::OpenError;

/// A simulated machine that is still to be made.
///
/// The default is one H200 whose operations run when its virtual clock says so: the same program
/// gives the same run every time.
///
/// ```
/// use wellspring::cuda_sim::{DeviceProfile, Schedule};
/// use wellspring::{DeviceKind, Simulation};
///
/// let small = Simulation::of(DeviceProfile::small(1 << 30)).schedule(Schedule::Seeded(7));
/// let runtime = wellspring::simulated(small)?;
/// assert_eq!(runtime.device_kind(), DeviceKind::Simulated);
/// assert_eq!(runtime.machine().map(|machine| machine.hazards().len()), Some(0));
/// # Ok::<(), wellspring::OpenError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is made until a builder opens it"]
pub struct Simulation {
    profile: DeviceProfile,
    schedule: Schedule,
}

impl Default for Simulation {
    fn default() -> Self {
        Self { profile: DeviceProfile::h200(), schedule: Schedule::Timed }
    }
}

impl Simulation {
    /// The default machine with devices of this profile.
    pub fn of(profile: DeviceProfile) -> Self {
        Self { profile, ..Self::default() }
    }

    /// The same machine with another schedule.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Makes the machine, with as many devices as `ordinal` needs.
    pub(crate) fn build(&self, ordinal: u32) -> Result<Machine, OpenError> {
        let mut builder = Machine::builder().schedule(self.schedule.clone());
        for _ in 0..=ordinal {
            builder = builder.device(self.profile.clone());
        }
        builder.try_build().map_err(OpenError::Simulated)
    }
}
