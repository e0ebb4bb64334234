//! What is written: pickles that are read again, by this reader and by Python, and snapshots that
//! are made of stream traces.

use std::path::{Path, PathBuf};
use std::process::Command;

use trace::convert::{
    beside_snapshot, fill_segments, rewrite_recording, snapshot_of, write_recording,
};
use trace::pytorch::{
    Action, BlockState, ReadOptions, SettingValue, Snapshot, read, read_file, write,
};
use trace::stream_trace::{
    EventId, Item, Maker, RecordNumber, Recording, ServedBy, StreamKind, StreamStart, Subject,
    UseKind, Writer,
};
use trace::{BlockNumber, Origin, StreamNumber, chrome};

use crate::pickle::{Py, pickle};

fn trace_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{name}.pickle.zst"))
}

fn real(name: &str) -> Snapshot {
    read_file(&trace_file(name), &ReadOptions::default(), None).unwrap()
}

fn read_back(bytes: &[u8]) -> Snapshot {
    read(bytes, 0, &ReadOptions::default(), None).unwrap()
}

#[test]
fn every_real_trace_is_the_same_when_it_is_read_again() {
    for name in ["expandable", "gnn_train", "graphs", "oom_frames", "side_stream", "streams"] {
        let snapshot = real(name);
        let mut told = 0;
        let mut progress = |written, _all| told = written;
        let bytes = write(&snapshot, Vec::new(), Some(&mut progress)).unwrap();
        assert!(read_back(&bytes) == snapshot, "{name}");
        let is_long = 1 << 14 < snapshot.device_traces.iter().map(Vec::len).sum::<usize>();
        assert_eq!(0 < told, is_long, "{name}");
    }
}

#[test]
fn everything_that_a_snapshot_can_hold_is_written() {
    use Py::{Bool, Dict, Int, List, Text, Tuple};
    let frames = || {
        let (file, name) = (Text("träin.py"), Text("fwd\n\"x\""));
        List(vec![Dict(vec![("filename", file), ("line", Int(70_000)), ("name", name)])])
    };
    let entry = |action, size, more: Vec<(&'static str, Py)>| {
        let mut pairs = vec![
            ("action", Text(action)),
            ("addr", Int(1 << 40)),
            ("size", Int(size)),
            ("stream", Int(-2)),
            ("time_us", Int(1 << 50)),
        ];
        pairs.extend(more);
        Dict(pairs)
    };
    let block = |address, size, state| {
        let (address, size) = (("address", Int(address)), ("size", Int(size)));
        let requested = ("requested_size", Int(7));
        Dict(vec![address, size, requested, ("state", Text(state)), ("frames", frames())])
    };
    let blocks = vec![
        block(1 << 40, 512, "active_allocated"),
        block((1 << 40) + 512, 512, "active_pending_free"),
        block((1 << 40) + 1024, 1024, "inactive"),
    ];
    let segment = Dict(vec![
        ("device", Int(1)),
        ("address", Int(1 << 40)),
        ("total_size", Int(2048)),
        ("stream", Int(0)),
        ("segment_type", Text("small")),
        ("segment_pool_id", Tuple(vec![Int(3), Int(300)])),
        ("is_expandable", Bool(true)),
        ("frames", frames()),
        ("blocks", List(blocks)),
    ]);
    let traces = List(vec![
        List(vec![]),
        List(vec![
            entry("alloc", 7, vec![("frames", frames()), ("user_metadata", Text("step 1"))]),
            entry("teleport", 1, vec![("pool_id", Tuple(vec![Int(0), Int(1)]))]),
            entry("segment_alloc", 1 << 33, vec![("compile_context", Text("0/1"))]),
        ]),
    ]);
    let host = Dict(vec![("address", Int(4096)), ("size", Int(8192)), ("allocated_size", Int(1))]);
    let annotation = |stage| {
        let name = ("name", Text("step"));
        Dict(vec![("stage", Text(stage)), name, ("device", Int(1)), ("time_us", Int(5))])
    };
    let settings = Dict(vec![
        ("PYTORCH_CUDA_ALLOC_CONF", Text("max_split_size_mb:64")),
        ("max_split_size", Int(64 << 20)),
        ("expandable_segments", Bool(false)),
        ("roundup_power2_divisions", Dict(vec![("1", Int(0)), ("2", Int(8))])),
    ]);
    let whole = Dict(vec![
        ("segments", List(vec![segment])),
        ("device_traces", traces),
        ("host_segments", List(vec![host])),
        ("host_traces", List(vec![List(vec![entry("alloc", 1, vec![])])])),
        ("external_annotations", List(vec![annotation("START"), annotation("END")])),
        ("trace_alloc_overflowed", List(vec![Bool(false), Bool(true)])),
        ("allocator_settings", settings),
    ]);
    let snapshot = read_back(&pickle(&whole));
    assert_eq!((snapshot.host_segments.len(), snapshot.annotations.len()), (1, 2));
    assert_eq!(snapshot.unknown_actions, [("teleport".to_owned(), 1)]);
    let bytes = write(&snapshot, Vec::new(), None).unwrap();
    assert_eq!(read_back(&bytes), snapshot);
}

