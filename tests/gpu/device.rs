//! The device that the tests run on: a GPU, or the simulated one for a rehearsal.

use std::sync::Arc;
use std::time::Duration;

use checker::Checker;
use cuda_sim::Schedule;
use streams::{DeviceSpan, Driver};

use crate::scenarios::rig::{Desk, Rig};
use crate::simulated_rig::SimulatedRig;

/// What a pause lets pass.
const PAUSE: Duration = Duration::from_millis(5);

/// Whether this is a rehearsal.
pub fn is_simulated() -> bool {
    std::env::var("WELLSPRING_DEVICE").is_ok_and(|device| device == "sim")
}

/// GPU 0, or what rehearses it.
///
/// # Panics
/// There is no GPU.
pub fn open() -> Box<dyn Rig> {
    if is_simulated() {
        return Box::new(SimulatedRig::new(Schedule::Timed));
    }
    let driver = match Driver::load() {
        Ok(driver) => driver,
        Err(error) => panic!("these tests need a GPU: {error}"),
    };
    let device = driver.device(0).expect("these tests need a GPU");
    let context = device.primary_context().expect("a context");
    Box::new(Hardware { desk: Desk::new(&context) })
}

/// The same with a checker that watches.
///
/// # Panics
/// There is no GPU.
pub fn open_checked(checker: &Arc<Checker>) -> Box<dyn Rig> {
    if is_simulated() {
        return Box::new(SimulatedRig::checked_by(Schedule::Timed, checker));
    }
    let driver = Driver::load_observed(Arc::<Checker>::clone(checker));
    let driver = driver.expect("these tests need a GPU");
    let device = driver.device(0).expect("these tests need a GPU");
    let context = device.primary_context().expect("a context");
    Box::new(Hardware { desk: Desk::checked(&context, Arc::clone(checker)) })
}

/// A GPU. Nobody watches blocks there but the words in them.
struct Hardware {
    desk: Desk,
}

impl Rig for Hardware {
    fn desk(&self) -> &Desk {
        &self.desk
    }

    fn born(&self, _: DeviceSpan, _: u64) {}

    fn born_complete(&self, _: DeviceSpan, _: u64) {}

    fn dead(&self, _: DeviceSpan, _: u64) {}

    fn call_count(&self) -> u64 {
        self.desk.context().driver_calls()
    }

    fn calls_of(&self, _: &str) -> Option<u64> {
        None
    }

    fn used_bytes(&self) -> Option<u64> {
        None
    }

    fn pause(&self) {
        std::thread::sleep(PAUSE);
    }
}
