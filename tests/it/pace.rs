//! How far a producer runs ahead of its consumers, in virtual time: as fast as without any wait,
//! in as little memory as that takes, and learned from what the waits before have cost.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use allocator::{Allocator, Config, Policy, WaitDepth};
use cuda_sim::{DeviceProfile, Machine, Schedule};
use kernels::launch::Kernels;
use streams::{Context, Stream, StreamOptions};

use crate::scenarios::raw::borrowed;
use crate::simulated_rig::{context, machine};

const MICROSECOND: u64 = 1_000;
const PIECE: u64 = 2 << 20;

/// One block's way, in microseconds.
#[derive(Clone, Copy)]
struct Step {
    bytes: u64,
    make: u64,
    /// A consumer with zero is not given the block.
    uses: [u64; 2],
}

/// What a round took.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    nanoseconds: u64,
    active_peak: u64,
    waits: u64,
}

/// A producer and two consumers on a quiet device.
struct Stage {
    allocator: Allocator,
    kernels: Kernels,
    producer: Stream,
    consumers: [Stream; 2],
    context: Context,
    machine: Machine,
}

impl Stage {
    fn new(config: Config) -> Self {
        let machine = machine(Schedule::Timed, DeviceProfile::h200());
        let context = context(&machine);
        let stream = || context.create_stream(StreamOptions::default()).unwrap();
        Self {
            allocator: Allocator::new(&context, config).unwrap(),
            kernels: Kernels::load(&context).unwrap(),
            producer: stream(),
            consumers: [stream(), stream()],
            context,
            machine,
        }
    }

    /// Runs the steps from an idle device to an idle device.
    fn round(&self, steps: &[Step]) -> Outcome {
        self.context.synchronize().unwrap();
        self.allocator.reset_peaks();
        let waits = self.allocator.stats().device_waits();
        let start = self.machine.virtual_time();
        for step in steps {
            let block = self.allocator.allocate(&self.producer, step.bytes).unwrap();
            self.work(&self.producer, step.make);
            for (consumer, time) in self.consumers.iter().zip(step.uses) {
                if 0 < time {
                    consumer.wait_stream(&self.producer).unwrap();
                    self.work(consumer, time);
                    block.record_stream(consumer);
                }
            }
        }
        self.context.synchronize().unwrap();
        let stats = self.allocator.stats();
        Outcome {
            nanoseconds: self.machine.virtual_time() - start,
            active_peak: stats.active_bytes.peak,
            waits: stats.device_waits() - waits,
        }
    }

    fn work(&self, stream: &Stream, microseconds: u64) {
        let _running = self.kernels.spin(stream, microseconds * MICROSECOND).unwrap();
    }

    /// The last of so many rounds.
    fn rounds(&self, count: usize, steps: &[Step]) -> Outcome {
        let all: Vec<Outcome> = (0..count).map(|_| self.round(steps)).collect();
        *all.last().unwrap()
    }
}

/// So many steps; `bytes` in pieces of 2 MiB.
fn steps(count: u64, step: impl Fn(u64) -> (u64, u64, [u64; 2])) -> Vec<Step> {
    let all = (0..count).map(step);
    all.map(|(pieces, make, uses)| Step { bytes: pieces * PIECE, make, uses }).collect()
}

/// Sizes from 1 to 16 pieces that follow no pattern.
fn size(index: u64) -> u64 {
    1 + (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) / (1 << 60)
}

fn unbounded() -> Config {
    Config::default().with_policy(Policy::PyTorch)
}

/// Whether `value` is at most so many per cent of `of`.
fn is_within(value: u64, percent: u64, of: u64) -> bool {
    value * 100 <= of * percent
}

