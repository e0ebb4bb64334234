//! Step 5 of service: new memory, within the limit.
//!
//! A stretch of a segment is chosen in which free memory the stream may use and addresses without
//! memory add up to the request; what is missing is committed. The stretch is reserved under the
//! lock, the source is called without it, and the result is published under it again (L1); a
//! failure puts everything back. Choosing the stretch with the least missing is what keeps
//! reserved memory near the floor: a free tail is extended, never duplicated. For the same reason
//! the stretch may have pending blocks that a wait for costs nothing: what one of them lacks is
//! added to it.

use streams::order::Frontier;

use crate::allocator::Inner;
use crate::block::{BlockIndex, Link, State};
use crate::error::AllocError;
use crate::observe::What;
use crate::reuse::{Request, Step, Taken};
use crate::shard::{CommittedPiece, Segment, Shard, ShardState};
use crate::source::{PoolKind, Region, SourceError};
use crate::sync::{Arc, Ordering};
use crate::table::place;
use crate::wait::Terms;

/// What memory is to be found for.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    request: &'a Request<'a>,
    /// What may be waited for beside.
    terms: Option<&'a Terms>,
    step: Step,
}

/// A reserved stretch of one segment, and what must be committed for it.
#[derive(Debug)]
struct Stretch {
    blocks: Vec<BlockIndex>,
    region: Arc<dyn Region>,
    /// The unmapped parts: block, offset into the region, bytes.
    missing: Vec<(BlockIndex, u64, u64)>,
    /// What the requester is to wait for.
    unmet: Frontier,
}

impl Stretch {
    fn missing_bytes(&self) -> u64 {
        self.missing.iter().map(|(_, _, bytes)| bytes).sum()
    }
}

/// Why growth gave nothing.
#[derive(Debug)]
pub(crate) enum GrowthError {
    /// The limit or the device has no room for it.
    NoRoom,
    /// The driver failed for another reason.
    Failed(AllocError),
}

impl Inner {
    /// Serves a request with new memory; with what a wait for costs nothing beside it, if that can
    /// be had.
    pub(crate) fn serve_by_growth(
        &self,
        shard: &Shard,
        request: &Request<'_>,
        step: Step,
    ) -> Result<Taken, GrowthError> {
        // Generous first, so that the next requests need no call; then only what is needed.
        let generous = self.source.growth_bytes(request.kind);
        let waits = if step == Step::Growth { self.free_waits(request) } else { None };
        if let Some(terms) = waits
            && let Ok(taken) =
                self.grow(shard, &Wanted { request, terms: Some(&terms), step }, generous)
        {
            return Ok(taken);
        }
        let wanted = Wanted { request, terms: None, step };
        match self.grow(shard, &wanted, generous) {
            Err(GrowthError::NoRoom) if 0 < generous => self.grow(shard, &wanted, 0),
            outcome => outcome,
        }
    }

    fn grow(
        &self,
        shard: &Shard,
        wanted: &Wanted<'_>,
        at_least: u64,
    ) -> Result<Taken, GrowthError> {
        let Wanted { request, step, .. } = *wanted;
        self.reap();
        let stretch = self.find_stretch(shard, wanted, at_least)?;
        let bytes = stretch.missing_bytes();
        if !self.wait_until_met(request, &stretch.unmet) {
            let _closed = shard.with(|state| state.give_back_stretch(&stretch));
            return Err(GrowthError::NoRoom);
        }
        self.recycle(bytes);
        if !self.reserve_memory(bytes) {
            let _closed = shard.with(|state| state.give_back_stretch(&stretch));
            return Err(GrowthError::NoRoom);
        }
        match self.commit(&stretch) {
            Ok(pieces) => {
                let count = u64::try_from(pieces.len()).unwrap_or(u64::MAX);
                self.counters.device_alloc.fetch_add(count, Ordering::Relaxed);
                for (offset, piece) in &pieces {
                    let (address, bytes) = (stretch.region.base() + offset, piece.bytes);
                    self.tell(None, || What::Opened { address, bytes });
                }
                Ok(shard.with(|state| state.take_stretch(&stretch, pieces, request, step)))
            }
            Err((committed, error)) => {
                drop(committed);
                self.unreserve_memory(bytes);
                let _closed = shard.with(|state| state.give_back_stretch(&stretch));
                Err(growth_error(error))
            }
        }
    }

