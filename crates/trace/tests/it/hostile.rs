//! Files that mean harm: calls, bombs, lies about lengths. All are refused, and cheaply.

use std::time::Duration;

use trace::pytorch::ReadError;

use crate::pickle::{Py, entry, pickle, pickle_as, raw, read_bytes, refusal, segment, snapshot};

/// Every opcode of Python's `pickletools` that is not read, with what must follow it.
const REFUSED: &[(&str, &[u8])] = &[
    ("INT", b"I1\n"),
    ("LONG", b"L1L\n"),
    ("STRING", b"S'a'\n"),
    ("BINSTRING", b"T\x01\0\0\0a"),
    ("SHORT_BINSTRING", b"U\x01a"),
    ("NEXT_BUFFER", b"\x97"),
    ("READONLY_BUFFER", b"\x98"),
    ("UNICODE", b"Va\n"),
    ("FLOAT", b"F1.5\n"),
    ("EMPTY_SET", b"\x8f"),
    ("ADDITEMS", b"\x90"),
    ("FROZENSET", b"\x91"),
    ("GET", b"g0\n"),
    ("PUT", b"p0\n"),
    ("EXT1", b"\x82\x01"),
    ("EXT2", b"\x83\x01\0"),
    ("EXT4", b"\x84\x01\0\0\0"),
    ("GLOBAL", b"cos\nsystem\n"),
    ("STACK_GLOBAL", b"\x93"),
    ("REDUCE", b"R"),
    ("BUILD", b"b"),
    ("INST", b"ios\nsystem\n"),
    ("OBJ", b"o"),
    ("NEWOBJ", b"\x81"),
    ("NEWOBJ_EX", b"\x92"),
    ("PERSID", b"P1\n"),
    ("BINPERSID", b"Q"),
];

#[test]
fn every_opcode_that_could_do_more_is_refused_by_name_and_offset() {
    for (name, opcode) in REFUSED {
        let error = read_bytes(&raw(&[&b"NNN"[..], opcode].concat())).unwrap_err();
        let expected = opcode[0];
        let ReadError::RefusedOpcode { name: found, code, offset } = error else {
            panic!("{name}: {error:?}");
        };
        assert_eq!((found, code, offset), (*name, expected, 5));
    }
}

#[test]
fn every_byte_is_read_refused_or_unknown() {
    let refused = |code: u8| REFUSED.iter().any(|(_, opcode)| opcode[0] == code);
    let read =
        b".(012NJKMGXCB]lae)t}dsuhjqr\x80\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x94\x95\x96";
    for code in 0..=u8::MAX {
        let error = read_bytes(&[0x80, 4, code]).unwrap_err();
        match error {
            ReadError::RefusedOpcode { .. } => assert!(refused(code), "{code:#x}"),
            ReadError::UnknownOpcode { code: found, offset } => {
                assert_eq!((found, offset), (code, 2));
                assert!(!refused(code) && !read.contains(&code), "{code:#x}");
            }
            _ => assert!(read.contains(&code), "{code:#x}: {error}"),
        }
    }
}

#[test]
fn a_call_hidden_in_a_good_snapshot_is_refused() {
    let call = Py::Raw(b"cos\nsystem\n(\x8c\x04true\x85R".to_vec());
    let Py::Dict(mut pairs) = entry("alloc", 0, 1, 0) else { unreachable!() };
    pairs.push(("frames", call));
    let message = refusal(&pickle(&snapshot(vec![], vec![vec![Py::Dict(pairs)]])));
    assert!(message.starts_with("is refused: pickle opcode GLOBAL (0x63) at byte "), "{message}");
}

#[test]
fn a_pickle_cut_anywhere_is_truncated() {
    let whole = pickle(&snapshot(
        vec![segment(4096, 512, 0, vec![])],
        vec![vec![entry("segment_alloc", 4096, 512, 0)]],
    ));
    assert!(read_bytes(&whole).is_ok());
    assert!(matches!(read_bytes(&[]).unwrap_err(), ReadError::Empty));
    for length in 1..whole.len() {
        let error = read_bytes(&whole[..length]).unwrap_err();
        let ReadError::Truncated { offset } = error else { panic!("{length}: {error:?}") };
        assert_eq!(offset, u64::try_from(length).unwrap());
    }
}

