//! Every driver call that a program's stock waits, gates, captures and trims make fails once, each
//! in a run of its own: nothing is lost, nothing is handed out too early, and what the figures say
//! is so after every step.

use std::cell::Cell;
use std::sync::Arc;

use allocator::{AllocError, Allocator, Block, Bound, Config, PlainSource, Policy, Source};
use cuda_sim::{FaultPlan, Schedule};
use cuda_sys::CUresult;
use streams::{CaptureMode, Stream};

use crate::scenarios::rig::{BLOCK, Held, Rig as _, WHOLE};
use crate::simulated_rig::SimulatedRig;

const STEPS: u32 = 18;

/// One call of an entry point that is to fail, of those made inside the allocator.
struct Fault<'rig> {
    rig: &'rig SimulatedRig,
    call: &'static str,
    code: CUresult,
    left: Cell<u64>,
}

impl Fault<'_> {
    /// Does what calls the allocator.
    fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        let (machine, nth) = (self.rig.machine(), self.left.get());
        if nth == 0 {
            return work();
        }
        let plan = FaultPlan { call: self.call, nth, code: self.code, sticky: false };
        machine.fail_here(plan);
        let before = machine.calls(self.call);
        let outcome = work();
        let made = machine.calls(self.call) - before;
        self.left.set(if machine.clear_faults_here() == 0 { 0 } else { nth - made });
        outcome
    }
}

/// A stream that makes blocks, one that uses them, one that is held up now and then, and one that
/// captures.
struct Program<'rig> {
    rig: &'rig SimulatedRig,
    fault: Fault<'rig>,
    allocator: Allocator,
    streams: [Stream; 4],
}

impl<'rig> Program<'rig> {
    fn take(&self, stream: &Stream, bytes: u64) -> Option<Held<'rig>> {
        let served = self.fault.during(|| self.allocator.allocate(stream, bytes));
        let rig: &'rig SimulatedRig = self.rig;
        match served {
            Ok(block) => Some(Held::new(rig, block, stream)),
            Err(error) => {
                let is_full = self.allocator.config().limit_bytes.is_some()
                    && matches!(error, AllocError::OutOfMemory(_));
                assert!(is_full || self.fault.left.get() == 0, "without a fault: {error}");
                let text = error.to_string();
                assert!(text.contains(|it: char| it.is_ascii_digit()), "{text}");
                None
            }
        }
    }

    fn free(&self, block: Held<'_>) {
        let freed = self.fault.during(|| block.free_by(Block::free));
        if let Err(error) = freed {
            assert_eq!(self.fault.left.get(), 0, "without a fault: {error}");
        }
    }

    fn check(&self, step: u32) {
        let stats = self.fault.during(|| self.allocator.stats());
        let checked = self.allocator.snapshot().check(&stats);
        assert_eq!(checked, Ok(()), "step {step}");
        assert!(self.rig.is_clean(), "step {step}");
    }

    fn step(&self, step: u32) {
        let [home, user, slow, capturing] = &self.streams;
        let bytes = [WHOLE, BLOCK, 512, 3 * WHOLE, 1][usize::try_from(step % 5).unwrap()];
        let Some(block) = self.take(home, bytes) else { return };
        block.fill(home, step);
        user.wait_stream(home).unwrap();
        block.check(user, step);
        block.block().record_stream(user);
        if step.is_multiple_of(3) {
            slow.wait_stream(home).unwrap();
            self.rig.desk().busy(slow);
            block.check(slow, step);
            let _exact = block.block().record_use(slow);
        }
        self.free(block);
        if step % 7 == 3 {
            let trimmed = self.fault.during(|| self.allocator.trim(WHOLE));
            assert!(trimmed.is_ok() || self.fault.left.get() == 0, "{trimmed:?}");
        }
        if step % 6 == 5 {
            self.fault.during(|| self.allocator.poll());
            let capture = capturing.begin_capture(CaptureMode::Global).unwrap();
            let inside = [home, capturing].map(|stream| self.take(stream, WHOLE));
            inside.into_iter().flatten().for_each(|block| self.free(block));
            drop(capture.end().unwrap());
        }
    }

    fn run(self) -> bool {
        let [_, user, slow, _] = &self.streams;
        let desk = self.rig.desk();
        let mut gates = Vec::new();
        for step in 0..STEPS {
            match step {
                6 => gates.extend([user, slow].map(|stream| desk.hold(stream))),
                9 => gates.push(desk.hold(user)),
                10 => gates.iter().take(2).for_each(|gate| gate.open()),
                14 => gates.clear(),
                _ => {}
            }
            self.step(step);
            self.check(step);
        }
        gates.clear();
        let emptied = self.fault.during(|| self.allocator.empty_cache());
        assert!(emptied.is_ok() || self.fault.left.get() == 0, "{emptied:?}");
        desk.context().synchronize().unwrap();
        self.fault.during(|| self.allocator.poll());
        self.check(STEPS);
        assert_eq!(self.allocator.stranded().total_bytes(), 0);
        let Self { fault, allocator, streams, .. } = self;
        fault.during(|| drop(allocator));
        drop(streams);
        fault.left.get() == 0
    }
}