    /// Reserves a stretch, in a segment opened for it if there is none.
    fn find_stretch(
        &self,
        shard: &Shard,
        wanted: &Wanted<'_>,
        at_least: u64,
    ) -> Result<Stretch, GrowthError> {
        let request = wanted.request;
        let found = shard.with(|state| state.reserve_stretch(wanted, at_least));
        if let Some(stretch) = found {
            return Ok(stretch);
        }
        let region = self.open_region(request)?;
        let keep_slot = || (!self.view.inherits()).then(|| request.order.keep_slot());
        self.owners.add(place(request.order.slot()), keep_slot);
        // In one visit, so that no other thread takes the new segment in between. If another
        // stretch has come free meanwhile, the region is dropped here, without the lock (L1):
        // memory that it has already would be counted nowhere.
        let (found, _unneeded) = shard.with(|state| {
            if let Some(stretch) = state.reserve_stretch(wanted, at_least) {
                return (Some(stretch), Some(region));
            }
            state.add_segment(request.kind, region);
            (state.reserve_stretch(wanted, at_least), None)
        });
        found.ok_or(GrowthError::NoRoom)
    }

    /// Before memory passes its highest mark so far, cached pieces that nobody can be using any
    /// more are given back to make room for the new ones.
    fn recycle(&self, bytes: u64) {
        let order = Ordering::Relaxed;
        let after = self.counters.reserved.load(order) + bytes;
        let peak = self.counters.reserved_peak.load(order);
        // A shard with less than a piece has none to give.
        let least = self.source.piece_bytes(1);
        let may_help = peak < after
            && self.source.recycles()
            && self.config.policy.polls()
            && self.owning_shards().any(|(_, shard)| least <= shard.free_bytes_hint());
        if may_help {
            self.poll_all();
            // What the driver does not take back is no reason to fail the request.
            let _kept = self.trim_without_pending(after - peak);
        }
    }

    /// Commits everything a stretch misses, or nothing.
    #[expect(clippy::type_complexity, reason = "the pieces of both outcomes, used once")]
    fn commit(
        &self,
        stretch: &Stretch,
    ) -> Result<Vec<(u64, CommittedPiece)>, (Vec<(u64, CommittedPiece)>, SourceError)> {
        let mut pieces = Vec::new();
        for (_, start, bytes) in &stretch.missing {
            let most = self.source.piece_bytes(*bytes).max(stretch.region.granularity());
            let (mut offset, end) = (*start, start + bytes);
            while offset < end {
                let bytes = most.min(end - offset);
                match stretch.region.commit(offset, bytes) {
                    Ok(memory) => pieces.push((offset, CommittedPiece { bytes, memory })),
                    Err(error) => return Err((pieces, error)),
                }
                offset += bytes;
            }
        }
        Ok(pieces)
    }

    fn open_region(&self, request: &Request<'_>) -> Result<Arc<dyn Region>, GrowthError> {
        // A source that gives memory whole spends the device's memory here already.
        let taken = self.source.segment_bytes(request.kind, request.size).max(request.size);
        if !self.has_room_for(taken) {
            return Err(GrowthError::NoRoom);
        }
        self.source.open(request.kind, request.size).map_err(growth_error)
    }
}

fn growth_error(error: SourceError) -> GrowthError {
    match error {
        SourceError::OutOfMemory { .. } => GrowthError::NoRoom,
        SourceError::Driver(error) => GrowthError::Failed(AllocError::Driver(error)),
    }
}

impl ShardState {
    /// Adds a region as one unmapped block.
    fn add_segment(&mut self, kind: PoolKind, region: Arc<dyn Region>) {
        let vacant = self.segments.iter().position(Option::is_none);
        let index = vacant.unwrap_or_else(|| {
            self.segments.push(None);
            self.segments.len() - 1
        });
        let segment = u32::try_from(index).expect("fewer than 2^32 segments in a shard");
        let own = self.order.slot();
        let first = self.arena.insert((segment, kind), region.base(), region.span(), own);
        self.mark_unmapped(first);
        let pieces = std::collections::BTreeMap::new();
        if let Some(place) = self.segments.get_mut(index) {
            *place = Some(Segment { region, first, pieces });
        }
    }

    /// Finds and reserves the stretch with the least missing memory that serves the request.
    fn reserve_stretch(&mut self, wanted: &Wanted<'_>, at_least: u64) -> Option<Stretch> {
        let Wanted { request, terms, step } = *wanted;
        self.join_all_recent();
        let mut best: Option<(u64, Vec<BlockIndex>)> = None;
        if terms.is_none() && step == Step::Growth {
            self.best_around_unmapped(request, &mut best);
        }
        if best.is_none() {
            for segment in self.segment_indices() {
                let first = self.blocks_of(segment).next()?;
                if self.kind_of(first) == request.kind {
                    self.best_stretch(segment, (request, terms), &mut best);
                }
            }
        }
        let (_, blocks) = best?;
        Some(self.reserve_blocks(&blocks, request, at_least))
    }

