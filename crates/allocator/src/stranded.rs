//! Memory that is held and of no use to whoever asks now, by what keeps it.
//!
//! Two questions are answered. What is of no use where it lies: not to the stream whose memory it
//! is, and once that has ended, not to everyone, as memory that is complete would be. That falls
//! to nothing once all work is complete and the device was asked. And what is of no use to *one
//! request*: then also what lies in the wrong place for it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use streams::order::{Point, StreamSlot};
use streams::{Stream, StreamOrder};

use crate::allocator::{Allocator, Inner};
use crate::block::{BlockRecord, State};
use crate::bytes::Bytes;
use crate::carve::requirements;
use crate::reuse::{Request, Step};
use crate::shard::ShardState;

/// What keeps memory from being of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StrandedCause {
    /// A hold that its owner has not ended: a graph, an exported handle, a registration.
    Hold,
    /// Work on a stream that waits for the host, so that nobody may be made to wait for it.
    GatedStream,
    /// Work on a stream that has ended, not known to be complete yet.
    RetiredStream,
    /// Work on a stream that still runs, or was not asked.
    RunningStream,
    /// The policy hands no memory to a stream other than its own.
    Policy,
    /// It belongs to another pool of the same allocator.
    OtherPool,
    /// It serves small requests and the request is a large one, or the other way round: not used
    /// before growth has failed.
    SizeKind,
    /// All of it may be used, and no stretch of it is long enough.
    Fragmentation,
}

/// Memory that one cause, and one stream, keeps from being of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StrandedPart {
    /// What keeps it.
    pub cause: StrandedCause,
    /// The id of the stream that is waited for; or, where no stream is, of the stream whose memory
    /// it is. `None` where many are.
    pub stream_id: Option<u64>,
    /// How many bytes.
    pub bytes: u64,
    /// In how many blocks.
    pub block_count: u64,
}

/// Memory that is of no use to whoever asks, in parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stranded {
    /// The parts, the largest first.
    pub parts: Vec<StrandedPart>,
}

impl Stranded {
    /// All of it, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// What one cause keeps, in bytes.
    #[must_use]
    pub fn bytes_of(&self, cause: StrandedCause) -> u64 {
        self.parts.iter().filter(|part| part.cause == cause).map(|part| part.bytes).sum()
    }
}

impl fmt::Display for StrandedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hold => "kept by a hold",
            Self::GatedStream => "used by a stream that waits for the host",
            Self::RetiredStream => "used by a stream that has ended",
            Self::RunningStream => "used by a running stream",
            Self::Policy => "of another stream, which the policy keeps apart",
            Self::OtherPool => "of another pool",
            Self::SizeKind => "for requests of another size",
            Self::Fragmentation => "in pieces that are too small",
        })
    }
}

impl fmt::Display for Stranded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stranded", Bytes(self.total_bytes()))?;
        for part in &self.parts {
            write!(f, "; {} {}", Bytes(part.bytes), part.cause)?;
            if let Some(id) = part.stream_id {
                write!(f, " (stream {id})")?;
            }
        }
        Ok(())
    }
}

impl Allocator {
    /// What is of no use now to the stream whose memory it is; or, where that stream has ended, is
    /// not everyone's yet. Its total is [`Stats::stranded_bytes`](crate::Stats::stranded_bytes).
    /// No driver call; [`Allocator::poll`] first learns what is done. Looks at every block of the
    /// streams that have such memory.
    #[must_use]
    pub fn stranded(&self) -> Stranded {
        if self.inner.context.is_forked() {
            return Stranded::default();
        }
        let mut ledger = Ledger::default();
        let askers = self.inner.askers();
        for (_, shard) in self.inner.shards.iter() {
            shard.with(|state| state.add_stranded(&askers, &mut ledger));
        }
        ledger.close(&askers)
    }

    /// What a request for `bytes` on `stream` could not use now, and why; as far as such a request
    /// goes without a wait, a question to the device or new memory. No driver call. Looks at every
    /// block.
    #[must_use]
    pub fn stranded_for(&self, stream: &Stream, bytes: u64) -> Stranded {
        if self.inner.context.is_forked() {
            return Stranded::default();
        }
        let mut ledger = Ledger::default();
        let askers = self.inner.askers();
        let step = Cell::new(Step::Growth);
        let request = Request::new(stream.order(), bytes, false, false, &step);
        for (_, shard) in self.inner.shards.iter() {
            shard.with(|state| state.add_stranded_for(&request, &askers, &mut ledger));
        }
        for pool in self.inner.family.others(&self.inner) {
            for (_, shard) in pool.shards.iter() {
                shard.with(|state| state.add_as_others(&mut ledger));
            }
        }
        ledger.close(&askers)
    }
}

/// Everybody who may ask.
#[derive(Debug)]
pub(crate) struct Askers {
    orders: BTreeMap<StreamSlot, StreamOrder>,
    crosses_streams: bool,
}

/// What keeps a block, and whose points or memory it is.
type Verdict = (StrandedCause, Option<StreamSlot>);

/// The sums so far.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    sums: BTreeMap<Verdict, (u64, u64)>,
}

impl Ledger {
    fn add(&mut self, verdict: Verdict, bytes: u64) {
        let (sum, count) = self.sums.entry(verdict).or_default();
        *sum += bytes;
        *count += 1;
    }

