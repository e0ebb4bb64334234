//! The bytes of an allocator: who owns them, who wrote them last, who has read them since.
//!
//! A map of spans over the memory that was opened; every byte of a span has the same owner and the
//! same history. Memory outside it is not the allocator's and is not judged.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use allocator::observe::ServedStep;
use streams::Access;
use streams::observe::Place;

use crate::timeline::Timeline;

/// A block, as long as anybody may name it.
#[derive(Debug)]
pub(crate) struct BlockSeen {
    /// Told apart from all others.
    pub(crate) serial: u64,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) requested: u64,
    /// The stream that frees it.
    pub(crate) moved_to: AtomicU64,
    /// The stream it was handed out for, and how far that was.
    pub(crate) made_for: u64,
    pub(crate) home_ordinal: u64,
    pub(crate) step: ServedStep,
    /// It was handed out in a capture: nobody may be using it.
    pub(crate) is_complete: bool,
    pub(crate) place: Option<Place>,
}

impl BlockSeen {
    /// The stream that frees it.
    pub(crate) fn home(&self) -> u64 {
        self.moved_to.load(Ordering::Relaxed)
    }
}

/// One operation's use of memory.
#[derive(Debug)]
pub(crate) struct Act {
    pub(crate) stream: u64,
    pub(crate) ordinal: u64,
    pub(crate) place: Option<Place>,
    /// The launch of the graph that it was captured into.
    pub(crate) replayed: Option<Place>,
    pub(crate) is_replayed: bool,
    /// What it is: `kernel scale_add`, `fill`.
    pub(crate) work: Arc<str>,
    pub(crate) access: Access,
    /// When it was seen.
    pub(crate) time: u64,
    /// It was reported.
    pub(crate) is_blamed: AtomicBool,
}

impl Act {
    pub(crate) fn blame(&self) {
        self.is_blamed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_blamed(&self) -> bool {
        self.is_blamed.load(Ordering::Relaxed)
    }
}

/// An act, and whose memory it was at the time.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) act: Arc<Act>,
    pub(crate) block: Option<Arc<BlockSeen>>,
}

/// A block that was freed.
#[derive(Debug, Clone)]
pub(crate) struct Freed {
    pub(crate) block: Arc<BlockSeen>,
    pub(crate) place: Option<Place>,
}

#[derive(Debug, Clone)]
pub(crate) enum Owner {
    Nobody,
    Block(Arc<BlockSeen>),
    Freed(Arc<Freed>),
}

/// What one stream was said to do with a block, and did without saying.
#[derive(Debug, Default)]
struct Told {
    /// Everything there is said to be a use.
    whole: bool,
    /// Uses that were begun.
    open: u32,
    /// The last use that was not told of.
    untold: Option<Arc<Act>>,
}

/// A block that is handed out.
#[derive(Debug)]
struct Live {
    block: Arc<BlockSeen>,
    holds: u32,
    freed: Option<Option<Place>>,
    told: HashMap<u64, Told>,
}

#[derive(Debug, Clone)]
struct Span {
    end: u64,
    owner: Owner,
    write: Option<Trace>,
    reads: Vec<Trace>,
}

/// Something that is wrong, as memory tells it.
#[derive(Debug, Clone)]
pub(crate) enum Wrong {
    /// Nothing orders the act after this one.
    Unordered(Trace),
    /// The act is not ordered after the hand-out of its block.
    BeforeAllocation(Arc<BlockSeen>),
    /// The block had been freed.
    AfterFree(Arc<Freed>),
    /// Nobody owns the memory.
    Unowned,
    /// What is read was written for an earlier block.
    Stale(Trace, Arc<BlockSeen>),
}

/// The bytes of all allocators that are watched.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    spans: BTreeMap<u64, Span>,
    live: HashMap<u64, Live>,
    serials: u64,
}

impl Memory {
    /// Memory came from the device.
    pub(crate) fn open(&mut self, address: u64, bytes: u64) {
        self.close(address, bytes);
        let (write, reads) = (None, Vec::new());
        let span = Span { end: address + bytes, owner: Owner::Nobody, write, reads };
        self.spans.insert(address, span);
    }

    /// Memory goes back to the device; everything that was done to it.
    pub(crate) fn close(&mut self, address: u64, bytes: u64) -> Vec<Trace> {
        self.split(address);
        self.split(address + bytes);
        let gone: Vec<Span> = self
            .spans
            .extract_if(address..address + bytes, |_, _| true)
            .map(|(_, span)| span)
            .collect();
        gone.into_iter().flat_map(|span| span.write.into_iter().chain(span.reads)).collect()
    }

