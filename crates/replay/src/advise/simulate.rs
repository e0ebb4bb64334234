//! Runs a program on paper: streams in order, waits, durations, and what is in use when.
//!
//! The host takes as long between two calls as it was recorded to, without the time that it was
//! blocked; it is blocked again where it synchronizes. An operation begins when everything before
//! it on its stream is over, what the stream waits for has passed, and the host has submitted it.
//!
//! The allocator is taken to be a good one: a freed block is in use until each of its uses is
//! known to come before its home stream's next operation, or is complete on the device.

use std::rc::Rc;

use trace::stream_trace::{Maker, RecordNumber, Subject};
use trace::{BlockNumber, StreamNumber};

use super::program::{Act, BlockFacts, Program, UseFacts, index};

/// Pending blocks of a stream that are looked at again when it has waited.
const LOOKED_AT_MAX: usize = 64;

/// What is different from the recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Change {
    /// Leaves out the waits that the recorded allocator inserted.
    pub(super) without_allocator_waits: bool,
    /// Blocks that are freed before another step, after a wait of their home stream for their
    /// uses; by step. A step behind the last one is the end.
    pub(super) moved: Vec<(usize, BlockNumber)>,
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Simulated {
    /// From the first operation's beginning to the last one's end.
    pub(super) span_ns: u64,
    /// The most bytes that were allocated, or freed and in use.
    pub(super) peak_bytes: u64,
    /// When that was.
    pub(super) peak_ns: u64,
    /// How long streams stood still at the waits of the change.
    pub(super) stalled_ns: u64,
    /// By block: from when to when it was freed and in use.
    pub(super) pending: Vec<Option<(u64, u64)>>,
    /// By operation: when it ended.
    pub(super) ends_ns: Vec<u64>,
}

/// Runs `program` with `change`.
pub(super) fn simulate(program: &Program, change: &Change) -> Simulated {
    let mut run = Run::new(program, change);
    let mut moved = change.moved.iter().peekable();
    for (number, step) in program.steps.iter().enumerate() {
        while let Some(&&(at, block)) = moved.peek()
            && at <= number
        {
            moved.next();
            run.free_after_waits(block);
        }
        run.host_ns = run.host_ns.saturating_add(step.gap_ns);
        run.sequence = number;
        run.take(step.act);
    }
    for &(_, block) in moved {
        run.free_after_waits(block);
    }
    run.finish()
}

/// What a record promises: when it passes, and what comes before it.
#[derive(Debug, Clone, Default)]
struct Promise {
    passes_ns: u64,
    covers: Option<Rc<[u32]>>,
}

