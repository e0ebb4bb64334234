//! Advice on recordings made by hand, of which the right answer is known by arithmetic.

use proptest::prelude::*;
use replay::advise::{Advice, LagUnit, Verdict, advise, advise_snapshot};
use trace::pytorch::{ReadOptions, read_file};
use trace::stream_trace::{
    Access, EventId, Item, Maker, Operation, OperationKind, OperationNumber, PlaceNumber,
    RecordNumber, Recording, ServedBy, StreamKind, StreamStart, Subject, Touch, UseKind, Writer,
};
use trace::{BlockNumber, StreamNumber};

const BLOCK_BYTES: u64 = 1 << 20;
const HOST_NS: u64 = 1_000;
const US: u64 = 1_000;

/// How the program makes its early frees safe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It says who uses the block, and frees it at once.
    RecordStream,
    /// It keeps so many blocks, waits for the oldest one's uses and frees it.
    WaitLater(usize),
}

/// Writes a recording while it works out when the device does what.
struct Machine {
    writer: Writer<Vec<u8>>,
    host_ns: u64,
    over_ns: [u64; 3],
    /// When each record passes.
    passes_ns: Vec<u64>,
    ends: Vec<(OperationNumber, u64)>,
    places: Vec<PlaceNumber>,
    with_times: bool,
}

impl Machine {
    fn new() -> Self {
        let mut writer = Writer::new(Vec::new(), 0).unwrap();
        let places: Vec<_> =
            (1..=9).map(|line| writer.place("src/loop.rs", line, 1).unwrap()).collect();
        for id in 0..3 {
            let place = Some(places[8]);
            let start = StreamStart { id, kind: StreamKind::Owned, priority: 0, place };
            writer.put(0, &Item::Stream(start)).unwrap();
        }
        Self {
            writer,
            host_ns: 0,
            over_ns: [0; 3],
            passes_ns: Vec::new(),
            ends: Vec::new(),
            places,
            with_times: true,
        }
    }

    fn put(&mut self, item: &Item) {
        self.host_ns += HOST_NS;
        self.writer.put(self.host_ns, item).unwrap();
    }

    fn place(&self, line: usize) -> Option<PlaceNumber> {
        Some(self.places[line - 1])
    }

    fn operate(&mut self, stream: usize, takes_ns: u64, block: BlockNumber, line: usize) {
        let number = self.writer.next_operation();
        let access = if stream == 0 { Access::Write } else { Access::Read };
        let touch = Touch { block: Some(block), offset: 0, bytes: BLOCK_BYTES, access };
        let operation = Operation {
            stream: StreamNumber(u32::try_from(stream).unwrap()),
            kind: OperationKind::Launch,
            is_captured: false,
            name: None,
            place: self.place(line),
            touches: vec![touch],
        };
        self.put(&Item::Operation(operation));
        let end = self.over_ns[stream].max(self.host_ns) + takes_ns;
        self.over_ns[stream] = end;
        self.ends.push((number, end));
    }

    fn record(&mut self, stream: usize) -> RecordNumber {
        let number = self.writer.next_record();
        let stream_number = StreamNumber(u32::try_from(stream).unwrap());
        let event = EventId(u64::from(number.0));
        let maker = Maker::Program;
        self.put(&Item::Record { stream: stream_number, event, maker, place: None });
        self.passes_ns.push(self.over_ns[stream].max(self.host_ns));
        number
    }

    fn wait(&mut self, stream: usize, record: RecordNumber) {
        let stream_number = StreamNumber(u32::try_from(stream).unwrap());
        let (record, maker) = (Some(record), Maker::Program);
        self.put(&Item::Wait { stream: stream_number, record, maker, place: None });
        let passes = self.passes_ns[usize::try_from(record.unwrap().0).unwrap()];
        self.over_ns[stream] = self.over_ns[stream].max(passes);
    }

    fn finish(mut self) -> Recording {
        if self.with_times {
            for (operation, end_ns) in std::mem::take(&mut self.ends) {
                self.put(&Item::DeviceTime { operation, start_ns: None, end_ns });
            }
        }
        let bytes = self.writer.finish().unwrap();
        Recording::load(bytes.as_slice()).unwrap()
    }
}

