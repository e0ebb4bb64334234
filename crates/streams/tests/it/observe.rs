//! What an observer is told, in which order, and that it is told before anything is known of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

use cuda_sim::{DeviceProfile, Machine, Schedule};
use streams::observe::{FanOut, Happening, Observer, Operation, Scope, WaitedFor, What};
use streams::{CaptureMode, Driver, Point, StreamOptions, StreamOrder};

use crate::rig::{BYTES, Rig};

/// Keeps what it is told as lines.
#[derive(Default)]
struct Notes {
    lines: Mutex<Vec<String>>,
    /// A stream and a point of which it says whether it was known when something passed.
    asked: OnceLock<(StreamOrder, Point)>,
}

impl Observer for Notes {
    fn observe(&self, happening: &Happening<'_>) {
        let mut line = match happening.what {
            What::StreamOpened { kind, non_blocking, .. } => {
                format!("open {kind:?} {non_blocking}")
            }
            What::HandleGivenOut { .. } => "handle".to_owned(),
            What::StreamRetired { .. } => "retire".to_owned(),
            What::Submitted { ordinal, capture, operation, accesses, .. } => {
                let touched: u64 = accesses.iter().map(|part| part.bytes).sum();
                let captured = if capture.is_some() { " captured" } else { "" };
                let operation = match operation {
                    Operation::Graph { .. } => "Graph".to_owned(),
                    Operation::Launch { .. }
                    | Operation::CopyToDevice
                    | Operation::CopyToHost
                    | Operation::CopyOnDevice
                    | Operation::Fill
                    | Operation::HostFunction
                    | _ => format!("{operation:?}"),
                };
                format!("submit {ordinal} {operation} {touched}{captured}")
            }
            What::Recorded { ordinal, record, by, .. } => {
                format!("record {ordinal} v{} {by:?}", record.version)
            }
            What::Waited { ordinal, on, by, .. } => match on {
                WaitedFor::Record(record) => {
                    format!("wait {ordinal} v{} {by:?}", record.version)
                }
                WaitedFor::Unknown { .. } | _ => format!("wait {ordinal} unknown"),
            },
            What::NothingToWaitFor { .. } => "nothing to wait for".to_owned(),
            What::WaitSkipped { by, .. } => format!("skip {by:?}"),
            What::SynchronizationBegun { .. } => "begin".to_owned(),
            What::Passed { reached, how, .. } => {
                let reached: Vec<u64> = reached.iter().map(|reached| reached.ordinal).collect();
                format!("passed {reached:?} {how:?}")
            }
            What::CaptureBegun { .. } => "capture".to_owned(),
            What::CaptureEnded { succeeded, .. } => format!("captured {succeeded}"),
            What::GraphGone { .. } => "graph gone".to_owned(),
            What::ClockStarted { .. } | What::Ended { .. } | _ => "?".to_owned(),
        };
        if let (What::Passed { .. }, Some((order, point))) = (happening.what, self.asked.get()) {
            line += if order.is_complete(*point) { " known" } else { " news" };
        }
        if happening.place.is_some_and(|place| !place.file().ends_with("observe.rs")) {
            line += " elsewhere";
        }
        self.lines.lock().unwrap().push(line);
    }
}

fn watched(schedule: Schedule) -> (Rig, Arc<Notes>) {
    let machine = Machine::builder().device(DeviceProfile::h200()).schedule(schedule).build();
    let notes = Arc::new(Notes::default());
    let observer = Arc::new(FanOut::new(vec![Arc::<Notes>::clone(&notes)]));
    let driver = Driver::from_table_observed(machine.table(), observer).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    (Rig { context, driver, machine }, notes)
}

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

