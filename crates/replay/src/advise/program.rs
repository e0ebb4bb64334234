//! A recording as a program that can be run again on paper: steps, operations with their times,
//! blocks with the last use of each stream.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use trace::stream_trace::{
    Entry, Item, Maker, Operation, OperationKind, OperationNumber, PlaceNumber, RecordNumber,
    Recording, Subject, TextNumber, UseKind,
};
use trace::{BlockNumber, StreamNumber};

/// The host's time between two steps, and what the second one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Without the time that the host was blocked.
    pub(super) gap_ns: u64,
    pub(super) act: Act,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Operate(OperationNumber),
    Record { record: RecordNumber, stream: StreamNumber },
    Wait { stream: StreamNumber, record: RecordNumber, maker: Maker },
    Synchronize(Subject),
    Allocate(BlockNumber),
    Free(BlockNumber),
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperationFacts {
    pub(super) stream: StreamNumber,
    pub(super) name: Option<TextNumber>,
    pub(super) place: Option<PlaceNumber>,
    /// Where it stands among the steps.
    pub(super) step: usize,
    /// How long the device took; `None` until it is known or guessed.
    pub(super) duration_ns: Option<u64>,
    /// When it ended in the recording.
    pub(super) recorded_end_ns: Option<u64>,
}

/// One stream's use of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UseFacts {
    pub(super) stream: StreamNumber,
    pub(super) kind: UseKind,
    pub(super) place: Option<PlaceNumber>,
    /// The last operation there that touches it; where nobody said what touches it, the last one
    /// that the use covers.
    pub(super) last: Option<OperationNumber>,
    touched: bool,
}

impl UseFacts {
    /// A use that an operation makes by touching the block.
    pub(super) fn of_operation(
        stream: StreamNumber,
        place: Option<PlaceNumber>,
        operation: OperationNumber,
    ) -> Self {
        Self { stream, kind: UseKind::ByOperation, place, last: Some(operation), touched: true }
    }
}

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockFacts {
    pub(super) home: StreamNumber,
    pub(super) bytes: u64,
    pub(super) address: u64,
    pub(super) place: Option<PlaceNumber>,
    pub(super) allocated_step: usize,
    pub(super) allocated_ns: u64,
    pub(super) freed: Option<FreeFacts>,
    /// By streams other than its home.
    pub(super) uses: Vec<UseFacts>,
    /// When other memory was put on its address.
    pub(super) replaced_ns: Option<u64>,
}

/// Where a block was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FreeFacts {
    pub(super) step: usize,
    pub(super) host_ns: u64,
    pub(super) place: Option<PlaceNumber>,
}

/// A recording, ready to be run on paper.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) operations: Vec<OperationFacts>,
    pub(super) blocks: Vec<BlockFacts>,
    pub(super) stream_count: usize,
    pub(super) record_count: usize,
    /// Operations whose time was not recorded, but is that of others like them.
    pub(super) guessed_count: usize,
    /// Operations whose time nobody knows; they count as taking none.
    pub(super) untimed_count: usize,
    /// The host's time of the last entry.
    pub(super) end_ns: u64,
    /// Waits that an allocator inserted.
    pub(super) allocator_wait_count: usize,
    /// Captured operations, which run with their graph only.
    pub(super) captured_count: usize,
    /// Streams that run functions on the host.
    host_streams: BTreeSet<u32>,
    /// Streams whose raw handle was given out.
    pub(super) shared_count: usize,
}

impl Program {
    pub(super) fn new(recording: &Recording) -> Self {
        let mut builder = Builder::new(recording.streams.len());
        for entry in &recording.entries {
            builder.take(entry);
        }
        builder.finish()
    }

    /// Whether a stream's work waits for the host.
    pub(super) fn waits_for_host(&self, stream: u32) -> bool {
        self.host_streams.contains(&stream)
    }

    pub(super) fn operation(&self, number: OperationNumber) -> &OperationFacts {
        self.operations.get(index(number.0)).expect("a recording names declared operations")
    }

    pub(super) fn block(&self, number: BlockNumber) -> &BlockFacts {
        self.blocks.get(number.index()).expect("a recording names declared blocks")
    }

    /// The blocks by number.
    pub(super) fn numbered_blocks(&self) -> impl Iterator<Item = (BlockNumber, &BlockFacts)> {
        (0..).map(BlockNumber).zip(&self.blocks)
    }
}

pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).expect("this library needs pointers of at least 32 bits")
}

struct Builder {
    program: Program,
    host_ns: u64,
    /// By stream: its last operation.
    last: Vec<Option<OperationNumber>>,
    /// By stream: what its next operation has to wait for in the recording.
    awaited: Vec<Vec<RecordNumber>>,
    /// By operation: the records waited for before it.
    waited: HashMap<OperationNumber, Vec<RecordNumber>>,
    /// By record: the last operation before it on its stream.
    recorded_after: Vec<Option<OperationNumber>>,
    /// By operation: when the host had submitted it.
    submitted_ns: Vec<u64>,
    /// By operation: when it began, where that was measured.
    begun_ns: HashMap<OperationNumber, u64>,
    /// What lies where, by address.
    live: BTreeMap<u64, BlockNumber>,
}

