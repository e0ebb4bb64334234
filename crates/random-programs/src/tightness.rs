//! Looks at the allocator from outside: was a request served as cheaply as it could be, and do the
//! figures agree with what is there?
//!
//! A look takes a snapshot, so only programs that look do: then before every request. Other
//! threads would change what was seen, so programs of several threads do not look.

use allocator::{
    Allocator, BlockSnapshot, Policy, PoolKind, SMALL_BYTES_MAX, SegmentSnapshot, Snapshot, Stats,
};
use streams::{Point, Stream};

use crate::outcome::Finding;
use crate::world::World;

/// What was seen before a request.
pub(crate) struct Look<'stand> {
    memory: &'stand Allocator,
    /// Where a block, or neighbours, lay that the request could have had at once.
    fit: Option<u64>,
    bytes: u64,
    stats: Stats,
}

impl<'stand> World<'stand> {
    /// Looks at what is there before a request, if this program looks.
    pub(crate) fn look(
        &self,
        memory: &'stand Allocator,
        stream: &Stream,
        bytes: u64,
    ) -> Option<Look<'stand>> {
        // Inside a capture only what is complete will do, and a fit is told for known order.
        if !self.setup.looks || !self.alone || stream.order().is_capturing() {
            return None;
        }
        let stats = memory.stats();
        let snapshot = memory.snapshot();
        self.check_figures(&stats, &snapshot);
        Some(Look { memory, fit: self.find_fit(&snapshot, stream, bytes), bytes, stats })
    }

    /// No request waits, grows or fails while a block that is ready fits (R10).
    pub(crate) fn judge_request(&self, look: Option<Look<'_>>, served: bool) {
        let Some(Look { memory, fit: Some(address), bytes, stats: before }) = look else { return };
        let after = memory.stats().served_by;
        let costly = [
            ("waited on the device", before.served_by.device_wait, after.device_wait),
            ("grew", before.served_by.growth, after.growth),
            ("climbed the ladder", before.served_by.ladder, after.ladder),
            ("failed", u64::from(served), 1),
        ];
        let took = costly.iter().find(|(_, before, after)| before < after);
        if let Some((what, _, _)) = took {
            let text = format!("a request for {bytes} bytes {what}; {address:#x} was ready");
            self.stand.report(Finding::Shy(text));
        }
    }

    /// Every figure that has a current value can be computed again from what is there.
    pub(crate) fn check_figures(&self, stats: &Stats, snapshot: &Snapshot) {
        if let Err(mismatch) = snapshot.check(stats) {
            self.stand.report(Finding::WrongFigure(mismatch.to_string()));
        }
    }

    /// Where a request could be served at once, from a block or from neighbours that are free, of
    /// the right pool, and known to come first.
    ///
    /// Free memory of one home may be made one block, which then waits for the latest of its
    /// points (R7). So what is known to one stream only counts if nothing free lies beside it; what
    /// is complete, and so known to every stream, counts always.
    fn find_fit(&self, snapshot: &Snapshot, stream: &Stream, bytes: u64) -> Option<u64> {
        let kind = if SMALL_BYTES_MAX < bytes { PoolKind::Large } else { PoolKind::Small };
        let crosses = snapshot.policy.crosses_streams();
        let own = stream.order().slot();
        let may_serve =
            |segment: &&SegmentSnapshot| segment.kind == kind && (crosses || segment.stream == own);
        let segments = snapshot.segments.iter().filter(may_serve);
        let runs =
            segments.flat_map(|segment| segment.blocks.split(|block| !block.state.is_free()));
        let ready = runs.flat_map(|run| self.ready_parts(snapshot.policy, run, stream));
        ready.filter(|(_, size)| bytes <= *size).map(|(address, _)| address).next()
    }

    /// The parts of a run of free neighbours that are ready: all of it, or what is complete.
    fn ready_parts(
        &self,
        policy: Policy,
        run: &[BlockSnapshot],
        stream: &Stream,
    ) -> Vec<(u64, u64)> {
        let order = stream.order();
        let settled = policy == Policy::Deterministic;
        let knows = |point: &Point| {
            if settled { order.knows_settled(*point) } else { order.knows(*point) }
        };
        let is_complete = |point: &Point| {
            if settled { order.is_settled(*point) } else { order.is_complete(*point) }
        };
        if run.iter().all(|block| block.waits_for.iter().all(knows)) {
            return extent(run).into_iter().collect();
        }
        let complete = run.split(|block| !block.waits_for.iter().all(is_complete));
        complete.filter_map(extent).collect()
    }
}

/// Where neighbours begin, and how many bytes they are together.
fn extent(blocks: &[BlockSnapshot]) -> Option<(u64, u64)> {
    let first = blocks.first()?;
    Some((first.address, blocks.iter().map(|block| block.size).sum()))
}
