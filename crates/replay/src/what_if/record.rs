//! The model held against the record: whether it would have done what PyTorch recorded.

use std::collections::{HashMap, VecDeque};

use pytorch_model::{
    BlockNumber, Driver, Event, Limits, Model, PoolId, Request, SettingError, Settings, Ties,
};
use serde::Serialize;
use trace::pytorch::{Action, DeviceTrace, Entry};

use super::case::{DEVICE_BYTES, recorded_setting};
use super::timeline::Timeline;

/// How a recording and the model of the allocator that made it differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The setting that the trace was recorded under.
    pub setting: String,
    /// The limit that its requests tell of: what was given back and refused under it was given
    /// back and refused here as well.
    pub limit_bytes: Option<u64>,
    /// Requests that were served when recorded.
    pub allocations: usize,
    /// Those whose block came to lie elsewhere, or that found no room.
    pub wrong_addresses: usize,
    /// Segments taken, given back, mapped and unmapped, and requests refused, when recorded.
    pub events: usize,
    /// Entries between which the model did something else with the driver, in another order or
    /// size.
    pub wrong_events: usize,
    /// The first entry that differs.
    pub first_difference: Option<usize>,
    /// The most that was reserved when recorded, from the trace's beginning on, if the file tells.
    pub recorded_peak_reserved_bytes: Option<u64>,
    /// The same, by the model.
    pub peak_reserved_bytes: u64,
    /// Segments and blocks held before the trace began, which were rebuilt from its end.
    pub initial_segments: usize,
    /// What the trace lacks, so that no difference, or any, proves little.
    pub lacks: Vec<String>,
}

impl Comparison {
    /// Whether everything was the same.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let recorded = self.recorded_peak_reserved_bytes;
        self.wrong_addresses == 0
            && self.wrong_events == 0
            && recorded.is_none_or(|bytes| bytes == self.peak_reserved_bytes)
    }
}

/// Serves a recording's calls under its own setting, with its own addresses for segments, and
/// compares what is taken from the driver and where each block lies.
///
/// # Errors
/// [`SettingError`] if it was recorded under a setting that is not modeled.
pub fn compare_with_record(trace: &DeviceTrace<'_>) -> Result<Comparison, SettingError> {
    let setting = recorded_setting(trace);
    let settings = Settings::parse(&setting)?;
    let timeline = Timeline::new(trace, &settings);
    let operations = trace.operations();
    let summary = trace.summary(&operations);
    let limits = Limits { device_bytes: DEVICE_BYTES, fraction_bytes: timeline.limit_bytes };
    let mut model = Model::new(settings, limits, Ties::Address, Recording::default());
    let mut live = HashMap::new();
    let mut lacks = Vec::new();
    let held = timeline.held.as_ref();
    if let Some(held) = held {
        held.hand_to(&mut model);
        let blocks = held.all().flat_map(|segment| &segment.blocks);
        live.extend(blocks.map(|block| (block.address, block.number)));
    }
    if held.is_none() {
        lacks.push("its beginning, which cannot be rebuilt from its end".to_owned());
    }
    if trace.segments().next().is_none() && 0 < summary.final_reserved_bytes {
        lacks.push("segments: what was held before it and never given back is not known".into());
    }
    model.keep_events();
    let next_block = u32::try_from(operations.initial_block_count).unwrap_or(u32::MAX);
    let mut comparer = Comparer { model, live, next_block, ..Comparer::new(&timeline) };
    for (index, entry) in trace.entries().iter().enumerate() {
        comparer.take(index, entry);
    }
    Ok(Comparison {
        setting,
        limit_bytes: timeline.limit_bytes,
        allocations: comparer.allocations,
        wrong_addresses: comparer.wrong_addresses,
        events: comparer.events,
        wrong_events: comparer.wrong_events,
        first_difference: comparer.first_difference,
        recorded_peak_reserved_bytes: summary.reserved_peak_bytes(),
        peak_reserved_bytes: comparer.model.figures().reserved_peak_bytes,
        initial_segments: held.map_or(0, |held| held.all().count()),
        lacks,
    })
}

/// No device has addresses from here on.
const ADDRESS_END: u64 = 1 << 60;

/// Gives the addresses that the recording has for the request that is served.
#[derive(Debug, Default)]
struct Recording(VecDeque<u64>);

impl Recording {
    /// The next address, unless a file has one that no device has.
    fn next(&mut self) -> u64 {
        self.0.pop_front().filter(|address| *address < ADDRESS_END).unwrap_or(0)
    }
}

impl Driver for Recording {
    fn allocate(&mut self, _bytes: u64) -> u64 {
        self.next()
    }

    fn free(&mut self, _address: u64, _bytes: u64) {}

    fn reserve(&mut self, _bytes: u64) -> u64 {
        self.next()
    }

    fn release(&mut self, _address: u64, _bytes: u64) {}
}

struct Comparer<'a> {
    timeline: &'a Timeline,
    model: Model<Recording>,
    /// Blocks in use or pending, by address.
    live: HashMap<u64, BlockNumber>,
    next_block: u32,
    /// What was recorded since the last request.
    pending: Vec<Event>,
    releases_done: usize,
    allocations: usize,
    wrong_addresses: usize,
    events: usize,
    wrong_events: usize,
    first_difference: Option<usize>,
}