#[test]
fn holes_between_blocks_become_free_blocks() {
    use Py::{Dict, Int, List, Text};
    let block = |address| {
        let (size, state) = (("size", Int(512)), ("state", Text("active_allocated")));
        Dict(vec![("address", Int(address)), size, state])
    };
    let segment = Dict(vec![
        ("address", Int(0)),
        ("total_size", Int(4096)),
        ("blocks", List(vec![block(512), block(1024), block(2048)])),
    ]);
    let snapshot = read_back(&pickle(&Dict(vec![("segments", List(vec![segment]))])));
    let written = read_back(&write(&snapshot, Vec::new(), None).unwrap());
    let blocks: Vec<_> =
        written.segments[0].blocks.iter().map(|it| (it.address, it.bytes)).collect();
    let tiles = [(0, 512), (512, 512), (1024, 512), (1536, 512), (2048, 512), (2560, 1536)];
    assert_eq!(blocks, tiles);
    assert_eq!(written.segments[0].blocks[0].state, BlockState::Inactive);
}

/// PyTorch's viewer knows these opcodes and no others.
#[test]
#[expect(clippy::print_stdout, reason = "a test that saw nothing says so")]
fn python_and_the_viewer_know_every_opcode() {
    const KNOWN: &str = "PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 \
                         BINFLOAT SHORT_BINUNICODE BINUNICODE EMPTY_LIST EMPTY_DICT EMPTY_TUPLE \
                         TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS SETITEM SETITEMS LIST DICT \
                         BINPUT LONG_BINPUT BINGET LONG_BINGET MEMOIZE";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written.pickle");
    write(&real("oom_frames"), std::fs::File::create(&file).unwrap(), None).unwrap();
    let script = "import pickle, pickletools, sys\n\
                  b = open(sys.argv[1], 'rb').read()\n\
                  print(len(pickle.loads(b)['device_traces'][0]))\n\
                  print(' '.join(sorted({o.name for o, _, _ in pickletools.genops(b)})))\n";
    let run = Command::new("python3").args(["-c", script, file.to_str().unwrap()]).output();
    let Ok(output) = run else {
        println!("python3 is missing, so it read nothing");
        return;
    };
    let said = String::from_utf8(output.stdout).unwrap();
    let (count, opcodes) = said.split_once('\n').unwrap();
    assert_eq!(count, "20000", "{}", String::from_utf8_lossy(&output.stderr));
    let known: Vec<&str> = KNOWN.split_whitespace().collect();
    for opcode in opcodes.split_whitespace() {
        assert!(known.contains(&opcode), "the viewer does not know {opcode}");
    }
}