#[test]
fn lies_about_lengths_cost_nothing() {
    let truncated: &[&[u8]] = &[
        b"B\xff\xff\xff\xff",
        b"X\xff\xff\xff\xff",
        b"C\xff",
        b"\x8c\xff",
        b"\x8a\xff",
        b"\x8b\xff\xff\xff\x7f",
        b"\x8d\xff\xff\xff\0\0\0\0\0",
        b"\x8e\xff\xff\xff\0\0\0\0\0",
        b"\x96\xff\xff\xff\0\0\0\0\0",
        b"\x95\xff\xff\xff\0\0\0\0\0}",
    ];
    for opcodes in truncated {
        let error = read_bytes(&raw(opcodes)).unwrap_err();
        assert!(matches!(error, ReadError::Truncated { .. }), "{opcodes:x?}: {error:?}");
    }
    let malformed: &[&[u8]] = &[
        b"\x8b\xff\xff\xff\xff",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xff}",
        b"\x95\0\0\0\0\0\0\0\x40}",
        b"Nr\xff\xff\xff\xff",
    ];
    for opcodes in malformed {
        let error = read_bytes(&raw(opcodes)).unwrap_err();
        assert!(matches!(error, ReadError::Malformed { .. }), "{opcodes:x?}: {error:?}");
    }
}

#[test]
fn a_stack_that_does_not_hold_what_is_taken_is_malformed() {
    for opcodes in [
        &b""[..],
        b"0",
        b"1",
        b"2",
        b"t",
        b"l",
        b"d",
        b"e",
        b"u",
        b"s",
        b"a",
        b"\x85",
        b"N\x86",
        b"NN\x87",
        b"\x94",
        b"q\0",
        b"h\0",
        b"j\0\0\0\0",
        b"(",
        b"N(\x94",
        b"N(\x85",
        b"](a",
        b"](Na",
        b"N(Ne",
        b"NNa",
        b"}(Nu",
        b"}NNNs",
        b"](NNu",
        b"(Nd",
        b"\x80\x01N",
    ] {
        let error = read_bytes(&raw(opcodes)).unwrap_err();
        assert!(matches!(error, ReadError::Malformed { .. }), "{opcodes:x?}: {error:?}");
    }
}

#[test]
fn depth_costs_nothing() {
    const DEPTH: usize = 1_000_000;
    let found = |opcodes: Vec<u8>| match read_bytes(&raw(&opcodes)).unwrap_err() {
        ReadError::NotASnapshot { found } => found,
        other => panic!("{other:?}"),
    };
    let lists = read_bytes(&raw(&[b"]".repeat(DEPTH), b"a".repeat(DEPTH - 1)].concat()));
    let message = lists.unwrap_err().to_string();
    assert!(message.contains("segments[0], key `segments`: expected dicts"), "{message}");
    assert_eq!(found([&b")"[..], &b"\x85".repeat(DEPTH)].concat()), "a tuple");
    assert_eq!(found([b"(".repeat(DEPTH), b"t".repeat(DEPTH)].concat()), "a tuple");
    assert_eq!(found([&b"N"[..], &b"(".repeat(DEPTH), &b"0".repeat(DEPTH)].concat()), "None");
    let open = read_bytes(&raw(&b"(".repeat(DEPTH))).unwrap_err();
    assert!(matches!(open, ReadError::Malformed { .. }), "{open:?}");
    let nest = Py::Raw([b"](".repeat(DEPTH), b"e".repeat(DEPTH)].concat());
    let inside = Py::Dict(vec![("segments", nest), ("device_traces", Py::List(vec![]))]);
    let message = refusal(&pickle(&inside));
    assert!(message.contains("segments[0], key `segments`: expected dicts"), "{message}");
}

/// Opcodes for a list that holds the memo's item 0 `count` times.
fn shared_list(count: usize) -> Vec<u8> {
    [&b"]("[..], &b"h\0".repeat(count), b"e"].concat()
}

