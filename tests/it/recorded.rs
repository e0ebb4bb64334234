//! A run that records itself: its trace has what happened, where, and when.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a failed step fails its test, and only some items matter to it"
)]

use std::path::PathBuf;

use trace::stream_trace::{Item, Maker, OperationKind, Recording, ServedBy, StreamKind, UseKind};
use wellspring::{Builder, DeviceBuffer, Kernels, Runtime};

/// A file that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("wellspring-{}-{name}.wst", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn load(&self) -> Recording {
        let file = std::fs::File::open(&self.0).expect("it was recorded");
        Recording::load(file).expect("it is a trace")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const LEN: usize = 1 << 14;
const SPIN_NS: u64 = 50_000;

/// Three steps of a producer and a consumer.
fn work(runtime: &Runtime) {
    let kernels = Kernels::load(runtime.context()).unwrap();
    let (producer, consumer) = (runtime.create_stream().unwrap(), runtime.create_stream().unwrap());
    let mut sum = DeviceBuffer::<f32>::zeroed(runtime, &consumer, LEN).unwrap();
    for _ in 0..3 {
        let mut buffer = DeviceBuffer::<f32>::new(runtime, &producer, LEN).unwrap();
        let _filled = buffer.fill(&producer, 1.0).unwrap();
        let _busy = kernels.spin(&producer, SPIN_NS).unwrap();
        consumer.wait_stream(&producer).unwrap();
        let _added = kernels.scale_add(&consumer, &mut sum, &buffer, 1.0).unwrap();
        buffer.record_stream(&consumer);
        buffer.free().unwrap();
    }
    consumer.synchronize().unwrap();
}

fn count(recording: &Recording, is_it: impl Fn(&Item) -> bool) -> usize {
    recording.entries.iter().filter(|entry| is_it(&entry.item)).count()
}

#[test]
fn a_recorded_run_has_operations_uses_records_and_waits_in_order() {
    let scratch = Scratch::new("whole");
    let runtime = Builder::new().record_to(&scratch.0).simulated().unwrap();
    assert_eq!(runtime.recording_path(), Some(scratch.0.as_path()));
    work(&runtime);
    drop(runtime);
    let recording = scratch.load();
    assert!(recording.is_complete());
    assert_eq!(recording.setting("clock"), Some("virtual"));
    assert_eq!(recording.setting("policy"), Some("Default"));
    assert!(0 < recording.figure("peak_active_bytes").unwrap());
    assert_eq!(recording.streams.len(), 2);
    assert!(recording.streams.iter().all(|start| start.kind == StreamKind::Owned));
    let allocated = |item: &Item| matches!(item, Item::Allocate { .. });
    assert_eq!(count(&recording, allocated), 4);
    let grown = |item: &Item| matches!(item, Item::Allocate { served_by: ServedBy::Growth, .. });
    assert!(0 < count(&recording, grown));
    assert_eq!(count(&recording, |item| matches!(item, Item::Free { .. })), 4);
    let said = |item: &Item| matches!(item, Item::Use { kind: UseKind::UntilFree, .. });
    assert_eq!(count(&recording, said), 3);
    // The program's waits, made by way of a fence of the library's.
    let waited =
        |item: &Item| matches!(item, Item::Wait { record: Some(_), maker: Maker::Program, .. });
    assert_eq!(count(&recording, waited), 3);
    assert!(3 <= count(&recording, |item| matches!(item, Item::Record { .. })));
    assert_eq!(count(&recording, |item| matches!(item, Item::Synchronize { .. })), 1);
    // One zeroing fill, then in each step a fill, a spin and a sum.
    let operation = |item: &Item| matches!(item, Item::Operation(_));
    assert_eq!(count(&recording, operation), 10);
    let timed = |item: &Item| matches!(item, Item::DeviceTime { .. });
    assert_eq!(count(&recording, timed), 10);
    let named = recording.entries.iter().find_map(|entry| match &entry.item {
        Item::Operation(operation) if operation.kind == OperationKind::Launch => operation.name,
        _ => None,
    });
    assert_eq!(recording.text(named.unwrap()), Some("spin"));
    let times: Vec<u64> = recording.entries.iter().map(|entry| entry.host_ns).collect();
    assert!(times.is_sorted());
}

