//! Makes a snapshot of entries that other kinds of file hold, judged as those of a pickle are.

use std::collections::HashMap;

use super::entry::{Action, Entry};
use super::pools::{PoolNumber, PoolsBuilder};
use super::snapshot::{Snapshot, StreamHandle};
use super::stacks::{StackId, StacksBuilder, TextsBuilder};
use super::word::Word;
use crate::Origin;

/// The largest size and address that are believed, and the largest request that may have failed.
const SIZE_BYTES_MAX: u64 = 1 << 48;
const ADDRESS_MAX: u64 = (1 << 63) - 1;
const FAILED_BYTES_MAX: u64 = 1 << 62;
/// More devices than any host has.
pub(crate) const DEVICE_MAX: u64 = 65_535;
/// The most kinds of unknown actions that are told apart.
const UNKNOWN_ACTIONS_MAX: usize = 1000;
/// What a distinct text or stack costs beside its own bytes.
const NUMBERED_BYTES: usize = 128;

/// An entry as a line of another file has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) action: &'a str,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) stream: u64,
    pub(crate) time_us: i64,
    pub(crate) stack: Option<StackId>,
    pub(crate) pool: Option<(u64, u64)>,
    pub(crate) metadata: &'a str,
    pub(crate) compile_context: &'a str,
}

/// Why a line is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The number under this key is above what is believed.
    Absurd { key: &'static str, value: u64, limit: u64 },
    /// Keeping it would take more memory than allowed.
    TooMuchMemory { limit: u64 },
}

/// A snapshot under way.
#[derive(Debug)]
pub(crate) struct Rebuilder {
    /// What the file says that its entries were made of.
    pub(crate) origin: Origin,
    texts: TextsBuilder,
    text_count: usize,
    pools: PoolsBuilder,
    pool_count: usize,
    stacks: StacksBuilder,
    stack_count: usize,
    traces: Vec<Vec<Entry>>,
    unknown_actions: Vec<(String, usize)>,
    unknown_numbers: HashMap<String, u16>,
    used_bytes: usize,
    memory_bytes_max: u64,
}

impl Rebuilder {
    pub(crate) fn new(memory_bytes_max: u64) -> Self {
        Self {
            origin: Origin::PytorchEntries,
            texts: TextsBuilder::default(),
            text_count: 0,
            pools: PoolsBuilder::default(),
            pool_count: 0,
            stacks: StacksBuilder::default(),
            stack_count: 0,
            traces: Vec::new(),
            unknown_actions: Vec::new(),
            unknown_numbers: HashMap::new(),
            used_bytes: 0,
            memory_bytes_max,
        }
    }

    /// The stack of these frames, innermost first: file, line and function.
    pub(crate) fn stack(
        &mut self,
        frames: &[(impl AsRef<str>, u32, impl AsRef<str>)],
    ) -> Result<Option<StackId>, Refusal> {
        let mut numbers = Vec::new();
        let mut bytes = 0_usize;
        for (file, line, name) in frames {
            let (file, name) = (file.as_ref(), name.as_ref());
            bytes += file.len() + name.len() + size_of::<u64>();
            numbers.extend(self.stacks.add_frame(file, *line, name));
        }
        let stack = self.stacks.add_stack(&numbers);
        if stack.is_some_and(|stack| self.stack_count <= stack.index()) {
            self.stack_count += 1;
            self.charge(bytes + NUMBERED_BYTES)?;
        }
        Ok(stack)
    }

    /// Adds an entry to the trace of `device`, which is at most [`DEVICE_MAX`].
    pub(crate) fn push(&mut self, device: usize, line: &Line<'_>) -> Result<(), Refusal> {
        let action = self.action(line.action)?;
        let bytes_max = match action {
            Action::OutOfMemory => FAILED_BYTES_MAX,
            Action::Other(_) => u64::MAX,
            Action::Alloc
            | Action::Free
            | Action::FreeRequested
            | Action::FreeCompleted
            | Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap
            | Action::Snapshot
            | Action::Annotate => SIZE_BYTES_MAX,
        };
        let address_max = if matches!(action, Action::Other(_)) { u64::MAX } else { ADDRESS_MAX };
        judge("address", line.address, address_max)?;
        judge("bytes", line.bytes, bytes_max)?;
        self.charge(2 * size_of::<Entry>())?;
        while self.traces.len() <= device {
            self.charge(size_of::<Vec<Entry>>())?;
            self.traces.push(Vec::new());
        }
        let entry = Entry {
            action,
            address: line.address,
            bytes: line.bytes,
            stream: StreamHandle(line.stream),
            time_us: line.time_us,
            stack: line.stack,
            pool: self.pool(line.pool)?,
            metadata: self.text(line.metadata)?,
            compile_context: self.text(line.compile_context)?,
        };
        if let Some(trace) = self.traces.get_mut(device) {
            trace.push(entry);
        }
        Ok(())
    }

    pub(crate) fn build(self) -> Snapshot {
        Snapshot {
            origin: self.origin,
            device_traces: self.traces,
            stacks: self.stacks.build(),
            texts: self.texts.build(),
            pools: self.pools.build(),
            unknown_actions: self.unknown_actions,
            ..Snapshot::default()
        }
    }

    fn text(&mut self, text: &str) -> Result<Option<super::TextId>, Refusal> {
        if text.is_empty() {
            return Ok(None);
        }
        let id = self.texts.add(text);
        if id.is_some_and(|id| self.text_count <= id.index()) {
            self.text_count += 1;
            self.charge(2 * text.len() + NUMBERED_BYTES)?;
        }
        Ok(id)
    }

    fn pool(&mut self, id: Option<(u64, u64)>) -> Result<Option<PoolNumber>, Refusal> {
        let pool = id.and_then(|id| self.pools.add(id));
        if pool.is_some_and(|pool| self.pool_count <= pool.index()) {
            self.pool_count += 1;
            self.charge(NUMBERED_BYTES)?;
        }
        Ok(pool)
    }

    /// The action of that name; beyond a number of unknown ones they are the first of them.
    fn action(&mut self, name: &str) -> Result<Action, Refusal> {
        if let Some(action) = Word::find(name.as_bytes()).and_then(Action::of) {
            return Ok(action);
        }
        let number = match self.unknown_numbers.get(name) {
            Some(number) => *number,
            None if UNKNOWN_ACTIONS_MAX <= self.unknown_actions.len() => 0,
            None => {
                self.charge(2 * name.len() + NUMBERED_BYTES)?;
                let number = u16::try_from(self.unknown_actions.len()).unwrap_or(0);
                self.unknown_actions.push((name.to_owned(), 0));
                self.unknown_numbers.insert(name.to_owned(), number);
                number
            }
        };
        if let Some((_, count)) = self.unknown_actions.get_mut(usize::from(number)) {
            *count += 1;
        }
        Ok(Action::Other(number))
    }

    /// Counts memory that is kept beside this.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        let limit = self.memory_bytes_max;
        match u64::try_from(self.used_bytes) {
            Ok(used) if used <= limit => Ok(()),
            _ => Err(Refusal::TooMuchMemory { limit }),
        }
    }
}

fn judge(key: &'static str, value: u64, limit: u64) -> Result<(), Refusal> {
    if limit < value { Err(Refusal::Absurd { key, value, limit }) } else { Ok(()) }
}