#[test]
fn shared_lists_do_not_unfold() {
    // Item 0 of the memo is a list of 20,000 entries; each trace is that same list.
    let one = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\0\x8c\x04sizeK\x01u\x94";
    let entries = [&b"]\x94("[..], one, &b"h\x01".repeat(20_000), b"e0"].concat();
    let traces = [entries, shared_list(20_000)].concat();
    let bytes =
        pickle(&Py::Dict(vec![("segments", Py::List(vec![])), ("device_traces", Py::Raw(traces))]));
    let error = read_bytes(&bytes).unwrap_err();
    assert!(matches!(error, ReadError::Unfolds { .. }), "{error:?}");

    // One segment of 20,000 blocks, 20,000 times.
    let block = b"}(\x8c\x04sizeK\x01\x8c\x05state\x8c\x08inactiveu\x94";
    let blocks = [&b"]("[..], block, &b"h\x01".repeat(20_000), b"e"].concat();
    let numbers = b"\x8c\x07addressK\0\x8c\x0atotal_sizeK\x01";
    let segment = [&b"}\x94("[..], numbers, b"\x8c\x06blocks", &blocks, b"u0"].concat();
    let segments = [segment, shared_list(20_000)].concat();
    let bytes = pickle(&Py::Dict(vec![
        ("segments", Py::Raw(segments)),
        ("device_traces", Py::List(vec![])),
    ]));
    let error = read_bytes(&bytes).unwrap_err();
    assert!(matches!(error, ReadError::Unfolds { .. }), "{error:?}");

    // One dictionary with 20,000 pairs that is every segment.
    let wide = [&b"}\x94("[..], &b"NN".repeat(20_000), numbers, b"u0"].concat();
    let bytes = pickle(&Py::Dict(vec![
        ("segments", Py::Raw([wide, shared_list(20_000)].concat())),
        ("device_traces", Py::List(vec![])),
    ]));
    let error = read_bytes(&bytes).unwrap_err();
    assert!(matches!(error, ReadError::Unfolds { .. }), "{error:?}");
}

#[test]
fn laughs_by_the_billion_stay_flat() {
    // Each list holds the one before ten times: 10^30 leaves in a few hundred bytes.
    let mut opcodes = b"]\x94".to_vec();
    for level in 0..30 {
        opcodes.extend(b"]\x94(");
        opcodes.extend([b'h', level].repeat(10));
        opcodes.push(b'e');
    }
    let bytes = pickle(&Py::Dict(vec![
        ("segments", Py::List(vec![])),
        ("device_traces", Py::Raw([opcodes, vec![b'1']].concat())),
    ]));
    assert!(read_bytes(&bytes).is_err());
    let mut laughs = b"]\x94".to_vec();
    for level in 0..30 {
        laughs.extend(b"0]\x94(");
        laughs.extend([b'h', level].repeat(10));
        laughs.push(b'e');
    }
    let bytes =
        pickle(&Py::Dict(vec![("segments", Py::List(vec![])), ("device_traces", Py::Raw(laughs))]));
    let message = refusal(&bytes);
    assert!(message.contains("device_traces[0][0], key `action`: expected a dict"), "{message}");
}

#[test]
fn a_list_may_hold_itself() {
    let traces = Py::Raw(b"]\x94h\0a".to_vec());
    let bytes = pickle(&Py::Dict(vec![("segments", Py::List(vec![])), ("device_traces", traces)]));
    assert!(refusal(&bytes).contains("expected a dict"));
}

#[test]
fn a_stack_of_many_frames_is_walked_once_for_all_that_share_it() {
    // Item 1 of the memo is a list of 30,000 frames; 30,000 entries have it.
    let frame = b"}\x94(\x8c\x04lineK\x05u";
    let list = [&b"]\x94("[..], frame, &b"h\x01".repeat(29_999), b"e0"].concat();
    let entry = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\0\x8c\x04sizeK\x01\x8c\x06framesh\0u";
    let entries = [&list[..], b"](](", &entry.repeat(30_000), b"ee"].concat();
    let bytes = pickle(&Py::Dict(vec![
        ("segments", Py::List(vec![])),
        ("device_traces", Py::Raw(entries)),
    ]));
    let snapshot = read_bytes(&bytes).unwrap();
    assert_eq!((snapshot.stacks.count(), snapshot.stacks.frame_count()), (1, 1));
    let stack = snapshot.device_traces[0][29_999].stack.unwrap();
    assert_eq!(snapshot.stacks.frames(stack).len(), 10_000, "the innermost frames are kept");
}

