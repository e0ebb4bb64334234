//! The model of PyTorch's allocator held against what PyTorch recorded: every segment, every
//! address. `WELLSPRING_TRACES` names a folder with other traces than the project's own.

use std::path::{Path, PathBuf};

use replay::what_if::{Comparison, compare_with_record};
use trace::pytorch::{Action, Entry, ReadOptions, Snapshot, read_file};

pub(crate) fn read(file: &Path) -> Snapshot {
    read_file(file, &ReadOptions::default(), None).unwrap()
}

pub(crate) fn read_named(name: &str) -> Snapshot {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
    read(&Path::new(folder).join(format!("{name}.pickle.zst")))
}

fn compare(snapshot: &Snapshot) -> Comparison {
    compare_with_record(&snapshot.trace(None).unwrap()).unwrap()
}

#[test]
fn every_trace_has_the_recorded_segments_and_addresses() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
    let folder = std::env::var_os("WELLSPRING_TRACES").map_or_else(|| own.into(), PathBuf::from);
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        if file.to_string_lossy().contains(".pickle") {
            let found = compare(&read(&file));
            assert!(found.is_exact(), "{}: {found:?}", file.display());
            assert!(0 < found.allocations && 0 < found.events, "{found:?}");
            count += 1;
        }
    }
    assert!(0 < count, "no traces");
}

#[test]
fn an_entry_that_says_something_else_is_a_difference() {
    let change = |which: Action, change: fn(&mut Entry)| {
        let mut snapshot = read_named("streams");
        let entries = snapshot.device_traces.iter_mut().flatten();
        change(entries.filter(|entry| entry.action == which).nth(70).unwrap());
        compare(&snapshot)
    };
    let found = change(Action::Alloc, |entry| entry.address += 512);
    assert!(0 < found.wrong_addresses && !found.is_exact(), "{found:?}");
    let found = change(Action::SegmentAlloc, |entry| entry.bytes += 2 << 20);
    assert!(0 < found.wrong_events && !found.is_exact(), "{found:?}");
    assert!(found.first_difference.is_some(), "{found:?}");
}

#[test]
fn a_ring_that_lost_its_beginning_and_ran_out_under_a_fraction_is_followed() {
    let found = compare(&read_named("oom_frames"));
    assert_eq!((found.initial_segments, found.allocations), (57, 6515));
    // Segments taken and given back inside requests, and the request that failed at last.
    assert_eq!(found.events, 104 + 122 + 1);
    let limit = found.limit_bytes.unwrap();
    assert!((3 << 30..(3 << 30) + (20 << 20)).contains(&limit), "{limit}");
    assert!(found.is_exact(), "{found:?}");
}

#[test]
fn a_ring_that_lost_its_beginning_under_expandable_segments_is_followed() {
    for lost in [5, 1_000, 30_000, 53_700, 60_000] {
        let mut snapshot = read_named("expandable");
        snapshot.device_traces[0].drain(..lost);
        let found = compare(&snapshot);
        assert!(0 < found.initial_segments && found.is_exact(), "{lost} lost: {found:?}");
    }
}