impl<'a> Comparer<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        let limits = Limits { device_bytes: DEVICE_BYTES, fraction_bytes: None };
        let model = Model::new(Settings::default(), limits, Ties::Address, Recording::default());
        Self {
            timeline,
            model,
            live: HashMap::new(),
            next_block: 0,
            pending: Vec::new(),
            releases_done: 0,
            allocations: 0,
            wrong_addresses: 0,
            events: 0,
            wrong_events: 0,
            first_difference: None,
        }
    }

    fn take(&mut self, index: usize, entry: &Entry) {
        let release = self.timeline.releases.get(self.releases_done);
        if let Some(release) = release.filter(|release| release.entry <= index) {
            self.releases_done += 1;
            release.ended.iter().for_each(|pool| self.model.retire(*pool));
            self.model.empty_cache();
        }
        if let Some(event) = event(entry) {
            self.pending.push(event);
            self.events += 1;
        }
        match entry.action {
            Action::Alloc => self.allocate(index, entry),
            Action::OutOfMemory => self.refuse(index, entry),
            Action::Free => self.end(entry.address, false),
            Action::FreeRequested => self.end(entry.address, true),
            Action::FreeCompleted => {
                if let Some(number) = self.live.remove(&entry.address) {
                    // One whose request the trace has lost is freed here.
                    self.model.free(number, true);
                    self.model.complete(number);
                }
            }
            Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap
            | Action::Snapshot
            | Action::Annotate
            | Action::Other(_) => {}
        }
    }

    fn end(&mut self, address: u64, is_deferred: bool) {
        let number =
            if is_deferred { self.live.get(&address).copied() } else { self.live.remove(&address) };
        if let Some(number) = number {
            self.model.free(number, is_deferred);
        }
    }

    fn allocate(&mut self, index: usize, entry: &Entry) {
        let number = BlockNumber(self.next_block);
        self.next_block += 1;
        self.allocations += 1;
        let pool = self.timeline.pools.get(&index).copied().unwrap_or(PoolId::DEFAULT);
        self.tell_addresses();
        let request = Request { bytes: entry.bytes, stream: entry.stream.0, pool };
        let placed = self.model.allocate(number, request);
        let is_right = placed.is_ok_and(|placed| placed.address == entry.address);
        self.wrong_addresses += usize::from(!is_right);
        self.live.insert(entry.address, number);
        self.compare(index, is_right);
    }

    /// The request that failed, with a number that stays free.
    fn refuse(&mut self, index: usize, entry: &Entry) {
        let number = BlockNumber(self.next_block);
        self.tell_addresses();
        let request = Request { bytes: entry.bytes, stream: entry.stream.0, pool: PoolId::DEFAULT };
        if self.model.allocate(number, request).is_ok() {
            self.model.free(number, false);
        }
        self.compare(index, true);
    }

    /// The driver is told where the segments lie that were taken for the next request.
    fn tell_addresses(&mut self) {
        let taken = self.pending.iter().filter_map(|event| match event {
            Event::SegmentAlloc { address, .. } | Event::SegmentMap { address, .. } => {
                Some(*address)
            }
            Event::SegmentFree { .. }
            | Event::SegmentUnmap { .. }
            | Event::OutOfMemory { .. }
            | _ => None,
        });
        self.model.driver_mut().0 = taken.collect();
    }

    fn compare(&mut self, index: usize, is_right: bool) {
        let done = self.model.take_events();
        let is_same = same(&done, &self.pending);
        self.wrong_events += usize::from(!is_same);
        self.pending.clear();
        if !(is_same && is_right) {
            self.first_difference.get_or_insert(index);
        }
    }
}

/// Whether the same was done. A request that failed is recorded by its size, and told here by what
/// the driver was asked for.
fn same(done: &[Event], recorded: &[Event]) -> bool {
    let is_failure = |event: &Event| matches!(event, Event::OutOfMemory { .. });
    let pairs = done.iter().zip(recorded);
    done.len() == recorded.len()
        && pairs
            .into_iter()
            .all(|(one, other)| one == other || (is_failure(one) && is_failure(other)))
}

fn event(entry: &Entry) -> Option<Event> {
    let (address, bytes, stream) = (entry.address, entry.bytes, entry.stream.0);
    match entry.action {
        Action::SegmentAlloc => Some(Event::SegmentAlloc { address, bytes, stream }),
        Action::SegmentFree => Some(Event::SegmentFree { address, bytes, stream }),
        Action::SegmentMap => Some(Event::SegmentMap { address, bytes, stream }),
        Action::SegmentUnmap => Some(Event::SegmentUnmap { address, bytes, stream }),
        Action::OutOfMemory => Some(Event::OutOfMemory { bytes, stream }),
        Action::Alloc
        | Action::Free
        | Action::FreeRequested
        | Action::FreeCompleted
        | Action::Snapshot
        | Action::Annotate
        | Action::Other(_) => None,
    }
}