#[test]
fn frames_may_hold_themselves_and_whatever_else() {
    for frames in
        [&b"]\x94h\0a"[..], b"]\x94(h\0h\0e", b"](NK\x01\x88e", b"](](]ee", b"](}}e", b")"]
    {
        let Py::Dict(mut pairs) = entry("alloc", 0, 1, 0) else { unreachable!() };
        pairs.push(("frames", Py::Raw(frames.to_vec())));
        let bytes = pickle(&snapshot(vec![], vec![vec![Py::Dict(pairs)]]));
        let snapshot = read_bytes(&bytes).unwrap();
        let stack = snapshot.device_traces[0][0].stack;
        let frames = stack.map_or(0, |stack| snapshot.stacks.frames(stack).len());
        assert!(frames <= 2, "{frames} frames");
    }
}

#[test]
fn a_huge_integer_is_refused_where_it_matters_and_passed_over_elsewhere() {
    let huge = || Py::Raw([&[0x8a, 200][..], &[0x77; 200]].concat());
    let made = |key, value| {
        let Py::Dict(mut pairs) = entry("alloc", 0, 1, 0) else { unreachable!() };
        pairs.push((key, value));
        pickle(&snapshot(vec![], vec![vec![Py::Dict(pairs)]]))
    };
    for key in ["addr", "size", "stream"] {
        let message = refusal(&made(key, huge()));
        assert!(message.contains(&format!("key `{key}`: expected an integer")), "{message}");
    }
    for key in ["time_us", "frames", "pool_id", "user_metadata", "compile_context", "mood"] {
        let snapshot = read_bytes(&made(key, huge())).unwrap();
        assert_eq!(snapshot.device_traces[0][0].time_us, 0, "{key}");
    }
}

#[test]
fn a_memo_cannot_be_made_larger_than_the_file() {
    // Keys far beyond those in use are refused; keys in use may be written again and again.
    let far = read_bytes(&raw(b"Nr\0\0\0\x40")).unwrap_err();
    assert!(matches!(far, ReadError::Malformed { .. }), "{far:?}");
    let again = [&b"}("[..], &b"Nq\0".repeat(2), b"1"].concat();
    let found = read_bytes(&raw(&[again, b"Nr\x05\0\0\0".repeat(1000)].concat())).unwrap_err();
    assert!(matches!(found, ReadError::NotASnapshot { found: "None" }), "{found:?}");
}

#[test]
fn a_file_as_python_writes_it_may_end_or_change_at_any_byte() {
    let Py::Dict(mut pairs) = entry("alloc", 4096, 100, 0) else { unreachable!() };
    let frame = Py::Dict(vec![("filename", Py::Text("é.py")), ("line", Py::Int(3))]);
    pairs.push(("frames", Py::List(vec![frame.clone(), frame])));
    pairs.push(("pool_id", Py::Tuple(vec![Py::Int(0), Py::Int(1)])));
    let entries = vec![Py::Dict(pairs.clone()), Py::Dict(pairs), entry("free", 4096, 100, 0)];
    let value = snapshot(vec![segment(4096, 512, 0, vec![])], vec![entries]);
    for (protocol, is_framed) in [(2, false), (4, false), (5, true)] {
        let whole = pickle_as(&value, protocol, is_framed);
        assert_eq!(read_bytes(&whole).unwrap().device_traces[0].len(), 3);
        for length in 2..whole.len() {
            let error = read_bytes(&whole[..length]).unwrap_err();
            assert!(matches!(error, ReadError::Truncated { .. }), "{length}: {error:?}");
            // Each byte is turned into a neighbor, its complement and two opcodes.
            let byte = whole[length];
            let others = [byte ^ 1, !byte, b'.', 0x94];
            for other in others {
                let mut changed = whole.clone();
                changed[length] = other;
                if let Ok(snapshot) = read_bytes(&changed)
                    && let Ok(trace) = snapshot.trace(None)
                {
                    let operations = trace.operations();
                    assert!(trace.summary(&operations).unmatched_count <= 3);
                }
            }
        }
    }
}

