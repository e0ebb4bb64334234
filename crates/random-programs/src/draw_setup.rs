//! Draws what a program begins with, and the mistake that it makes.
//!
//! What came later than the rest has a chance of its own, so that the rest is drawn as without it.

use allocator::{Bound, Policy};
use cuda_sim::Schedule;

use crate::chance::Chance;
use crate::draw::Wishes;
use crate::operation::{BlockName, Mended, Mistake, StreamName};
use crate::program::{Memory, Setup};

/// One program in so many is watched by the checker: a watched allocator goes slower ways, and the
/// fast ones are to be come through as well.
const CHECKED_ONE_IN: usize = 4;
/// One watched program in so many makes a mistake.
const MISTAKEN_ONE_IN: usize = 2;
/// A mistake ends the program, so it comes when all but one in so many operations are over.
const LATE_ONE_IN: usize = 6;

/// Draws the setup of a seed.
pub(crate) fn draw_setup(seed: u64, wishes: &Wishes, chance: &mut Chance) -> Setup {
    let policies = [Policy::Default, Policy::Default, Policy::Deterministic, Policy::PyTorch];
    let drawn = chance.pick(&policies);
    let (stream_bound, pool, pool_bound) = draw_bounds_and_pool(seed);
    let mut setup = Setup {
        stream_bound,
        pool_bound,
        // One of another policy beside it would be no program of the policy wished for.
        pool: pool.map(|drawn| wishes.policy.unwrap_or(drawn)),
        beside: None,
        schedule: wishes.schedule.clone().unwrap_or(Schedule::Seeded(seed)),
        policy: wishes.policy.unwrap_or(drawn),
        limit_bytes: chance.pick(&[None, Some(24 << 20), Some(48 << 20)]),
        pending_bytes_max: chance.pick(&[None, Some(0), Some(3 << 20)]),
        memory: chance.pick(&[Memory::Virtual, Memory::Virtual, Memory::Plain]),
        one_queue: wishes.one_queue,
        earlier_streams: 0,
        looks: chance.once_in(3),
        checked: wishes.checked.unwrap_or(checks(seed).once_in(CHECKED_ONE_IN)),
        broken: None,
    };
    if let Some([policy, pool, beside]) = wishes.mixed {
        setup = Setup { policy, pool: Some(pool), beside: Some(beside), ..setup };
        setup.limit_bytes = None;
    }
    setup
}

/// Bounds on memory in flight, and a private pool beside the allocator's own memory.
fn draw_bounds_and_pool(seed: u64) -> (Option<Bound>, Option<Policy>, Option<Bound>) {
    let mut chance = Chance::new(!seed);
    let bytes = chance.pick(&[0, 1 << 20, 6 << 20]);
    let bounds = |bytes| {
        let (host, device) = (Bound::on_host(bytes), Bound::on_device(bytes));
        [None, None, Some(host), Some(device), Some(host.with_allocated())]
    };
    let pools =
        [None, None, Some(Policy::Default), Some(Policy::Deterministic), Some(Policy::PyTorch)];
    let (stream_bound, pool) = (chance.pick(&bounds(bytes)), chance.pick(&pools));
    let bytes = chance.pick(&[0, 2 << 20, 12 << 20]);
    (stream_bound, pool, chance.pick(&bounds(bytes)))
}

fn checks(seed: u64) -> Chance {
    Chance::new(seed.rotate_left(32) ^ 0x00c4_ec4e)
}

/// When a program makes a mistake, and the chance that says which.
pub(crate) struct MistakeDraw {
    /// It comes when there are so many steps.
    pub(crate) after_steps: usize,
    chance: Chance,
}

impl MistakeDraw {
    /// Whether the program of a seed makes one.
    pub(crate) fn new(seed: u64, wishes: &Wishes, is_alone: bool) -> Option<Self> {
        let mut chance = checks(seed);
        let is_checked = wishes.checked.unwrap_or(chance.once_in(CHECKED_ONE_IN));
        let draws = is_checked && is_alone && wishes.mistakes && chance.once_in(MISTAKEN_ONE_IN);
        let late = chance.below(wishes.operations.div_ceil(LATE_ONE_IN).max(1));
        draws.then(|| Self { after_steps: wishes.operations.saturating_sub(late + 1), chance })
    }

    /// Draws the mistake, from the blocks and streams that are there. The place of a block that is
    /// given back by it comes with it.
    pub(crate) fn draw(
        &mut self,
        blocks: &[(BlockName, u64)],
        streams: &[StreamName],
        new: (BlockName, u64),
    ) -> (Mistake, Mended, Option<usize>) {
        let chance = &mut self.chance;
        let mended = if chance.once_in(3) { Mended::Yes } else { Mended::No };
        let (user, other) = (chance.pick(streams), chance.pick(streams));
        let (new, bytes) = new;
        let before_allocation = Mistake::BeforeAllocation { block: new, bytes, home: other, user };
        if blocks.is_empty() {
            return (before_allocation, mended, None);
        }
        let place = chance.below(blocks.len());
        let (block, _) = *blocks.get(place).expect("a place below the length");
        let (early, late) = (other, user);
        match chance.below(5) {
            0 => (Mistake::Untold { block, user }, mended, Some(place)),
            1 => (Mistake::AfterFree { block, user }, mended, Some(place)),
            2 => (Mistake::WrongEvent { block, early, late }, mended, None),
            3 => (Mistake::Unordered { block, early, late }, mended, None),
            _ => (before_allocation, mended, None),
        }
    }
}
