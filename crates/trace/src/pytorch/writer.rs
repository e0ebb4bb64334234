//! Writes a snapshot as Python's `pickle` and PyTorch's own tools read it.
//!
//! What PyTorch's viewer needs and a [`Snapshot`] may lack is added: blocks tile their segment
//! (what lies between them is written as free), and sums are counted from the blocks. What a
//! snapshot never held, such as keys that the reader passes over, is not there; [`Snapshot`]
//! counts those of its outermost dictionary and its settings.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use super::entry::{Action, Entry};
use super::pickler::Pickler;
use super::snapshot::{
    AllocatorSettings, Annotation, Block, BlockState, HostSegment, Segment, SegmentKind,
    SettingValue, Snapshot, Stage,
};
use super::stacks::{Frame, StackId, TextId};

/// How many entries are written between two words on how far it has come.
const TOLD_ENTRIES: usize = 1 << 14;

/// Told how many entries of the traces were written, of how many.
pub type WriteProgress<'a> = &'a mut dyn FnMut(usize, usize);

/// Writes `snapshot` as a pickle of protocol 4. Needs memory for one number for each distinct
/// text, frame and stack, and 64 KiB.
///
/// Read again, it is equal to `snapshot` where the blocks of that tile their segments and nothing
/// was passed over. Segments that were made up are there for other tools; reading leaves them out.
///
/// # Errors
/// What `sink` says, or a text of more than 4 GiB.
///
/// ```
/// use trace::pytorch::{ReadOptions, read, read_file, write};
///
/// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
/// # let file = std::path::Path::new(folder).join("graphs.pickle.zst");
/// let snapshot = read_file(&file, &ReadOptions::default(), None)?;
/// let pickle = write(&snapshot, Vec::new(), None)?;
/// let again = read(pickle.as_slice(), 0, &ReadOptions::default(), None)?;
/// assert_eq!(again, snapshot);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write<W: Write>(
    snapshot: &Snapshot,
    sink: W,
    progress: Option<WriteProgress<'_>>,
) -> io::Result<W> {
    let all = snapshot.device_traces.iter().chain(&snapshot.host_traces).map(Vec::len).sum();
    let mut writer = SnapshotWriter {
        snapshot,
        pickler: Pickler::new(BufWriter::with_capacity(64 << 10, sink))?,
        stacks: HashMap::new(),
        frames: HashMap::new(),
        progress,
        written: 0,
        all,
    };
    writer.top()?;
    writer.pickler.finish()?.into_inner().map_err(io::IntoInnerError::into_error)
}

struct SnapshotWriter<'a, 'p, W> {
    snapshot: &'a Snapshot,
    pickler: Pickler<'a, W>,
    /// Where stacks and frames stand in the memo.
    stacks: HashMap<StackId, u32>,
    frames: HashMap<Frame<'a>, u32>,
    progress: Option<WriteProgress<'p>>,
    written: usize,
    all: usize,
}