impl Builder {
    fn new(stream_count: usize) -> Self {
        Self {
            program: Program { stream_count, ..Program::default() },
            host_ns: 0,
            last: vec![None; stream_count],
            awaited: vec![Vec::new(); stream_count],
            waited: HashMap::new(),
            recorded_after: Vec::new(),
            submitted_ns: Vec::new(),
            begun_ns: HashMap::new(),
            live: BTreeMap::new(),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what is left changes neither time nor memory"
    )]
    fn take(&mut self, entry: &Entry) {
        let now = entry.host_ns;
        match &entry.item {
            Item::Operation(operation) => self.operate(operation, now),
            Item::DeviceTime { operation, start_ns, end_ns } => {
                if let Some(facts) = self.program.operations.get_mut(index(operation.0)) {
                    facts.recorded_end_ns = Some(*end_ns);
                }
                if let Some(start) = start_ns {
                    self.begun_ns.insert(*operation, *start);
                }
            }
            Item::Record { stream, .. } => {
                let record = number(self.recorded_after.len());
                self.recorded_after.push(self.last_on(*stream));
                self.step(now, 0, Act::Record { record: RecordNumber(record), stream: *stream });
            }
            Item::Wait { stream, record: Some(record), maker, .. } => {
                if let Some(awaited) = self.awaited.get_mut(stream.index()) {
                    awaited.push(*record);
                }
                self.program.allocator_wait_count += usize::from(*maker == Maker::Library);
                self.step(now, 0, Act::Wait { stream: *stream, record: *record, maker: *maker });
            }
            Item::Synchronize { subject, blocked_ns, .. } => {
                self.step(now, *blocked_ns, Act::Synchronize(*subject));
            }
            Item::Allocate { .. } => self.allocate(&entry.item, now),
            Item::Use { block, stream, kind, place } => {
                self.note_use(*block, *stream, *kind, *place);
            }
            Item::Move { block, stream, .. } => {
                if let Some(facts) = self.program.blocks.get_mut(block.index()) {
                    // The new home comes after the old one, and after its own work anyway.
                    facts.home = *stream;
                    facts.uses.retain(|used| used.stream != *stream);
                }
            }
            Item::Free { block, place } => self.free(*block, *place, now),
            _ => {}
        }
        self.program.end_ns = now;
    }

    fn step(&mut self, now: u64, blocked_ns: u64, act: Act) {
        let gap_ns = (now - self.host_ns).saturating_sub(blocked_ns);
        self.host_ns = now;
        self.program.steps.push(Step { gap_ns, act });
    }

    fn last_on(&self, stream: StreamNumber) -> Option<OperationNumber> {
        self.last.get(stream.index()).copied().flatten()
    }

    fn operate(&mut self, operation: &Operation, now: u64) {
        let number = OperationNumber(number(self.program.operations.len()));
        let stream = operation.stream;
        let is_unknown = operation.kind == OperationKind::Unknown;
        let is_absent = operation.is_captured || is_unknown;
        self.program.operations.push(OperationFacts {
            stream,
            name: operation.name,
            place: operation.place,
            step: self.program.steps.len(),
            duration_ns: is_absent.then_some(0),
            recorded_end_ns: None,
        });
        self.submitted_ns.push(now);
        if operation.kind == OperationKind::HostFunction {
            self.program.host_streams.insert(stream.0);
        }
        if is_absent {
            self.program.captured_count += usize::from(operation.is_captured);
            self.program.shared_count += usize::from(is_unknown);
            return;
        }
        if let Some(last) = self.last.get_mut(stream.index()) {
            *last = Some(number);
        }
        let waited = self.awaited.get_mut(stream.index()).map(std::mem::take);
        if let Some(waited) = waited.filter(|waited| !waited.is_empty()) {
            self.waited.insert(number, waited);
        }
        for touch in &operation.touches {
            let Some(block) = touch.block else { continue };
            self.note_touch(block, stream, number, operation.place);
        }
        self.step(now, 0, Act::Operate(number));
    }

    fn note_touch(
        &mut self,
        block: BlockNumber,
        stream: StreamNumber,
        operation: OperationNumber,
        place: Option<PlaceNumber>,
    ) {
        let Some(facts) = self.program.blocks.get_mut(block.index()) else { return };
        if facts.home == stream {
            return;
        }
        if let Some(known) = facts.uses.iter_mut().find(|known| known.stream == stream) {
            (known.last, known.touched) = (Some(operation), true);
            return;
        }
        facts.uses.push(UseFacts::of_operation(stream, place, operation));
    }

