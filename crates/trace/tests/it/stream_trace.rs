//! Our own trace format: what is written comes back, cut files are read up to the cut, and no
//! bytes, however wrong, do more than give one error.

use proptest::prelude::*;
use trace::stream_trace::{
    Access, Ending, EventId, FormatError, Item, MAGIC, Maker, Operation, OperationKind,
    OperationNumber, PlaceNumber, Problem, Reader, RecordNumber, Recording, ServedBy, StreamKind,
    StreamStart, Subject, TEXT_BYTES_MAX, TextNumber, Touch, UseKind, Writer,
};
use trace::{BlockNumber, StreamNumber};

/// Makes items that name only what was declared, from numbers that mean nothing.
struct Inventor {
    counts: [u32; 6],
}

const TEXTS: usize = 0;
const PLACES: usize = 1;
const STREAMS: usize = 2;
const BLOCKS: usize = 3;
const OPERATIONS: usize = 4;
const RECORDS: usize = 5;

impl Inventor {
    /// One of those declared of a kind; none if there is none.
    fn one(&self, kind: usize, of: u64) -> Option<u32> {
        let count = u64::from(self.counts[kind]);
        (0 < count).then(|| u32::try_from(of % count).unwrap())
    }

    fn place(&self, of: u64) -> Option<PlaceNumber> {
        if of.is_multiple_of(3) { None } else { self.one(PLACES, of / 3).map(PlaceNumber) }
    }

    fn subject(&self, of: u64) -> Option<Subject> {
        Some(match of % 4 {
            0 => Subject::Record(RecordNumber(self.one(RECORDS, of / 4)?)),
            1 => Subject::Stream(StreamNumber(self.one(STREAMS, of / 4)?)),
            2 => Subject::Context,
            _ => Subject::Everything,
        })
    }

    fn operation(&self, [a, b, c, d]: [u64; 4]) -> Option<Operation> {
        let kinds = [
            OperationKind::Launch,
            OperationKind::Copy,
            OperationKind::Fill,
            OperationKind::HostFunction,
            OperationKind::GraphLaunch,
            OperationKind::Unknown,
        ];
        let access = [Access::Read, Access::Write, Access::ReadWrite];
        let touches = (0..a % 5).map(|number| Touch {
            block: self
                .one(BLOCKS, b ^ number)
                .filter(|_| !number.is_multiple_of(2))
                .map(BlockNumber),
            offset: c.rotate_left(u32::try_from(number).unwrap()),
            bytes: d,
            access: access[usize::try_from((a ^ number) % 3).unwrap()],
        });
        Some(Operation {
            stream: StreamNumber(self.one(STREAMS, a)?),
            kind: kinds[usize::try_from(b % 6).unwrap()],
            is_captured: c.is_multiple_of(2),
            name: self.one(TEXTS, d).map(TextNumber),
            place: self.place(c),
            touches: touches.collect(),
        })
    }

    fn program_item(&self, kind: u8, numbers: [u64; 4]) -> Option<Item> {
        let [a, b, c, d] = numbers;
        let stream = self.one(STREAMS, a).map(StreamNumber);
        let maker = if a.is_multiple_of(2) { Maker::Program } else { Maker::Library };
        let place = self.place(d);
        Some(match kind {
            0 => Item::Text { text: format!("text \u{e9} {a:x}") },
            1 => Item::Place { file: TextNumber(self.one(TEXTS, a)?), line: 7, column: u32::MAX },
            2 => Item::Setting { name: format!("{b}"), value: String::new() },
            3 => Item::Stream(StreamStart {
                id: a,
                kind: [
                    StreamKind::Owned,
                    StreamKind::Borrowed,
                    StreamKind::Legacy,
                    StreamKind::PerThread,
                ][usize::try_from(b % 4).unwrap()],
                priority: i32::try_from(c % 100).unwrap() - 50,
                place,
            }),
            4 => Item::StreamEnd { stream: stream?, place },
            5 | 6 => Item::Operation(self.operation(numbers)?),
            7 => Item::DeviceTime {
                operation: OperationNumber(self.one(OPERATIONS, a)?),
                start_ns: b.is_multiple_of(2).then_some(c.min(d)),
                end_ns: c.max(d),
            },
            8 => Item::Record { stream: stream?, event: EventId(b), maker, place },
            9 => Item::Wait {
                stream: stream?,
                record: self.one(RECORDS, c).filter(|_| !d.is_multiple_of(5)).map(RecordNumber),
                maker,
                place,
            },
            _ => return self.memory_item(kind, numbers),
        })
    }

