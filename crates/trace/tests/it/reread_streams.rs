//! CSV and Chrome traces of stream traces say all that these say, and what is wrong with one is
//! said by its place.

use proptest::prelude::*;
use trace::convert::rewrite_recording;
use trace::stream_trace::{
    Ending, Item, Operation, OperationKind, Place, Recording, StreamKind, StreamStart, Writer,
};
use trace::{AnyTrace, StreamNumber, chrome, csv};

use crate::stream_trace::{every_kind, items, seeds, write};

const MEMORY: u64 = 1 << 30;

fn load(bytes: &[u8]) -> Recording {
    Recording::load(bytes).unwrap()
}

fn as_csv(recording: &Recording) -> Vec<u8> {
    let mut bytes = Vec::new();
    csv::write_recording(recording, &mut bytes, None).unwrap();
    bytes
}

fn as_chrome(recording: &Recording) -> Vec<u8> {
    let mut bytes = Vec::new();
    chrome::write_recording(recording, None, &mut bytes, None).unwrap();
    bytes
}

fn recording(trace: AnyTrace) -> Recording {
    match trace {
        AnyTrace::Recording(recording) => recording,
        AnyTrace::Snapshot(_) => panic!("a stream trace was written"),
    }
}

fn from_csv(bytes: &[u8]) -> Result<Recording, String> {
    csv::read(bytes, MEMORY).map(recording).map_err(|error| error.to_string())
}

fn from_chrome(bytes: &[u8]) -> Result<Recording, String> {
    chrome::read(bytes, MEMORY).map(recording).map_err(|error| error.to_string())
}

/// Every entry with the texts and places that its numbers stand for.
fn told(recording: &Recording) -> Vec<(u64, String)> {
    let place = |number: usize| -> &Place { &recording.places[number] };
    let text = |number: usize| -> &String { &recording.texts[number] };
    let resolved = |item: &Item| {
        let written = format!("{item:?}");
        let written = resolve(&written, "PlaceNumber(", |it| format!("{:?}", place(it)));
        resolve(&written, "TextNumber(", |it| format!("{:?}", text(it)))
    };
    recording.entries.iter().map(|entry| (entry.host_ns, resolved(&entry.item))).collect()
}

fn resolve(written: &str, mark: &str, stands_for: impl Fn(usize) -> String) -> String {
    let mut parts = written.split(mark);
    let mut resolved = parts.next().unwrap().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(')').unwrap();
        resolved += &stands_for(number.parse().unwrap());
        resolved += rest;
    }
    resolved
}

fn assert_same(back: &Recording, original: &Recording) {
    let (found, expected) = (told(back), told(original));
    for (position, (one, other)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(one, other, "entry {position}");
    }
    assert_eq!(found.len(), expected.len());
    assert_eq!(back.streams.len(), original.streams.len());
    assert_eq!((back.unix_ns, back.unknown_count), (original.unix_ns, 0));
    assert_eq!(back.is_complete(), original.is_complete());
}

proptest! {
    #[test]
    fn a_stream_trace_comes_back_from_csv_and_from_a_chrome_trace(seeds in seeds()) {
        let original = load(&write(&items(&seeds)));
        assert_same(&from_csv(&as_csv(&original)).unwrap(), &original);
        assert_same(&from_chrome(&as_chrome(&original)).unwrap(), &original);
    }

    #[test]
    fn changed_bytes_are_an_error_or_another_trace(
        seeds in seeds(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let original = load(&write(&items(&seeds)));
        for (is_csv, mut bytes) in [(true, as_csv(&original)), (false, as_chrome(&original))] {
            for (place, value) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *value;
            }
            let _ = if is_csv { from_csv(&bytes) } else { from_chrome(&bytes) };
        }
    }
}