#[test]
fn places_are_lines_of_the_program_and_touches_name_blocks() {
    let scratch = Scratch::new("places");
    let runtime = Builder::new().record_to(&scratch.0).simulated().unwrap();
    work(&runtime);
    runtime.finish_recording().unwrap();
    let length = std::fs::metadata(&scratch.0).unwrap().len();
    // What comes after is not in it, and a second end changes nothing.
    work(&runtime);
    runtime.finish_recording().unwrap();
    drop(runtime);
    assert_eq!(std::fs::metadata(&scratch.0).unwrap().len(), length);
    let recording = scratch.load();
    for entry in &recording.entries {
        let place = match &entry.item {
            Item::Allocate { place, .. } | Item::Free { place, .. } | Item::Use { place, .. } => {
                *place
            }
            Item::Operation(operation) => operation.place,
            Item::Wait { place, maker: Maker::Program, .. } => *place,
            _ => continue,
        };
        // The sum is freed by a drop, which has no line.
        if let Some(place) = place {
            let file = &recording.place(place).unwrap().file;
            assert!(file.ends_with("tests/it/recorded.rs"), "{file}: {:?}", entry.item);
        } else {
            assert!(matches!(entry.item, Item::Free { .. }), "{:?}", entry.item);
        }
    }
    let touching = |item: &Item| match item {
        Item::Operation(operation) => {
            !operation.touches.is_empty()
                && operation.touches.iter().all(|touch| touch.block.is_some())
        }
        _ => false,
    };
    assert_eq!(count(&recording, touching), 7, "all but the spins");
}

#[test]
fn device_times_are_those_of_the_work() {
    let scratch = Scratch::new("times");
    let runtime = Builder::new().record_to(&scratch.0).simulated().unwrap();
    work(&runtime);
    drop(runtime);
    let recording = scratch.load();
    let names: Vec<Option<&str>> = recording
        .entries
        .iter()
        .filter_map(|entry| match &entry.item {
            Item::Operation(operation) => Some(recording.text(operation.name?)),
            _ => None,
        })
        .collect();
    let mut ends = vec![0; names.len()];
    for entry in &recording.entries {
        if let Item::DeviceTime { operation, end_ns, .. } = entry.item {
            ends[usize::try_from(operation.0).unwrap()] = end_ns;
        }
    }
    let spin = names.iter().position(|name| *name == Some("spin")).unwrap();
    // The spin comes behind the fill of its stream, and takes what it takes.
    let took = ends[spin] - ends[spin - 1];
    assert!(SPIN_NS.abs_diff(took) < SPIN_NS / 10, "{took} ns, of {ends:?}");
    let without = Scratch::new("no-times");
    let builder = Builder::new().record_to(&without.0).record_without_times();
    let runtime = builder.simulated().unwrap();
    work(&runtime);
    drop(runtime);
    let timed = |item: &Item| matches!(item, Item::DeviceTime { .. });
    assert_eq!(count(&without.load(), timed), 0);
}

#[test]
fn a_file_that_cannot_be_made_is_told_when_the_runtime_is_opened() {
    let error = Builder::new().record_to("/no/such/folder/run.wst").simulated().unwrap_err();
    assert!(error.to_string().contains("/no/such/folder/run.wst"), "{error}");
}

#[test]
fn a_run_that_never_ends_leaves_a_trace_that_is_cut() {
    let scratch = Scratch::new("cut");
    let runtime = Builder::new().record_to(&scratch.0).simulated().unwrap();
    let stream = runtime.create_stream().unwrap();
    for _ in 0..4000 {
        let mut buffer = DeviceBuffer::<u8>::new(&runtime, &stream, 1).unwrap();
        let _filled = buffer.fill(&stream, 1).unwrap();
    }
    let recording = scratch.load();
    assert!(!recording.is_complete());
    let allocated = |item: &Item| matches!(item, Item::Allocate { .. });
    assert!(100 < count(&recording, allocated), "what was passed on is there");
}
