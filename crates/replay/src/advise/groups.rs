//! Puts blocks of one pattern together: same places in the source, same streams.
//!
//! A loop of four hundred steps is one group, and gets one piece of advice.

use std::collections::BTreeMap;

use trace::stream_trace::{OperationNumber, PlaceNumber, UseKind};
use trace::{BlockNumber, StreamNumber};

use super::program::{Act, Program};
use super::report::GROUPS_TRIED_MAX;

/// Groups with fewer blocks than this wait at operations rather than at allocations.
const MEMBERS_MIN: usize = 4;

/// What blocks of one group have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) home: StreamNumber,
    pub(super) allocated: Option<PlaceNumber>,
    pub(super) freed: Option<PlaceNumber>,
    pub(super) uses: Vec<UseKey>,
}

/// One stream's use, by where it was said and where the last operation was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UseKey {
    pub(super) stream: StreamNumber,
    said: Option<PlaceNumber>,
    last: Option<PlaceNumber>,
}

/// Blocks of one pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) key: Key,
    /// In the order of allocation.
    pub(super) members: Vec<BlockNumber>,
    /// In what a wait is moved.
    pub(super) unit: Unit,
    /// The steps at which the home stream comes to such a unit, in order.
    stops: Vec<usize>,
}

/// In what a wait is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Allocations of the same group.
    Allocation,
    /// Operations of the home stream.
    Operation,
}

/// The blocks that were freed after another stream had used them, by group; the largest first.
pub(super) fn groups(program: &Program) -> Vec<Group> {
    let mut by_key: BTreeMap<Key, Vec<BlockNumber>> = BTreeMap::new();
    for (number, block) in program.numbered_blocks() {
        let Some(freed) = block.freed else { continue };
        if block.uses.is_empty() || block.bytes == 0 {
            continue;
        }
        let mut uses: Vec<UseKey> = block
            .uses
            .iter()
            .map(|used| UseKey {
                stream: used.stream,
                said: used.place.filter(|_| used.kind != UseKind::ByOperation),
                last: used.last.and_then(|last| program.operation(last).place),
            })
            .collect();
        uses.sort_unstable();
        let key = Key { home: block.home, allocated: block.place, freed: freed.place, uses };
        by_key.entry(key).or_default().push(number);
    }
    let mut groups: Vec<Group> =
        by_key.into_iter().map(|(key, members)| Group::new(key, members)).collect();
    let bytes = |group: &Group| -> u128 {
        group.members.iter().map(|block| u128::from(program.block(*block).bytes)).sum()
    };
    groups.sort_by_key(|group| std::cmp::Reverse(bytes(group)));
    // A list for each of all groups would grow with the square of the recording.
    for group in groups.iter_mut().take(GROUPS_TRIED_MAX) {
        group.stops = group.stops_in(program);
    }
    groups
}

impl Group {
    fn new(key: Key, members: Vec<BlockNumber>) -> Self {
        let is_loop = MEMBERS_MIN <= members.len();
        let unit = if is_loop { Unit::Allocation } else { Unit::Operation };
        Self { key, members, unit, stops: Vec::new() }
    }

    /// Where a wait could go: before each allocation of the group, or each operation of its home.
    fn stops_in(&self, program: &Program) -> Vec<usize> {
        if self.unit == Unit::Allocation {
            let allocated = |block: &BlockNumber| program.block(*block).allocated_step;
            return self.members.iter().map(allocated).collect();
        }
        let is_home = |act| match act {
            Act::Operate(number) => program.operation(number).stream == self.key.home,
            Act::Record { .. }
            | Act::Wait { .. }
            | Act::Synchronize(_)
            | Act::Allocate(_)
            | Act::Free(_) => false,
        };
        let steps = (0..).zip(&program.steps);
        steps.filter(|(_, step)| is_home(step.act)).map(|(number, _)| number).collect()
    }

    /// A lag at which every wait stands at the end.
    pub(super) fn lag_max(&self) -> usize {
        self.stops.len() + 1
    }

    /// Where each block is freed, and waited for, so many units later. Without any, at its free.
    pub(super) fn moves(
        &self,
        program: &Program,
        lag: usize,
    ) -> impl Iterator<Item = (usize, BlockNumber)> {
        self.members.iter().map(move |number| {
            let freed = program.block(*number).freed.map_or(0, |freed| freed.step);
            (self.stop(freed, lag, program.steps.len()), *number)
        })
    }

    fn stop(&self, freed: usize, lag: usize, end: usize) -> usize {
        let Some(further) = lag.checked_sub(1) else { return freed };
        let next = self.stops.partition_point(|stop| *stop <= freed);
        self.stops.get(next.saturating_add(further)).copied().unwrap_or(end)
    }

    /// The operation before which the first block is waited for, where waits stand at operations.
    pub(super) fn stop_operation(&self, program: &Program, lag: usize) -> Option<OperationNumber> {
        let first = self.members.first()?;
        let freed = program.block(*first).freed?.step;
        let stop = self.stop(freed, lag, program.steps.len());
        match program.steps.get(stop)?.act {
            Act::Operate(number) => Some(number),
            Act::Record { .. }
            | Act::Wait { .. }
            | Act::Synchronize(_)
            | Act::Allocate(_)
            | Act::Free(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use trace::stream_trace::{OperationNumber, PlaceNumber};
    use trace::{BlockNumber, StreamNumber};

    use super::super::program::{
        Act, BlockFacts, FreeFacts, OperationFacts, Program, Step, UseFacts,
    };
    use super::{GROUPS_TRIED_MAX, groups};

    /// So many blocks, each allocated at a place of its own and used once by another stream.
    fn program(count: u32) -> Program {
        let mut program = Program::default();
        program.stream_count = 2;
        let (home, user) = (StreamNumber(0), StreamNumber(1));
        for number in 0..count {
            let block = BlockNumber(number);
            let place = Some(PlaceNumber(number));
            let step = program.steps.len();
            let used = UseFacts::of_operation(user, place, OperationNumber(number));
            program.blocks.push(BlockFacts {
                home,
                bytes: 512,
                address: u64::from(number) * 512,
                place,
                allocated_step: step,
                allocated_ns: 0,
                freed: Some(FreeFacts { step: step + 2, host_ns: 0, place }),
                uses: vec![used],
                replaced_ns: None,
            });
            program.operations.push(OperationFacts {
                stream: home,
                name: None,
                place,
                step: step + 1,
                duration_ns: Some(1),
                recorded_end_ns: None,
            });
            let operation = OperationNumber(number);
            let acts = [Act::Allocate(block), Act::Operate(operation), Act::Free(block)];
            program.steps.extend(acts.map(|act| Step { gap_ns: 0, act }));
        }
        program
    }

    /// Was: every group had a list as long as its stream's operations, so that a file of 10 MB
    /// with a place for each block took all memory there is.
    #[test]
    fn places_to_wait_at_are_listed_for_the_groups_that_are_tried_alone() {
        let count = 3 * GROUPS_TRIED_MAX;
        let found = groups(&program(u32::try_from(count).expect("few")));
        assert_eq!(found.len(), count);
        let with_stops = found.iter().filter(|group| !group.stops.is_empty()).count();
        assert_eq!(with_stops, GROUPS_TRIED_MAX);
        let whole = |group: &super::Group| group.stops.len() == count;
        assert!(found.iter().take(GROUPS_TRIED_MAX).all(whole), "a stop at each operation");
    }
}
