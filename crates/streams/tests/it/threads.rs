//! Several host threads, switched at every driver call by the schedule of the simulated machine.

use std::sync::Mutex;

use cuda_sim::{DeviceProfile, Schedule};
use streams::{CaptureMode, Error, Point, Stream, StreamOrder};

use crate::rig::{Block, Rig};

const SEEDS: u64 = 150;

/// Blocks, each used once, and the points of those uses, published after the submissions returned.
struct Used {
    blocks: Vec<Block>,
    points: Mutex<Vec<Point>>,
}

impl Used {
    fn new(rig: &Rig) -> Self {
        Self { blocks: (0..5).map(|_| rig.block()).collect(), points: Mutex::default() }
    }

    fn by(&self, rig: &Rig, stream: &Stream) {
        let at = self.points.lock().unwrap().len();
        let point = rig.use_on(stream, &self.blocks[at]);
        self.points.lock().unwrap().push(point);
    }

    /// Whatever is known on `stream`, the checker has an edge from. How many are known.
    fn check(&self, rig: &Rig, stream: &Stream) -> usize {
        let points = self.points.lock().unwrap().clone();
        let mut known = 0;
        for (block, &point) in self.blocks.iter().zip(&points) {
            if stream.order().knows(point) {
                let raw = rig.machine.stream_with_id(stream.id()).unwrap();
                let edge =
                    rig.machine.probe(block.span.span().address, block.span.span().bytes, raw);
                assert!(edge.is_ok(), "{point:?} is said to be known: {edge:?}");
                known += 1;
            }
        }
        known
    }

    fn count(&self) -> usize {
        self.points.lock().unwrap().len()
    }
}

type Body<'a> = Box<dyn FnOnce() + Send + 'a>;

fn seeded(seed: u64) -> Rig {
    Rig::with(Schedule::Seeded(seed), DeviceProfile::h200())
}

#[test]
fn l19_o4_where_records_and_waits_race_nobody_is_credited_with_more_than_is_there() {
    let (mut credited, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let rig = seeded(seed);
        let [a, b, c] = rig.streams();
        let (on_a, on_b) = (Used::new(&rig), Used::new(&rig));
        let event = rig.context.create_event().unwrap();
        let recorder = |stream: Stream, used: &Used| {
            for _ in 0..3 {
                used.by(&rig, &stream);
                stream.record(&event).unwrap();
            }
        };
        let waiter = || {
            for _ in 0..4 {
                let waited = c.wait_event(&event);
                assert!(matches!(waited, Ok(()) | Err(Error::NeverRecorded)), "{waited:?}");
            }
        };
        let bodies: Vec<Body<'_>> = vec![
            Box::new(|| recorder(a.clone(), &on_a)),
            Box::new(|| recorder(b.clone(), &on_b)),
            Box::new(waiter),
        ];
        rig.machine.run_threads(bodies);
        for used in [&on_a, &on_b] {
            let known = used.check(&rig, &c);
            credited += known;
            refused += used.count() - known;
        }
        a.record(&event).unwrap();
        c.wait_event(&event).unwrap();
        assert_eq!(on_a.check(&rig, &c), on_a.count(), "a record alone is credited");
        on_b.check(&rig, &c);
    }
    assert!(0 < credited && 0 < refused, "{credited} credited, {refused} refused: too one-sided");
}

#[test]
fn l20_an_event_recorded_anew_while_the_host_waits_completes_nothing_new() {
    let (mut learned, mut open) = (0, 0);
    for seed in 0..SEEDS {
        let rig = seeded(seed);
        let [a, z] = rig.streams();
        let used = Used::new(&rig);
        let event = rig.context.create_event().unwrap();
        used.by(&rig, &a);
        a.record(&event).unwrap();
        let again = || {
            for _ in 0..3 {
                used.by(&rig, &a);
                a.record(&event).unwrap();
            }
        };
        let host = || {
            for _ in 0..3 {
                event.synchronize().unwrap();
                let _ = event.query().unwrap();
            }
        };
        rig.machine.run_threads(vec![Box::new(again), Box::new(host)]);
        let known = used.check(&rig, &z);
        learned += known;
        open += used.count() - known;
        a.record(&event).unwrap();
        event.synchronize().unwrap();
        assert_eq!(used.check(&rig, &z), used.count(), "a record alone is credited");
    }
    assert!(0 < learned && 0 < open, "{learned} learned, {open} open: too one-sided");
}