impl<'a, W: Write> SnapshotWriter<'a, '_, W> {
    fn top(&mut self) -> io::Result<()> {
        let snapshot = self.snapshot;
        self.pickler.open_dict()?;
        self.list("segments", &snapshot.segments, Self::segment)?;
        self.list("device_traces", &snapshot.device_traces, |it, trace| it.trace(trace))?;
        if !snapshot.device_overflows.is_empty() {
            let flags = &snapshot.device_overflows;
            self.list("trace_alloc_overflowed", flags, |it, flag| match flag {
                Some(flag) => it.pickler.boolean(*flag),
                None => it.pickler.none(),
            })?;
        }
        if !snapshot.host_segments.is_empty() {
            self.list("host_segments", &snapshot.host_segments, Self::host_segment)?;
        }
        if !snapshot.host_traces.is_empty() {
            self.list("host_traces", &snapshot.host_traces, |it, trace| it.trace(trace))?;
        }
        if let Some(settings) = &snapshot.allocator_settings {
            self.pickler.text("allocator_settings")?;
            self.settings(settings)?;
        }
        self.list("external_annotations", &snapshot.annotations, Self::annotation)?;
        self.origin()?;
        self.pickler.close_dict()
    }

    /// What nobody but this crate reads: PyTorch's own tools pass over keys they do not know.
    fn origin(&mut self) -> io::Result<()> {
        if let Some(mark) = self.snapshot.origin.mark() {
            self.word("wellspring_made_of", mark)?;
        }
        if self.snapshot.has_made_up_segments {
            self.pickler.text("wellspring_made_up_segments")?;
            self.pickler.boolean(true)?;
        }
        Ok(())
    }

    fn list<T>(
        &mut self,
        key: &'a str,
        items: &'a [T],
        mut write: impl FnMut(&mut Self, &'a T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.pickler.text(key)?;
        self.items(items, &mut write)
    }

    fn items<T>(
        &mut self,
        items: &'a [T],
        write: &mut impl FnMut(&mut Self, &'a T) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut list = self.pickler.open_list()?;
        for item in items {
            self.pickler.item(&mut list)?;
            write(self, item)?;
        }
        self.pickler.close_list(list)
    }

    fn number(&mut self, key: &'a str, value: u64) -> io::Result<()> {
        self.pickler.text(key)?;
        self.pickler.unsigned(value)
    }

    fn word(&mut self, key: &'a str, value: &'a str) -> io::Result<()> {
        self.pickler.text(key)?;
        self.pickler.text(value)
    }

    fn segment(&mut self, segment: &'a Segment) -> io::Result<()> {
        let sums = Sums::of(&segment.blocks);
        self.pickler.open_dict()?;
        self.number("device", wide(segment.device))?;
        self.number("address", segment.address)?;
        self.number("total_size", segment.total_bytes)?;
        self.number("allocated_size", sums.allocated_bytes)?;
        self.number("active_size", sums.active_bytes)?;
        self.number("requested_size", sums.requested_bytes)?;
        self.number("stream", segment.stream.0)?;
        match segment.kind {
            SegmentKind::Small => self.word("segment_type", "small")?,
            SegmentKind::Large => self.word("segment_type", "large")?,
            SegmentKind::Unknown => {}
        }
        self.pickler.text("segment_pool_id")?;
        self.pickler.pair(segment.pool_id)?;
        self.pickler.text("is_expandable")?;
        self.pickler.boolean(segment.is_expandable)?;
        self.stack(segment.stack, true)?;
        self.pickler.text("blocks")?;
        self.blocks(segment)?;
        self.pickler.close_dict()
    }

    /// The blocks of a segment, and what lies between them as free ones.
    fn blocks(&mut self, segment: &'a Segment) -> io::Result<()> {
        let mut list = self.pickler.open_list()?;
        let end = segment.address.saturating_add(segment.total_bytes);
        let mut next = segment.address;
        for block in &segment.blocks {
            if next < block.address {
                self.pickler.item(&mut list)?;
                self.hole(next, block.address)?;
            }
            self.pickler.item(&mut list)?;
            self.block(block)?;
            next = block.address.saturating_add(block.bytes);
        }
        if next < end {
            self.pickler.item(&mut list)?;
            self.hole(next, end)?;
        }
        self.pickler.close_list(list)
    }

    fn hole(&mut self, address: u64, end: u64) -> io::Result<()> {
        let (bytes, state) = (end - address, BlockState::Inactive);
        self.block(&Block { address, bytes, requested_bytes: 0, state, stack: None })
    }

    fn block(&mut self, block: &Block) -> io::Result<()> {
        self.pickler.open_dict()?;
        self.number("address", block.address)?;
        self.number("size", block.bytes)?;
        self.number("requested_size", block.requested_bytes)?;
        let state = match block.state {
            BlockState::Allocated => "active_allocated",
            BlockState::PendingFree => "active_pending_free",
            BlockState::Inactive => "inactive",
        };
        self.word("state", state)?;
        self.stack(block.stack, true)?;
        self.pickler.close_dict()
    }

    fn trace(&mut self, entries: &'a [Entry]) -> io::Result<()> {
        self.items(entries, &mut |it: &mut Self, entry| {
            if it.written.is_multiple_of(TOLD_ENTRIES)
                && let Some(progress) = &mut it.progress
            {
                progress(it.written, it.all);
            }
            it.written += 1;
            it.entry(entry)
        })
    }

    fn entry(&mut self, entry: &'a Entry) -> io::Result<()> {
        let snapshot = self.snapshot;
        self.pickler.open_dict()?;
        self.word("action", action_text(snapshot, entry.action))?;
        let is_failure = entry.action == Action::OutOfMemory;
        self.number(if is_failure { "device_free" } else { "addr" }, entry.address)?;
        self.number("size", entry.bytes)?;
        self.number("stream", entry.stream.0)?;
        self.pickler.text("time_us")?;
        self.pickler.integer(entry.time_us)?;
        self.text_if_any("compile_context", entry.compile_context)?;
        self.text_if_any("user_metadata", entry.metadata)?;
        if let Some(pool) = entry.pool {
            self.pickler.text("pool_id")?;
            self.pickler.pair(snapshot.pools.get(pool))?;
        }
        self.stack(entry.stack, false)?;
        self.pickler.close_dict()
    }

    fn text_if_any(&mut self, key: &'a str, text: Option<TextId>) -> io::Result<()> {
        match text {
            Some(text) => self.word(key, self.snapshot.texts.get(text)),
            None => Ok(()),
        }
    }

    /// `frames`: each stack and each frame is spelled once; `required` ones are empty if absent.
    fn stack(&mut self, stack: Option<StackId>, required: bool) -> io::Result<()> {
        let Some(stack) = stack else {
            if required {
                self.pickler.text("frames")?;
                self.pickler.empty_list()?;
            }
            return Ok(());
        };
        self.pickler.text("frames")?;
        if let Some(place) = self.stacks.get(&stack) {
            return self.pickler.recall(*place);
        }
        let mut list = self.pickler.open_list()?;
        for frame in self.snapshot.stacks.frames(stack) {
            self.pickler.item(&mut list)?;
            self.frame(frame)?;
        }
        self.pickler.close_list(list)?;
        if let Some(place) = self.pickler.memorize()? {
            self.stacks.insert(stack, place);
        }
        Ok(())
    }

    fn frame(&mut self, frame: Frame<'a>) -> io::Result<()> {
        if let Some(place) = self.frames.get(&frame) {
            return self.pickler.recall(*place);
        }
        self.pickler.open_dict()?;
        self.word("filename", frame.file)?;
        self.number("line", u64::from(frame.line))?;
        self.word("name", frame.name)?;
        self.pickler.close_dict()?;
        if let Some(place) = self.pickler.memorize()? {
            self.frames.insert(frame, place);
        }
        Ok(())
    }

    fn host_segment(&mut self, segment: &'a HostSegment) -> io::Result<()> {
        self.pickler.open_dict()?;
        self.number("address", segment.address)?;
        self.number("total_size", segment.bytes)?;
        if let Some(bytes) = segment.allocated_bytes {
            self.number("allocated_size", bytes)?;
        }
        if let Some(bytes) = segment.active_bytes {
            self.number("active_size", bytes)?;
        }
        if let Some(pool) = segment.pool {
            self.pickler.text("segment_pool_id")?;
            self.pickler.pair(pool)?;
        }
        self.stack(segment.stack, true)?;
        self.pickler.close_dict()
    }

    fn annotation(&mut self, annotation: &'a Annotation) -> io::Result<()> {
        self.pickler.open_dict()?;
        match annotation.stage {
            Stage::Start => self.word("stage", "START")?,
            Stage::End => self.word("stage", "END")?,
            Stage::Other => {}
        }
        self.word("name", self.snapshot.texts.get(annotation.name))?;
        if let Some(device) = annotation.device {
            self.number("device", wide(device))?;
        }
        self.pickler.text("time_us")?;
        self.pickler.integer(annotation.time_us)?;
        self.pickler.close_dict()
    }

    fn settings(&mut self, settings: &'a AllocatorSettings) -> io::Result<()> {
        self.pickler.open_dict()?;
        if let Some(configuration) = &settings.configuration {
            self.word("PYTORCH_CUDA_ALLOC_CONF", configuration)?;
        }
        self.pickler.text("max_split_size")?;
        match settings.max_split_bytes {
            Some(bytes) => self.pickler.unsigned(bytes)?,
            None => self.pickler.integer(-1)?,
        }
        if let Some(threshold) = settings.garbage_collection_threshold {
            self.pickler.text("garbage_collection_threshold")?;
            self.pickler.float(threshold)?;
        }
        if let Some(expandable) = settings.expandable_segments {
            self.pickler.text("expandable_segments")?;
            self.pickler.boolean(expandable)?;
        }
        self.pickler.text("roundup_power2_divisions")?;
        self.pickler.open_dict()?;
        for (from_mib, divisions) in &settings.roundup_power2_divisions {
            self.pickler.text_once(&from_mib.to_string())?;
            self.pickler.unsigned(*divisions)?;
        }
        self.pickler.close_dict()?;
        for (name, value) in &settings.others {
            self.pickler.text(name)?;
            match value {
                SettingValue::Nothing => self.pickler.none()?,
                SettingValue::Bool(value) => self.pickler.boolean(*value)?,
                SettingValue::Integer(value) => self.pickler.integer(*value)?,
                SettingValue::Float(value) => self.pickler.float(*value)?,
                SettingValue::Text(value) => self.pickler.text(value)?,
            }
        }
        self.pickler.close_dict()
    }
}

/// What the blocks of a segment come to.
#[derive(Debug, Default)]
struct Sums {
    allocated_bytes: u64,
    active_bytes: u64,
    requested_bytes: u64,
}

impl Sums {
    fn of(blocks: &[Block]) -> Self {
        let mut sums = Self::default();
        let add = |sum: &mut u64, bytes| *sum = sum.saturating_add(bytes);
        for block in blocks {
            match block.state {
                BlockState::Allocated => add(&mut sums.allocated_bytes, block.bytes),
                BlockState::PendingFree => {}
                BlockState::Inactive => continue,
            }
            add(&mut sums.active_bytes, block.bytes);
            add(&mut sums.requested_bytes, block.requested_bytes);
        }
        sums
    }
}

/// How a file spells `action`.
/// Both numbers of an entry's pool.
pub(crate) fn pool_id(snapshot: &Snapshot, entry: &Entry) -> Option<(u64, u64)> {
    entry.pool.map(|pool| snapshot.pools.get(pool))
}

pub(crate) fn action_text(snapshot: &Snapshot, action: Action) -> &str {
    match action {
        Action::Alloc => "alloc",
        Action::Free => "free",
        Action::FreeRequested => "free_requested",
        Action::FreeCompleted => "free_completed",
        Action::SegmentAlloc => "segment_alloc",
        Action::SegmentFree => "segment_free",
        Action::SegmentMap => "segment_map",
        Action::SegmentUnmap => "segment_unmap",
        Action::Snapshot => "snapshot",
        Action::OutOfMemory => "oom",
        Action::Annotate => "annotate",
        Action::Other(number) => {
            let named = snapshot.unknown_actions.get(usize::from(number));
            named.map_or("unknown", |(name, _)| name.as_str())
        }
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
