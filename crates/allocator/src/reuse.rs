//! Steps 1 to 3 of service: free blocks that are ready, known ordered, or known complete.
//!
//! No driver call is made here; asking the device happens in `allocator`, outside all locks.

use std::cell::Cell;

use streams::StreamOrder;
use streams::order::{Point, StreamSlot};

use crate::block::{BlockIndex, BlockName, BlockRecord, Handle, State};
use crate::bytes::round_up;
use crate::carve::requirements;
use crate::config::Sabotage;
use crate::shard::ShardState;
use crate::source::PoolKind;
use crate::view::View;

/// A block that was just handed out, as its handle needs it. In this order it is written and read
/// in the same two pieces.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Taken {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) name: BlockName,
}

/// What a request asks of a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'stream> {
    /// The stream that will use the block.
    pub(crate) order: &'stream StreamOrder,
    pub(crate) kind: PoolKind,
    /// Whole grains.
    pub(crate) size: u64,
    /// What the caller asked for.
    pub(crate) requested: u64,
    /// Whether the block is handed out as numbers.
    pub(crate) is_raw: bool,
    /// Only memory whose every earlier use is complete will do (a capturing stream: R8).
    pub(crate) complete_only: bool,
    /// Which step served it.
    pub(crate) served: &'stream Cell<Step>,
}

/// Which step served a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    OwnStream,
    KnownOrder,
    Completion,
    DeviceWait,
    Growth,
    Ladder,
}

impl<'stream> Request<'stream> {
    /// What a caller asks for, as a shard is asked for it.
    #[inline]
    pub(crate) fn new(
        order: &'stream StreamOrder,
        bytes: u64,
        is_raw: bool,
        complete_only: bool,
        served: &'stream Cell<Step>,
    ) -> Self {
        let size = round_up(bytes);
        let kind = PoolKind::of(size);
        Self { order, kind, size, requested: bytes, is_raw, complete_only, served }
    }

    /// Whether a requirement is met for the requester, as `view` sees it.
    #[inline]
    fn is_met(&self, view: View, point: Point) -> bool {
        if self.complete_only {
            view.is_complete(self.order, point)
        } else {
            view.knows(self.order, point)
        }
    }
}

impl ShardState {
    /// Step 1: a ready block of the shard's own stream, a recent one of the right size if there
    /// is one. What was asked for is `requested`, and whether in numbers.
    #[inline]
    pub(crate) fn take_ready(&mut self, size: u64, requested: (u64, bool)) -> Option<Taken> {
        if !self.limbo.is_empty() {
            self.sweep();
            if self.is_to_keep_to_stock(size) {
                return None;
            }
        }
        // Both ways end in an index, so that what the record says is read in one place.
        let block = match self.recent.take(size) {
            Some(block) => block,
            None => self.take_ready_part(size)?,
        };
        Some(self.hand_out_whole(block, self.slot, requested, Step::OwnStream))
    }

    /// Step 1 where no recent block has the size: the best fit, cut, and reserved.
    #[inline(never)]
    fn take_ready_part(&mut self, size: u64) -> Option<BlockIndex> {
        let kind = PoolKind::of(size);
        let fit = |state: &Self| state.pool(kind).ready.best_fit(&state.arena, size);
        let block = match fit(self) {
            Some(block) => block,
            None if self.join_all_recent() => fit(self)?,
            None => return None,
        };
        self.take_out(block, State::Reserved);
        self.split_for(block, size, self.slot);
        Some(block)
    }

    /// Step 2 and 3: a block whose every requirement the requester knows to be met; for the
    /// shard's own stream that is one of several neighbours joined on demand.
    pub(crate) fn take_known(&mut self, request: &Request<'_>) -> Option<Taken> {
        if !self.limbo.is_empty() {
            self.sweep();
        }
        self.join_all_recent();
        if let Some(block) = self.find_known(request) {
            let step = self.step_of(block, request.order);
            self.take_out(block, State::Reserved);
            return Some(self.hand_out(block, request, step));
        }
        let run = self.find_known_run(request)?;
        let step = self.step_of_run(&run, request.order);
        let block = self.join_run(&run);
        Some(self.hand_out(block, request, step))
    }

    fn find_known(&self, request: &Request<'_>) -> Option<BlockIndex> {
        let pool = self.pool(request.kind);
        let ready = pool.ready.fitting(&self.arena, request.size);
        let pending = pool.pending.fitting(&self.arena, request.size);
        ready.chain(pending).find(|block| self.is_known(*block, request))
    }

