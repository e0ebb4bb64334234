//! Puts blocks of one pattern together: same places in the source, same streams.
//!
//! A loop of four hundred steps is one group, and gets one piece of advice.

use std::collections::BTreeMap;

use trace::stream_trace::{OperationNumber, PlaceNumber, UseKind};
use trace::{BlockNumber, StreamNumber};

use super::program::{Act, Program};

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
        by_key.into_iter().map(|(key, members)| Group::new(program, key, members)).collect();
    let bytes = |group: &Group| -> u128 {
        group.members.iter().map(|block| u128::from(program.block(*block).bytes)).sum()
    };
    groups.sort_by_key(|group| std::cmp::Reverse(bytes(group)));
    groups
}

impl Group {
    fn new(program: &Program, key: Key, members: Vec<BlockNumber>) -> Self {
        if MEMBERS_MIN <= members.len() {
            let stops = members.iter().map(|block| program.block(*block).allocated_step).collect();
            return Self { key, members, unit: Unit::Allocation, stops };
        }
        let is_home = |act| match act {
            Act::Operate(number) => program.operation(number).stream == key.home,
            Act::Record { .. }
            | Act::Wait { .. }
            | Act::Synchronize(_)
            | Act::Allocate(_)
            | Act::Free(_) => false,
        };
        let steps = (0..).zip(&program.steps);
        let stops = steps.filter(|(_, step)| is_home(step.act)).map(|(number, _)| number).collect();
        Self { key, members, unit: Unit::Operation, stops }
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