/// Calls that fail, what they then answer, and whether memory may stay with the device.
type Failing = (&'static str, CUresult, bool);

const OF_STREAMS: [Failing; 8] = [
    ("cuEventCreate", CUresult::CUDA_ERROR_OUT_OF_MEMORY, false),
    ("cuEventRecord", CUresult::CUDA_ERROR_INVALID_VALUE, false),
    ("cuEventQuery", CUresult::CUDA_ERROR_INVALID_VALUE, false),
    ("cuEventSynchronize", CUresult::CUDA_ERROR_INVALID_VALUE, false),
    ("cuEventElapsedTime", CUresult::CUDA_ERROR_INVALID_VALUE, false),
    ("cuStreamQuery", CUresult::CUDA_ERROR_INVALID_VALUE, false),
    ("cuStreamWaitEvent", CUresult::CUDA_ERROR_INVALID_VALUE, false),
    ("cuThreadExchangeStreamCaptureMode", CUresult::CUDA_ERROR_INVALID_VALUE, false),
];
const OF_MAPPED_MEMORY: [Failing; 7] = [
    ("cuMemAddressReserve", CUresult::CUDA_ERROR_OUT_OF_MEMORY, false),
    ("cuMemAddressFree", CUresult::CUDA_ERROR_INVALID_VALUE, false),
    ("cuMemCreate", CUresult::CUDA_ERROR_OUT_OF_MEMORY, false),
    ("cuMemMap", CUresult::CUDA_ERROR_INVALID_VALUE, false),
    ("cuMemSetAccess", CUresult::CUDA_ERROR_INVALID_VALUE, false),
    ("cuMemUnmap", CUresult::CUDA_ERROR_INVALID_VALUE, true),
    ("cuMemRelease", CUresult::CUDA_ERROR_INVALID_VALUE, true),
];
const OF_PLAIN_MEMORY: [Failing; 2] = [
    ("cuMemAlloc", CUresult::CUDA_ERROR_OUT_OF_MEMORY, false),
    ("cuMemFree", CUresult::CUDA_ERROR_INVALID_VALUE, true),
];

/// The `nth` call fails; no if the program does not make as many.
fn run_with(
    config: &Config,
    schedule: &Schedule,
    (call, code, may_leak): Failing,
    nth: u64,
) -> bool {
    let rig = SimulatedRig::new(schedule.clone());
    let before = rig.machine().used_bytes();
    let fault = Fault { rig: &rig, call, code, left: Cell::new(nth) };
    let plain = || -> Arc<dyn Source> { Arc::new(PlainSource::new(rig.desk().context())) };
    let is_plain = OF_PLAIN_MEMORY.iter().any(|(plain, _, _)| *plain == call);
    let allocator = rig.desk().try_allocator(config.clone(), is_plain.then(plain)).unwrap();
    let streams = rig.desk().streams();
    let struck = Program { rig: &rig, fault, allocator, streams }.run();
    assert_eq!(rig.desk().mismatches(), 0, "{call} {nth}");
    let hazards = rig.take_hazards();
    assert!(hazards.is_empty(), "{call} {nth}: {hazards:#?}");
    let left = rig.machine().used_bytes() - before;
    assert!(may_leak || left == 0, "{call} {nth}: {left} bytes stay with the device");
    struck
}

/// Runs with a failing call of each entry point; gives those of which none was made.
fn missed_with(config: &Config, schedule: &Schedule) -> Vec<&'static str> {
    let all = OF_STREAMS.into_iter().chain(OF_MAPPED_MEMORY).chain(OF_PLAIN_MEMORY);
    let is_missed = |fault: &Failing| {
        let turns = [1, 9].into_iter();
        0 == turns.take_while(|nth| run_with(config, schedule, *fault, *nth)).count()
    };
    all.filter(is_missed).map(|(call, _, _)| call).collect()
}

#[test]
fn each_call_of_the_default_policy_may_fail_once() {
    let missed = missed_with(&Config::default(), &Schedule::Timed);
    assert_eq!(missed, ["cuEventElapsedTime"]);
}

#[test]
fn each_call_of_a_policy_that_does_not_ask_may_fail_once() {
    let config = Config::default().with_policy(Policy::Deterministic).with_limit(12 * WHOLE);
    let missed = missed_with(&config, &Schedule::Lazy);
    assert_eq!(missed, ["cuEventQuery", "cuEventElapsedTime", "cuStreamQuery"]);
}

#[test]
fn each_call_at_a_bound_may_fail_once() {
    let config = Config::default().with_pending_max(4 * WHOLE);
    let config = config.with_stream_bound(Bound::on_host(3 * WHOLE));
    let missed = missed_with(&config, &Schedule::Seeded(7));
    assert!(missed.is_empty(), "{missed:?}");
}
