//! Turns the machine's values into a [`Snapshot`], judging every number on the way.
//!
//! Only lists that a snapshot has are entered, to a fixed depth. A list may be shared, so what is
//! visited is counted: an honest file has no more records than bytes.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is not what a snapshot has in a place is refused or passed over there"
)]

use super::error::{Place, ReadError};
use super::heap::{Dict, Field, Given, Heap, RawAction, RawEntry, Value};
use super::machine::Outcome;
use super::snapshot::{
    AllocatorSettings, Block, BlockState, Entry, Segment, SegmentKind, Snapshot, StreamHandle,
};
use super::window::to_u64;
use super::word::Word;

/// The largest size that is believed: 256 TiB, more than any device's address space maps.
const SIZE_BYTES_MAX: u64 = 1 << 48;
/// The largest address that is believed; a segment behind it still ends within 64 bits.
const ADDRESS_MAX: u64 = (1 << 63) - 1;
/// The largest request that may have failed: PyTorch rejects above 2^60 without a trace entry.
const FAILED_BYTES_MAX: u64 = 1 << 62;

/// Judges the outcome of the pickle machine.
pub(super) fn snapshot(outcome: Outcome) -> Result<Snapshot, ReadError> {
    let Value::Dict(top) = outcome.top else {
        return Err(ReadError::NotASnapshot { found: describe(outcome.top) });
    };
    let limit = outcome.pickle_bytes;
    let mut extractor = Extractor { heap: outcome.heap, visited: 0, limit, unknown_count: 0 };
    extractor.top(top)
}

struct Extractor {
    heap: Heap,
    /// Records visited so far.
    visited: u64,
    limit: u64,
    unknown_count: usize,
}

impl Extractor {
    fn top(&mut self, top: u32) -> Result<Snapshot, ReadError> {
        let (mut segments, mut traces, mut settings) = (None, None, None);
        for &(key, value) in self.pairs(top) {
            match key {
                Value::Word(Word::Segments) => segments = Some(value),
                Value::Word(Word::DeviceTraces) => traces = Some(value),
                Value::Word(Word::AllocatorSettings) => settings = Some(value),
                _ => {}
            }
        }
        let missing = |key| ReadError::MissingKey { place: Place::Top, key };
        let segments = self.segments(segments.ok_or(missing("segments"))?)?;
        let device_traces = self.traces(traces.ok_or(missing("device_traces"))?)?;
        let allocator_settings = match settings {
            Some(Value::Dict(dict)) => Some(self.settings(dict)),
            _ => None,
        };
        Ok(Snapshot {
            segments,
            device_traces,
            allocator_settings,
            unknown_action_count: self.unknown_count,
        })
    }

    fn traces(&mut self, value: Value) -> Result<Vec<Vec<Entry>>, ReadError> {
        let lists = self.items(value, Place::Top, "device_traces")?;
        let mut traces = Vec::new();
        for device in 0..lists {
            let list = self.item(value, device);
            let trace = self.trace(list, device)?;
            self.heap.budget.push(&mut traces, trace)?;
        }
        Ok(traces)
    }

    fn trace(&mut self, list: Value, device: usize) -> Result<Vec<Entry>, ReadError> {
        let count = self.items(list, Place::Trace { device }, "entries")?;
        let mut entries = Vec::new();
        self.heap.budget.reserve(&mut entries, count)?;
        for position in 0..count {
            let place = Place::Entry { device, entry: position };
            let Value::Dict(dict) = self.item(list, position) else {
                return Err(ReadError::WrongType { place, key: "action", expected: "a dict" });
            };
            let raw = match self.heap.dict(dict) {
                Dict::Entry(entry) => self.heap.entry(entry),
                Dict::Empty => RawEntry::from_pairs(&[]),
                Dict::Pairs(pairs) => {
                    let pairs = self.heap.pairs(pairs);
                    let visited = pairs.len();
                    let raw = RawEntry::from_pairs(pairs);
                    self.visit(visited)?;
                    raw
                }
            };
            match entry(&raw, place)? {
                Some(entry) => entries.push(entry),
                None => self.unknown_count += 1,
            }
        }
        Ok(entries)
    }