/// Two streams; the second uses a block that is freed early, and a record behind that passes.
fn two_streams(passes: bool) -> Recording {
    let mut writer = Writer::new(Vec::new(), 5_000_000).unwrap();
    let mut now = 0;
    let mut put = |item: Item| {
        now += 1000;
        writer.put(now, &item).unwrap();
    };
    let (home, side) = (StreamNumber(0), StreamNumber(1));
    for id in [7, 7] {
        let kind = StreamKind::Owned;
        put(Item::Stream(StreamStart { id, kind, priority: 0, place: None }));
    }
    put(Item::Segment { address: 1 << 21, bytes: 4 << 20, opened: true });
    let allocate = |address, bytes| Item::Allocate {
        stream: home,
        requested_bytes: bytes - 12,
        bytes,
        address,
        served_by: ServedBy::Growth,
        place: None,
    };
    put(allocate(1 << 21, 1 << 20));
    put(allocate(3 << 20, 512));
    let (block, place) = (BlockNumber(0), None);
    put(Item::Use { block, stream: side, kind: UseKind::UntilFree, place });
    put(Item::Free { block, place });
    let (event, maker) = (EventId(1), Maker::Program);
    put(Item::Record { stream: side, event, maker, place });
    put(Item::Wait { stream: home, record: Some(RecordNumber(0)), maker, place });
    if passes {
        put(Item::Passed { subject: Subject::Record(RecordNumber(0)), maker, place });
    }
    Recording::load(writer.finish().unwrap().as_slice()).unwrap()
}

#[test]
fn a_block_that_another_stream_uses_is_pending_until_the_host_knows() {
    let actions = |snapshot: &Snapshot| -> Vec<Action> {
        snapshot.device_traces[0].iter().map(|entry| entry.action).collect()
    };
    let (snapshot, left_out) = snapshot_of(&two_streams(false));
    let begins = [Action::SegmentAlloc, Action::Alloc, Action::Alloc, Action::FreeRequested];
    assert_eq!(actions(&snapshot), begins);
    let states: Vec<_> = snapshot.segments[0]
        .blocks
        .iter()
        .map(|it| (it.address >> 20, it.bytes, it.state))
        .collect();
    let free = (4 << 20) - (1 << 20) - 512;
    let expected = [
        (2, 1 << 20, BlockState::PendingFree),
        (3, 512, BlockState::Allocated),
        (3, free, BlockState::Inactive),
    ];
    assert_eq!(states, expected);
    let told: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["1 event records", "1 waits of streams", "1 uses by streams"]);
    // The two streams have one identity, and must not become one.
    assert_eq!(snapshot.device_traces[0][1].time_us, 5_004);

    let (snapshot, _) = snapshot_of(&two_streams(true));
    assert_eq!(actions(&snapshot).last(), Some(&Action::FreeCompleted));
    assert_eq!(snapshot.segments[0].blocks[0].state, BlockState::Inactive);
    assert_eq!(read_back(&write(&snapshot, Vec::new(), None).unwrap()), snapshot);
}

#[test]
fn an_arrow_goes_from_a_record_to_its_wait() {
    let mut json = Vec::new();
    chrome::write_recording(&two_streams(true), None, &mut json, None).unwrap();
    let text = String::from_utf8(json).unwrap();
    let line = |part: &str| text.lines().find(|line| line.contains(part)).unwrap().to_owned();
    let (from, to) = (line("\"ph\":\"s\""), line("\"ph\":\"f\""));
    assert!(from.contains("\"tid\":2,\"ts\":8.000") && to.contains("\"tid\":1,\"ts\":9.000"));
    assert!(from.contains("\"id\":0") && to.contains("\"id\":0"), "{from}\n{to}");
}

/// Was: what the reader does not look at was gone from what `convert` wrote, without a word.
#[test]
fn settings_that_are_not_looked_at_are_written_and_what_is_not_is_counted() {
    use Py::{Bool, Dict, Int, List, Text};
    let settings = Dict(vec![
        ("PYTORCH_CUDA_ALLOC_CONF", Text("expandable_segments:True")),
        ("release_lock_on_cudamalloc", Bool(true)),
        ("pinned_num_register_threads", Int(8)),
        ("a_new_one", Text("words")),
        ("expandable_segments", Int(1)),
        ("a_deep_one", List(vec![Int(1)])),
    ]);
    let file = |settings| {
        let empty = || List(Vec::new());
        pickle(&Dict(vec![
            ("segments", empty()),
            ("device_traces", List(vec![empty()])),
            ("allocator_settings", settings),
            ("a_new_key", Int(7)),
        ]))
    };
    let snapshot = read_back(&file(settings));
    assert_eq!(snapshot.passed_over_count, 2, "the list, and the new key");
    let kept = snapshot.allocator_settings.as_ref().unwrap();
    assert_eq!(kept.others.len(), 4);
    assert_eq!(kept.others[2], ("a_new_one".to_owned(), SettingValue::Text("words".to_owned())));
    let again = read_back(&write(&snapshot, Vec::new(), None).unwrap());
    assert_eq!(again.allocator_settings, snapshot.allocator_settings);
    assert_eq!(again.passed_over_count, 0);
    assert_eq!(beside_snapshot(&snapshot)[0].to_string(), "2 unknown keys");
    assert_eq!(beside_snapshot(&again), []);
    assert_eq!(read_back(&file(Int(7))).passed_over_count, 2, "settings that are none");
}

