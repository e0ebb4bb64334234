//! Bisection finds the smallest capacity that serves, to the grain.

use replay::{Bounds, CAPACITY_GRAIN_BYTES, Plan, ReplayError, Uses, smallest_capacity};
use trace::pytorch::StreamHandle;
use trace::{BlockNumber, Operation, Operations, StreamNumber};

use crate::model::{Fault, Model};

const MIB: u64 = 1 << 20;

/// So many blocks of one MiB at a time.
fn blocks_of_a_mib(count: u32) -> Operations {
    let mut operations = Operations::default();
    operations.streams = vec![StreamHandle(0)];
    operations.block_count = usize::try_from(count).unwrap();
    operations.list = (0..count)
        .map(|n| Operation::Allocate { block: BlockNumber(n), bytes: MIB, stream: StreamNumber(0) })
        .collect();
    operations
}

/// Bounds in MiB.
fn bounds(low: u64, guess: u64, high: u64) -> Bounds {
    Bounds { low_bytes: low * MIB, guess_bytes: guess * MIB, high_bytes: high * MIB }
}

fn fit(count: u32, low: u64, guess: u64, high: u64) -> (Option<u64>, u32) {
    let plan = Plan::new(&blocks_of_a_mib(count), Uses::Recorded);
    let fresh = |capacity| Ok(Model::new(capacity, Fault::None));
    let bounds = bounds(low, guess, high);
    let fit = smallest_capacity(&plan, bounds, fresh, &mut |_, _| ()).unwrap();
    (fit.capacity_bytes, fit.try_count)
}

#[test]
fn the_answer_is_the_smallest_whole_grain() {
    for count in 1..40 {
        let needed = (u64::from(count) * MIB).next_multiple_of(CAPACITY_GRAIN_BYTES);
        for guess in [1, 20, 40, 64] {
            let (capacity, _) = fit(count, u64::from(count) - 1, guess, 64);
            assert_eq!(capacity, Some(needed), "{count} MiB, {guess} MiB guessed");
        }
    }
}

#[test]
fn a_capacity_that_was_enough_is_tried_again_when_nothing_lies_below() {
    assert_eq!(fit(8, 7, 8, 64), (Some(8 * MIB), 1));
    assert_eq!(fit(1, 0, 2, 2), (Some(2 * MIB), 1));
}

#[test]
fn few_capacities_are_tried() {
    let (capacity, try_count) = fit(100, 0, 1 << 20, 1 << 20);
    assert_eq!(capacity, Some(100 * MIB));
    assert!(try_count <= 21, "{try_count}");
}

#[test]
fn there_may_be_none() {
    assert_eq!(fit(65, 0, 64, 64), (None, 1));
    assert_eq!(fit(65, 0, 2, 65).0, None, "65 MiB hold 32 whole grains");
}

#[test]
fn a_target_that_cannot_be_made_is_an_error() {
    let plan = Plan::new(&blocks_of_a_mib(1), Uses::Recorded);
    let fresh = |_| Err::<Model, _>(replay::TargetError::OutOfMemory);
    let error = smallest_capacity(&plan, bounds(0, 8, 8), fresh, &mut |_, _| ()).unwrap_err();
    assert!(matches!(error, ReplayError::Target { capacity_bytes: 8_388_608, .. }));
}