#[test]
fn equal_stages_lose_nothing_and_keep_two_blocks_from_the_first_round_on() {
    let steps = steps(200, |_| (4, 200, [200, 200]));
    let free = Stage::new(unbounded()).rounds(4, &steps);
    let stage = Stage::new(Config::default());
    let first = stage.round(&steps);
    assert!(is_within(first.nanoseconds, 101, free.nanoseconds), "{first:?} of {free:?}");
    assert_eq!(first.active_peak, 2 * 4 * PIECE);
    let later = stage.rounds(3, &steps);
    assert!(is_within(later.nanoseconds, 101, free.nanoseconds), "{later:?} of {free:?}");
    assert!(150 < later.waits && later.active_peak <= first.active_peak);
    // Without waits it takes as many blocks as the host runs ahead.
    assert!(is_within(20 * later.active_peak, 100, free.active_peak), "{free:?}");
}

#[test]
fn a_bursty_consumer_gets_the_stock_it_needs_once_that_is_known() {
    let steps = steps(300, |index| (4, 100, [if index % 10 == 9 { 800 } else { 40 }, 20]));
    let free = Stage::new(unbounded()).round(&steps);
    let stage = Stage::new(Config::default());
    let first = stage.round(&steps);
    assert!(!is_within(first.nanoseconds, 105, free.nanoseconds), "two blocks do: {first:?}");
    let later = stage.rounds(3, &steps);
    assert!(is_within(later.nanoseconds, 102, free.nanoseconds), "{later:?} of {free:?}");
    assert!(is_within(later.active_peak, 25, free.active_peak), "{later:?} of {free:?}");
    // The least fixed depth that is as good.
    let fixed = |depth| {
        Stage::new(Config::default().with_wait_depth(WaitDepth::Fixed(depth))).rounds(2, &steps)
    };
    let least =
        (1..30).map(fixed).find(|found| is_within(found.nanoseconds, 102, free.nanoseconds));
    let least = least.expect("some depth is enough");
    assert!(is_within(later.active_peak, 130, least.active_peak), "{later:?} of {least:?}");
}

#[test]
fn a_stock_that_is_not_needed_any_more_is_given_up() {
    let bursty = steps(300, |index| (4, 100, [if index % 10 == 9 { 800 } else { 40 }, 20]));
    let even = steps(300, |_| (4, 10, [400, 12]));
    let stage = Stage::new(Config::default());
    let stocked = stage.rounds(3, &bursty);
    let free = Stage::new(unbounded()).round(&even);
    let later = stage.rounds(10, &even);
    assert!(is_within(later.nanoseconds, 102, free.nanoseconds), "{later:?} of {free:?}");
    assert!(2 * later.waits > 300, "{later:?} after {stocked:?}");
}

#[test]
fn a_quick_producer_needs_the_memory_of_a_schedule_tuned_by_hand() {
    let steps = steps(400, |index| (size(index), 1 + size(index), [50 * size(index), 2]));
    let free = Stage::new(unbounded()).round(&steps);
    let by_hand = steps.windows(3).map(|kept| kept.iter().map(|step| step.bytes).sum::<u64>());
    let by_hand = by_hand.max().unwrap();
    let stage = Stage::new(Config::default());
    for round in 0..4 {
        let outcome = stage.round(&steps);
        assert!(is_within(outcome.nanoseconds, 102, free.nanoseconds), "{outcome:?} of {free:?}");
        assert!(
            is_within(outcome.active_peak, 130, by_hand),
            "round {round}: {outcome:?} of {by_hand}"
        );
    }
}

#[test]
fn a_slow_side_stream_does_not_stop_the_main_one() {
    let steps = steps(320, |index| (size(index), 100, [if index % 8 == 7 { 720 } else { 0 }, 0]));
    let free = Stage::new(unbounded()).round(&steps);
    let stage = Stage::new(Config::default());
    for _ in 0..3 {
        let outcome = stage.round(&steps);
        assert!(is_within(outcome.nanoseconds, 105, free.nanoseconds), "{outcome:?} of {free:?}");
    }
}