/// A producer, two consumers: the loop of the project's first page.
fn loop_of(
    steps: usize,
    produce_ns: u64,
    consume_ns: u64,
    way: Way,
    with_times: bool,
) -> Recording {
    let mut machine = Machine::new();
    machine.with_times = with_times;
    let mut kept: std::collections::VecDeque<(BlockNumber, [RecordNumber; 2])> = [].into();
    for _ in 0..steps {
        if let Way::WaitLater(lag) = way
            && lag <= kept.len()
        {
            let (block, over) = kept.pop_front().unwrap();
            for record in over {
                machine.wait(0, record);
            }
            machine.put(&Item::Free { block, place: None });
        }
        let block = machine.writer.next_block();
        let place = machine.place(1);
        machine.put(&Item::Allocate {
            stream: StreamNumber(0),
            requested_bytes: BLOCK_BYTES,
            bytes: BLOCK_BYTES,
            address: u64::from(block.0) * BLOCK_BYTES,
            served_by: ServedBy::Growth,
            place,
        });
        machine.operate(0, produce_ns, block, 2);
        let filled = machine.record(0);
        let over = [1, 2].map(|consumer| {
            machine.wait(consumer, filled);
            machine.operate(consumer, consume_ns, block, 3);
            machine.record(consumer)
        });
        if way == Way::RecordStream {
            for consumer in 1..3 {
                let (stream, kind) = (StreamNumber(consumer), UseKind::UntilFree);
                let place = machine.place(4);
                machine.put(&Item::Use { block, stream, kind, place });
            }
            let place = machine.place(5);
            machine.put(&Item::Free { block, place });
        } else {
            kept.push_back((block, over));
        }
    }
    machine.finish()
}

fn advice_of(steps: usize, produce_ns: u64, consume_ns: u64) -> Advice {
    advise(&loop_of(steps, produce_ns, consume_ns, Way::RecordStream, true), "loop")
}

#[test]
fn a_producer_as_slow_as_its_consumers_is_told_to_wait_two_buffers_later() {
    let advice = advice_of(400, 100 * US, 100 * US);
    assert_eq!(advice.groups.len(), 1, "400 steps are one pattern");
    let group = &advice.groups[0];
    assert_eq!((group.verdict, group.lag), (Verdict::Wait, Some(2)));
    assert_eq!((group.blocks, group.unit), (400, LagUnit::Allocations));
    assert_eq!(group.allocated_at.as_deref(), Some("src/loop.rs:1"));
    assert_eq!(group.freed_at.as_deref(), Some("src/loop.rs:5"));
    assert_eq!(group.wait_before.as_deref(), Some("src/loop.rs:1"));
    let [first, second] = &group.uses[..] else { panic!("{:?}", group.uses) };
    assert_eq!((first.stream, second.stream), (1, 2));
    assert_eq!(first.announced_by, "record_stream");
    assert_eq!(first.announced_at.as_deref(), Some("src/loop.rs:4"));
    assert_eq!(first.last_operation_at.as_deref(), Some("src/loop.rs:3"));
    assert_eq!(first.wait_call, "stream_0.wait_event(&done_1)?;");
    // One step earlier the producer stands still for every consumer: twice as long.
    let [earlier, there, later] = group.around[..] else { panic!("{:?}", group.around) };
    let never = group.never.unwrap();
    assert!(never.time_ns * 19 / 10 < earlier.predicted.time_ns);
    assert!(there.predicted.time_ns <= never.time_ns * 1005 / 1000);
    assert!(later.predicted.time_ns <= there.predicted.time_ns);
    assert_eq!(there.predicted.peak_bytes, 2 * BLOCK_BYTES);
    assert_eq!(later.predicted.peak_bytes, 3 * BLOCK_BYTES);
    // The host runs far ahead, and nearly all blocks are in use at once.
    assert!(350 * BLOCK_BYTES < never.peak_bytes, "{}", never.peak_bytes);
    assert!(900 < group.peak_share_permille);
}

#[test]
fn the_prediction_is_what_the_same_program_does_with_the_waits() {
    for (produce, consume) in [(100, 100), (100, 150), (30, 100), (100, 30), (100, 290)] {
        let advice = advice_of(200, produce * US, consume * US);
        let group = &advice.groups[0];
        assert_eq!(group.verdict, Verdict::Wait, "{produce} : {consume}");
        for tried in &group.around {
            if tried.lag == 0 {
                continue;
            }
            let way = Way::WaitLater(tried.lag);
            let applied = advise(&loop_of(200, produce * US, consume * US, way, true), "applied");
            let found = applied.as_recorded.unwrap();
            let close = |predicted: u64, found: u64| predicted.abs_diff(found) * 100 <= found * 2;
            let told = format!("{produce} : {consume}, {}: {tried:?} {found:?}", tried.lag);
            assert!(close(tried.predicted.time_ns, found.time_ns), "{told}");
            assert_eq!(tried.predicted.peak_bytes, found.peak_bytes, "{told}");
        }
    }
}