    fn memory_item(&self, kind: u8, numbers: [u64; 4]) -> Option<Item> {
        let [a, b, c, d] = numbers;
        let stream = self.one(STREAMS, a).map(StreamNumber);
        let block = self.one(BLOCKS, b).map(BlockNumber);
        let maker = if a.is_multiple_of(2) { Maker::Program } else { Maker::Library };
        let place = self.place(d);
        Some(match kind {
            10 => Item::Synchronize { subject: self.subject(a)?, blocked_ns: b, maker, place },
            11 => Item::Passed { subject: self.subject(a)?, maker, place },
            12 | 13 => Item::Allocate {
                stream: stream?,
                requested_bytes: b,
                bytes: c,
                address: d,
                served_by: [
                    ServedBy::Unknown,
                    ServedBy::OwnStream,
                    ServedBy::KnownOrder,
                    ServedBy::Completion,
                    ServedBy::DeviceWait,
                    ServedBy::Growth,
                    ServedBy::Ladder,
                ][usize::try_from(a % 7).unwrap()],
                place,
            },
            14 => Item::Use {
                block: block?,
                stream: stream?,
                kind: [UseKind::UntilFree, UseKind::UntilNow, UseKind::ByOperation]
                    [usize::try_from(c % 3).unwrap()],
                place,
            },
            15 => Item::UseEnd { block: block?, stream: stream?, place },
            16 => Item::Hold { block: block?, place },
            17 => Item::HoldEnd { block: block? },
            18 => Item::Free { block: block?, place },
            19 => match a % 3 {
                0 => Item::Segment { address: b, bytes: c, opened: d.is_multiple_of(2) },
                1 => Item::OutOfMemory { stream: stream?, requested_bytes: b, place },
                _ => Item::Capture { stream: stream?, begins: b.is_multiple_of(2), place },
            },
            20 => Item::Move { block: block?, stream: stream?, place },
            _ => Item::Figure { name: "peak".into(), value: a },
        })
    }

    fn count(&mut self, item: &Item) {
        let kind = match item {
            Item::Text { .. } => TEXTS,
            Item::Place { .. } => PLACES,
            Item::Stream(_) => STREAMS,
            Item::Allocate { .. } => BLOCKS,
            Item::Operation(_) => OPERATIONS,
            Item::Record { .. } => RECORDS,
            _ => return,
        };
        self.counts[kind] += 1;
    }
}

/// A valid sequence of items with their times.
pub(crate) fn items(seeds: &[(u8, [u64; 4])]) -> Vec<(u64, Item)> {
    let mut maker = Inventor { counts: [0; 6] };
    let mut now = 0;
    let mut list = Vec::new();
    for &(kind, numbers) in seeds {
        let Some(item) = maker.program_item(kind % 22, numbers) else { continue };
        maker.count(&item);
        now += numbers[0] % 1_000_000;
        list.push((now, item));
    }
    list
}

pub(crate) fn write(items: &[(u64, Item)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), 1_700_000_000).unwrap();
    for (host_ns, item) in items {
        writer.put(*host_ns, item).unwrap();
    }
    writer.finish().unwrap()
}

/// Everything that can be read, and how it ended.
fn read(bytes: &[u8]) -> (Vec<(u64, Item)>, Result<Ending, FormatError>) {
    let mut list = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (list, Err(error)),
    };
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) => list.push((entry.host_ns, entry.item)),
            Ok(None) => return (list, Ok(reader.ending().unwrap())),
            Err(error) => return (list, Err(error)),
        }
    }
}

/// Seeds that lead to every kind of item, in a fixed order.
pub(crate) fn every_kind() -> Vec<(u64, Item)> {
    let mut seeds = Vec::new();
    let mut word = 1_u64;
    for round in 0..6 {
        for kind in 0..22 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(kind + round);
            // The kinds that share a number come one after the other.
            let first = if kind == 19 { round } else { word };
            let numbers = [first, word >> 7, word.rotate_left(30), word >> 50];
            seeds.push((u8::try_from(kind).unwrap(), numbers));
        }
    }
    items(&seeds)
}

pub(crate) fn seeds() -> impl Strategy<Value = Vec<(u8, [u64; 4])>> {
    let number = prop_oneof![0..100_u64, any::<u64>(), Just(u64::MAX)];
    prop::collection::vec((any::<u8>(), prop::array::uniform4(number)), 0..120)
}