    fn segments(&mut self, value: Value) -> Result<Vec<Segment>, ReadError> {
        let count = self.items(value, Place::Top, "segments")?;
        let mut segments = Vec::new();
        for position in 0..count {
            let place = Place::Segment { segment: position };
            let Value::Dict(dict) = self.item(value, position) else {
                return Err(ReadError::WrongType { place, key: "segments", expected: "dicts" });
            };
            let segment = self.segment(dict, position)?;
            self.heap.budget.push(&mut segments, segment)?;
        }
        Ok(segments)
    }

    fn segment(&mut self, dict: u32, position: usize) -> Result<Segment, ReadError> {
        let place = Place::Segment { segment: position };
        self.visit(self.pairs(dict).len())?;
        let (mut address, mut total_bytes, mut device, mut stream) = (None, None, 0, 0);
        let mut kind = SegmentKind::Unknown;
        let (mut pool_id, mut is_expandable, mut blocks) = ((0, 0), false, None);
        for &(key, value) in self.pairs(dict) {
            let Value::Word(key) = key else { continue };
            match key {
                Word::Address => address = Some(size(value, place, "address", ADDRESS_MAX)?),
                Word::TotalSize => {
                    total_bytes = Some(size(value, place, "total_size", SIZE_BYTES_MAX)?);
                }
                Word::Device => device = size(value, place, "device", DEVICE_MAX)?,
                Word::Stream => stream = handle(value, place)?,
                Word::IsExpandable => is_expandable = value == Value::Bool(true),
                Word::Blocks => blocks = Some(value),
                Word::SegmentPoolId => pool_id = self.pool_id(value),
                Word::SegmentType => {
                    kind = match value {
                        Value::Word(Word::Small) => SegmentKind::Small,
                        Value::Word(Word::Large) => SegmentKind::Large,
                        _ => SegmentKind::Unknown,
                    };
                }
                _ => {}
            }
        }
        let missing = |key| ReadError::MissingKey { place, key };
        let address = address.ok_or(missing("address"))?;
        let total_bytes = total_bytes.ok_or(missing("total_size"))?;
        let blocks = match blocks {
            Some(blocks) => self.blocks(blocks, position, address)?,
            None => Vec::new(),
        };
        let device = usize::try_from(device).expect("device numbers are small");
        let stream = StreamHandle(stream);
        Ok(Segment { device, address, total_bytes, stream, kind, pool_id, is_expandable, blocks })
    }

    fn blocks(
        &mut self,
        value: Value,
        segment: usize,
        mut address: u64,
    ) -> Result<Vec<Block>, ReadError> {
        let count = self.items(value, Place::Segment { segment }, "blocks")?;
        let mut blocks = Vec::new();
        self.heap.budget.reserve(&mut blocks, count)?;
        for position in 0..count {
            let place = Place::Block { segment, block: position };
            let Value::Dict(dict) = self.item(value, position) else {
                return Err(ReadError::WrongType { place, key: "blocks", expected: "dicts" });
            };
            self.visit(self.pairs(dict).len())?;
            let block = self.block(dict, place, address)?;
            address = block.address.saturating_add(block.bytes);
            blocks.push(block);
        }
        Ok(blocks)
    }