#[test]
fn on_paper_the_recorded_run_takes_what_it_took() {
    for (produce, consume) in [(100, 100), (30, 100), (100, 30)] {
        let advice = advice_of(200, produce * US, consume * US);
        let measured = advice.recorded.unwrap().time_ns.unwrap();
        let on_paper = advice.as_recorded.unwrap().time_ns;
        assert!(measured.abs_diff(on_paper) * 1000 <= measured, "{measured} {on_paper}");
    }
}

#[test]
fn blocks_that_other_streams_never_use_need_no_advice() {
    let mut machine = Machine::new();
    for _ in 0..10 {
        let block = machine.writer.next_block();
        machine.put(&Item::Allocate {
            stream: StreamNumber(0),
            requested_bytes: 1,
            bytes: 512,
            address: 0,
            served_by: ServedBy::OwnStream,
            place: None,
        });
        machine.operate(0, US, block, 2);
        machine.put(&Item::Free { block, place: None });
    }
    let advice = advise(&machine.finish(), "one stream");
    assert!(advice.groups.is_empty());
    assert_eq!(advice.as_recorded.unwrap().peak_bytes, 512);
    assert!(advice.to_text().contains("nothing to advise"));
}

#[test]
fn a_single_block_is_waited_for_at_an_operation() {
    let mut machine = Machine::new();
    let block = machine.writer.next_block();
    machine.put(&Item::Allocate {
        stream: StreamNumber(0),
        requested_bytes: 1 << 30,
        bytes: 1 << 30,
        address: 0,
        served_by: ServedBy::Growth,
        place: None,
    });
    machine.operate(0, 10 * US, block, 2);
    let filled = machine.record(0);
    machine.wait(1, filled);
    machine.operate(1, 1_000 * US, block, 3);
    let (stream, kind) = (StreamNumber(1), UseKind::UntilNow);
    machine.put(&Item::Use { block, stream, kind, place: None });
    machine.put(&Item::Free { block, place: None });
    // Twenty further operations of the home stream, each with a block of its own.
    for number in 0..20 {
        let next = machine.writer.next_block();
        machine.put(&Item::Allocate {
            stream: StreamNumber(0),
            requested_bytes: 1 << 28,
            bytes: 1 << 28,
            address: (1 << 40) + number * (1 << 28),
            served_by: ServedBy::Growth,
            place: None,
        });
        machine.operate(0, 200 * US, next, 6);
    }
    let advice = advise(&machine.finish(), "one block");
    let group = &advice.groups[0];
    assert_eq!((group.blocks, group.unit), (1, LagUnit::Operations));
    // 1,010 us of the other stream are 5 operations of 200 us: it is waited for before the sixth.
    assert_eq!((group.verdict, group.lag), (Verdict::Wait, Some(6)), "{group:?}");
    assert_eq!(group.wait_before.as_deref(), Some("src/loop.rs:6"));
    assert_eq!(group.around[0].lag, 5);
    assert_eq!(group.uses[0].announced_by, "record_use");
    assert!(group.around[0].predicted.time_ns > group.around[1].predicted.time_ns);
}

#[test]
fn without_device_times_it_says_so() {
    let advice = advise(&loop_of(20, US, US, Way::RecordStream, false), "untimed");
    assert_eq!(advice.groups[0].verdict, Verdict::NoTimes);
    assert!(advice.advised.is_none());
    assert!(advice.notes[0].contains("record with device times"), "{:?}", advice.notes);
}

#[test]
fn json_is_one_line_and_comes_back() {
    let advice = advice_of(50, 100 * US, 100 * US);
    let line = advice.to_json().unwrap();
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<Advice>(&line).unwrap(), advice);
    assert!(line.starts_with(r#"{"schema":1,"trace":"loop","kind":"stream_trace","#), "{line}");
}

#[test]
fn the_table_names_the_calls_to_write() {
    let text = advice_of(400, 100 * US, 100 * US).to_text();
    for part in [
        "400 blocks of up to 1.00 MiB on stream 0, allocated at src/loop.rs:1",
        "> wait 2 blocks later",
        "after  src/loop.rs:3: let done_1 = stream_1.record_event()?;",
        "before src/loop.rs:1, 2 blocks later: stream_0.wait_event(&done_2)?;",
        "stream_2 is the stream made at src/loop.rs:9",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 160), "{text}");
}