#[test]
fn a_stream_trace_that_is_written_once_more_says_the_same() {
    let recording = two_streams(true);
    let (bytes, left_out) = rewrite_recording(&recording, Vec::new()).unwrap();
    assert_eq!(left_out, []);
    let again = Recording::load(bytes.as_slice()).unwrap();
    let items = |it: &Recording| -> Vec<(u64, Item)> {
        it.entries.iter().map(|entry| (entry.host_ns, entry.item.clone())).collect()
    };
    assert_eq!(items(&again), items(&recording));
}

#[test]
fn segments_that_are_there_are_not_made_up() {
    let mut snapshot = real("streams");
    let before = snapshot.segments.clone();
    assert_eq!(fill_segments(&mut snapshot), 0);
    assert_eq!(snapshot.segments, before);
    snapshot.segments.clear();
    assert_eq!(fill_segments(&mut snapshot), 0, "PyTorch had none, and says so");
    snapshot.origin = Origin::PytorchEntries;
    assert!(0 < fill_segments(&mut snapshot));
    let allocated = |segments: &[trace::pytorch::Segment]| -> Vec<u64> {
        let blocks = segments.iter().flat_map(|segment| &segment.blocks);
        blocks.filter(|it| it.state == BlockState::Allocated).map(|it| it.address).collect()
    };
    let mut expected = allocated(&before);
    expected.sort_unstable();
    // Blocks that were there before the trace are known from the segments alone.
    let known: Vec<u64> =
        allocated(&snapshot.segments).into_iter().filter(|it| expected.contains(it)).collect();
    assert_eq!(known, allocated(&snapshot.segments));
}

#[test]
fn what_a_stream_trace_cannot_hold_is_counted() {
    let snapshot = real("graphs");
    let trace = snapshot.trace(None).unwrap();
    let (bytes, left_out) = write_recording(&snapshot, &trace, Vec::new(), None).unwrap();
    assert!(Recording::load(bytes.as_slice()).unwrap().is_complete());
    let pools = left_out.iter().find(|it| it.what.contains("pools"));
    let ids = trace.entries().iter().filter_map(|entry| trace.pool_id(entry));
    let in_pools = ids.filter(|id| *id != (0, 0));
    assert_eq!(pools.map_or(0, |it| it.count), in_pools.count());
}

/// Was: a log that had become a pickle came back with segments that had never been.
#[test]
fn what_a_snapshot_was_made_of_and_its_made_up_segments_are_marked() {
    let log = "Thread,Time,Action,Pointer,Size,Stream\n\
               1,10:00:00.000001,allocate,0x7f0000000000,1000,0x0\n";
    let snapshot = trace::rmm::read(log.as_bytes(), 1 << 20).unwrap();
    assert_eq!((snapshot.origin, snapshot.has_made_up_segments), (Origin::RmmLog, false));
    let mut filled = snapshot.clone();
    assert_eq!(fill_segments(&mut filled), 1);
    let pickle = write(&filled, Vec::new(), None).unwrap();
    let again = read(pickle.as_slice(), 0, &ReadOptions::default(), None).unwrap();
    assert_eq!(again, snapshot);
    assert_eq!(beside_snapshot(&again), []);

    // A mark of a later version is no snapshot of PyTorch's.
    let needle = b"RMM log";
    let at = pickle.windows(needle.len()).position(|it| it == needle).unwrap();
    let mut other = pickle;
    other[at] = b'X';
    let error = read(other.as_slice(), 0, &ReadOptions::default(), None).unwrap_err();
    assert!(error.to_string().contains("key `wellspring_made_of`: expected `entries"), "{error}");
}