    /// Whether every requirement of a free block is met for the requester (R2).
    pub(crate) fn is_known(&self, block: BlockIndex, request: &Request<'_>) -> bool {
        let record = self.arena.at(block);
        if self.is_sabotaged(Sabotage::IgnoreFreePoint) {
            return record.frontier().all(|point| request.is_met(self.view, point));
        }
        requirements(record).all(|point| request.is_met(self.view, point))
    }

    /// Neighbours that are free and known, and large enough only together.
    fn find_known_run(&self, request: &Request<'_>) -> Option<Vec<BlockIndex>> {
        let pool = self.pool(request.kind);
        if pool.free_bytes() < request.size {
            return None;
        }
        for segment in self.segment_indices() {
            let mut run = Vec::new();
            let mut run_bytes = 0;
            for block in self.blocks_of(segment) {
                let record = self.arena.at(block);
                if self.kind_of(block) != request.kind {
                    break;
                }
                if record.state.is_free() && self.is_known(block, request) {
                    run.push(block);
                    run_bytes += record.size;
                    if request.size <= run_bytes {
                        return Some(run);
                    }
                } else {
                    run.clear();
                    run_bytes = 0;
                }
            }
        }
        None
    }

    /// Takes a run of free neighbours out of the lists and makes it one reserved block.
    pub(crate) fn join_run(&mut self, run: &[BlockIndex]) -> BlockIndex {
        for block in run {
            self.take_out(*block, State::Reserved);
        }
        self.join_reserved(run.iter().copied())
    }

    /// Makes neighbours that are reserved already one block.
    pub(crate) fn join_reserved(
        &mut self,
        run: impl IntoIterator<Item = BlockIndex>,
    ) -> BlockIndex {
        let mut rest = run.into_iter();
        let first = rest.next().expect("a run has at least one block");
        for block in rest {
            self.join(first, block);
        }
        first
    }

    /// How a known block is known: by order alone, or because its uses are complete.
    fn step_of(&self, block: BlockIndex, order: &StreamOrder) -> Step {
        self.step_of_record(self.arena.at(block), order)
    }

    fn step_of_run(&self, run: &[BlockIndex], order: &StreamOrder) -> Step {
        let steps = run.iter().map(|block| self.step_of(*block, order));
        steps.max_by_key(|step| *step == Step::Completion).unwrap_or(Step::OwnStream)
    }

    fn step_of_record(&self, record: &BlockRecord, order: &StreamOrder) -> Step {
        let mut foreign = requirements(record).filter(|point| point.stream != order.slot());
        match foreign.next() {
            None => Step::OwnStream,
            Some(first) if self.is_complete(first) && foreign.all(|p| self.is_complete(p)) => {
                Step::Completion
            }
            Some(_) => Step::KnownOrder,
        }
    }

    /// Makes a reserved block the requester's: cuts off what is not needed, sets its home.
    #[inline]
    pub(crate) fn hand_out(
        &mut self,
        block: BlockIndex,
        request: &Request<'_>,
        step: Step,
    ) -> Taken {
        request.served.set(step);
        self.split_for(block, request.size, request.order.slot());
        self.lend(request.order);
        let asked = (request.requested, request.is_raw);
        self.hand_out_whole(block, request.order.slot(), asked, step)
    }

    /// Cuts off what a request does not need.
    fn split_for(&mut self, block: BlockIndex, size: u64, requester: StreamSlot) {
        let record = self.arena.at(block);
        let crosses = record.home != requester || !record.is_home_only();
        if crosses && size < record.size {
            self.counters.cross_stream_splits += 1;
        }
        self.split(block, size);
    }

    /// Makes a block of exactly the right size the requester's, who asked for so many bytes, in
    /// numbers or not.
    #[inline]
    fn hand_out_whole(
        &mut self,
        block: BlockIndex,
        home: StreamSlot,
        (requested, is_raw): (u64, bool),
        step: Step,
    ) -> Taken {
        let record = self.arena.at_mut(block);
        record.set_state(State::Allocated);
        record.home = home;
        record.requested = requested;
        record.handle = Handle::of(is_raw);
        record.forget_foreign();
        let taken = Taken {
            name: BlockName::new(block, record.generation),
            address: record.address,
            size: record.size,
        };
        if !is_raw {
            self.keep();
        }
        self.count_served(step);
        self.counters.requested_bytes += requested;
        self.allocated += taken.size;
        taken
    }

    #[inline]
    fn count_served(&mut self, step: Step) {
        let served = &mut self.counters.served_by;
        let count = match step {
            Step::OwnStream => &mut served.own_stream,
            Step::KnownOrder => &mut served.known_order,
            Step::Completion => &mut served.completion,
            Step::DeviceWait => &mut served.device_wait,
            Step::Growth => &mut served.growth,
            Step::Ladder => &mut served.ladder,
        };
        *count += 1;
    }
}