    fn note_use(
        &mut self,
        block: BlockNumber,
        stream: StreamNumber,
        kind: UseKind,
        place: Option<PlaceNumber>,
    ) {
        let last = self.last_on(stream);
        let Some(facts) = self.program.blocks.get_mut(block.index()) else { return };
        if facts.home == stream {
            return;
        }
        match facts.uses.iter_mut().find(|known| known.stream == stream) {
            // What the program says counts more than what an operation says by itself.
            Some(known) if kind != UseKind::ByOperation => {
                (known.kind, known.place) = (kind, place);
                if !known.touched {
                    known.last = last;
                }
            }
            Some(_) => {}
            None => facts.uses.push(UseFacts { stream, kind, place, last, touched: false }),
        }
    }

    fn allocate(&mut self, item: &Item, now: u64) {
        let Item::Allocate { stream, bytes, address, place, .. } = item else { return };
        let block = BlockNumber(number(self.program.blocks.len()));
        self.program.blocks.push(BlockFacts {
            home: *stream,
            bytes: *bytes,
            address: *address,
            place: *place,
            allocated_step: self.program.steps.len(),
            allocated_ns: now,
            freed: None,
            uses: Vec::new(),
            replaced_ns: None,
        });
        if 0 < *bytes {
            self.replace(*address, *bytes, now);
            self.live.insert(*address, block);
        }
        self.step(now, 0, Act::Allocate(block));
    }

    /// Whatever lay there lies there no more.
    fn replace(&mut self, address: u64, bytes: u64, now: u64) {
        let end = address.saturating_add(bytes);
        while let Some((&at, &old)) = self.live.range(..end).next_back() {
            let Some(facts) = self.program.blocks.get_mut(old.index()) else { return };
            if facts.address.saturating_add(facts.bytes) <= address {
                return;
            }
            facts.replaced_ns = Some(now);
            self.live.remove(&at);
        }
    }

    fn free(&mut self, block: BlockNumber, place: Option<PlaceNumber>, now: u64) {
        let last = &self.last;
        let step = self.program.steps.len();
        let Some(facts) = self.program.blocks.get_mut(block.index()) else { return };
        if facts.freed.is_some() {
            return;
        }
        facts.freed = Some(FreeFacts { step, host_ns: now, place });
        for used in &mut facts.uses {
            if used.kind == UseKind::UntilFree && !used.touched {
                used.last = last.get(used.stream.index()).copied().flatten();
            }
        }
        self.step(now, 0, Act::Free(block));
    }

    fn finish(mut self) -> Program {
        self.program.record_count = self.recorded_after.len();
        self.time_operations();
        self.guess_times();
        self.program
    }

    /// How long each operation took: from when it could begin to when it ended.
    fn time_operations(&mut self) {
        let mut ends = vec![0_u64; self.program.stream_count];
        for place in 0..self.program.operations.len() {
            let number = OperationNumber(number(place));
            let Some(facts) = self.program.operations.get(place) else { break };
            let (stream, Some(end)) = (facts.stream.index(), facts.recorded_end_ns) else {
                continue;
            };
            let waited = self.waited.get(&number).into_iter().flatten();
            let waited = waited.filter_map(|record| {
                let after = self.recorded_after.get(index(record.0)).copied().flatten()?;
                self.program.operations.get(index(after.0))?.recorded_end_ns
            });
            let submitted = self.submitted_ns.get(place).copied().unwrap_or(0);
            let before = ends.get(stream).copied().unwrap_or(0);
            let could = waited.fold(before.max(submitted), u64::max);
            let begun = self.begun_ns.get(&number).copied().unwrap_or(could);
            if let Some(last) = ends.get_mut(stream) {
                *last = end;
            }
            if let Some(facts) = self.program.operations.get_mut(place) {
                facts.duration_ns = Some(end.saturating_sub(begun));
            }
        }
    }

    /// An operation without a time takes as long as the median of those of its name and place.
    fn guess_times(&mut self) {
        type Like = (Option<TextNumber>, Option<PlaceNumber>);
        let mut known: HashMap<Like, Vec<u64>> = HashMap::new();
        for facts in &self.program.operations {
            if let (Some(duration), Some(_)) = (facts.duration_ns, facts.recorded_end_ns) {
                known.entry((facts.name, facts.place)).or_default().push(duration);
            }
        }
        for list in known.values_mut() {
            list.sort_unstable();
        }
        for facts in &mut self.program.operations {
            if facts.duration_ns.is_some() {
                continue;
            }
            let like = known.get(&(facts.name, facts.place));
            facts.duration_ns = like.and_then(|list| list.get(list.len() / 2).copied());
            match facts.duration_ns {
                Some(_) => self.program.guessed_count += 1,
                None => self.program.untimed_count += 1,
            }
        }
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a recording numbers its things in 32 bits")
}