/// For how long this thread has computed. Time in which others had the processor does not count.
fn computed() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap()
}

/// Asserts that `read` takes about as long for what is long as for what is short: 20 times, where
/// it would be hundreds if each of those that share it cost its length.
fn check_shared_costs_once(read: impl Fn(usize), long: usize) {
    let timed = |length| {
        let start = computed();
        read(length);
        computed() - start
    };
    let (short, long) = (timed(100), timed(long));
    assert!(long < 20 * short + Duration::from_secs(1), "{long:?}, but {short:?} where short");
}

/// Was: a text of 60 kB was looked up anew for each entry, frame and action that shares it, so
/// that a small file took minutes.
#[test]
fn a_long_text_that_all_share_is_looked_up_once() {
    const COUNT: usize = 20_000;
    let read = |length: usize| {
        // Item 0 of the memo is the text.
        let head = [&b"X"[..], &u32::try_from(length).unwrap().to_le_bytes()].concat();
        let text = [&head[..], &b"x".repeat(length), b"\x940"].concat();
        let texts = b"\x8c\x0duser_metadatah\0\x8c\x0fcompile_contexth\0";
        let frames = b"\x8c\x06frames](}(\x8c\x08filenameh\0\x8c\x04nameh\0ue";
        let entry = [&b"}(\x8c\x06actionh\0"[..], texts, frames, b"u"].concat();
        let annotation = b"}(\x8c\x04nameh\0\x8c\x05stage\x8c\x05STARTu";
        let traces = [&text[..], b"](](", &entry.repeat(COUNT), b"ee"].concat();
        let annotations = [&b"]("[..], &annotation.repeat(COUNT), b"e"].concat();
        let snapshot = read_bytes(&pickle(&Py::Dict(vec![
            ("segments", Py::List(vec![])),
            ("device_traces", Py::Raw(traces)),
            ("external_annotations", Py::Raw(annotations)),
        ])))
        .unwrap();
        assert_eq!((snapshot.device_traces[0].len(), snapshot.annotations.len()), (COUNT, COUNT));
        assert_eq!((snapshot.texts.count(), snapshot.stacks.frame_count()), (1, 1));
        assert_eq!(snapshot.unknown_actions, [("x".repeat(length), COUNT)]);
    };
    check_shared_costs_once(read, 60_000);
}

/// Was: the table of a setting was made anew for each of the pairs that share it.
#[test]
fn a_setting_that_is_given_often_is_made_once() {
    const COUNT: usize = 20_000;
    let read = |length: usize| {
        let table = [&b"}\x94("[..], &b"\x8c\x0216K\x01".repeat(length), b"u0"].concat();
        let table_again = b"\x8c\x18roundup_power2_divisionsh\0".repeat(COUNT);
        let head = [&b"X"[..], &u32::try_from(length).unwrap().to_le_bytes()].concat();
        let text = [&head[..], &b"x".repeat(length), b"\x940"].concat();
        let text_again = b"\x8c\x17PYTORCH_CUDA_ALLOC_CONFh\x01h\x01h\x01".repeat(COUNT);
        let settings = [&table[..], &text, b"}(", &table_again, &text_again, b"u"].concat();
        let snapshot = read_bytes(&pickle(&Py::Dict(vec![
            ("segments", Py::List(vec![])),
            ("allocator_settings", Py::Raw(settings)),
        ])))
        .unwrap();
        let settings = snapshot.allocator_settings.unwrap();
        assert_eq!(settings.roundup_power2_divisions.len(), length);
        assert_eq!(settings.configuration.unwrap().len(), length);
    };
    check_shared_costs_once(read, 20_000);
}