    /// A stretch that lacks nothing would have served the request at an earlier step, but for waits
    /// and what only the ladder learned. So only what lies around an unmapped block is looked at,
    /// as far as the request goes: a program may have tens of thousands of other blocks.
    fn best_around_unmapped(
        &self,
        request: &Request<'_>,
        best: &mut Option<(u64, Vec<BlockIndex>)>,
    ) {
        let is_usable = |block: &BlockIndex| {
            let state = self.arena.at(*block).state;
            state == State::Unmapped || (state.is_free() && self.is_known(*block, request))
        };
        for block in self.unmapped.values().copied() {
            if self.kind_of(block) != request.kind {
                continue;
            }
            let behind = std::iter::successors(self.arena.at(block).previous.get(), |it| {
                self.arena.at(*it).previous.get()
            });
            let mut run = self.up_to(request.size, behind.take_while(is_usable));
            run.reverse();
            let on = std::iter::successors(Some(block), |it| self.arena.at(*it).next.get());
            run.extend(self.up_to(request.size, on.take_while(is_usable)));
            self.best_start(&run, request.size, best);
        }
    }

    /// As many of the blocks as it takes to have so many bytes.
    fn up_to(&self, bytes: u64, blocks: impl Iterator<Item = BlockIndex>) -> Vec<BlockIndex> {
        let mut had = 0;
        let blocks = blocks.take_while(|block| {
            let is_needed = had < bytes;
            had += self.arena.at(*block).size;
            is_needed
        });
        blocks.collect()
    }

    /// Gives a block the state, and remembers it among those that have it.
    fn mark_unmapped(&mut self, block: BlockIndex) {
        let record = self.arena.at_mut(block);
        record.set_state(State::Unmapped);
        self.unmapped.insert((record.segment, record.address), block);
    }

    /// Forgets a block that is to leave the state.
    fn forget_unmapped(&mut self, block: BlockIndex) {
        let record = self.arena.at(block);
        self.unmapped.remove(&(record.segment, record.address));
    }