#[test]
fn o3_fences_taken_while_another_thread_submits_claim_no_more_than_they_cover() {
    let mut exact = 0;
    for seed in 0..SEEDS {
        let rig = seeded(seed);
        let [a, z] = rig.streams();
        let used = Used::new(&rig);
        let fences = Mutex::new(Vec::new());
        let submitter = || (0..4).for_each(|_| used.by(&rig, &a));
        let freer = || {
            for _ in 0..3 {
                let point = a.order().position();
                let fence = a.order().fence_now().unwrap();
                assert!(point <= fence.point());
                fences.lock().unwrap().push(fence);
                exact += u32::from(a.order().fence_exactly(point).is_some());
            }
        };
        rig.machine.run_threads(vec![Box::new(submitter), Box::new(freer)]);
        for fence in fences.into_inner().unwrap() {
            fence.synchronize().unwrap();
        }
        used.check(&rig, &z);
        a.order().synchronize_point(a.order().position()).unwrap();
        assert_eq!(used.check(&rig, &z), used.count());
    }
    assert!(0 < exact);
}

#[test]
fn l14_a_point_submitted_while_the_context_is_synchronized_is_not_complete_by_it() {
    for seed in 0..SEEDS {
        let rig = seeded(seed);
        let [a, z] = rig.streams();
        let used = Used::new(&rig);
        let submitter = || (0..4).for_each(|_| used.by(&rig, &a));
        let host = || (0..2).for_each(|_| rig.context.synchronize().unwrap());
        rig.machine.run_threads(vec![Box::new(submitter), Box::new(host)]);
        used.check(&rig, &z);
    }
}

#[test]
fn a_stream_dropped_while_others_ask_its_order_is_never_used_after() {
    for seed in 0..SEEDS {
        let rig = seeded(seed);
        let block = rig.block();
        let stream = rig.stream();
        let order = stream.order().clone();
        let used = rig.use_on(&stream, &block);
        let asker = || {
            for _ in 0..3 {
                let _ = order.fence_now();
                let _ = order.poll();
            }
        };
        rig.machine.run_threads(vec![Box::new(move || drop(stream)), Box::new(asker)]);
        order.synchronize_point(used).unwrap();
        assert!(order.is_complete(used));
        assert_eq!(rig.calls("cuStreamDestroy"), 1);
    }
}

#[test]
fn c3_a_call_that_races_with_a_capture_is_eager_or_captured_or_refused_and_knows_which() {
    let (mut eager, mut captured, mut refused) = (0, 0, 0);
    for seed in 0..SEEDS {
        let rig = seeded(seed);
        let (stream, block) = (rig.stream(), rig.block());
        rig.use_on(&stream, &block);
        stream.synchronize().unwrap();
        let (graph, outcome) = (Mutex::new(None), Mutex::new(None));
        let capturing = || {
            let capture = stream.begin_capture(CaptureMode::Relaxed).unwrap();
            drop(rig.context.memory_info());
            *graph.lock().unwrap() = Some(capture.end().unwrap());
        };
        let submitting = || {
            *outcome.lock().unwrap() = Some(stream.fill_bytes(&block.span, 0, 1, 2));
        };
        rig.machine.run_threads(vec![Box::new(capturing), Box::new(submitting)]);
        let outcome = outcome.into_inner().unwrap().unwrap();
        let graph = graph.into_inner().unwrap().unwrap();
        stream.synchronize().unwrap();
        let mut byte = [0];
        stream.copy_to_host(&mut byte, &block.span, 0).unwrap();
        match outcome {
            Ok(submission) if submission.is_captured() => {
                assert_eq!((byte, graph.hold_count()), ([1], 1), "seed {seed}");
                captured += 1;
            }
            Ok(submission) => {
                assert_eq!((byte, graph.hold_count()), ([2], 0), "seed {seed}");
                assert!(stream.order().is_complete(submission.point()));
                eager += 1;
            }
            Err(error) => {
                assert_eq!(error, Error::Capturing { stream: stream.id() }, "seed {seed}");
                assert_eq!((byte, graph.hold_count()), ([1], 0), "seed {seed}");
                refused += 1;
            }
        }
    }
    assert!(0 < eager && 0 < captured, "{eager} eager, {captured} captured, {refused} refused");
}