struct Run<'a> {
    program: &'a Program,
    change: &'a Change,
    is_moved: Vec<bool>,
    host_ns: u64,
    sequence: usize,
    /// By stream: when all that was queued is over.
    over_ns: Vec<u64>,
    /// By stream: by stream, how many operations are known to come before the next one here.
    known: Vec<Rc<[u32]>>,
    /// By stream: operations so far.
    counts: Vec<u32>,
    promises: Vec<Promise>,
    is_awaited: Vec<bool>,
    ends_ns: Vec<u64>,
    /// By operation: which of its stream's it is, from 1.
    ordinals: Vec<u32>,
    began_ns: u64,
    /// By home: blocks freed whose uses were not over.
    waiting: Vec<Vec<BlockNumber>>,
    freed_ns: Vec<Option<u64>>,
    /// By block: when order, rather than time, ended its uses.
    ordered_ns: Vec<Option<(u64, usize)>>,
    /// When bytes came and went; with the step, or 0 for what the device did.
    changes: Vec<(u64, usize, i128)>,
    stalled_ns: u64,
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, change: &'a Change) -> Self {
        let streams = program.stream_count;
        let mut is_moved = vec![false; program.blocks.len()];
        for (_, block) in &change.moved {
            if let Some(place) = is_moved.get_mut(block.index()) {
                *place = true;
            }
        }
        let mut is_awaited = vec![false; program.record_count];
        for step in &program.steps {
            if let Act::Wait { record, .. } = step.act
                && let Some(place) = is_awaited.get_mut(index(record.0))
            {
                *place = true;
            }
        }
        let nothing: Rc<[u32]> = vec![0; streams].into();
        Self {
            program,
            change,
            is_moved,
            host_ns: 0,
            sequence: 0,
            over_ns: vec![0; streams],
            known: vec![nothing; streams],
            counts: vec![0; streams],
            promises: vec![Promise::default(); program.record_count],
            is_awaited,
            ends_ns: vec![0; program.operations.len()],
            ordinals: vec![0; program.operations.len()],
            began_ns: u64::MAX,
            waiting: vec![Vec::new(); streams],
            freed_ns: vec![None; program.blocks.len()],
            ordered_ns: vec![None; program.blocks.len()],
            changes: Vec::new(),
            stalled_ns: 0,
        }
    }

    fn take(&mut self, act: Act) {
        match act {
            Act::Operate(number) => {
                let facts = self.program.operation(number);
                let stream = facts.stream.index();
                let begins = at(&self.over_ns, stream).max(self.host_ns);
                let ends = begins.saturating_add(facts.duration_ns.unwrap_or(0));
                self.began_ns = self.began_ns.min(begins);
                let count = at(&self.counts, stream) + 1;
                set(&mut self.over_ns, stream, ends);
                set(&mut self.counts, stream, count);
                set(&mut self.ends_ns, index(number.0), ends);
                set(&mut self.ordinals, index(number.0), count);
            }
            Act::Record { record, stream } => self.record(record, stream),
            Act::Wait { maker: Maker::Library, .. } if self.change.without_allocator_waits => {}
            Act::Wait { stream, record, .. } => {
                let promise = self.promises.get(index(record.0)).cloned().unwrap_or_default();
                self.wait(stream, promise.passes_ns);
                if let Some(covers) = promise.covers {
                    self.learn(stream, &covers);
                }
            }
            Act::Synchronize(subject) => {
                let passes = match subject {
                    Subject::Record(record) => {
                        self.promises.get(index(record.0)).map_or(0, |promise| promise.passes_ns)
                    }
                    Subject::Stream(stream) => at(&self.over_ns, stream.index()),
                    Subject::Context | Subject::Everything => {
                        self.over_ns.iter().copied().max().unwrap_or(0)
                    }
                };
                self.host_ns = self.host_ns.max(passes);
            }
            Act::Allocate(block) => {
                let bytes = i128::from(self.program.block(block).bytes);
                self.changes.push((self.host_ns, self.sequence, bytes));
            }
            Act::Free(block) => {
                if !self.is_moved.get(block.index()).copied().unwrap_or(false) {
                    self.free(block);
                }
            }
        }
    }

    fn record(&mut self, record: RecordNumber, stream: StreamNumber) {
        let passes_ns = at(&self.over_ns, stream.index()).max(self.host_ns);
        let awaited = self.is_awaited.get(index(record.0)).copied().unwrap_or(false);
        let covers = awaited.then(|| self.covers(stream));
        if let Some(promise) = self.promises.get_mut(index(record.0)) {
            *promise = Promise { passes_ns, covers };
        }
    }

    /// What is known to come before the next operation of a stream, its own work included.
    fn covers(&self, stream: StreamNumber) -> Rc<[u32]> {
        let known = self.known.get(stream.index()).cloned().unwrap_or_else(|| Rc::from([]));
        let count = at(&self.counts, stream.index());
        if known.get(stream.index()) == Some(&count) {
            return known;
        }
        let mut known = known.to_vec();
        set(&mut known, stream.index(), count);
        known.into()
    }

    fn wait(&mut self, stream: StreamNumber, passes_ns: u64) {
        let over = at(&self.over_ns, stream.index()).max(passes_ns);
        set(&mut self.over_ns, stream.index(), over);
    }

    fn learn(&mut self, stream: StreamNumber, covers: &[u32]) {
        let Some(known) = self.known.get_mut(stream.index()) else { return };
        let joined = known.iter().zip(covers).map(|(mine, theirs)| *mine.max(theirs));
        *known = joined.collect();
        self.look_again(stream);
    }

    /// Which blocks freed on `home` are ordered by now.
    fn look_again(&mut self, home: StreamNumber) {
        let Some(mut waiting) = self.waiting.get_mut(home.index()).map(std::mem::take) else {
            return;
        };
        let mut looked_at = 0;
        waiting.retain(|block| {
            looked_at += 1;
            if LOOKED_AT_MAX < looked_at {
                return true;
            }
            let facts = self.program.block(*block);
            let is_ordered = facts.uses.iter().all(|used| self.is_ordered(home, used));
            if is_ordered {
                set(&mut self.ordered_ns, block.index(), Some((self.host_ns, self.sequence)));
            }
            !is_ordered && self.host_ns < self.done_ns(facts)
        });
        if let Some(place) = self.waiting.get_mut(home.index()) {
            *place = waiting;
        }
    }

    fn is_ordered(&self, home: StreamNumber, used: &UseFacts) -> bool {
        let Some(last) = used.last else { return true };
        let known = self.known.get(home.index());
        let known = known.and_then(|known| known.get(used.stream.index())).copied().unwrap_or(0);
        at(&self.ordinals, index(last.0)) <= known
    }

    /// When the last use of a block is over on the device.
    fn done_ns(&self, facts: &BlockFacts) -> u64 {
        let ends = facts.uses.iter().filter_map(|used| used.last);
        ends.map(|last| at(&self.ends_ns, index(last.0))).max().unwrap_or(0)
    }

    fn free(&mut self, block: BlockNumber) {
        let facts = self.program.block(block);
        let home = facts.home;
        set(&mut self.freed_ns, block.index(), Some(self.host_ns));
        if facts.uses.iter().all(|used| self.is_ordered(home, used)) {
            set(&mut self.ordered_ns, block.index(), Some((self.host_ns, self.sequence)));
        } else if let Some(waiting) = self.waiting.get_mut(home.index()) {
            waiting.push(block);
        }
    }

    /// The change: the home stream waits for the uses, and then the block is freed.
    fn free_after_waits(&mut self, block: BlockNumber) {
        let facts = self.program.block(block);
        let home = facts.home.index();
        let done = self.done_ns(facts);
        let could = at(&self.over_ns, home).max(self.host_ns);
        self.stalled_ns = self.stalled_ns.saturating_add(done.saturating_sub(could));
        self.wait(facts.home, done);
        let known = self.known.get(home).cloned();
        let mut known = known.map(|known| known.to_vec()).unwrap_or_default();
        for used in &facts.uses {
            let Some(last) = used.last else { continue };
            let ordinal = at(&self.ordinals, index(last.0));
            if let Some(mine) = known.get_mut(used.stream.index()) {
                *mine = (*mine).max(ordinal);
            }
        }
        if let Some(place) = self.known.get_mut(home) {
            *place = known.into();
        }
        self.free(block);
    }

    fn finish(mut self) -> Simulated {
        let mut pending = vec![None; self.program.blocks.len()];
        for (block, facts) in self.program.numbered_blocks() {
            let Some(freed) = at(&self.freed_ns, block.index()) else { continue };
            let done = self.done_ns(facts);
            let (gone, sequence) = match at(&self.ordered_ns, block.index()) {
                Some((ordered, sequence)) if ordered <= freed.max(done) => (ordered, sequence),
                _ if freed < done => (done, 0),
                _ => (freed, facts.freed.map_or(0, |freed| freed.step)),
            };
            set(&mut pending, block.index(), (freed < gone).then_some((freed, gone)));
            self.changes.push((gone, sequence, -i128::from(facts.bytes)));
        }
        self.changes.sort_unstable();
        let (mut now, mut peak, mut peak_ns) = (0_i128, 0_i128, 0);
        for (when, _, change) in &self.changes {
            now += change;
            if peak < now {
                (peak, peak_ns) = (now, *when);
            }
        }
        let ended = self.ends_ns.iter().copied().max().unwrap_or(0);
        Simulated {
            span_ns: ended.saturating_sub(self.began_ns),
            peak_bytes: u64::try_from(peak).unwrap_or(u64::MAX),
            peak_ns,
            stalled_ns: self.stalled_ns,
            pending,
            ends_ns: self.ends_ns,
        }
    }
}

fn at<T: Copy + Default>(list: &[T], place: usize) -> T {
    list.get(place).copied().unwrap_or_default()
}

fn set<T>(list: &mut [T], place: usize, value: T) {
    if let Some(slot) = list.get_mut(place) {
        *slot = value;
    }
}