/// Texts that CSV, JSON, and the words of a detail must not take apart.
fn odd() -> Vec<u8> {
    let texts = ["a, \"b\"\r\nc", "", " x=1 maker=program", "0x7", "\u{2028}\t\\", "end\n"];
    let mut writer = Writer::new(Vec::new(), u64::MAX).unwrap();
    for (number, text) in texts.iter().enumerate() {
        let place = writer.place(&format!("C:\\{text}:7"), 7, 70).unwrap();
        let start = StreamStart {
            id: 5,
            kind: StreamKind::Borrowed,
            priority: i32::MIN,
            place: Some(place),
        };
        writer.put(7, &Item::Stream(start)).unwrap();
        let stream = StreamNumber(u32::try_from(number).unwrap());
        let name = Some(writer.text(text).unwrap());
        let (kind, is_captured) = (OperationKind::Launch, true);
        let (place, touches) = (None, vec![]);
        let operation = Operation { stream, kind, is_captured, name, place, touches };
        writer.put(u64::MAX, &Item::Operation(operation)).unwrap();
        let (name, value) = ((*text).to_owned(), (*text).to_owned());
        writer.put(u64::MAX, &Item::Figure { name: name.clone(), value: u64::MAX }).unwrap();
        writer.put(u64::MAX, &Item::Setting { name, value }).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn every_kind_of_entry_and_odd_texts_come_back() {
    for bytes in [write(&every_kind()), odd(), Writer::new(vec![], 0).unwrap().finish().unwrap()] {
        let original = load(&bytes);
        let (table, json) = (as_csv(&original), as_chrome(&original));
        assert_same(&from_csv(&table).unwrap(), &original);
        assert_same(&from_chrome(&json).unwrap(), &original);
        assert_eq!(as_csv(&from_chrome(&json).unwrap()), table);
    }
}

/// Was: writing a trace that was cut once more gave it an end, as if nothing were missing.
#[test]
fn a_trace_that_was_cut_stays_cut() {
    let whole = write(&every_kind());
    let cut = load(&whole[..whole.len() - 1]);
    assert!(!cut.is_complete());
    let (bytes, _) = rewrite_recording(&cut, Vec::new()).unwrap();
    for back in
        [load(&bytes), from_csv(&as_csv(&cut)).unwrap(), from_chrome(&as_chrome(&cut)).unwrap()]
    {
        assert_same(&back, &cut);
    }
}

#[test]
fn csv_that_was_cut_at_any_byte_is_read_up_to_its_last_whole_line() {
    let every = (load(&write(&every_kind())), 41);
    for (original, step) in [every, (load(&odd()), 5), (small(), 1)] {
        let (bytes, expected) = (as_csv(&original), told(&original));
        let head = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        for length in (head..bytes.len() - 1).step_by(step) {
            let back = match from_csv(&bytes[..length]) {
                Ok(back) => back,
                Err(error) => panic!("cut at {length}: {error}"),
            };
            let found = told(&back);
            assert!(found == expected[..found.len()], "cut at {length}");
            match back.ending {
                Ending::Cut { read_bytes, total_bytes } => {
                    assert_eq!(total_bytes, u64::try_from(length).unwrap());
                    let read = &bytes[..usize::try_from(read_bytes).unwrap()];
                    assert!(told(&from_csv(read).unwrap()) == found, "cut at {length}");
                }
                Ending::Complete => assert_eq!(found.len(), expected.len(), "cut at {length}"),
            }
        }
        for length in 1..head {
            let refused = from_csv(&bytes[..length]).unwrap_err();
            assert!(refused.contains("line 1 must be"), "{refused}");
        }
    }
}

#[test]
fn a_chrome_trace_that_was_cut_is_refused_by_line_and_column() {
    let bytes = as_chrome(&load(&write(&every_kind())));
    let begin = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    for length in (begin..bytes.len() - 2).step_by(13) {
        let refused = from_chrome(&bytes[..length]).unwrap_err();
        assert!(refused.contains(" at line ") && refused.contains(" column "), "{refused}");
    }
}

fn with(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    text.replacen(from, to, 1).into_bytes()
}

/// Two streams, a block that both use, and a record that is waited for.
fn small() -> Recording {
    use trace::BlockNumber;
    use trace::stream_trace::{EventId, Maker, RecordNumber, ServedBy, UseKind};
    let mut writer = Writer::new(Vec::new(), 2_000).unwrap();
    let place = Some(writer.place("src/main.rs", 12, 5).unwrap());
    for id in [0x11, 0x22] {
        let start = StreamStart { id, kind: StreamKind::Owned, priority: -1, place };
        writer.put(1, &Item::Stream(start)).unwrap();
    }
    let (home, side, block) = (StreamNumber(0), StreamNumber(1), BlockNumber(0));
    let (requested_bytes, bytes, address) = (700, 1024, 0x7f00);
    let served_by = ServedBy::Growth;
    let maker = Maker::Program;
    for item in [
        Item::Allocate { stream: home, requested_bytes, bytes, address, served_by, place },
        Item::Use { block, stream: side, kind: UseKind::UntilNow, place: None },
        Item::Record { stream: side, event: EventId(9), maker, place },
        Item::Wait { stream: home, record: Some(RecordNumber(0)), maker, place },
        Item::Free { block, place },
    ] {
        writer.put(1_500, &item).unwrap();
    }
    load(&writer.finish().unwrap())
}

#[test]
fn csv_of_a_stream_trace_reads_as_documented() {
    let text = String::from_utf8(as_csv(&small())).unwrap();
    let lines = [
        "index,time_us,device,action,address,bytes,stream,owner,detail,name,stream_number,block",
        "0,2.000,0,trace_begin,,,,,version=1,,,",
        "1,2.001,0,stream,,,0x11,src/main.rs:12:5,kind=owned priority=-1,,0,",
        "2,2.001,0,stream,,,0x22,src/main.rs:12:5,kind=owned priority=-1,,1,",
        "3,3.500,0,alloc,0x7f00,700,0x11,src/main.rs:12:5,given=1024 served_by=growth,,0,0",
        "4,3.500,0,use,0x7f00,700,0x22,,kind=until_now,,1,0",
        "5,3.500,0,record,,,0x22,src/main.rs:12:5,record=0 event=0x9 maker=program,,1,",
        "6,3.500,0,wait,,,0x11,src/main.rs:12:5,record=0 maker=program,,0,",
        "7,3.500,0,free,0x7f00,700,0x11,src/main.rs:12:5,,,0,0",
        "8,3.500,0,trace_end,,,,,,,,",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn what_is_wrong_with_csv_of_a_stream_trace_is_said_by_line_and_column() {
    let bytes = as_csv(&small());
    for (from, to, part) in [
        ("trace_begin", "trace_began", "line 2, column `action`: `trace_began`"),
        ("version=1", "version=2", "line 2, column `detail`: `version=2`"),
        ("0,2.000", "0,2.0001", "line 2, column `time_us`: `2.0001`"),
        ("3,3.500", "3,0.500", "line 5, column `time_us`: `0.500` is not a time within"),
        ("4,3.500", "4,3.400", "line 6: an entry 1400 ns after the beginning is earlier"),
        ("kind=owned", "kind=lent", "line 3, column `detail`: `lent` is not a kind of stream"),
        ("priority=-1", "prio=-1", "line 3, column `detail`: the key `priority` is missing"),
        (",,1,\n", ",,2,\n", "line 4, column `stream_number`: 2 where 1 is next"),
        ("0x7f00,700", "0x7g00,700", "line 5, column `address`: `0x7g00` is not"),
        ("given=1024", "given=-4", "line 5, column `detail`: `-4` is not a number"),
        ("growth,,0,0", "growth,,0,1", "line 5, column `block`: 1 where 0 is next"),
        ("until_now,,1,0", "until_now,,7,0", "line 6: stream 7 was not declared: there are 2"),
        ("until_now,,1,0", "until_now,,1,7", "line 6: block 7 was not declared: there are 1"),
        ("until_now,,1,0", "until_now,,1,0,", "line 6 has 13 columns, not 12"),
        ("record=0 event", "record=4 event", "line 7, column `detail`: 4 where 0 is next"),
        ("src/main.rs:12:5,record=0 maker", "src/main.rs,record=0 maker", "line 8, column `owner`"),
        ("record=0 maker", "record=1 maker", "line 8: record 1 was not declared: there are 1"),
        (",free,", ",freed,", "line 9, column `action`: `freed` is not a known action"),
        ("trace_end,,,,,,,,\n", "trace_end,,,,,,,,\n9,3.500,0,free,,,,,,,0,0\n", "behind the end"),
    ] {
        let refused = from_csv(&with(&bytes, from, to)).unwrap_err();
        assert!(refused.contains(part), "{from} as {to}: {refused}");
    }
}

#[test]
fn what_is_wrong_with_a_chrome_trace_of_a_stream_trace_is_said_by_line_column_and_key() {
    let bytes = as_chrome(&small());
    for (from, to, part) in [
        ("\"entries\":[", "\"entrees\":[", "the key `entries` is missing at line"),
        ("\"places\":[", "\"plaices\":[", "the key `entries` comes too early at line"),
        // Was: each key that was there again took memory that nobody counted.
        ("\"unix_ns\":", "\"unix_ns\":5,\"unix_ns\":", "the key `unix_ns` is there twice at line"),
        ("\"complete\":true", "\"complete\":1", "invalid type: integer `1`, expected a boolean"),
        ("\"requested_bytes\":700", "\"bytes\":700", "duplicate field `bytes` at line"),
        ("\"requested_bytes\":700,", "", "missing field `requested_bytes` at line"),
        ("\"growth\"", "\"grown\"", "unknown variant `grown`, expected one of `unknown`, "),
        (
            "{\"free\":{\"block\":0",
            "{\"free\":{\"block\":3",
            "entries[6]: block 3 was not declared: there are 1",
        ),
        (
            "[1500,{\"wait\"",
            "[1499,{\"wait\"",
            "entries[5]: an entry 1499 ns after the beginning is",
        ),
        ("stream trace 2", "stream trace 1", "of another version: `stream trace 1`"),
    ] {
        let refused = from_chrome(&with(&bytes, from, to)).unwrap_err();
        assert!(refused.contains(part), "{from} as {to}: {refused}");
    }
}

#[test]
fn memory_for_a_stream_trace_is_bounded_whatever_a_file_says() {
    let original = load(&write(&every_kind()));
    let few = csv::read(as_csv(&original).as_slice(), 3_000).unwrap_err().to_string();
    assert!(few.contains("more than 3000 bytes of memory at line"), "{few}");
    let few = chrome::read(as_chrome(&original).as_slice(), 3_000).unwrap_err().to_string();
    assert!(few.contains("more than 3000 bytes of memory at line"), "{few}");
}

/// What a stream trace cannot hold would be found only when one is written of it.
#[test]
fn an_entry_that_no_stream_trace_could_hold_is_refused() {
    let bytes = as_csv(&small());
    let long = format!("3,2.001,0,setting,,,,,{},name,,\n3,3.500,0,alloc", "x".repeat(1 << 20));
    let refused = from_csv(&with(&bytes, "3,3.500,0,alloc", &long)).unwrap_err();
    assert!(refused.contains("is longer than 1048576"), "{refused}");
    let stream = StreamNumber(0);
    let start = StreamStart { id: 1, kind: StreamKind::Owned, priority: 0, place: None };
    let (kind, is_captured, touches) = (OperationKind::Copy, false, vec![]);
    let operation = Operation { stream, kind, is_captured, name: None, place: None, touches };
    let mut writer = Writer::new(Vec::new(), 0).unwrap();
    writer.put(0, &Item::Stream(start)).unwrap();
    writer.put(0, &Item::Operation(operation)).unwrap();
    let bytes = as_chrome(&load(&writer.finish().unwrap()));
    let touch = "{\"block\":null,\"offset\":0,\"bytes\":0,\"access\":\"read\"}";
    let many = |count: usize| format!("\"touches\":[{}]", vec![touch; count].join(","));
    let taken = from_chrome(&with(&bytes, "\"touches\":[]", &many(100_000))).unwrap();
    assert_eq!(taken.entries.len(), 2);
    let refused = from_chrome(&with(&bytes, "\"touches\":[]", &many(262_145))).unwrap_err();
    assert!(refused.contains("expected a list of at most 262144 touches"), "{refused}");
}

/// Was: each place was counted as 4 KiB, and kept a copy of a file's name of up to 1 MiB.
#[test]
fn a_place_counts_with_the_name_that_it_keeps() {
    let file = "x".repeat(1_000_000);
    let mut writer = Writer::new(Vec::new(), 0).unwrap();
    writer.put(0, &Item::Text { text: file }).unwrap();
    for line in 0..100 {
        let file = trace::stream_trace::TextNumber(0);
        writer.put(0, &Item::Place { file, line, column: 1 }).unwrap();
    }
    let bytes = writer.finish().unwrap();
    assert!(bytes.len() < 1_100_000);
    let refused = Recording::load_within(bytes.as_slice(), 50_000_000).unwrap_err().to_string();
    assert!(refused.contains("more than 50000000 bytes of memory at byte"), "{refused}");
    assert_eq!(Recording::load_within(bytes.as_slice(), 150_000_000).unwrap().places.len(), 100);
}