/// Events recorded in each of four rounds of 1,000 steps of a producer and `users`, and times asked
/// for in all.
fn recorded(stage: &Stage, users: &[Stream]) -> ([u64; 4], u64) {
    let calls = |name| stage.machine.calls(name);
    let times = calls("cuEventElapsedTime");
    let records = [(); 4].map(|()| {
        let before = calls("cuEventRecord");
        for _ in 0..1_000 {
            let block = stage.allocator.allocate(&stage.producer, PIECE).unwrap();
            stage.work(&stage.producer, 50);
            for user in users {
                stage.work(user, 60);
                block.record_stream(user);
            }
        }
        let records = calls("cuEventRecord") - before;
        stage.context.synchronize().unwrap();
        records
    });
    (records, calls("cuEventElapsedTime") - times)
}

/// Two stages of which the first watches its steps: both record the same.
fn check_records(users: impl Fn(&Stage) -> Vec<Stream>) -> [u64; 4] {
    let [watched, unwatched] = [WaitDepth::Learned, WaitDepth::Fixed(1)].map(|depth| {
        let stage = Stage::new(Config::default().with_wait_depth(depth));
        let users = users(&stage);
        let found = recorded(&stage, &users);
        assert!(900 < stage.allocator.stats().device_waits(), "it waits");
        found
    });
    assert!(300 < watched.1 && unwatched.1 == 0, "{watched:?} {unwatched:?}: times asked for");
    assert_eq!(watched.0, unwatched.0, "a watched step records as any other");
    watched.0
}

/// Was: a step that was watched for its times recorded an event of its own before a wait, beside
/// the one at the free. It learns all the same, from the fences that the frees leave.
#[test]
fn a_watched_step_records_one_event_for_each_used_stream() {
    let one = check_records(|stage| vec![stage.consumers[0].clone()]);
    // The first growth asks a stream that no fence covers, which leaves one.
    assert!(one[0] <= 1_001 && one[1..] == [1_000; 3], "{one:?}");
    let two = check_records(|stage| stage.consumers.to_vec());
    assert!(two[0] <= 2_001 && two[1..] == [2_000; 3], "{two:?}");
}

/// The same on a stream that others may submit to: one record for each free.
#[test]
fn a_watched_step_records_one_event_a_free_on_a_borrowed_stream() {
    let records = check_records(|stage| {
        let driver = streams::Driver::from_table(stage.machine.table()).unwrap();
        let owner = driver.device(0).unwrap().primary_context().unwrap();
        let other = owner.create_stream(StreamOptions::default()).unwrap();
        let borrowed = borrowed(&stage.context, &other);
        // Its owner never lets go of it.
        Box::leak(Box::new(other));
        vec![borrowed]
    });
    assert!(records[1..].iter().all(|records| *records <= 1_000), "{records:?}");
}

/// Was: a stream kept every fence that it had been made to wait for until it handed on a block of
/// its own. One that never did kept an event of the driver's for each of its waits, for good.
#[test]
fn a_stream_that_waits_and_hands_nothing_on_keeps_no_event_for_each_wait() {
    const ROUNDS: u64 = 600;
    let stage = Stage::new(Config::default().with_pending_max(0));
    let user = &stage.consumers[0];
    let taker = stage.context.create_stream(StreamOptions::default()).unwrap();
    let give = |home: &Stream| {
        let block = stage.allocator.allocate(home, PIECE).unwrap();
        stage.work(home, 1);
        user.wait_stream(home).unwrap();
        stage.work(user, 3);
        block.record_stream(user);
    };
    // Once it hands one on, so that its waits are noted.
    give(&taker);
    let round = || {
        give(&stage.producer);
        let block = stage.allocator.allocate(&taker, PIECE).unwrap();
        stage.work(&taker, 1);
        drop(block);
        taker.synchronize().unwrap();
    };
    let alive = || stage.machine.calls("cuEventCreate") - stage.machine.calls("cuEventDestroy");
    let waits = || stage.allocator.stats().device_waits();
    (0..ROUNDS).for_each(|_| round());
    let (events, waited) = (alive(), waits());
    (0..ROUNDS).for_each(|_| round());
    assert!(ROUNDS <= waits() - waited, "it waits in each round");
    assert!(alive() <= events + 8, "{} events more than the {events} before", alive() - events);
}
