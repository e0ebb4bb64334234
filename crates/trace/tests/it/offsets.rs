//! What is wrong with a value is said with the byte at which its dictionary is made.

use std::path::PathBuf;

use trace::pytorch::{Place, ReadError, ReadOptions, read, read_file};

use crate::pickle::{Py, pickle, pickle_as};

/// Stands where a number belongs.
const MARK: &str = "no number at all";

/// A snapshot with two segments of two blocks and two traces of three entries, in which the dict
/// at `place` has the mark as one of its values.
fn snapshot(place: Place) -> Py {
    use Py::{Dict, Int, List, Text};
    let number = |is_faulty: bool| if is_faulty { Text(MARK) } else { Int(512) };
    let block = |segment, block| {
        let is_faulty = place == at_block(segment, block);
        Dict(vec![("state", Text("inactive")), ("size", number(is_faulty))])
    };
    let segment = |segment| {
        Dict(vec![
            ("total_size", Int(1024)),
            ("address", number(place == at_segment(segment))),
            ("blocks", List(vec![block(segment, 0), block(segment, 1)])),
        ])
    };
    let entry = |device, entry| {
        Dict(vec![
            ("action", Text("alloc")),
            ("addr", Int(1 << 40)),
            ("size", number(place == at_entry(device, entry))),
            ("stream", Int(0)),
        ])
    };
    let trace = |device| List((0..3).map(|position| entry(device, position)).collect());
    Dict(vec![
        ("segments", List(vec![segment(0), segment(1)])),
        ("device_traces", List(vec![trace(0), trace(1)])),
    ])
}

const fn at_segment(segment: usize) -> Place {
    Place::Segment { segment }
}

const fn at_block(segment: usize, block: usize) -> Place {
    Place::Block { segment, block }
}

const fn at_entry(device: usize, entry: usize) -> Place {
    Place::Entry { device, entry }
}

/// Where the last dictionary before the mark is made: by `EMPTY_DICT`.
fn expected(bytes: &[u8]) -> u64 {
    let mark = bytes.windows(MARK.len()).position(|window| window == MARK.as_bytes()).unwrap();
    bytes[..mark].iter().rposition(|byte| *byte == b'}').unwrap().try_into().unwrap()
}

fn file(folder: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let file = folder.path().join("faulty.pickle");
    std::fs::write(&file, bytes).unwrap();
    file
}

#[test]
fn a_wrong_value_is_told_with_the_offset_of_its_dict() {
    let folder = tempfile::tempdir().unwrap();
    let places = [
        at_segment(0),
        at_segment(1),
        at_block(0, 1),
        at_block(1, 0),
        at_entry(0, 2),
        at_entry(1, 1),
    ];
    for place in places {
        let value = snapshot(place);
        // The last two are read entry by entry, straight from the opcodes.
        for bytes in [pickle(&value), pickle_as(&value, 2, false), pickle_as(&value, 4, true)] {
            let refused =
                read_file(&file(&folder, &bytes), &ReadOptions::default(), None).unwrap_err();
            let ReadError::InDict { offset, fault } = &refused else { panic!("{refused}") };
            assert_eq!((*offset, fault.place()), (expected(&bytes), Some(place)), "{refused}");
            let end = format!(" (its dict is at byte {offset})");
            assert_eq!(refused.to_string(), format!("{fault}{end}"));
            // Who has no file to read again is told the rest.
            let once = read(bytes.as_slice(), 0, &ReadOptions::default(), None).unwrap_err();
            assert_eq!(once.to_string(), fault.to_string());
        }
    }
}

#[test]
fn a_missing_key_and_what_is_no_dict_are_told_with_the_dict_around() {
    let folder = tempfile::tempdir().unwrap();
    let offset = |bytes: &[u8]| {
        let file = file(&folder, bytes);
        match read_file(&file, &ReadOptions::default(), None).unwrap_err() {
            ReadError::InDict { offset, .. } => Some(offset),
            _ => None,
        }
    };
    // After the two bytes of the protocol.
    let top = pickle(&Py::Dict(vec![("device_traces", Py::List(vec![]))]));
    assert_eq!(offset(&top), Some(2));
    let no_dict = pickle(&Py::Dict(vec![("segments", Py::List(vec![Py::Int(1)]))]));
    assert_eq!(offset(&no_dict), Some(2));
    // A list has no dict around, and a dict in it has its own.
    assert_eq!(offset(&pickle(&Py::List(vec![Py::Int(1)]))), None);
    let bytes = pickle(&Py::List(vec![Py::Dict(vec![("address", Py::Text(MARK))])]));
    assert_eq!(offset(&bytes), Some(expected(&bytes)));
}

/// Many entries are read in one step; what is told is the one at fault, not the first of them.
#[test]
fn a_wrong_number_among_many_entries_is_told_with_the_offset_of_its_dict() {
    use Py::{Dict, Int, List, Text};
    let folder = tempfile::tempdir().unwrap();
    for wrong in [1, 100, 199] {
        let entry = |position| {
            let is_wrong = position == wrong;
            Dict(vec![
                ("action", Text("alloc")),
                ("addr", Int(1 << 40)),
                ("stream", Int(0)),
                ("time_us", Int(1)),
                ("size", Int(if is_wrong { -1 } else { 512 })),
                ("user_metadata", Text(if is_wrong { MARK } else { "" })),
            ])
        };
        let trace = List((0..200).map(entry).collect());
        let value = Dict(vec![("segments", List(vec![])), ("device_traces", List(vec![trace]))]);
        for bytes in [pickle(&value), pickle_as(&value, 2, false), pickle_as(&value, 4, true)] {
            let file = file(&folder, &bytes);
            let refused = read_file(&file, &ReadOptions::default(), None).unwrap_err();
            let ReadError::InDict { offset, fault } = &refused else { panic!("{refused}") };
            let found = (*offset, fault.place());
            assert_eq!(found, (expected(&bytes), Some(at_entry(0, wrong))), "{refused}");
        }
    }
}