    fn block(&self, dict: u32, place: Place, next_address: u64) -> Result<Block, ReadError> {
        let (mut address, mut bytes, mut requested_bytes, mut state) =
            (next_address, None, None, None);
        for &(key, value) in self.pairs(dict) {
            let Value::Word(key) = key else { continue };
            match key {
                Word::Address => address = size(value, place, "address", ADDRESS_MAX)?,
                Word::Size => bytes = Some(size(value, place, "size", SIZE_BYTES_MAX)?),
                Word::RequestedSize => {
                    requested_bytes = Some(size(value, place, "requested_size", SIZE_BYTES_MAX)?);
                }
                Word::State => state = Some(block_state(value, place)?),
                _ => {}
            }
        }
        let missing = |key| ReadError::MissingKey { place, key };
        let bytes = bytes.ok_or(missing("size"))?;
        let state = state.ok_or(missing("state"))?;
        Ok(Block { address, bytes, requested_bytes: requested_bytes.unwrap_or(bytes), state })
    }

    fn pool_id(&self, value: Value) -> (u64, u64) {
        let Value::Tuple(tuple) = value else { return (0, 0) };
        match self.heap.tuple(tuple) {
            &[Value::Int(first), Value::Int(second)] => {
                (first.cast_unsigned(), second.cast_unsigned())
            }
            _ => (0, 0),
        }
    }

    fn settings(&self, dict: u32) -> AllocatorSettings {
        let mut settings = AllocatorSettings::default();
        for &(key, value) in self.pairs(dict) {
            match (key, value) {
                (Value::Word(Word::Configuration), value) => {
                    settings.configuration = self.text(value);
                }
                (Value::Word(Word::MaxSplitSize), Value::Int(bytes)) => {
                    settings.max_split_bytes = u64::try_from(bytes).ok();
                }
                (Value::Word(Word::GarbageCollectionThreshold), Value::Float(threshold)) => {
                    settings.garbage_collection_threshold = Some(threshold);
                }
                (Value::Word(Word::ExpandableSegments), Value::Bool(expandable)) => {
                    settings.expandable_segments = Some(expandable);
                }
                (Value::Word(Word::RoundupPower2Divisions), Value::Dict(divisions)) => {
                    settings.roundup_power2_divisions = self.divisions(divisions);
                }
                _ => {}
            }
        }
        settings
    }

    fn divisions(&self, dict: u32) -> Vec<(u64, u64)> {
        let division = |&(key, value): &(Value, Value)| {
            let Value::Int(divisions) = value else { return None };
            Some((self.text(key)?.parse().ok()?, u64::try_from(divisions).ok()?))
        };
        self.pairs(dict).iter().filter_map(division).collect()
    }