proptest! {
    #[test]
    fn what_is_written_comes_back(seeds in seeds()) {
        let written = items(&seeds);
        let (found, ending) = read(&write(&written));
        prop_assert_eq!(found, written);
        prop_assert_eq!(ending.unwrap(), Ending::Complete);
    }

    #[test]
    fn changed_bytes_give_an_error_or_other_entries(
        seeds in seeds(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = write(&items(&seeds));
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let (found, _) = read(&bytes);
        prop_assert!(found.len() <= bytes.len());
        let _ = Recording::load(bytes.as_slice());
    }

    #[test]
    fn random_bytes_behind_the_first_are_survived(
        rest in prop::collection::vec(any::<u8>(), 0..400)
    ) {
        let bytes = [&MAGIC[..], &[1, 0], &rest].concat();
        let _ = read(&bytes);
    }
}

#[test]
fn every_kind_of_entry_is_among_those_tested() {
    let list = every_kind();
    let tags: std::collections::HashSet<_> =
        list.iter().map(|(_, item)| std::mem::discriminant(item)).collect();
    assert_eq!(tags.len(), 22, "one for each kind but the end");
}

#[test]
fn a_file_cut_at_any_byte_is_read_up_to_the_cut() {
    let list = every_kind();
    let whole = write(&list);
    let mut ends = vec![];
    let mut reader = Reader::new(whole.as_slice()).unwrap();
    let head = u64::try_from(MAGIC.len() + 1 + 5).unwrap();
    while let Some(entry) = reader.next_entry().unwrap() {
        ends.push(entry.offset);
    }
    match read(&whole[..whole.len() - 1]).1.unwrap() {
        Ending::Cut { read_bytes, .. } => ends.push(read_bytes),
        Ending::Complete => panic!("it has no end any more"),
    }
    assert!(matches!(read(&[]).1.unwrap_err(), FormatError::Empty));
    for length in 1..whole.len() {
        let (found, ending) = read(&whole[..length]);
        let length = u64::try_from(length).unwrap();
        // Entry n is whole when the next one's offset is within what is there.
        let count = ends.iter().skip(1).filter(|end| **end <= length).count();
        assert_eq!(found.as_slice(), &list[..count], "cut at {length}");
        let Ending::Cut { read_bytes, total_bytes } = ending.unwrap() else {
            panic!("{length}: complete")
        };
        assert_eq!(total_bytes, length);
        let expected = if length < head { 0 } else { ends[count] };
        assert_eq!(read_bytes, expected, "cut at {length}");
    }
}

#[test]
fn each_flipped_bit_of_a_small_file_is_survived() {
    let whole = write(&every_kind());
    let mut refused = 0;
    for place in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[place] ^= 1 << bit;
            let (_, ending) = read(&bytes);
            refused += u32::from(!matches!(ending, Ok(Ending::Complete)));
        }
    }
    assert!(0 < refused);
}

#[test]
fn what_is_no_trace_is_told_by_its_first_wrong_byte() {
    for (bytes, offset) in [(&b"hello"[..], 0), (b"\x89WST\n", 4), (b"\x89WSt", 3)] {
        match read(bytes).1.unwrap_err() {
            FormatError::Foreign { offset: found, .. } => assert_eq!(found, offset),
            other => panic!("{other}"),
        }
    }
    let newer = [&MAGIC[..], &[2, 0]].concat();
    assert!(matches!(read(&newer).1.unwrap_err(), FormatError::Newer { version: 2, known: 1 }));
}

#[test]
fn what_was_not_declared_is_refused_with_its_offset() {
    // An entry of three bytes: the end of a stream 0 that nobody declared.
    let bytes = [&MAGIC[..], &[1, 0, 4, 5, 0, 0, 0]].concat();
    match read(&bytes).1.unwrap_err() {
        FormatError::Malformed { problem, entry, offset } => {
            let expected = Problem::NotDeclared { what: "stream", number: 0, count: 0 };
            assert_eq!((problem, entry, offset), (expected, 0, 10));
        }
        other => panic!("{other}"),
    }
    let mut writer = Writer::new(Vec::new(), 0).unwrap();
    let undeclared = Item::HoldEnd { block: BlockNumber(0) };
    assert!(writer.put(0, &undeclared).is_err());
    assert!(writer.put(0, &Item::Text { text: "goes on".into() }).is_ok());
}

#[test]
fn a_lie_about_a_length_costs_nothing() {
    let head = [&MAGIC[..], &[1, 0]].concat();
    // An entry of nearly 1 MiB of which nothing is there is a cut; a longer one is refused.
    let almost = [&head[..], &[0xff, 0xff, 0x3f]].concat();
    assert!(matches!(read(&almost).1, Ok(Ending::Cut { read_bytes: 10, total_bytes: 13 })));
    let longer = [&head[..], &[0x81, 0x80, 0x40]].concat();
    assert!(matches!(read(&longer).1, Err(FormatError::Malformed { offset: 10, .. })));
    // A stream, and a launch there that claims 2^63 touches.
    let stream = [6, 4, 0, 0, 0, 0, 0];
    let launch = [17, 6, 0, 0, 0, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1];
    match read(&[&head[..], &stream, &launch].concat()).1.unwrap_err() {
        FormatError::Malformed { problem, entry: 1, offset: 17 } => {
            assert_eq!(problem, Problem::EndsWithin { bytes: 17 });
        }
        other => panic!("{other}"),
    }
}