#[test]
fn every_call_is_told_in_order_with_its_line() {
    let (rig, notes) = watched(Schedule::Lazy);
    let block = rig.block();
    let a = rig.context.create_stream(StreamOptions::default()).unwrap();
    let b = rig.context.create_stream(StreamOptions::default()).unwrap();
    let _filled = a.fill_bytes(&block.span, 0, 64, 1).unwrap();
    let event = rig.context.create_event().unwrap();
    assert!(b.wait_event(&event).is_err());
    a.record(&event).unwrap();
    b.wait_event(&event).unwrap();
    b.wait_stream(&a).unwrap();
    event.synchronize().unwrap();
    a.launch_host_function(|| ()).unwrap();
    let _copied = b.copy_on_device(&block.span, 0, &block.span, 64, 64).unwrap();
    b.synchronize().unwrap();
    rig.context.synchronize().unwrap();
    let told = [
        "open Owned true",
        "open Owned true",
        "submit 1 Fill 64",
        "nothing to wait for",
        "record 1 v1 Program",
        "wait 1 v1 Program",
        // `wait_stream`: the fence tells more than is known, but not of what it is asked for.
        "record 1 v1 Library",
        "skip Program",
        "begin",
        "passed [] Synchronization",
        "submit 2 HostFunction 0",
        "submit 2 CopyOnDevice 128",
        "begin",
        "passed [2] Synchronization",
        "begin",
        // What was queued before the host function is done when that begins.
        "passed [1] HostFunction",
    ];
    let mut lines = notes.take();
    let last = lines.pop().unwrap();
    assert_eq!(lines, told);
    assert_eq!(last, "passed [2, 2] Synchronization");
    drop((a, b));
    assert_eq!(notes.take(), ["retire", "retire"]);
}

#[test]
fn what_goes_into_a_capture_is_told_apart_and_each_replay_is_one_addition() {
    let (rig, notes) = watched(Schedule::Lazy);
    let ([stream], block) = (rig.streams(), rig.block());
    notes.take();
    let capture = stream.begin_capture(CaptureMode::ThreadLocal).unwrap();
    let _captured = stream.fill_bytes(&block.span, 0, BYTES, 1).unwrap();
    let graph = capture.end().unwrap();
    let exec = graph.instantiate().unwrap();
    drop(graph);
    drop(exec.launch(&stream).unwrap());
    drop(exec.launch(&stream).unwrap());
    rig.context.synchronize().unwrap();
    drop(exec);
    let told = [
        "capture",
        "submit 0 Fill 4096 captured",
        "captured true",
        "submit 1 Graph 0",
        "record 1 v1 Library",
        "submit 2 Graph 0",
        "begin",
        "passed [2] Synchronization",
        "graph gone",
    ];
    assert_eq!(notes.take(), told);
}

/// Was: a capture that was dropped, not ended, was never told to be gone, so who kept what it
/// touches kept it for good.
#[test]
fn a_capture_that_is_thrown_away_is_gone_as_a_graph_is() {
    let (rig, notes) = watched(Schedule::Lazy);
    let block = rig.block();
    let stream = rig.context.create_stream(StreamOptions::default()).unwrap();
    for ends in [false, true] {
        let capture = stream.begin_capture(CaptureMode::Relaxed).unwrap();
        let _filled = stream.fill_bytes(&block.span, 0, 64, 1).unwrap();
        let _before = notes.take();
        let graph = ends.then(|| capture.end().unwrap());
        let told = notes.take();
        let gone = |told: &[String]| told.iter().filter(|line| *line == "graph gone").count();
        assert_eq!(gone(&told), usize::from(!ends), "{told:?}");
        drop(graph);
        assert_eq!(gone(&notes.take()), usize::from(ends));
    }
}

#[test]
fn an_observer_hears_of_an_end_before_anybody_knows_it() {
    let (rig, notes) = watched(Schedule::Eager);
    let ([stream], block) = (rig.streams(), rig.block());
    let point = rig.use_on(&stream, &block);
    assert!(notes.asked.set((stream.order().clone(), point)).is_ok());
    notes.take();
    assert!(stream.query().unwrap());
    assert!(stream.order().is_complete(point));
    assert_eq!(notes.take(), ["passed [1] Query news"]);
}

#[test]
fn threads_on_one_stream_are_told_in_the_order_of_the_driver() {
    let (rig, notes) = watched(Schedule::Eager);
    let stream = rig.stream();
    notes.take();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    stream.launch_host_function(|| ()).unwrap();
                }
            });
        }
    });
    let told = notes.take();
    let of = |what: &str| -> Vec<&str> {
        told.iter().map(String::as_str).filter(|line| line.starts_with(what)).collect()
    };
    let (submitted, begun) = (of("submit"), of("passed"));
    // Where a thread still holds its token when the next one submits, that gets its fence first.
    assert_eq!(submitted.len() + begun.len() + of("record").len(), told.len(), "{told:?}");
    let wanted: Vec<String> = (1..=200).map(|nth| format!("submit {nth} HostFunction 0")).collect();
    assert_eq!(submitted, wanted);
    // Each begins when all before it is done.
    let wanted: Vec<String> = (0..200).map(|nth| format!("passed [{nth}] HostFunction")).collect();
    assert_eq!(begun, wanted);
}