    fn text(&self, value: Value) -> Option<String> {
        let bytes = match value {
            Value::Word(word) => word.text(),
            Value::Text(text) => self.heap.text(text),
            _ => return None,
        };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// A dictionary's pairs; none where it was taken for a trace entry.
    fn pairs(&self, dict: u32) -> &[(Value, Value)] {
        match self.heap.dict(dict) {
            Dict::Pairs(pairs) => self.heap.pairs(pairs),
            Dict::Empty | Dict::Entry(_) => &[],
        }
    }

    /// How many items the list or tuple `value` has; all of them count as visited.
    fn items(&mut self, value: Value, place: Place, key: &'static str) -> Result<usize, ReadError> {
        let count = match value {
            Value::List(list) => self.heap.list(list).len(),
            Value::Tuple(tuple) => self.heap.tuple(tuple).len(),
            _ => return Err(ReadError::WrongType { place, key, expected: "a list" }),
        };
        self.visit(count)?;
        Ok(count)
    }

    fn item(&self, value: Value, position: usize) -> Value {
        let items = match value {
            Value::List(list) => self.heap.list(list),
            Value::Tuple(tuple) => self.heap.tuple(tuple),
            _ => &[],
        };
        items.get(position).copied().expect("`items` counted them")
    }

    fn visit(&mut self, count: usize) -> Result<(), ReadError> {
        self.visited = self.visited.saturating_add(to_u64(count));
        if self.limit < self.visited {
            return Err(ReadError::Unfolds { limit: self.limit });
        }
        Ok(())
    }
}

/// More devices than any host has.
const DEVICE_MAX: u64 = u16::MAX as u64;

/// Judges a trace entry; nothing comes of an action that is not known.
fn entry(raw: &RawEntry, place: Place) -> Result<Option<Entry>, ReadError> {
    let action = match raw.action {
        RawAction::Known(action) => action,
        RawAction::Unknown => return Ok(None),
        RawAction::Missing => return Err(ReadError::MissingKey { place, key: "action" }),
        RawAction::NotText => {
            return Err(ReadError::WrongType { place, key: "action", expected: "a text" });
        }
    };
    let size_max = if action.has_address() { SIZE_BYTES_MAX } else { FAILED_BYTES_MAX };
    let address = entry_number(raw, Field::Address, place, action.has_address(), ADDRESS_MAX)?;
    let bytes = entry_number(raw, Field::Size, place, action.needs_size(), size_max)?;
    let stream = match raw.number(Field::Stream) {
        Given::Missing => 0,
        Given::Odd => return Err(not_an_integer(place, Field::Stream.key())),
        Given::Int(handle) => handle.cast_unsigned(),
    };
    let time_us = match raw.number(Field::TimeUs) {
        Given::Int(time_us) => time_us,
        Given::Missing | Given::Odd => 0,
    };
    Ok(Some(Entry { action, address, bytes, stream: StreamHandle(stream), time_us }))
}

/// A size or an address of an entry; 0 if it may be missing and is.
fn entry_number(
    raw: &RawEntry,
    field: Field,
    place: Place,
    needed: bool,
    limit: u64,
) -> Result<u64, ReadError> {
    match raw.number(field) {
        Given::Int(value) => judge(value, place, field.key(), limit),
        Given::Odd => Err(not_an_integer(place, field.key())),
        Given::Missing if needed => Err(ReadError::MissingKey { place, key: field.key() }),
        Given::Missing => Ok(0),
    }
}

/// A size or an address of a segment or block.
fn size(value: Value, place: Place, key: &'static str, limit: u64) -> Result<u64, ReadError> {
    match value {
        Value::Int(value) => judge(value, place, key, limit),
        _ => Err(not_an_integer(place, key)),
    }
}

fn judge(value: i64, place: Place, key: &'static str, limit: u64) -> Result<u64, ReadError> {
    let size = u64::try_from(value).map_err(|_| ReadError::Negative { place, key, value })?;
    if limit < size {
        return Err(ReadError::Absurd { place, key, value: size, limit });
    }
    Ok(size)
}

/// PyTorch writes handles as signed numbers; the bits are what counts.
fn handle(value: Value, place: Place) -> Result<u64, ReadError> {
    match value {
        Value::Int(value) => Ok(value.cast_unsigned()),
        _ => Err(not_an_integer(place, "stream")),
    }
}

fn block_state(value: Value, place: Place) -> Result<BlockState, ReadError> {
    match value {
        Value::Word(Word::ActiveAllocated) => Ok(BlockState::Allocated),
        Value::Word(Word::ActivePendingFree | Word::ActiveAwaitingFree) => {
            Ok(BlockState::PendingFree)
        }
        Value::Word(Word::Inactive) => Ok(BlockState::Inactive),
        _ => Err(ReadError::WrongType {
            place,
            key: "state",
            expected: "active_allocated, active_pending_free or inactive",
        }),
    }
}

const fn not_an_integer(place: Place, key: &'static str) -> ReadError {
    ReadError::WrongType { place, key, expected: "an integer of 64 bits" }
}

const fn describe(value: Value) -> &'static str {
    match value {
        Value::None => "None",
        Value::Bool(_) => "a bool",
        Value::Int(_) | Value::HugeInt => "an integer",
        Value::Float(_) => "a float",
        Value::Word(_) | Value::Text(_) => "a text",
        Value::Passed => "a long text or bytes",
        Value::List(_) => "a list",
        Value::Tuple(_) => "a tuple",
        Value::Dict(_) => "a dict",
    }
}