#[test]
fn kinds_and_fields_of_later_versions_are_passed_over() {
    let head = [&MAGIC[..], &[1, 0]].concat();
    // An unknown kind 99, then a text "a" with a field behind it, then the end of two entries.
    let bytes = [&head[..], &[3, 99, 0, 7], &[6, 1, 4, 1, b'a', 9, 9], &[3, 0, 0, 2]].concat();
    let (found, ending) = read(&bytes);
    assert_eq!(found, [(4, Item::Text { text: "a".into() })]);
    assert_eq!(ending.unwrap(), Ending::Complete);
    let recording = Recording::load(bytes.as_slice()).unwrap();
    assert_eq!(recording.unknown_count, 1);
    // An end that counts otherwise, or that is not the end, is refused.
    let wrong = [&head[..], &[3, 0, 0, 1]].concat();
    assert!(matches!(read(&wrong).1, Err(FormatError::Malformed { .. })));
    let behind = [&head[..], &[3, 0, 0, 0], &[0]].concat();
    assert!(matches!(read(&behind).1, Err(FormatError::Malformed { .. })));
}

#[test]
fn texts_and_places_are_declared_once_and_long_texts_are_cut() {
    let mut writer = Writer::new(Vec::new(), 0).unwrap();
    let first = writer.place("src/main.rs", 1, 2).unwrap();
    assert_eq!(writer.place("src/main.rs", 1, 2).unwrap(), first);
    assert_ne!(writer.place("src/main.rs", 2, 2).unwrap(), first);
    let long = "é".repeat(TEXT_BYTES_MAX);
    let number = writer.text(&long).unwrap();
    let bytes = writer.finish().unwrap();
    let recording = Recording::load(bytes.as_slice()).unwrap();
    assert_eq!(recording.places.len(), 2);
    assert_eq!(recording.place(first).unwrap().to_string(), "src/main.rs:1");
    assert_eq!(recording.text(number).unwrap().len(), TEXT_BYTES_MAX);
}

#[test]
fn a_full_disk_is_told_by_every_call_from_then_on() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = Writer::new(Full, 0).unwrap();
    let item = Item::Figure { name: "n".repeat(100), value: 1 };
    let first = (0..100_000).find_map(|_| writer.put(0, &item).err()).expect("64 KiB are full");
    assert_eq!(first.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(writer.put(0, &item).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert!(writer.finish().is_err());
}

#[test]
fn the_example_of_the_format_page_is_what_it_says() {
    let page = include_str!("../../../../docs/trace-format.md");
    let example = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let words = example
        .lines()
        .flat_map(|line| line.split("   ").next().unwrap_or_default().split_whitespace());
    let bytes: Vec<u8> = words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect();
    let (found, ending) = read(&bytes);
    assert_eq!(ending.unwrap(), Ending::Complete);
    let kilobyte = 1024;
    assert_eq!(
        found,
        [
            (
                0,
                Item::Stream(StreamStart {
                    id: 7,
                    kind: StreamKind::Owned,
                    priority: 0,
                    place: None,
                })
            ),
            (
                10,
                Item::Allocate {
                    stream: StreamNumber(0),
                    requested_bytes: kilobyte,
                    bytes: kilobyte,
                    address: 0,
                    served_by: ServedBy::Growth,
                    place: None,
                }
            ),
            (15, Item::Free { block: BlockNumber(0), place: None }),
        ]
    );
}

#[test]
fn a_compressed_trace_is_read_and_so_is_one_that_was_cut() {
    use std::io::Write as _;
    use trace::pytorch::{ReadOptions, read_file};
    use trace::{AnyTrace, read_any};

    let list: Vec<_> = (0..20).flat_map(|_| every_kind().into_iter().take(1)).collect();
    let plain = write(&list);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let packed = gzip.finish().unwrap();
    let path = std::env::temp_dir().join(format!("stream-trace-{}.wst", std::process::id()));
    let load = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        match read_any(&path, &ReadOptions::default(), None) {
            Ok(AnyTrace::Recording(recording)) => recording,
            other => panic!("{other:?}"),
        }
    };
    for whole in [&plain, &packed] {
        let recording = load(whole);
        assert!(recording.is_complete());
        assert_eq!(recording.texts.len(), 20);
    }
    assert!(!load(&plain[..plain.len() - 7]).is_complete());
    assert!(!load(&packed[..packed.len() - 9]).is_complete());
    std::fs::write(&path, &plain).unwrap();
    let refusal = read_file(&path, &ReadOptions::default(), None).unwrap_err();
    assert!(refusal.to_string().contains("it is a stream trace"), "{refusal}");
    std::fs::remove_file(&path).unwrap();
}
