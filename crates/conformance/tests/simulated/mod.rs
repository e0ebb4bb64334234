//! Runs a case against a simulated device of its own, in this process.

use std::cell::RefCell;
use std::thread;

use conformance::{Answer, Case, Environment, Transcript, ask};
use cuda_sim::{DeviceProfile, Hazard, Machine, Schedule};

/// Asks a fresh device of this kind one case. Beside the answers come all hazards that were
/// reported, whether they answered a probe or not.
pub(crate) fn run(case: &Case, device: DeviceProfile) -> (Vec<Answer>, Vec<Hazard>) {
    let machine = Machine::builder().device(device).schedule(Schedule::Timed).build();
    kernels::simulated::register(&machine);
    let table = machine.table();
    let transcript = RefCell::new(Transcript::default());
    let hazards = RefCell::new(Vec::new());
    let take_hazards = || {
        let mut hazards = hazards.borrow_mut();
        let known = hazards.len();
        hazards.extend(machine.take_hazards());
        known < hazards.len()
    };
    let asking = thread::current().id();
    let environment = Environment {
        table: &table,
        ptx: kernels::PTX,
        pass_time: &|nanoseconds| {
            // Time passes at once here. A second thread lets it pass for the first to begin its
            // wait, so that is what it waits for; the machine keeps still meanwhile.
            if thread::current().id() != asking {
                machine.wait_until(|| 0 < machine.calls("cuEventSynchronize"));
            }
            machine.advance(nanoseconds);
        },
        now: &|| machine.virtual_time(),
        hazard_seen: &take_hazards,
        in_forked_child: None,
        announce: &|progress| transcript.borrow_mut().read_line(&progress.to_string()),
    };
    ask(case, &environment);
    take_hazards();
    let answers = transcript.into_inner().end(case.name(), None);
    (answers, hazards.into_inner())
}