    /// Looks at every run of neighbours that are usable or unmapped, from every start in it.
    fn best_stretch(
        &self,
        segment: u32,
        (request, terms): (&Request<'_>, Option<&Terms>),
        best: &mut Option<(u64, Vec<BlockIndex>)>,
    ) {
        let may_wait =
            |block| terms.is_some_and(|terms| self.unmet_count(block, request, terms).is_some());
        let mut run: Vec<BlockIndex> = Vec::new();
        let mut next = self.blocks_of(segment).peekable();
        while let Some(block) = next.next() {
            let record = self.arena.at(block);
            let usable = record.state == State::Unmapped
                || (record.state.is_free() && (self.is_known(block, request) || may_wait(block)));
            if usable {
                run.push(block);
            }
            if !usable || next.peek().is_none() {
                self.best_start(&run, request.size, best);
                run.clear();
            }
        }
    }

    /// The start in a run from which the least is missing.
    fn best_start(&self, run: &[BlockIndex], size: u64, best: &mut Option<(u64, Vec<BlockIndex>)>) {
        for start in 0..run.len() {
            let Some(rest) = run.get(start..) else { return };
            let Some((missing, count)) = self.missing_from(rest, size) else { return };
            if best.as_ref().is_none_or(|(least, _)| missing < *least) {
                *best = Some((missing, rest.iter().copied().take(count).collect()));
            }
        }
    }

    /// How many bytes are missing to serve `size` from the start of `run`, and how many of its
    /// blocks that takes. `None`: the run is too short.
    fn missing_from(&self, run: &[BlockIndex], size: u64) -> Option<(u64, usize)> {
        let (mut needed, mut missing) = (size, 0);
        for (block, count) in run.iter().zip(1..) {
            let record = self.arena.at(*block);
            let part = needed.min(record.size);
            if record.state == State::Unmapped {
                missing += part;
            }
            needed -= part;
            if needed == 0 {
                return Some((missing, count));
            }
        }
        None
    }

    /// Takes the chosen blocks out; the last unmapped one is cut to what is needed.
    fn reserve_blocks(
        &mut self,
        blocks: &[BlockIndex],
        request: &Request<'_>,
        at_least: u64,
    ) -> Stretch {
        let first = blocks.first().expect("a stretch has at least one block");
        let region = Arc::clone(&self.segment_of(*first).region);
        let granularity = region.granularity();
        let mut needed = request.size;
        let mut missing = Vec::new();
        let mut unmet = Frontier::default();
        for block in blocks {
            let record = self.arena.at(*block);
            if record.state != State::Unmapped {
                if !self.is_known(*block, request) {
                    self.unmet_of(*block, request).for_each(|point| unmet.insert(point));
                }
                needed = needed.saturating_sub(record.size);
                self.take_out(*block, State::Reserved);
                continue;
            }
            let wanted = needed.max(at_least).next_multiple_of(granularity).min(record.size);
            if let Some(rest) = self.cut(*block, wanted) {
                self.arena.at_mut(rest).set_state(State::Reserved);
                self.mark_unmapped(rest);
            }
            self.forget_unmapped(*block);
            let record = self.arena.at_mut(*block);
            record.set_state(State::Reserved);
            needed = needed.saturating_sub(record.size);
            missing.push((*block, record.address - region.base(), record.size));
        }
        Stretch { blocks: blocks.to_vec(), region, missing, unmet }
    }

    /// Publishes a committed stretch: one block, handed out.
    fn take_stretch(
        &mut self,
        stretch: &Stretch,
        pieces: Vec<(u64, CommittedPiece)>,
        request: &Request<'_>,
        step: Step,
    ) -> Taken {
        self.publish_pieces(stretch, pieces);
        let (first, rest) = stretch.blocks.split_first().expect("a stretch has a first block");
        for block in rest {
            self.join(*first, *block);
        }
        self.hand_out(*first, request, step)
    }

    /// New memory has no earlier use: it comes after nothing.
    fn publish_pieces(&mut self, stretch: &Stretch, pieces: Vec<(u64, CommittedPiece)>) {
        for (block, _, _) in &stretch.missing {
            let own = self.order.slot();
            let record = self.arena.at_mut(*block);
            (record.home, record.home_mark) = (own, 0);
        }
        if let Some(first) = stretch.blocks.first() {
            self.segment_of_mut(*first).pieces.extend(pieces);
        }
    }

    /// Undoes a reservation: free blocks go back to the lists, unmapped ones join again.
    #[must_use = "a closed segment is dropped without the lock"]
    fn give_back_stretch(&mut self, stretch: &Stretch) -> Option<Segment> {
        for block in &stretch.blocks {
            let unmapped = stretch.missing.iter().any(|(missing, _, _)| missing == block);
            if unmapped {
                self.unmap_block(*block);
            } else {
                self.settle(*block);
            }
        }
        self.close_if_empty(*stretch.blocks.first()?)
    }

    /// Makes a reserved block unmapped; gives the segment to drop, if that was the last of it.
    #[must_use = "a closed segment is dropped without the lock"]
    pub(crate) fn unmap_and_close(&mut self, block: BlockIndex) -> Option<Segment> {
        self.unmap_block(block);
        self.close_if_empty(block)
    }

    /// Makes a reserved block unmapped and joins it with unmapped neighbours.
    pub(crate) fn unmap_block(&mut self, block: BlockIndex) {
        let own = self.order.slot();
        self.mark_unmapped(block);
        let record = self.arena.at_mut(block);
        (record.home, record.home_mark) = (own, 0);
        record.forget_foreign();
        let next = record.next.get();
        if let Some(next) = next.filter(|next| self.arena.at(*next).state == State::Unmapped) {
            self.absorb_unmapped(block, next);
        }
        let previous = self.arena.at(block).previous.get();
        if let Some(previous) =
            previous.filter(|previous| self.arena.at(*previous).state == State::Unmapped)
        {
            self.absorb_unmapped(previous, block);
        }
    }

    fn absorb_unmapped(&mut self, left: BlockIndex, right: BlockIndex) {
        let (size, next) = (self.arena.at(right).size, self.arena.at(right).next);
        self.forget_unmapped(right);
        self.arena.remove(right);
        self.arena.at_mut(left).size += size;
        self.arena.at_mut(left).next = next;
        if let Some(next) = next.get() {
            self.arena.at_mut(next).previous = Link::to(left);
        }
    }

    /// Takes out a segment that has no memory left and cannot get any. A block that was joined
    /// with its neighbours is vacant, and its segment not empty.
    fn close_if_empty(&mut self, block: BlockIndex) -> Option<Segment> {
        let record = self.arena.at(block);
        let whole = record.previous.get().is_none() && record.next.get().is_none();
        if !whole || record.state != State::Unmapped {
            return None;
        }
        let index = usize::try_from(record.segment).unwrap_or(usize::MAX);
        let place = self.segments.get_mut(index)?;
        let closed = place.take_if(|segment| !segment.region.is_recommittable())?;
        self.forget_unmapped(block);
        self.arena.remove(block);
        Some(closed)
    }
}
