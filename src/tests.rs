//! What the facade promises, on the simulated device.

mod buffers;
mod opening;
mod pools;
mod views;
mod waiting;

use cuda_sim::{DeviceProfile, Schedule};

use crate::{Kernels, Runtime, Simulation, Stream, simulated};

/// A runtime on a simulated device that does nothing before it must, and what a test needs of it.
struct Rig {
    runtime: Runtime,
    kernels: Kernels,
    home: Stream,
    other: Stream,
}

impl Rig {
    fn new() -> Self {
        let lazy = Simulation::of(DeviceProfile::h200()).schedule(Schedule::Lazy);
        let runtime = simulated(lazy).unwrap();
        let kernels = Kernels::load(runtime.context()).unwrap();
        let (home, other) = (runtime.create_stream().unwrap(), runtime.create_stream().unwrap());
        Self { runtime, kernels, home, other }
    }

    fn pending(&self) -> u64 {
        self.runtime.stats().pending_bytes.current
    }

    fn calls(&self, name: &str) -> u64 {
        self.runtime.machine().unwrap().calls(name)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.runtime.machine().unwrap().take_hazards(), []);
        }
    }
}