    /// A block is handed out; everything that was done to its bytes before.
    pub(crate) fn hand_out(&mut self, mut block: BlockSeen) -> (Arc<BlockSeen>, Vec<Trace>) {
        self.serials += 1;
        block.serial = self.serials;
        let block = Arc::new(block);
        let mut before = Vec::new();
        for key in self.keys(block.address, block.size) {
            let Some(span) = self.spans.get_mut(&key) else { continue };
            before.extend(span.write.iter().chain(&span.reads).cloned());
            span.owner = Owner::Block(Arc::clone(&block));
        }
        let live = Live { block: Arc::clone(&block), holds: 0, freed: None, told: HashMap::new() };
        self.live.insert(block.address, live);
        (block, before)
    }

    /// All of a block's history is over: its spans are one again.
    pub(crate) fn forget_before(&mut self, block: &Arc<BlockSeen>, timeline: &Timeline) {
        for key in self.keys(block.address, block.size) {
            if let Some(span) = self.spans.get_mut(&key) {
                span.reads.retain(|read| !timeline.is_complete(read.act.stream, read.act.ordinal));
            }
        }
    }

    /// A stream was said to use a block.
    pub(crate) fn tell(&mut self, address: u64, stream: u64, said: Said) {
        let Some(live) = self.live.get_mut(&address) else { return };
        let told = live.told.entry(stream).or_default();
        match said {
            Said::Whole => told.whole = true,
            Said::UntilNow => told.untold = None,
            Said::Begun => told.open += 1,
            Said::Ended => {
                told.open = told.open.saturating_sub(1);
                told.untold = None;
            }
            Said::Cancelled => told.open = told.open.saturating_sub(1),
        }
    }

    /// A block goes over to another stream, which waited for its home; the home's uses are told.
    pub(crate) fn move_to(&mut self, address: u64, stream: u64) {
        let Some(live) = self.live.get_mut(&address) else { return };
        let left = live.block.moved_to.swap(stream, Ordering::Relaxed);
        live.told.entry(left).or_default().untold = None;
    }

    pub(crate) fn hold(&mut self, address: u64) {
        if let Some(live) = self.live.get_mut(&address) {
            live.holds += 1;
        }
    }

    pub(crate) fn end_hold(&mut self, address: u64) {
        let Some(live) = self.live.get_mut(&address) else { return };
        live.holds = live.holds.saturating_sub(1);
        if let (0, Some(place)) = (live.holds, live.freed) {
            self.end(address, place);
        }
    }

    /// A block is freed; its uses on other streams that were not told of.
    pub(crate) fn free(
        &mut self,
        address: u64,
        place: Option<Place>,
    ) -> Option<(Arc<BlockSeen>, Vec<Arc<Act>>)> {
        let live = self.live.get_mut(&address)?;
        live.freed = Some(place);
        let (block, is_held) = (Arc::clone(&live.block), 0 < live.holds);
        let untold = live.told.values().filter(|told| !told.whole && told.open == 0);
        let untold = untold.filter_map(|told| told.untold.clone()).collect();
        if !is_held {
            self.end(address, place);
        }
        Some((block, untold))
    }

    fn end(&mut self, address: u64, place: Option<Place>) {
        let Some(live) = self.live.remove(&address) else { return };
        let block = live.block;
        let freed = Arc::new(Freed { block: Arc::clone(&block), place });
        for key in self.keys(block.address, block.size) {
            if let Some(span) = self.spans.get_mut(&key) {
                span.owner = Owner::Freed(Arc::clone(&freed));
            }
        }
    }

    /// An act touches memory: what is wrong about it, and in which block.
    pub(crate) fn touch(
        &mut self,
        address: u64,
        bytes: u64,
        act: &Arc<Act>,
        timeline: &Timeline,
    ) -> Vec<(Option<Arc<BlockSeen>>, Wrong)> {
        let mut wrong = Vec::new();
        let keys = self.keys(address, bytes);
        let mut stale = Stale::default();
        for key in &keys {
            let Some(span) = self.spans.get_mut(key) else { continue };
            let block = match &span.owner {
                Owner::Block(block) => Some(Arc::clone(block)),
                Owner::Freed(freed) => {
                    wrong.push((
                        Some(Arc::clone(&freed.block)),
                        Wrong::AfterFree(Arc::clone(freed)),
                    ));
                    Some(Arc::clone(&freed.block))
                }
                Owner::Nobody => {
                    wrong.push((None, Wrong::Unowned));
                    None
                }
            };
            if let (Owner::Block(_), Some(block)) = (&span.owner, &block) {
                if !is_after_allocation(block, act, timeline) {
                    let early = Wrong::BeforeAllocation(Arc::clone(block));
                    wrong.push((Some(Arc::clone(block)), early));
                }
                stale.see(span, block);
            }
            for earlier in span.conflicts(act, timeline) {
                wrong.push((block.clone(), Wrong::Unordered(earlier)));
            }
            span.note(Trace { act: Arc::clone(act), block }, timeline);
        }
        let told = self.note_use(address, bytes, act);
        if let (Access::Read, false, Some((write, block))) = (act.access, told, stale.found()) {
            wrong.push((Some(Arc::clone(&block)), Wrong::Stale(write, block)));
        }
        if act.access != Access::Read {
            self.join(&keys, address, bytes);
        }
        wrong
    }

