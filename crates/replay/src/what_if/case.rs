//! One trace, ready to be served under any setting.

use pytorch_model::{PoolId, SettingError, Settings};
use serde::{Deserialize, Serialize};
use trace::pytorch::DeviceTrace;
use trace::{Operation, Operations, Origin, Summary};

use super::held::AllHeld;
use super::timeline::{Release, Timeline};

/// The device where no capacity is given: more than any trace fits, in address space that is no
/// scarcer than a real one's.
pub(super) const DEVICE_BYTES: u64 = 1 << 42;

/// What a trace was recorded under; `default` where it does not say.
pub(super) fn recorded_setting(trace: &DeviceTrace<'_>) -> String {
    let line = trace.allocator_settings().and_then(|all| all.configuration.as_deref());
    match line.map(str::trim) {
        None | Some("") => "default".to_owned(),
        Some(line) => line.to_owned(),
    }
}

/// Whose allocator served a trace when it was recorded, and what kind of file tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recorder {
    /// PyTorch's: a memory snapshot.
    #[default]
    Pytorch,
    /// PyTorch's: CSV or a Chrome trace of a snapshot, without its settings and segments.
    PytorchEntries,
    /// RMM's: a log, without uses by streams and without segments.
    RmmLog,
    /// Any: a stream trace, from whose uses completions were worked out.
    StreamTrace,
}

impl From<Origin> for Recorder {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Pytorch => Self::Pytorch,
            Origin::PytorchEntries => Self::PytorchEntries,
            Origin::RmmLog => Self::RmmLog,
            Origin::StreamTrace => Self::StreamTrace,
        }
    }
}

impl Recorder {
    /// Whether segments, emptied caches and refused requests are those of PyTorch's allocator.
    #[must_use]
    pub const fn is_pytorch(self) -> bool {
        matches!(self, Self::Pytorch | Self::PytorchEntries)
    }
}

/// A trace as calls of an allocator: requests, frees and completions, the requests that failed
/// among them, and calls that empty the cache.
#[derive(Debug, Clone)]
pub struct Case {
    pub(super) operations: Operations,
    /// By block: its pool; empty if all are of the default one.
    pub(super) pools: Vec<PoolId>,
    /// Calls that emptied the cache, by the operation they came before.
    pub(super) emptied: Vec<(usize, Release)>,
    /// The recorded one, or `default` where PyTorch's allocator recorded nothing.
    pub(super) setting: String,
    pub(super) recorder: Recorder,
    pub(super) summary: Summary,
    pub(super) live: LivePeak,
    pub(super) timeline: Timeline,
}

/// The moment at which the blocks in use were largest together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LivePeak {
    /// Bytes of the blocks, each rounded up to whole 512.
    pub bytes: u64,
    /// The most bytes of whole 2 MiB pages for larger blocks, and of small ones packed.
    pub page_floor_bytes: u64,
    /// The operation that reached it.
    pub(super) operation: usize,
}

impl Case {
    /// Takes a device's trace.
    #[must_use]
    pub fn new(trace: &DeviceTrace<'_>) -> Self {
        let recorder = Recorder::from(trace.origin());
        let recorded = trace.operations();
        let summary = trace.summary(&recorded);
        let operations = recorded.with_failed_requests();
        let setting = recorded_setting(trace);
        let settings = Settings::parse(&setting).unwrap_or_default();
        let timeline = if recorder.is_pytorch() {
            Timeline::new(trace, &settings)
        } else {
            Timeline::of_requests()
        };
        let pools = pools(&operations, &timeline);
        let emptied = emptied(&operations, &timeline.releases);
        let live = LivePeak::of(&operations);
        Self { operations, pools, emptied, setting, recorder, summary, live, timeline }
    }

    /// The trace's operations, with the requests that failed.
    #[must_use]
    pub const fn operations(&self) -> &Operations {
        &self.operations
    }

    /// The setting of PyTorch's that it was recorded under; none if another allocator served it.
    #[must_use]
    pub fn recorded_setting(&self) -> Option<&str> {
        self.recorder.is_pytorch().then_some(&self.setting)
    }

    /// Why the setting that it was recorded under cannot be served, if so.
    #[must_use]
    pub fn recorded_setting_error(&self) -> Option<SettingError> {
        Settings::parse(&self.setting).err()
    }

    /// What must fit at once, whatever the allocator.
    #[must_use]
    pub const fn live_peak(&self) -> &LivePeak {
        &self.live
    }

    /// What the trace itself recorded.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The trace's entry that an operation comes from.
    pub(super) fn event_of(&self, operation: usize) -> u64 {
        let entry = self.operations.entry_of(operation).unwrap_or(0);
        u64::try_from(entry).unwrap_or(u64::MAX)
    }
}

fn pools(operations: &Operations, timeline: &Timeline) -> Vec<PoolId> {
    let in_held = timeline.held.iter().flat_map(AllHeld::all);
    let held = in_held.filter(|segment| segment.pool != PoolId::DEFAULT);
    let held: Vec<_> =
        held.flat_map(|it| it.blocks.iter().map(|b| (b.number.0, it.pool))).collect();
    if timeline.pools.is_empty() && held.is_empty() {
        return Vec::new();
    }
    let mut pools = vec![PoolId::DEFAULT; operations.block_count];
    let mut set = |number: u32, pool: PoolId| {
        let place = usize::try_from(number).ok().and_then(|place| pools.get_mut(place));
        if let Some(place) = place {
            *place = pool;
        }
    };
    for (number, pool) in held {
        set(number, pool);
    }
    for (index, operation) in operations.list.iter().enumerate() {
        if let Operation::Allocate { block, .. } = operation
            && let Some(entry) = operations.entry_of(index)
            && let Some(pool) = timeline.pools.get(&entry)
        {
            set(block.0, *pool);
        }
    }
    pools
}

/// The calls that empty the cache, each before the first operation that came after it.
fn emptied(operations: &Operations, releases: &[Release]) -> Vec<(usize, Release)> {
    let mut found = Vec::new();
    let mut start = operations.initial_operation_count;
    for release in releases {
        let later = operations.entries.get(start - operations.initial_operation_count..);
        let later = later.unwrap_or_default();
        let skipped = later.partition_point(|entry| {
            usize::try_from(*entry).is_ok_and(|entry| entry < release.entry)
        });
        start += skipped;
        found.push((start, release.clone()));
    }
    found
}

impl LivePeak {
    fn of(operations: &Operations) -> Self {
        let mut sizes = vec![0_u64; operations.block_count];
        let (mut live, mut pages) = (0_u128, 0_u128);
        let (mut peak, mut page_peak, mut at) = (0, 0, 0);
        for (index, operation) in operations.list.iter().enumerate() {
            match *operation {
                Operation::Allocate { block, bytes, .. } => {
                    if let Some(size) = sizes.get_mut(block.index()) {
                        *size = bytes;
                    }
                    live += u128::from(trace::rounded_bytes(bytes));
                    pages += u128::from(trace::page_floor_bytes(bytes));
                    if peak < live {
                        (peak, at) = (live, index);
                    }
                    page_peak = page_peak.max(pages);
                }
                Operation::Free { block, .. } => {
                    let bytes = sizes.get(block.index()).copied().unwrap_or(0);
                    live -= u128::from(trace::rounded_bytes(bytes));
                    pages -= u128::from(trace::page_floor_bytes(bytes));
                }
                Operation::Complete { .. } | Operation::OutOfMemory { .. } => {}
            }
        }
        let narrow = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        Self { bytes: narrow(peak), page_floor_bytes: narrow(page_peak), operation: at }
    }
}
