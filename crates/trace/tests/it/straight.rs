//! Entries read straight from the usual opcodes are those that the machine makes of the same
//! opcodes one by one, whatever stands in them.

use std::collections::HashMap;

use proptest::prelude::*;
use trace::pytorch::{ReadError, ReadOptions, Snapshot, read};

const KEYS: &[&str] = &[
    "action",
    "addr",
    "size",
    "stream",
    "time_us",
    "frames",
    "pool_id",
    "user_metadata",
    "compile_context",
    "device_free",
    "mood",
];

/// The pairs of an entry, by the number of the key, and whether the memo keeps it.
type Written = (Vec<(usize, Vec<u8>)>, bool);

/// What may stand for a value: most often what is meant to, now and then anything.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let integer = prop_oneof![
        any::<u8>().prop_map(|it| vec![b'K', it]),
        any::<u16>().prop_map(|it| [&[b'M'][..], &it.to_le_bytes()].concat()),
        any::<i32>().prop_map(|it| [&[b'J'][..], &it.to_le_bytes()].concat()),
        prop::collection::vec(any::<u8>(), 0..11).prop_map(|it| [
            &[0x8a, u8::try_from(it.len()).unwrap()][..],
            &it
        ]
        .concat()),
    ];
    let text = prop_oneof![
        prop::sample::select(vec![
            "alloc",
            "free_completed",
            "oom",
            "N/A",
            "",
            "size",
            "né",
            "nap"
        ])
        .prop_map(|it| it.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..5),
    ];
    let text = (text, 0..3_u8).prop_map(|(text, kind)| {
        let length = u8::try_from(text.len()).unwrap();
        let head = if kind == 0 { vec![b'X', length, 0, 0, 0] } else { vec![0x8c, length] };
        let memo: &[u8] = if kind == 1 { b"\x94" } else { b"" };
        [&head, &text[..], memo].concat()
    });
    let get = (0..40_u8).prop_map(|key| vec![b'h', key]);
    let long_get = (0..40_u8).prop_map(|key| vec![b'j', key, 0, 0, 0]);
    // Up to what the memo keeps of the entries themselves.
    let key = prop_oneof![8 => 0..14_u8, 1 => 14..20_u8];
    let gets = prop::collection::vec(key.prop_map(|key| vec![b'h', key]), 0..4);
    let list = (gets, 0..4_u8).prop_map(|(gets, kind)| {
        let items = gets.concat();
        match kind {
            0 => [b"]\x94(", &items[..], b"e"].concat(),
            1 => [b"](", &items[..], b"e"].concat(),
            2 => [
                &b"]\x94"[..],
                &gets.iter().flat_map(|it| [&it[..], b"a"].concat()).collect::<Vec<_>>(),
            ]
            .concat(),
            _ => b"]\x94".to_vec(),
        }
    });
    let pair = (integer.clone(), integer.clone(), 0..3_u8).prop_map(|(first, second, kind)| {
        let end: &[u8] = if kind == 0 { b"\x86" } else { b"\x86\x94" };
        [&first[..], &second, end].concat()
    });
    let rare = prop::sample::select(vec![
        &b"N"[..],
        b"\x88",
        b"G\0\0\0\0\0\0\0\0",
        b")",
        b"}",
        b"C\x01a",
        b"K\x01\x85",
        b"K\x012\x86",
    ]);
    prop_oneof![
        4 => integer, 3 => text, 1 => get, 1 => long_get, 2 => list, 2 => pair,
        1 => rare.prop_map(<[u8]>::to_vec),
    ]
}

/// What follows the pickle: only where so much is ahead is more than one entry taken at once.
const AFTER: [u8; 4096] = [0; 4096];

/// A whole pickle; `detour` puts opcodes without effect where an entry would be taken straight.
fn written(entries: &[Written], detour: bool) -> Vec<u8> {
    let mut bytes = vec![0x80, 4];
    // Keys 0 to 10 of the memo are the words, 11 to 13 frames.
    for key in KEYS {
        bytes.extend([0x8c, u8::try_from(key.len()).unwrap()]);
        bytes.extend(key.as_bytes());
        bytes.extend(b"\x940");
    }
    bytes.extend(b"}\x940}\x94(\x8c\x04lineK\x07u0]\x940");
    bytes.extend(b"}(\x8c\x08segments]\x8c\x0ddevice_traces](](");
    for (pairs, is_kept) in entries {
        bytes.push(b'}');
        if detour {
            bytes.extend(b"N0");
        }
        if *is_kept {
            bytes.push(0x94);
        }
        bytes.push(b'(');
        for (key, value) in pairs {
            bytes.extend([b'h', u8::try_from(*key).unwrap()]);
            bytes.extend(value);
        }
        bytes.push(b'u');
    }
    bytes.extend(b"eeu.");
    bytes.extend(AFTER);
    bytes
}

fn read_limited(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let options = ReadOptions { decompressed_bytes_max: 1 << 20, memory_bytes_max: 8 << 20 };
    read(bytes, 0, &options, None)
}

/// An error without its offset, which the detour moves.
fn kind(error: &ReadError) -> String {
    let text = format!("{error:?}");
    text.split("offset").next().unwrap().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 1024,
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_entry_read_straight_is_that_of_the_machine(
        entries in prop::collection::vec(
            (
                prop::collection::vec((0..KEYS.len(), value()), 0..6).prop_map(|mut pairs| {
                    // Mostly entries that are believed, so that their values are compared.
                    pairs.insert(0, (0, b"\x8c\x03nap".to_vec()));
                    pairs
                }),
                any::<bool>(),
            ),
            1..6,
        ),
    ) {
        match (read_limited(&written(&entries, false)), read_limited(&written(&entries, true))) {
            (Ok(straight), Ok(machine)) => prop_assert_eq!(straight, machine),
            (Err(straight), Err(machine)) => prop_assert_eq!(kind(&straight), kind(&machine)),
            (straight, machine) => prop_assert!(false, "{:?} but {:?}", straight, machine),
        }
    }
}

/// Was: the entry that is being read was looked for among those that are whole, and the reader
/// panicked. Python writes no such list, but a file may have one.
#[test]
fn an_entry_among_its_own_frames_is_as_the_machine_has_it() {
    // The memo keeps the first entry as 14, behind the frames; its frames as 15.
    let lists: [&[u8]; 4] = [b"](h\x0ee", b"]\x94(h\x0eh\x0ce", b"]h\x0ea", b"](h\x0ch\x0eh\x0ee"];
    for frames in lists {
        let pairs = vec![(0, b"\x8c\x03nap".to_vec()), (5, frames.to_vec())];
        let entries = [(pairs.clone(), true), (pairs, true)];
        let straight = read_limited(&written(&entries, false)).unwrap();
        assert_eq!(straight, read_limited(&written(&entries, true)).unwrap(), "{frames:?}");
        assert_eq!(straight.device_traces[0].len(), 2);
    }
}

/// The comparison compares something: most programs are read, and their entries differ.
#[test]
fn random_entries_are_mostly_read() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut outcomes = HashMap::new();
    for _ in 0..300 {
        let pair = (value(), 1..KEYS.len()).new_tree(&mut runner).unwrap().current();
        let pairs = vec![
            (0, b"\x8c\x05alloc".to_vec()),
            (1, b"K\x01".to_vec()),
            (2, b"K\x02".to_vec()),
            (pair.1, pair.0),
        ];
        let outcome = read_limited(&written(&[(pairs, true)], false)).is_ok();
        *outcomes.entry(outcome).or_insert(0) += 1;
    }
    assert!(outcomes[&true] > 150, "{outcomes:?}");
}