    /// Notes a use for the blocks it touches; whether all of them know of it.
    fn note_use(&mut self, address: u64, bytes: u64, act: &Arc<Act>) -> bool {
        let mut owners: Vec<u64> = Vec::new();
        for key in self.keys(address, bytes) {
            if let Some(Owner::Block(block)) = self.spans.get(&key).map(|span| &span.owner)
                && owners.last() != Some(&block.address)
            {
                owners.push(block.address);
            }
        }
        let mut all_know = true;
        for owner in owners {
            let Some(live) = self.live.get_mut(&owner) else { continue };
            let is_home = live.block.home() == act.stream;
            let told = live.told.entry(act.stream).or_default();
            let knows = 0 < told.open || act.is_replayed;
            if !knows && !is_home {
                told.untold = Some(Arc::clone(act));
            }
            all_know &= knows;
        }
        all_know
    }

    /// Makes one span of those that one act wrote whole.
    fn join(&mut self, keys: &[u64], address: u64, bytes: u64) {
        let Some((first, rest)) = keys.split_first() else { return };
        let Some(owner) = self.spans.get(first).map(|span| span.owner.serial()) else { return };
        let whole = rest
            .iter()
            .all(|key| self.spans.get(key).is_some_and(|span| span.owner.serial() == owner));
        let covered: u64 = keys.iter().filter_map(|key| Some(self.spans.get(key)?.end - key)).sum();
        if whole && covered == bytes && *first == address {
            for key in rest {
                self.spans.remove(key);
            }
            if let Some(span) = self.spans.get_mut(first) {
                span.end = address + bytes;
            }
        }
    }

    /// The spans inside a range, cut at its ends.
    fn keys(&mut self, address: u64, bytes: u64) -> Vec<u64> {
        if bytes == 0 {
            return Vec::new();
        }
        let end = address.saturating_add(bytes);
        self.split(address);
        self.split(end);
        self.spans.range(address..end).map(|(key, _)| *key).collect()
    }

    fn split(&mut self, at: u64) {
        let Some((start, span)) = self.spans.range_mut(..at).next_back() else { return };
        if *start < at && at < span.end {
            let mut behind = span.clone();
            span.end = at;
            behind.end = behind.end.max(at);
            self.spans.insert(at, behind);
        }
    }
}

/// What was said about a use.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Said {
    Whole,
    UntilNow,
    Begun,
    Ended,
    Cancelled,
}

/// Whether the act is ordered after the hand-out of its block. New memory had no earlier owner.
fn is_after_allocation(block: &BlockSeen, act: &Act, timeline: &Timeline) -> bool {
    block.is_complete
        || block.step == ServedStep::Growth
        || timeline.is_before(block.made_for, block.home_ordinal, act.stream)
}

/// Whether a read finds only what was written for earlier blocks.
#[derive(Default)]
struct Stale {
    own: bool,
    earlier: Option<(Trace, Arc<BlockSeen>)>,
}

impl Stale {
    fn see(&mut self, span: &Span, block: &Arc<BlockSeen>) {
        let Some(write) = &span.write else { return };
        if write.block.as_ref().is_some_and(|writer| writer.serial == block.serial) {
            self.own = true;
        } else {
            self.earlier = Some((write.clone(), Arc::clone(block)));
        }
    }

    fn found(self) -> Option<(Trace, Arc<BlockSeen>)> {
        if self.own { None } else { self.earlier }
    }
}

impl Owner {
    fn serial(&self) -> u64 {
        match self {
            Self::Nobody => 0,
            Self::Block(block) => block.serial,
            Self::Freed(freed) => freed.block.serial,
        }
    }
}

impl Span {
    /// The earlier acts that the act conflicts with and is not ordered after.
    fn conflicts(&self, act: &Act, timeline: &Timeline) -> Vec<Trace> {
        let reads = if act.access == Access::Read { &[] } else { self.reads.as_slice() };
        let earlier = self.write.iter().chain(reads);
        let unordered = earlier.filter(|trace| {
            let (stream, ordinal) = (trace.act.stream, trace.act.ordinal);
            !timeline.is_before(stream, ordinal, act.stream)
        });
        unordered.cloned().collect()
    }

    /// The act is the last one now.
    fn note(&mut self, trace: Trace, timeline: &Timeline) {
        let stream = trace.act.stream;
        if trace.act.access == Access::Read {
            self.reads.retain(|read| {
                read.act.stream != stream
                    && !timeline.is_complete(read.act.stream, read.act.ordinal)
            });
            self.reads.push(trace);
        } else {
            self.reads.clear();
            self.write = Some(trace);
        }
    }
}
