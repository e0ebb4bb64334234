//! Random damage never panics, and random histories cut anywhere are rebuilt.

use std::collections::BTreeMap;

use proptest::prelude::*;
use trace::pytorch::ReadOptions;
use trace::{Operation, page_floor_bytes};

use crate::compression;
use crate::pickle::{Py, block, entry, pickle, read_bytes, segment, snapshot};

const LIMITS: ReadOptions =
    ReadOptions { decompressed_bytes_max: 1 << 20, memory_bytes_max: 8 << 20 };

/// Reads, and if that works does all that can be done with a snapshot.
fn exercise(bytes: &[u8]) {
    match trace::pytorch::read(bytes, 0, &LIMITS, None) {
        Ok(snapshot) => {
            for device in 0..snapshot.device_traces.len() {
                if let Ok(trace) = snapshot.trace(Some(device)) {
                    let operations = trace.operations();
                    assert_eq!(trace.summary(&operations).device, device);
                    check_invariants(&operations);
                }
            }
        }
        Err(error) => assert!(error.to_string().lines().count() <= 3, "{error}"),
    }
}

/// Every block is allocated once, freed at most once, completed only after a deferred free.
fn check_invariants(operations: &trace::Operations) {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum State {
        New,
        Live,
        Pending,
        Gone,
    }
    let mut states = vec![State::New; operations.block_count];
    for operation in &operations.list {
        let (block, from, to) = match *operation {
            Operation::Allocate { block, stream, .. } => {
                assert!(stream.index() < operations.streams.len());
                (block, State::New, State::Live)
            }
            Operation::Free { block, deferred: true } => (block, State::Live, State::Pending),
            Operation::Free { block, deferred: false } => (block, State::Live, State::Gone),
            Operation::Complete { block } => (block, State::Pending, State::Gone),
            Operation::OutOfMemory { .. } => continue,
        };
        assert_eq!(states[block.index()], from, "{operation:?}");
        states[block.index()] = to;
    }
    let pending = states.iter().filter(|state| **state == State::Pending).count();
    assert_eq!(pending, operations.never_completed_count);
    assert!(!states.contains(&State::New));
}

/// A step of a made-up history: a slot, what to do with it, and how large.
type Turn = (usize, u8, i64);

/// What is in use: (requested bytes, stream, freed and waiting) by address.
type Model = BTreeMap<i64, (i64, i64, bool)>;

const SLOT_BYTES: i64 = 8 << 20;

/// Plays turns on a model that is too simple to be wrong; gives the entries and all states.
fn play(turns: &[Turn]) -> (Vec<Py>, Vec<Model>) {
    let (mut entries, mut models) = (Vec::new(), vec![Model::new()]);
    let mut model = Model::new();
    let mut push = |model: &Model, action, address, size, stream| {
        entries.push(entry(action, address, size, stream));
        models.push(model.clone());
    };
    for &(slot, kind, size) in turns {
        let address = SLOT_BYTES * (1 + i64::try_from(slot).unwrap());
        match model.get(&address).copied() {
            None => {
                let stream = i64::from(kind % 3);
                model.insert(address, (size, stream, false));
                push(&model, "alloc", address, size, stream);
            }
            Some((size, stream, false)) => {
                model.insert(address, (size, stream, true));
                push(&model, "free_requested", address, size, stream);
                if kind % 2 == 0 {
                    model.remove(&address);
                    push(&model, "free_completed", address, size, stream);
                }
            }
            Some((size, stream, true)) => {
                model.remove(&address);
                push(&model, "free_completed", address, size, stream);
            }
        }
    }
    (entries, models)
}

/// The segments that show a model's state.
fn segments(model: &Model) -> Vec<Py> {
    let one = |(&address, &(size, stream, pending)): (&i64, &(i64, i64, bool))| {
        let state = if pending { "active_pending_free" } else { "active_allocated" };
        let rounded = (size.max(1) + 511) / 512 * 512;
        segment(address, SLOT_BYTES, stream, vec![block(address, rounded, size, state)])
    };
    model.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let plain = compression::sample();
        let mut files = vec![plain.clone()];
        files.extend(compression::ALL.map(|(_, compress)| compress(&plain)));
        for mut file in files {
            for (position, byte) in &changes {
                let position = position.index(file.len());
                file[position] = *byte;
            }
            let length = cut.map_or(file.len(), |cut| cut.index(file.len()));
            exercise(&file[..length]);
        }
    }

    #[test]
    fn random_opcodes_never_panic(
        opcodes in prop::collection::vec(
            prop_oneof![
                prop::sample::select(&b".(012N]lae)t}dsu\x85\x86\x87\x88\x89\x94"[..])
                    .prop_map(|opcode| vec![opcode]),
                (0..40u8).prop_map(|key| vec![b'h', key]),
                any::<u8>().prop_map(|number| vec![b'K', number]),
                prop::sample::select(&["action", "addr", "size", "segments", "device_traces"][..])
                    .prop_map(|key| [&[0x8c, u8::try_from(key.len()).unwrap()], key.as_bytes()]
                        .concat()),
                any::<[u8; 2]>().prop_map(|bytes| bytes.to_vec()),
            ],
            0..200,
        ),
    ) {
        exercise(&[&[0x80, 4][..], &opcodes.concat(), b"."].concat());
    }

    #[test]
    fn a_history_cut_anywhere_is_rebuilt(
        turns in prop::collection::vec((0..6usize, any::<u8>(), 0..SLOT_BYTES), 1..120),
        cut in any::<prop::sample::Index>(),
    ) {
        let (entries, models) = play(&turns);
        let cut = cut.index(entries.len());
        let last = models.last().unwrap();
        let bytes = pickle(&snapshot(segments(last), vec![entries[cut..].to_vec()]));
        let snapshot = read_bytes(&bytes).unwrap();
        let trace = snapshot.trace(None).unwrap();
        let rebuilt: Vec<_> = trace.initial_blocks().iter().map(|block| {
            let address = block.address.cast_signed();
            let stream = block.stream.0.cast_signed();
            (address, (block.requested_bytes.cast_signed(), stream, block.is_pending))
        }).collect();
        let expected: Vec<_> = models[cut].clone().into_iter().collect();
        prop_assert_eq!(rebuilt, expected);

        let operations = trace.operations();
        check_invariants(&operations);
        prop_assert_eq!((operations.unmatched_count, operations.overwritten_count), (0, 0));
        let pending = last.values().filter(|block| block.2).count();
        prop_assert_eq!(operations.never_completed_count, pending);

        let floor = |model: &Model| -> u64 {
            let live = model.values().filter(|block| !block.2);
            live.map(|block| page_floor_bytes(u64::try_from(block.0).unwrap())).sum()
        };
        let highest = models[cut..].iter().map(floor).max().unwrap();
        prop_assert_eq!(trace.summary(&operations).peaks.page_floor_bytes, highest);
    }
}
