//! A sound target serves a trace without a complaint, and the figures add up.

use proptest::prelude::*;
use replay::{Gate, Mode, Outcome, Plan, Uses, run};
use trace::pytorch::StreamHandle;
use trace::{BlockNumber, Operation, Operations, StreamNumber};

use crate::model::{Fault, Model};

/// Runs operations over a sound model without limits.
pub(crate) fn run_sound(operations: &Operations, uses: Uses, mode: Mode) -> (Outcome, Model) {
    let mut model = Model::new(u64::MAX / 2, Fault::None);
    let plan = Plan::new(operations, uses);
    let outcome = run(&mut model, &plan, mode, &mut |_, _| ()).unwrap();
    (outcome, model)
}

/// Three blocks of two streams; one is used to the end, one until a moment.
pub(crate) fn small_operations() -> Operations {
    let block = BlockNumber;
    let stream = StreamNumber;
    let mut operations = Operations::default();
    operations.streams = vec![StreamHandle(0), StreamHandle(7)];
    operations.block_count = 5;
    operations.list = vec![
        Operation::Allocate { block: block(0), bytes: 1000, stream: stream(0) },
        Operation::Allocate { block: block(1), bytes: 300_000, stream: stream(1) },
        Operation::Free { block: block(0), deferred: true },
        Operation::Allocate { block: block(2), bytes: 1, stream: stream(0) },
        Operation::Free { block: block(1), deferred: true },
        Operation::Complete { block: block(0) },
        Operation::Allocate { block: block(3), bytes: 0, stream: stream(0) },
        Operation::Allocate { block: block(4), bytes: 200_000, stream: stream(1) },
        Operation::Free { block: block(2), deferred: false },
        Operation::Free { block: block(3), deferred: false },
        Operation::OutOfMemory { bytes: 1 << 40, stream: stream(0) },
    ];
    operations
}

#[test]
fn every_stamp_of_a_sound_target_is_right() {
    let (outcome, model) = run_sound(&small_operations(), Uses::Recorded, Mode::Verified);
    // Block 0: both ends, at its free and when its use ends. Block 1: words at 0, 64, .. 256 KiB
    // and at the end, twice. Block 2: both ends. Block 4, never freed: 0, 64, 128, 192 KiB and the
    // end.
    assert_eq!((outcome.stamps.checked, outcome.stamps.wrong), (2 * 2 + 2 * 6 + 2 + 5, 0));
    assert_eq!((outcome.overlap_count, outcome.out_of_memory_count), (0, 0));
    assert_eq!(outcome.operation_count, 9);
    assert_eq!(model.opened, [Gate(0), Gate(1)]);
    assert_eq!(outcome.figures.peak_pending_bytes, 1024 + 300_032);
}

#[test]
fn a_timed_pass_leaves_blocks_alone() {
    let (outcome, model) = run_sound(&small_operations(), Uses::Recorded, Mode::Timed);
    assert_eq!((outcome.stamps.checked, outcome.operation_count), (0, 9));
    assert!(0.0 < outcome.ns_per_operation());
    assert_eq!(model.opened, [Gate(0), Gate(1)]);
}

#[test]
fn without_uses_nothing_is_pending() {
    let (outcome, model) = run_sound(&small_operations(), Uses::None, Mode::Verified);
    assert_eq!(outcome.figures.peak_pending_bytes, 0);
    assert_eq!(outcome.stamps.wrong, 0);
    assert!(model.opened.is_empty());
}

#[test]
fn progress_begins_at_nothing_and_ends_at_all() {
    let mut operations = Operations::default();
    operations.streams = vec![StreamHandle(0)];
    operations.block_count = 5000;
    let allocate =
        |n| Operation::Allocate { block: BlockNumber(n), bytes: 512, stream: StreamNumber(0) };
    operations.list = (0..5000).map(allocate).collect();
    let mut told = Vec::new();
    let mut model = Model::new(u64::MAX / 2, Fault::None);
    let plan = Plan::new(&operations, Uses::Recorded);
    run(&mut model, &plan, Mode::Timed, &mut |done, all| told.push((done, all))).unwrap();
    assert_eq!(told.first(), Some(&(0, 5000)));
    assert_eq!(told.last(), Some(&(5000, 5000)));
    assert!(told.is_sorted() && 3 < told.len());
}

/// Operations by the rules of [`Operations`]: each block allocated once, freed at most once, and
/// completed only after a deferred free.
pub(crate) fn any_operations() -> impl Strategy<Value = Operations> {
    let choice = (0_u8..8, any::<prop::sample::Index>(), 0_u64..400_000, 0_u32..3);
    prop::collection::vec(choice, 1..200).prop_map(|choices| {
        let mut operations = Operations::default();
        operations.streams = vec![StreamHandle(0), StreamHandle(1), StreamHandle(2)];
        let (mut live, mut pending) = (Vec::new(), Vec::new());
        for (kind, which, bytes, stream) in choices {
            let operation = match kind {
                0..4 => {
                    let number = u32::try_from(operations.block_count).unwrap();
                    operations.block_count += 1;
                    let block = BlockNumber(number);
                    live.push(block);
                    Operation::Allocate { block, bytes, stream: StreamNumber(stream) }
                }
                4 | 5 if !live.is_empty() => {
                    let block = live.swap_remove(which.index(live.len()));
                    Operation::Free { block, deferred: false }
                }
                6 if !live.is_empty() => {
                    let block = live.swap_remove(which.index(live.len()));
                    pending.push(block);
                    Operation::Free { block, deferred: true }
                }
                7 if !pending.is_empty() => {
                    let block = pending.swap_remove(which.index(pending.len()));
                    Operation::Complete { block }
                }
                _ => continue,
            };
            operations.list.push(operation);
        }
        operations
    })
}

proptest! {
    /// A sound target serves anything, and what it counts does not depend on verification.
    #[test]
    fn anything_is_served(operations in any_operations()) {
        let (verified, _) = run_sound(&operations, Uses::Recorded, Mode::Verified);
        prop_assert_eq!((verified.stamps.wrong, verified.overlap_count), (0, 0));
        prop_assert_eq!(verified.out_of_memory_count, 0);
        let (timed, _) = run_sound(&operations, Uses::Recorded, Mode::Timed);
        prop_assert_eq!(timed.figures, verified.figures);
        prop_assert_eq!(timed.operation_count, verified.operation_count);
    }
}
