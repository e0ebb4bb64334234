//! The rig on a simulated machine: every block handed out is declared, and asked about (S3).

use std::cell::RefCell;
use std::sync::Arc;

use checker::Checker;
use cuda_sim::{DeviceProfile, Hazard, Machine, Schedule};
use streams::{Context, DeviceSpan, Driver, Stream};

use crate::scenarios::rig::{Desk, Rig};

/// What a pause lets pass, in nanoseconds of virtual time.
const PAUSE: u64 = 50_000_000;

/// A simulated machine with an opened context, and what was found wrong.
pub struct SimulatedRig {
    desk: Desk,
    /// Waits for nothing, ever: what comes before its next operation is complete for everybody.
    judge: Stream,
    probed: RefCell<Vec<Hazard>>,
    machine: Machine,
}

/// A machine with the bodies of our kernels.
pub fn machine(schedule: Schedule, profile: DeviceProfile) -> Machine {
    let machine = Machine::builder().device(profile).schedule(schedule).build();
    kernels::simulated::register(&machine);
    machine
}

/// The primary context of a machine's first device.
pub fn context(machine: &Machine) -> Context {
    contexts(machine).swap_remove(0)
}

/// The primary context of each of a machine's devices.
pub fn contexts(machine: &Machine) -> Vec<Context> {
    let driver = Driver::from_table(machine.table()).expect("the simulated driver starts");
    let count = driver.device_count().expect("the driver counts its devices");
    let context = |ordinal| {
        let device = driver.device(ordinal).expect("it was counted");
        device.primary_context().expect("a context")
    };
    (0..count).map(context).collect()
}

/// The same with a checker that watches.
pub fn checked_context(machine: &Machine, checker: &Arc<Checker>) -> Context {
    let observer = Arc::<Checker>::clone(checker);
    let driver = Driver::from_table_observed(machine.table(), observer);
    let device = driver.expect("the simulated driver starts").device(0).expect("a device");
    device.primary_context().expect("a context")
}

impl SimulatedRig {
    /// A rig on an H200 under a schedule.
    pub fn new(schedule: Schedule) -> Self {
        Self::on(machine(schedule, DeviceProfile::h200()))
    }

    /// A rig on a machine.
    pub fn on(machine: Machine) -> Self {
        let context = context(&machine);
        Self::in_context(machine, &context)
    }

    /// A rig in one of a machine's contexts.
    pub fn in_context(machine: Machine, context: &Context) -> Self {
        allocator::set_yield_point(cuda_sim::yield_point);
        let desk = Desk::new(context);
        let judge = desk.stream();
        Self { desk, judge, probed: RefCell::default(), machine }
    }

    /// A rig on an H200 under a schedule, and a checker that watches it.
    pub fn checked(schedule: Schedule) -> (Self, Arc<Checker>) {
        let checker = Arc::new(Checker::new());
        (Self::checked_by(schedule, &checker), checker)
    }

    /// A rig on an H200 under a schedule that this checker watches.
    pub fn checked_by(schedule: Schedule, checker: &Arc<Checker>) -> Self {
        let machine = machine(schedule, DeviceProfile::h200());
        let context = checked_context(&machine, checker);
        let desk = Desk::checked(&context, Arc::clone(checker));
        let judge = desk.stream();
        Self { desk, judge, probed: RefCell::default(), machine }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What was found wrong so far: by the machine, and by asking about blocks handed out.
    pub fn take_hazards(&self) -> Vec<Hazard> {
        let mut all = self.probed.take();
        all.extend(self.machine.take_hazards());
        all
    }

    /// Whether nothing was found wrong so far.
    pub fn is_clean(&self) -> bool {
        self.probed.borrow().is_empty() && self.machine.hazards().is_empty()
    }

    fn hand_out(&self, range: DeviceSpan, born_on: u64, asked_of: u64) {
        if range.bytes == 0 {
            return;
        }
        let DeviceSpan { address, bytes } = range;
        self.machine.born(address, bytes, self.handle(born_on));
        if let Err(hazard) = self.machine.probe(address, bytes, self.handle(asked_of)) {
            self.probed.borrow_mut().push(*hazard);
        }
    }

    /// A handle for the machine's side; a default stream has the legacy stream's.
    fn handle(&self, stream_id: u64) -> usize {
        self.machine.stream_with_id(stream_id).unwrap_or(1)
    }
}

impl Rig for SimulatedRig {
    fn desk(&self) -> &Desk {
        &self.desk
    }

    fn born(&self, range: DeviceSpan, stream_id: u64) {
        self.hand_out(range, stream_id, stream_id);
    }

    fn born_complete(&self, range: DeviceSpan, stream_id: u64) {
        self.hand_out(range, stream_id, self.judge.id());
    }

    fn dead(&self, range: DeviceSpan, stream_id: u64) {
        if range.bytes != 0 {
            self.machine.dead(range.address, range.bytes, self.handle(stream_id));
        }
    }

    fn call_count(&self) -> u64 {
        self.machine.call_count()
    }

    fn calls_of(&self, entry_point: &str) -> Option<u64> {
        Some(self.machine.calls(entry_point))
    }

    fn used_bytes(&self) -> Option<u64> {
        Some(self.machine.used_bytes())
    }

    fn pause(&self) {
        self.machine.advance(PAUSE);
    }
}
