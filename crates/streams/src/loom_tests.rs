//! Models of what two threads share: run with `RUSTFLAGS="--cfg loom" cargo test -p streams loom`.
//!
//! The device is a log behind a lock: that is what the driver's own lock makes of it.

use loom::model::Builder;
use loom::thread;

use crate::capture::{CaptureState, Membership};
use crate::order::{EventVersion, LastMark, Made, Slot, StreamSlot};
use crate::sync::{Arc, Mutex, lock, yield_now};

const ME: StreamSlot = StreamSlot::new(0);

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// An event, what is known of its last record, and what the device holds.
struct SharedEvent {
    version: EventVersion,
    last: Mutex<Option<u64>>,
    device: Mutex<u64>,
}

impl SharedEvent {
    fn new() -> Arc<Self> {
        let (version, last, device) = (EventVersion::new(), Mutex::new(None), Mutex::new(0));
        Arc::new(Self { version, last, device })
    }

    fn record(&self, claim: u64) {
        let record = self.version.begin();
        *lock(&self.device) = claim;
        self.version.end(&record, |credited| *lock(&self.last) = credited.then_some(claim));
    }

    /// What a wait is credited with, and what it waits for.
    fn wait(&self) -> (Option<u64>, u64) {
        let version = self.version.quiet();
        let claim = *lock(&self.last);
        let waited_for = *lock(&self.device);
        (claim.filter(|_| self.version.is_still(version)), waited_for)
    }
}

#[test]
fn o4_a_wait_is_credited_only_with_the_record_it_waits_for() {
    explore(|| {
        let event = SharedEvent::new();
        let others: Vec<_> = [1, 2]
            .map(|claim| {
                let event = Arc::clone(&event);
                thread::spawn(move || event.record(claim))
            })
            .into();
        let (credited, waited_for) = event.wait();
        assert!(credited.is_none_or(|claim| claim == waited_for));
        others.into_iter().for_each(|thread| thread.join().unwrap());
        let (credited, waited_for) = event.wait();
        assert!(credited.is_none_or(|claim| claim == waited_for));
        event.record(3);
        assert_eq!(event.wait(), (Some(3), 3), "a record alone is credited");
    });
}

/// A stream's slot, and the marks of what the device was given, in its order.
struct SharedStream {
    slot: Slot,
    device: Mutex<Vec<u32>>,
}

impl SharedStream {
    fn new(shared: bool) -> Arc<Self> {
        let slot = Slot::new();
        slot.open(1, shared);
        Arc::new(Self { slot, device: Mutex::new(Vec::new()) })
    }

    fn submit(&self, operation: u32) -> u64 {
        self.slot.start();
        lock(&self.device).push(operation);
        self.slot.finish(true, Made::ByCalls).unwrap()
    }
}

#[test]
fn o3_a_stamp_claims_no_submission_that_the_record_may_have_preceded() {
    explore(|| {
        let stream = SharedStream::new(false);
        let submitter = Arc::clone(&stream);
        let thread = thread::spawn(move || submitter.submit(7));
        let stamp = stream.slot.stamp(ME, false);
        let covered = lock(&stream.device).clone();
        let mark = thread.join().unwrap();
        assert!(stamp.point.mark < mark || covered.contains(&7));
    });
}

#[test]
fn r5_an_exact_fence_covers_its_mark_and_nothing_more() {
    explore(|| {
        let stream = SharedStream::new(false);
        stream.submit(1);
        let submitter = Arc::clone(&stream);
        let thread = thread::spawn(move || submitter.submit(2));
        let mark = stream.slot.position();
        let quiet = stream.slot.quiet();
        let unmoved = stream.slot.submitted() == mark;
        let covered = lock(&stream.device).len();
        if unmoved && quiet.is_some_and(|quiet| stream.slot.is_still_quiet(quiet)) {
            assert_eq!(u64::try_from(covered).unwrap(), mark);
        }
        thread.join().unwrap();
    });
}

#[test]
fn o6_no_position_is_past_the_last_one_of_a_retired_stream() {
    explore(|| {
        let stream = SharedStream::new(true);
        let asker = Arc::clone(&stream);
        let thread = thread::spawn(move || asker.slot.position());
        let last = stream.slot.retire(false);
        assert!(thread.join().unwrap() <= last);
        assert_eq!(stream.slot.position(), last);
    });
}

#[test]
fn o12_a_stream_that_is_gone_answers_from_its_last_mark_and_not_for_the_next() {
    explore(|| {
        let stream = SharedStream::new(true);
        let last = Arc::new(LastMark::new());
        let (asked, answer) = (Arc::clone(&stream), Arc::clone(&last));
        let asker = thread::spawn(move || {
            let mark = answer.unless_ended(|| asked.slot.position(), |mark| mark);
            let gated = || asked.slot.is_gated();
            let ended = |mark| gated() && !asked.slot.is_complete(mark);
            (mark, answer.unless_ended(gated, ended))
        });
        let mark = stream.slot.retire(false);
        last.publish(mark);
        stream.slot.learn_complete(mark);
        stream.slot.open(2, false);
        let next = stream.submit(1);
        stream.slot.gate(next);
        let (position, gated) = asker.join().unwrap();
        assert!(position <= mark, "a position of the next stream");
        assert!(!gated, "the gate of the next stream");
        assert_eq!(last.unless_ended(|| stream.slot.position(), |mark| mark), mark);
        assert!(mark < next);
    });
}

#[test]
fn o3_completion_never_goes_back() {
    explore(|| {
        let stream = SharedStream::new(false);
        for operation in 1..=3 {
            stream.submit(operation);
        }
        let learner = Arc::clone(&stream);
        let thread = thread::spawn(move || learner.slot.learn_settled(3));
        stream.slot.learn_settled(2);
        assert!(stream.slot.is_complete(2));
        thread.join().unwrap();
        assert!(stream.slot.is_complete(3));
        assert!(!stream.slot.has_unsettled());
    });
}

/// A stream's part in a capture, and whether the driver captures it.
struct SharedMember {
    membership: Membership,
    driver_captures: Mutex<bool>,
}

impl SharedMember {
    fn change(&self, captures: bool) {
        while !self.membership.is_drained() {
            yield_now();
        }
        *lock(&self.driver_captures) = captures;
    }
}

#[test]
fn c3_a_call_knows_whether_the_driver_captured_it() {
    explore(|| {
        let (membership, driver_captures) = (Membership::new(), Mutex::new(false));
        let stream = Arc::new(SharedMember { membership, driver_captures });
        let caller = Arc::clone(&stream);
        let thread = thread::spawn(move || {
            if let Some(adding) = caller.membership.add() {
                let captured = *lock(&caller.driver_captures);
                assert_eq!(adding.capture().is_some(), captured);
            }
        });
        assert!(stream.membership.begin(&CaptureState::new(0)));
        stream.change(true);
        stream.membership.begun();
        stream.membership.end();
        stream.change(false);
        stream.membership.ended();
        thread.join().unwrap();
    });
}
