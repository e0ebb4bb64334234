//! A target that is wrong in one way is caught: the negative controls of verification.

use proptest::prelude::*;
use replay::{Mode, Outcome, Plan, ReplayError, Uses, run};
use trace::pytorch::StreamHandle;
use trace::{BlockNumber, Operation, Operations, StreamNumber};

use crate::model::{Fault, Model};
use crate::sound::{any_operations, small_operations};

fn run_broken(operations: &Operations, capacity: u64, fault: Fault) -> Outcome {
    let mut model = Model::new(capacity, fault);
    let plan = Plan::new(operations, Uses::Recorded);
    run(&mut model, &plan, Mode::Verified, &mut |_, _| ()).unwrap()
}

const NO_LIMIT: u64 = u64::MAX / 2;

#[test]
fn overlapping_blocks_are_counted() {
    for fault in [Fault::Overlap(2), Fault::OverlapOneGrain(2)] {
        let outcome = run_broken(&small_operations(), NO_LIMIT, fault);
        assert_eq!(outcome.overlap_count, 1, "{fault:?}");
    }
    let whole = run_broken(&small_operations(), NO_LIMIT, Fault::Overlap(2));
    assert!(0 < whole.stamps.wrong, "the second stamp went over the first");
}

#[test]
fn a_wrong_word_is_counted_each_time_it_is_checked() {
    // The first and the second block are checked twice: at the free, and when the use ends.
    for (fault, wrong) in [
        (Fault::CorruptStamp(1), 2),
        (Fault::CorruptStampEnd(2), 2),
        (Fault::CorruptStamp(3), 1),
        (Fault::CorruptStampEnd(5), 1),
    ] {
        let outcome = run_broken(&small_operations(), NO_LIMIT, fault);
        assert_eq!((outcome.stamps.wrong, outcome.overlap_count), (wrong, 0), "{fault:?}");
    }
}

#[test]
fn a_block_that_is_reused_before_its_use_ends_is_counted() {
    let mut operations = small_operations();
    // Block 2 is given the place of block 0, which is still used.
    operations.list[3] =
        Operation::Allocate { block: BlockNumber(2), bytes: 600, stream: StreamNumber(0) };
    let outcome = run_broken(&operations, NO_LIMIT, Fault::IgnoreUses);
    assert!(0 < outcome.overlap_count);
    assert!(0 < outcome.stamps.wrong, "block 0 was checked again when its use ended");
}

#[test]
fn a_lack_of_room_is_counted_and_its_block_passed_over() {
    let outcome = run_broken(&small_operations(), 300_032 + 1024, Fault::None);
    // Blocks 2 and 4 find no room; all steps about them are passed over.
    assert_eq!(outcome.out_of_memory_count, 2);
    assert_eq!((outcome.stamps.wrong, outcome.overlap_count), (0, 0));
    assert_eq!(outcome.operation_count, 6);
}

#[test]
fn a_pass_that_ends_when_full_ends_at_the_first_lack() {
    let mut model = Model::new(300_032 + 1024, Fault::None);
    let plan = Plan::new(&small_operations(), Uses::Recorded);
    let outcome = run(&mut model, &plan, Mode::UntilFull, &mut |_, _| ()).unwrap();
    assert_eq!((outcome.out_of_memory_count, outcome.operation_count), (1, 3));
    assert_eq!(model.opened.len(), 2, "gates are opened all the same");
}

#[test]
fn a_failure_ends_the_replay_and_names_the_step() {
    let mut model = Model::new(NO_LIMIT, Fault::Fail(2));
    let plan = Plan::new(&small_operations(), Uses::Recorded);
    let error = run(&mut model, &plan, Mode::Timed, &mut |_, _| ()).unwrap_err();
    assert!(matches!(error, ReplayError::Step { step: 1, .. }), "{error:?}");
    assert_eq!(error.to_string(), "step 1 of 13 failed: the model was told to fail");
}

/// Many blocks that are freed in use, each followed by a request of its size.
fn much_reuse() -> Operations {
    let mut operations = Operations::default();
    operations.streams = vec![StreamHandle(0)];
    for number in 0..200 {
        let block = BlockNumber(number);
        operations.list.push(Operation::Allocate { block, bytes: 4096, stream: StreamNumber(0) });
        operations.list.push(Operation::Free { block, deferred: true });
        if 5 <= number {
            operations.list.push(Operation::Complete { block: BlockNumber(number - 5) });
        }
    }
    operations.block_count = 200;
    operations
}

#[test]
fn ignored_uses_are_seen_nearly_every_time() {
    let outcome = run_broken(&much_reuse(), NO_LIMIT, Fault::IgnoreUses);
    assert_eq!(outcome.overlap_count, 199);
    assert_eq!(run_broken(&much_reuse(), NO_LIMIT, Fault::None).overlap_count, 0);
}

proptest! {
    /// Wherever one block lands on another that is live, it is seen.
    #[test]
    fn an_overlap_anywhere_is_seen(operations in any_operations(), at in 2_u64..40) {
        let sound = run_broken(&operations, NO_LIMIT, Fault::None);
        prop_assert_eq!(sound.overlap_count, 0);
        let outcome = run_broken(&operations, NO_LIMIT, Fault::Overlap(at));
        let allocations: Vec<(BlockNumber, u64, usize)> = operations
            .list
            .iter()
            .enumerate()
            .filter_map(|(index, operation)| match *operation {
                Operation::Allocate { block, bytes, .. } => Some((block, bytes, index)),
                _ => None,
            })
            .collect();
        let second = usize::try_from(at).unwrap() - 1;
        let Some(&(_, bytes, index)) = allocations.get(second) else { return Ok(()) };
        let (before, before_bytes, _) = allocations[second - 1];
        let ended = operations.list[..index].iter().any(|operation| match *operation {
            Operation::Free { block, deferred: false } | Operation::Complete { block } => {
                block == before
            }
            _ => false,
        });
        if !ended && 0 < bytes && 0 < before_bytes {
            prop_assert!(0 < outcome.overlap_count);
        }
    }
}
