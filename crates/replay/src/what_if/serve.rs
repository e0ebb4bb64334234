//! Serves a case under one setting of PyTorch's allocator.

use std::time::{Duration, Instant};

use pytorch_model::{
    AddressOrder, AssumedDriver, BlockNumber, Figures, Limits, Model, PoolId, Request, Settings,
    Ties,
};
use trace::Operation;

use super::case::{Case, DEVICE_BYTES};
use super::held::AllHeld;

/// The largest device that address space is assumed for.
const DEVICE_BYTES_MAX: u64 = 1 << 44;

/// What is assumed of the driver and of PyTorch's version, where only they know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Assumed {
    pub(super) order: AddressOrder,
    pub(super) ties: Ties,
}

impl Assumed {
    /// Other assumptions than the usual one, which show how much it matters.
    pub(super) const OTHERS: [Self; 5] = [
        Self { order: AddressOrder::FromAbove, ties: Ties::Creation },
        Self { order: AddressOrder::FromBelow, ties: Ties::Address },
        Self { order: AddressOrder::Scattered(1), ties: Ties::Address },
        Self { order: AddressOrder::Scattered(2), ties: Ties::Address },
        Self { order: AddressOrder::Scattered(3), ties: Ties::Address },
    ];
}

/// What one run under one setting came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub(super) figures: Figures,
    /// The operation that ran out of memory, which ended the run.
    pub(super) failed: Option<usize>,
    /// Driver calls by which requests gave memory back.
    pub(super) give_backs: u64,
    pub(super) elapsed: Duration,
}

/// Serves all of a case, or up to the first request that finds no room.
pub(super) fn serve(
    case: &Case,
    settings: &Settings,
    capacity_bytes: Option<u64>,
    assumed: Assumed,
) -> Served {
    let started = Instant::now();
    let limits = limits(settings, capacity_bytes);
    let driver = AssumedDriver::new(assumed.order);
    let mut model = Model::new(settings.clone(), limits, assumed.ties, driver);
    let mut start = 0;
    if let Some(held) = held_for(case, settings) {
        for segment in held.all() {
            model.driver_mut().occupy(segment.address, segment.bytes);
        }
        held.hand_to(&mut model);
        start = case.operations.initial_operation_count;
    }
    let (failed, emptied) = take_all(case, &mut model, start);
    let give_backs = model.figures().driver_free_count - emptied;
    Served { figures: *model.figures(), failed, give_backs, elapsed: started.elapsed() }
}

/// What was held when the trace began belongs to the setting that it was recorded under.
pub(super) fn held_for<'a>(case: &'a Case, settings: &Settings) -> Option<&'a AllHeld> {
    let is_recorded = Settings::parse(&case.setting).is_ok_and(|recorded| recorded == *settings);
    let held = case.timeline.held.as_ref().filter(|held| held.all().next().is_some());
    held.filter(|_| is_recorded)
}

fn limits(settings: &Settings, capacity_bytes: Option<u64>) -> Limits {
    let device = capacity_bytes.unwrap_or(0).clamp(DEVICE_BYTES, DEVICE_BYTES_MAX);
    let fraction_bytes = capacity_bytes.map(|bytes| settings.fraction_of(bytes));
    Limits { device_bytes: device, fraction_bytes }
}

/// The operation at which memory ran out, and the driver calls of emptied caches.
fn take_all(case: &Case, model: &mut Model<AssumedDriver>, start: usize) -> (Option<usize>, u64) {
    let mut in_emptied = 0;
    let operations = &case.operations;
    let mut emptied = case.emptied.iter().peekable();
    for (index, operation) in operations.list.iter().enumerate().skip(start) {
        while let Some((_, release)) = emptied.next_if(|(before, _)| *before <= index) {
            release.ended.iter().for_each(|pool| model.retire(*pool));
            let before = model.figures().driver_free_count;
            model.empty_cache();
            in_emptied += model.figures().driver_free_count - before;
        }
        match *operation {
            Operation::Allocate { block, bytes, stream } => {
                let stream = operations.streams.get(stream.index()).map_or(0, |handle| handle.0);
                let pool = case.pools.get(block.index()).copied().unwrap_or(PoolId::DEFAULT);
                let request = Request { bytes, stream, pool };
                if model.allocate(BlockNumber(block.0), request).is_err() {
                    return (Some(index), in_emptied);
                }
            }
            Operation::Free { block, deferred } => model.free(BlockNumber(block.0), deferred),
            Operation::Complete { block } => model.complete(BlockNumber(block.0)),
            Operation::OutOfMemory { .. } => {}
        }
    }
    (None, in_emptied)
}
