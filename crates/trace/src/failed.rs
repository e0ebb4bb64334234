//! The requests of a trace that failed for lack of memory, and what was held at that moment.

use crate::number::BlockNumber;
use crate::operations::{Operation, Operations};
use crate::origin::Origin;
use crate::owner::{OpenAnnotations, Owners};
use crate::pytorch::{DeviceTrace, Snapshot, StreamHandle};
use crate::reserved::{ReservedBytes, reserved_change_bytes};
use crate::summary::rounded_bytes;

/// How many failed requests of a trace are told of, the latest ones.
const FAILED_MAX: usize = 16;

/// A request that failed for lack of memory, and what was held then.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedRequest {
    /// Index of its entry in the device's trace.
    pub entry: usize,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// On which stream.
    pub stream: StreamHandle,
    /// Who asked; see [`Owners`]. Nothing where neither a stack nor an annotation says.
    pub owner: Option<String>,
    /// Bytes of allocated blocks, each rounded up to 512.
    pub allocated_bytes: u64,
    /// Bytes of freed blocks that waited for other streams, each rounded up to 512.
    pub pending_bytes: u64,
    /// Bytes held from the driver, if the file tells.
    pub reserved_bytes: Option<u64>,
    /// Bytes that the device had free, if the file tells: PyTorch's own does.
    pub device_free_bytes: Option<u64>,
}

/// The latest sixteen failed requests of a trace, the earliest of them first. Goes through the
/// trace three times.
pub(crate) fn failed_requests(
    snapshot: &Snapshot,
    trace: &DeviceTrace<'_>,
    operations: &Operations,
    owners: &mut Owners<'_>,
) -> Vec<FailedRequest> {
    let is_failure = |operation: &Operation| matches!(operation, Operation::OutOfMemory { .. });
    let failed_count = operations.list.iter().filter(|it| is_failure(it)).count();
    let mut passed_over = failed_count.saturating_sub(FAILED_MAX);
    if failed_count == 0 {
        return Vec::new();
    }
    let mut held = Held::new(trace, operations);
    let mut annotations = OpenAnnotations::new(snapshot, trace.device());
    let tells_free = matches!(snapshot.origin, Origin::Pytorch | Origin::PytorchEntries);
    let mut failed = Vec::new();
    for (place, operation) in operations.list.iter().enumerate() {
        held.take(operation);
        let Some(index) = operations.entry_of(place).filter(|_| is_failure(operation)) else {
            continue;
        };
        let Some(entry) = trace.entries().get(index) else { continue };
        if let Some(left) = passed_over.checked_sub(1) {
            passed_over = left;
            continue;
        }
        let annotation = annotations.at(entry.time_us);
        let is_known = entry.stack.is_some() || annotation.is_some();
        let owner = is_known.then(|| owners.of(entry.stack, entry.bytes, annotation));
        let name = owner.and_then(|owner| owners.names().get(owner.index()));
        failed.push(FailedRequest {
            entry: index,
            bytes: entry.bytes,
            stream: entry.stream,
            owner: name.map(|name| name.trim_end().to_owned()),
            allocated_bytes: clamp(held.allocated_bytes),
            pending_bytes: clamp(held.pending_bytes),
            reserved_bytes: held.reserved_bytes_before(trace, index).map(clamp),
            device_free_bytes: tells_free.then_some(entry.address),
        });
    }
    failed
}

/// What is held as a trace goes on. Signed and wide, since a file may contradict itself.
struct Held {
    block_bytes: Vec<u64>,
    allocated_bytes: i128,
    pending_bytes: i128,
    reserved: Option<i128>,
    /// How many entries `reserved` counts.
    entry_count: usize,
}

impl Held {
    fn new(trace: &DeviceTrace<'_>, operations: &Operations) -> Self {
        let reserved = ReservedBytes::of(trace);
        Self {
            block_bytes: vec![0; operations.block_count],
            allocated_bytes: 0,
            pending_bytes: 0,
            reserved: reserved.is_recorded.then_some(reserved.first),
            entry_count: 0,
        }
    }

    fn take(&mut self, operation: &Operation) {
        match *operation {
            Operation::Allocate { block, bytes, .. } => {
                let bytes = rounded_bytes(bytes);
                if let Some(kept) = self.block_bytes.get_mut(block.index()) {
                    *kept = bytes;
                }
                self.allocated_bytes += i128::from(bytes);
            }
            Operation::Free { block, deferred } => {
                let bytes = self.bytes_of(block);
                self.allocated_bytes -= bytes;
                self.pending_bytes += if deferred { bytes } else { 0 };
            }
            Operation::Complete { block } => self.pending_bytes -= self.bytes_of(block),
            Operation::OutOfMemory { .. } => {}
        }
    }

    fn bytes_of(&self, block: BlockNumber) -> i128 {
        i128::from(self.block_bytes.get(block.index()).copied().unwrap_or(0))
    }

    /// What is reserved before the entry at `index`; indices must not fall from call to call.
    fn reserved_bytes_before(&mut self, trace: &DeviceTrace<'_>, index: usize) -> Option<i128> {
        let entries = trace.entries().get(self.entry_count..index).unwrap_or_default();
        let change: i128 = entries.iter().map(reserved_change_bytes).sum();
        self.entry_count = index;
        self.reserved = self.reserved.map(|bytes| bytes + change);
        self.reserved
    }
}

fn clamp(bytes: i128) -> u64 {
    u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
}