#[test]
fn a_snapshot_is_told_that_it_has_no_uses_and_how_long_frees_waited() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
    let read = |name: &str| {
        let file = std::path::Path::new(folder).join(name);
        read_file(&file, &ReadOptions::default(), None).unwrap()
    };
    let snapshot = read("side_stream.pickle.zst");
    let advice = advise_snapshot(&snapshot.trace(None).unwrap(), "side_stream");
    assert!(advice.notes[0].contains("has no uses"), "{:?}", advice.notes);
    let waited: u64 = advice.gaps.iter().map(|gaps| gaps.waited).sum();
    assert_eq!(waited, 399, "as the summary counts deferred frees");
    let at_once: u64 = advice.gaps.iter().map(|gaps| gaps.peak_bytes).sum();
    assert!(9 << 30 < at_once, "{:?}", advice.gaps);
    assert_eq!(advice.holders.len(), 10);
    assert!(advice.to_text().contains("free_requested to free_completed"));
    let one_stream = read("graphs.pickle.zst");
    let advice = advise_snapshot(&one_stream.trace(None).unwrap(), "graphs");
    let waited: u64 = advice.gaps.iter().map(|gaps| gaps.waited).sum();
    let expected = one_stream.trace(None).unwrap().operations().deferred_free_count;
    assert_eq!(waited, u64::try_from(expected).unwrap());
}

/// An item that may name what was not declared; such are passed over by the writer.
fn any_item((kind, [a, b, c]): (u8, [u64; 3])) -> Item {
    let small = |number: u64| u32::try_from(number % 8).unwrap();
    let (stream, block) = (StreamNumber(small(a)), BlockNumber(small(b)));
    let record = RecordNumber(small(c));
    match kind % 11 {
        0 => Item::Stream(StreamStart { id: a, kind: StreamKind::Owned, priority: 0, place: None }),
        1 | 2 => Item::Operation(Operation {
            stream,
            kind: [OperationKind::Launch, OperationKind::HostFunction, OperationKind::Unknown]
                [usize::try_from(c % 3).unwrap()],
            is_captured: c.is_multiple_of(7),
            name: None,
            place: None,
            touches: vec![Touch { block: Some(block), offset: a, bytes: b, access: Access::Read }],
        }),
        3 => Item::Record { stream, event: EventId(b), maker: Maker::Library, place: None },
        4 => Item::Wait { stream, record: Some(record), maker: Maker::Library, place: None },
        5 => Item::Allocate {
            stream,
            requested_bytes: b,
            bytes: b,
            address: c,
            served_by: ServedBy::Growth,
            place: None,
        },
        6 => Item::Use { block, stream, kind: UseKind::UntilFree, place: None },
        7 => Item::Free { block, place: None },
        8 => Item::DeviceTime {
            operation: OperationNumber(small(a)),
            start_ns: b.is_multiple_of(2).then_some(b.min(c)),
            end_ns: b.max(c),
        },
        9 => Item::Synchronize {
            subject: Subject::Stream(stream),
            blocked_ns: b,
            maker: Maker::Program,
            place: None,
        },
        _ => Item::Move { block, stream, place: None },
    }
}

proptest! {
    #[test]
    fn no_trace_makes_advice_fail(
        seeds in prop::collection::vec(
            (any::<u8>(), prop::array::uniform3(prop_oneof![0..100_u64, any::<u64>()])),
            0..80,
        ),
    ) {
        let mut writer = Writer::new(Vec::new(), 0).unwrap();
        for id in 0..3 {
            let start = StreamStart { id, kind: StreamKind::Owned, priority: 0, place: None };
            writer.put(0, &Item::Stream(start)).unwrap();
        }
        for seed in seeds {
            let now = seed.1[0];
            let _ = writer.put(now, &any_item(seed));
        }
        let bytes = writer.finish().unwrap();
        let advice = advise(&Recording::load(bytes.as_slice()).unwrap(), "any");
        prop_assert!(!advice.to_text().is_empty());
        let line = advice.to_json().unwrap();
        prop_assert_eq!(serde_json::from_str::<Advice>(&line).unwrap(), advice);
    }
}

#[test]
fn a_trace_with_very_many_streams_is_not_run() {
    let mut writer = Writer::new(Vec::new(), 0).unwrap();
    for id in 0..2000 {
        let start = StreamStart { id, kind: StreamKind::Owned, priority: 0, place: None };
        writer.put(0, &Item::Stream(start)).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let advice = advise(&Recording::load(bytes.as_slice()).unwrap(), "many");
    assert!(advice.notes[0].contains("2000 streams"), "{:?}", advice.notes);
}