#[test]
fn o6_work_that_races_with_retiring_is_covered_by_the_last_fence_or_refused() {
    let (mut covered, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let rig = seeded(seed);
        let [a, z] = rig.streams();
        let used = rig.block();
        let outcome = Mutex::new(None);
        let submitting = || *outcome.lock().unwrap() = Some(a.fill_bytes(&used.span, 0, 8, 2));
        rig.machine.run_threads(vec![Box::new(|| a.retire()), Box::new(submitting)]);
        a.order().synchronize_point(a.order().position()).unwrap();
        match outcome.into_inner().unwrap().unwrap() {
            Ok(submission) => {
                assert!(a.order().is_complete(submission.point()), "seed {seed}");
                let raw = rig.machine.stream_with_id(z.id()).unwrap();
                rig.machine.probe(used.span.span().address, 8, raw).unwrap();
                covered += 1;
            }
            Err(error) => {
                assert_eq!(error, Error::StreamGone { stream: a.id() });
                refused += 1;
            }
        }
    }
    assert!(0 < covered && 0 < refused, "{covered} covered, {refused} refused");
}

/// Was: a stream that another thread was just retiring could neither be waited for, as it was gone,
/// nor did it have its last fence yet; so whoever waited was told that it had left none.
/// Asks for the last fence of a stream when it is dropped, as the end of an allocator does.
struct AsksAtItsEnd(StreamOrder);

impl Drop for AsksAtItsEnd {
    fn drop(&mut self) {
        let _gone = self.0.fence_now();
    }
}

/// Was: who retires a stream waits for the calls on it. Such a call was a host function's, which
/// was refused and dropped what it owned; and that waited for whoever retires the stream.
#[test]
fn what_a_refused_host_function_owned_is_dropped_outside_the_stream() {
    for seed in 0..SEEDS {
        let rig = seeded(seed);
        let stream = rig.stream();
        let launch = |stream: Stream| {
            // A token that is held gets its fence while the next call is under way.
            let _token = stream.launch_host_function(|| ());
            let owned = AsksAtItsEnd(stream.order().clone());
            let _may_be_refused = stream.launch_host_function(move || drop(owned));
        };
        let retire = || stream.retire();
        let (one, other) = (stream.clone(), stream.clone());
        let threads: Vec<Box<dyn FnOnce() + Send>> =
            vec![Box::new(retire), Box::new(move || launch(one)), Box::new(move || launch(other))];
        rig.machine.run_threads(threads);
    }
}

#[test]
fn a_stream_that_another_thread_is_retiring_can_be_waited_for() {
    for seed in 0..SEEDS {
        let rig = seeded(seed);
        let [one, other] = rig.streams();
        let blocks = [rig.block(), rig.block()];
        let points = [rig.use_on(&one, &blocks[0]), rig.use_on(&other, &blocks[1])];
        let orders = [&one, &other].map(|stream| stream.order().clone());
        let retire = || one.retire();
        let dropped = move || drop(other);
        let wait = || {
            for (order, point) in orders.iter().zip(points) {
                let fence = order.fence_now();
                assert!(order.is_complete(point) || fence.is_ok(), "seed {seed}: {fence:?}");
                assert_eq!(order.synchronize_point(point), Ok(()), "seed {seed}");
            }
        };
        rig.machine.run_threads(vec![Box::new(retire), Box::new(dropped), Box::new(wait)]);
    }
}