    fn close(self, askers: &Askers) -> Stranded {
        let id_of = |slot: Option<StreamSlot>| {
            slot.and_then(|slot| askers.orders.get(&slot)).map(StreamOrder::id)
        };
        let mut parts: Vec<StrandedPart> = self
            .sums
            .into_iter()
            .map(|((cause, slot), (bytes, block_count))| {
                let stream_id = id_of(slot);
                StrandedPart { cause, stream_id, bytes, block_count }
            })
            .collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        Stranded { parts }
    }
}

impl Inner {
    pub(crate) fn askers(&self) -> Askers {
        let orders = self.orders.lock().clone();
        Askers { orders, crosses_streams: self.config.policy.crosses_streams() }
    }
}

impl Askers {
    /// Why a point has not passed; the stream that is most in the way goes first.
    fn cause_of(&self, points: impl Iterator<Item = Point>) -> Verdict {
        let causes = points.map(|point| {
            let cause = match self.orders.get(&point.stream) {
                Some(order) if order.is_known_gated() => StrandedCause::GatedStream,
                Some(order) if order.is_retired() => StrandedCause::RetiredStream,
                Some(_) | None => StrandedCause::RunningStream,
            };
            (cause, Some(point.stream))
        });
        causes.min().unwrap_or((StrandedCause::RunningStream, None))
    }
}

impl ShardState {
    /// Adds what is of no use where it lies.
    fn add_stranded(&mut self, askers: &Askers, ledger: &mut Ledger) {
        self.sweep();
        let all_ready = self.pending_free_bytes() == 0 && self.held == 0;
        if all_ready && !self.order.is_retired() {
            return;
        }
        for segment in self.segment_indices() {
            for block in self.blocks_of(segment) {
                let record = self.arena.at(block);
                if let Some(verdict) = self.stranded_by(record, askers) {
                    ledger.add(verdict, record.size);
                }
            }
        }
    }

    /// What keeps a block from being of use where it lies, if anything does.
    pub(crate) fn stranded_by(&self, record: &BlockRecord, askers: &Askers) -> Option<Verdict> {
        if record.state == State::Held {
            return Some((StrandedCause::Hold, None));
        }
        if !record.state.is_free() && record.state != State::Recent {
            return None;
        }
        let has_ended = self.order.is_retired();
        let is_met = |point: Point| {
            if has_ended { self.is_complete(point) } else { self.knows(point) }
        };
        let mut unmet = requirements(record).filter(|point| !is_met(*point)).peekable();
        if unmet.peek().is_some() {
            return Some(askers.cause_of(unmet));
        }
        let is_kept_apart = has_ended && !askers.crosses_streams;
        is_kept_apart.then_some((StrandedCause::Policy, Some(self.slot)))
    }

    /// Adds what is of no use to one request.
    fn add_stranded_for(&mut self, request: &Request<'_>, askers: &Askers, ledger: &mut Ledger) {
        self.sweep();
        self.join_all_recent();
        for segment in self.segment_indices() {
            let mut run: Vec<u64> = Vec::new();
            for block in self.blocks_of(segment) {
                let record = self.arena.at(block);
                let verdict = self.kept_from(record, request, askers);
                if let (Some(verdict), _) = verdict {
                    ledger.add(verdict, record.size);
                }
                if verdict == (None, true) {
                    run.push(record.size);
                } else {
                    self.close_run(&mut run, request, ledger);
                }
            }
            self.close_run(&mut run, request, ledger);
        }
    }

    /// Adds the free memory of another pool than the one that was asked.
    fn add_as_others(&mut self, ledger: &mut Ledger) {
        self.join_all_recent();
        let free = self.segment_indices().flat_map(|segment| self.blocks_of(segment));
        for record in free.map(|block| self.arena.at(block)) {
            if record.state.is_free() {
                ledger.add((StrandedCause::OtherPool, None), record.size);
            }
        }
    }

    /// What keeps a block from a request; and whether it is free memory that nothing keeps.
    fn kept_from(
        &self,
        record: &BlockRecord,
        request: &Request<'_>,
        askers: &Askers,
    ) -> (Option<Verdict>, bool) {
        if record.state == State::Held {
            return (Some((StrandedCause::Hold, None)), false);
        }
        if !record.state.is_free() {
            return (None, false);
        }
        let unmet: Vec<Point> =
            requirements(record).filter(|p| !self.view.knows(request.order, *p)).collect();
        let verdict = if self.slot != request.order.slot() && !askers.crosses_streams {
            Some((StrandedCause::Policy, Some(self.slot)))
        } else if !unmet.is_empty() {
            Some(askers.cause_of(unmet.into_iter()))
        } else if record.kind != request.kind {
            Some((StrandedCause::SizeKind, Some(self.slot)))
        } else {
            None
        };
        (verdict, verdict.is_none())
    }

    /// Usable neighbours have ended: too short a stretch of them is of no use.
    fn close_run(&self, run: &mut Vec<u64>, request: &Request<'_>, ledger: &mut Ledger) {
        if run.iter().sum::<u64>() < request.size {
            for bytes in run.iter() {
                ledger.add((StrandedCause::Fragmentation, Some(self.slot)), *bytes);
            }
        }
        run.clear();
    }
}