/// Keeps when operations ended.
#[derive(Default)]
struct Ends {
    started: Mutex<u32>,
    /// Stream, ordinal, nanoseconds.
    ends: Mutex<Vec<(u64, u64, u64)>>,
}

impl Observer for Ends {
    fn observe(&self, happening: &Happening<'_>) {
        if let What::Ended { stream, ordinal, nanoseconds } = happening.what {
            self.ends.lock().unwrap().push((stream, ordinal, nanoseconds));
        }
        *self.started.lock().unwrap() +=
            u32::from(matches!(happening.what, What::ClockStarted { .. }));
    }

    fn wants_times(&self) -> bool {
        true
    }
}

#[test]
fn who_wants_times_is_told_when_each_operation_ended() {
    let profile = DeviceProfile::h200();
    let machine = Machine::builder().device(profile).schedule(Schedule::Timed).build();
    let ends = Arc::new(Ends::default());
    let observer = Arc::new(FanOut::new(vec![Arc::<Ends>::clone(&ends)]));
    let driver = Driver::from_table_observed(machine.table(), observer).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let create = || context.create_stream(StreamOptions::default()).unwrap();
    let (first, second) = (create(), create());
    for stream in [&first, &second, &first] {
        stream.launch_host_function(|| {}).unwrap();
    }
    second.wait_stream(&first).unwrap();
    second.launch_host_function(|| {}).unwrap();
    context.synchronize().unwrap();
    context.tell_times();
    assert_eq!(*ends.started.lock().unwrap(), 1, "one clock a context");
    let told = ends.ends.lock().unwrap().clone();
    let of = |stream: &streams::Stream| -> Vec<(u64, u64)> {
        let mine = told.iter().filter(|(of, ..)| *of == stream.id());
        mine.map(|&(_, ordinal, nanoseconds)| (ordinal, nanoseconds)).collect()
    };
    let (one, other) = (of(&first), of(&second));
    let ordinals =
        |list: &[(u64, u64)]| list.iter().map(|(ordinal, _)| *ordinal).collect::<Vec<_>>();
    // The wait on the second stream is an addition, and no operation.
    assert_eq!((ordinals(&one), ordinals(&other)), (vec![1, 2], vec![1, 3]));
    assert!(0 < one[0].1 && one[0].1 < one[1].1, "{told:?}");
    assert!(one[1].1 < other[1].1, "what was waited for ended before: {told:?}");
}

/// The streams that it was told of, and not of their end.
#[derive(Default)]
struct Open {
    streams: Mutex<BTreeSet<u64>>,
    /// The streams that a synchronization of the context did not name.
    missed: Mutex<Vec<u64>>,
    synchronizations: Mutex<u64>,
}

impl Observer for Open {
    fn observe(&self, happening: &Happening<'_>) {
        let mut open = self.streams.lock().unwrap();
        if let What::StreamOpened { stream, .. } = happening.what {
            open.insert(stream);
        }
        if let What::StreamRetired { stream } = happening.what {
            open.remove(&stream);
        }
        if let What::Passed { scope: Scope::Context { .. }, reached, .. } = happening.what {
            let is_named = |stream: &u64| reached.iter().any(|named| named.stream == *stream);
            let missed = open.iter().filter(|stream| !is_named(stream));
            self.missed.lock().unwrap().extend(missed);
            *self.synchronizations.lock().unwrap() += 1;
        }
    }
}

/// Was: a stream that another thread was about to retire was neither named as reached nor told as
/// retired, so whoever watches did not know of its work that it was done, and the library did.
#[test]
fn a_synchronization_names_a_stream_that_is_being_retired() {
    for seed in 0..200 {
        let schedule = Schedule::Seeded(seed);
        let machine = Machine::builder().device(DeviceProfile::h200()).schedule(schedule).build();
        let open = Arc::new(Open::default());
        let observer = Arc::<Open>::clone(&open);
        let driver = Driver::from_table_observed(machine.table(), observer).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let rig = Rig { context, driver, machine };
        let block = rig.block();
        let stream = rig.stream();
        let _filled = stream.fill_bytes(&block.span, 0, 64, 1).unwrap();
        rig.machine.run_threads(vec![
            Box::new(move || drop(stream)),
            Box::new(|| rig.context.synchronize().unwrap()),
        ]);
        assert_eq!(*open.synchronizations.lock().unwrap(), 1);
        let missed = std::mem::take(&mut *open.missed.lock().unwrap());
        assert!(missed.is_empty(), "seed {seed}: {missed:?}");
    }
}
