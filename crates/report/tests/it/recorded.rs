//! Stream traces: for whom a freed block waits, and until when.

use report::{Options, Report};
use serde_json::json;
use trace::stream_trace::{
    Access, Item, Maker, Operation, OperationKind, OperationNumber, Recording, ServedBy,
    StreamKind, StreamStart, Subject, Touch, UseKind, Writer,
};
use trace::{BlockNumber, StreamNumber};

use crate::browser::Browser;
use crate::page::{MOMENTS, write};
use crate::unpacked::{Unpacked, unpack};

const HOME: StreamNumber = StreamNumber(0);
const READER: StreamNumber = StreamNumber(1);

fn stream(id: u64) -> Item {
    Item::Stream(StreamStart { id, kind: StreamKind::Owned, priority: 0, place: None })
}

fn allocate(address: u64) -> Item {
    let (requested_bytes, bytes) = (1 << 20, 1 << 20);
    let (stream, served_by, place) = (HOME, ServedBy::Unknown, None);
    Item::Allocate { stream, requested_bytes, bytes, address, served_by, place }
}

fn read(block: u32) -> Item {
    let block = Some(BlockNumber(block));
    let touch = Touch { block, offset: 0, bytes: 1 << 20, access: Access::Read };
    Item::Operation(Operation {
        stream: READER,
        kind: OperationKind::Launch,
        is_captured: false,
        name: None,
        place: None,
        touches: vec![touch],
    })
}

fn free(block: u32) -> Item {
    Item::Free { block: BlockNumber(block), place: None }
}

fn ended(operation: u32, end_ns: u64) -> Item {
    Item::DeviceTime { operation: OperationNumber(operation), start_ns: None, end_ns }
}

/// The report of items with their times in microseconds, behind a segment and two streams.
fn report_of(items: &[(u64, Item)]) -> Report {
    let mut writer = Writer::new(Vec::new(), 0).unwrap();
    writer.put(0, &stream(10)).unwrap();
    writer.put(0, &stream(11)).unwrap();
    writer.put(0, &Item::Segment { address: 0, bytes: 2 << 20, opened: true }).unwrap();
    for (time_us, item) in items {
        writer.put(time_us * 1000, item).unwrap();
    }
    let recording = Recording::load(writer.finish().unwrap().as_slice()).unwrap();
    Report::of_recording(&recording, &Options::default())
}

fn page_of(items: &[(u64, Item)]) -> Unpacked {
    unpack(&report_of(items))
}

/// Checks the kinds of events, the moments from a free to its completion plus one, and for whom
/// each block waited.
fn check(items: &[(u64, Item)], kinds: &[u8], kept: &[u128], awaited: &[&[usize]]) {
    let page = page_of(items);
    assert_eq!(page.kinds, kinds, "{:?}", page.told);
    assert_eq!(page.columns[7], kept);
    let sets = page.told["awaited"].as_array().unwrap();
    let told: Vec<_> =
        page.columns[11].iter().map(|set| sets[usize::try_from(*set).unwrap()].clone()).collect();
    assert_eq!(json!(told), json!(awaited));
    assert_eq!(page.columns[12..14], [vec![0], vec![2 << 20]], "one segment is held");
}

#[test]
fn a_block_waits_until_its_last_use_has_ended_on_the_device() {
    let items = [
        (10, allocate(0)),
        (20, read(0)),
        (30, free(0)),
        (40, allocate(1 << 20)),
        (60, free(1)),
        (90, ended(0, 50_000)),
    ];
    // The end at 50 lies between the second allocation and its free.
    check(&items, &[5, 0, 3, 0, 4, 1], &[3, 1], &[&[1], &[]]);
}

#[test]
fn a_use_that_is_over_at_the_free_is_waited_for_by_nobody() {
    let items = [(10, allocate(0)), (20, read(0)), (30, free(0)), (40, ended(0, 25_000))];
    check(&items, &[5, 0, 1], &[1], &[&[]]);
}

#[test]
fn without_device_times_the_host_has_to_be_told() {
    let subject = Subject::Stream(READER);
    let told = Item::Synchronize { subject, blocked_ns: 0, maker: Maker::Program, place: None };
    let items = [(10, allocate(0)), (20, read(0)), (30, free(0)), (40, read(0)), (50, told)];
    check(&items, &[5, 0, 3, 4], &[2], &[&[1]]);
    check(&items[..3], &[5, 0, 3], &[0], &[&[1]]);
}

#[test]
fn memory_that_is_handed_out_again_is_waited_for_no_longer() {
    let items = [(10, allocate(0)), (20, read(0)), (30, free(0)), (40, allocate(512))];
    check(&items, &[5, 0, 3, 4, 0], &[2, 0], &[&[1], &[]]);
}

#[test]
fn record_stream_covers_what_is_queued_until_the_free() {
    let used = |kind| Item::Use { block: BlockNumber(0), stream: READER, kind, place: None };
    // Work that does not say what it touches.
    let work = Item::Operation(Operation {
        stream: READER,
        kind: OperationKind::Launch,
        is_captured: false,
        name: None,
        place: None,
        touches: vec![],
    });
    let run = |kind| {
        let items = [(10, allocate(0)), (15, used(kind)), (20, work.clone()), (30, free(0))];
        page_of(&items).kinds
    };
    assert_eq!(run(UseKind::UntilFree), [5, 0, 3]);
    assert_eq!(run(UseKind::UntilNow), [5, 0, 1], "nothing was queued there yet");
}

#[test]
fn a_hold_lasts_until_its_end() {
    let block = BlockNumber(0);
    let hold = Item::Hold { block, place: None };
    let items = [(10, allocate(0)), (15, hold), (20, free(0)), (30, Item::HoldEnd { block })];
    check(&items, &[5, 0, 3, 4], &[2], &[&[]]);
}

#[test]
fn a_page_says_for_whom_a_block_waits() {
    let Some(mut browser) = Browser::start() else { return };
    let items = [(10, allocate(0)), (20, read(0)), (30, free(0)), (90, ended(0, 50_000))];
    let file = write("stream-trace", &report_of(&items).html());
    browser.open(&file, "#t=3&view=waiting");
    let text = browser.drawn("document.getElementById('view-waiting').textContent");
    for part in ["Waits for", "stream 0xb", "1 events (20 µs)"] {
        assert!(text.as_str().unwrap().contains(part), "no `{part}` in {text}");
    }
    browser.evaluate("location.hash = '#block=0x0&view=block'");
    let text = browser.drawn("document.getElementById('view-block').textContent");
    assert!(text.as_str().unwrap().contains(", for stream 0xb"), "{text}");
    assert_eq!(browser.evaluate(MOMENTS), json!([]));
    assert!(browser.errors().is_empty(), "{:?}", browser.errors());
}
