//! Plain device memory: every piece is one `cuMemAlloc`, whole.
//!
//! Works on every device. A segment cannot grow, and goes back only when all of it is free.
//! Segment sizes are PyTorch's: 2 MiB for small requests, 20 MiB below 10 MiB, else the request
//! rounded up to 2 MiB.

use streams::Context;
use streams::memory::DeviceMemory;

use super::{Piece, PoolKind, Region, Source, SourceError, source_error};
use crate::sync::{Arc, Mutex};

const SMALL_SEGMENT: u64 = 2 << 20;
const LARGE_SEGMENT: u64 = 20 << 20;
const LARGE_SEGMENT_REQUEST_MAX: u64 = 10 << 20;

/// Memory of `cuMemAlloc`. Note that giving a piece back (`cuMemFree`) was measured to wait for
/// every running kernel of the device.
#[derive(Debug)]
pub struct PlainSource {
    context: Context,
}

impl PlainSource {
    /// A source of the context's memory.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self { context: context.clone() }
    }

    /// The segment that serves a request of `bytes`.
    fn segment_bytes(kind: PoolKind, bytes: u64) -> u64 {
        match kind {
            PoolKind::Small => SMALL_SEGMENT.max(bytes.next_multiple_of(SMALL_SEGMENT)),
            PoolKind::Large if bytes < LARGE_SEGMENT_REQUEST_MAX => LARGE_SEGMENT,
            PoolKind::Large => bytes.next_multiple_of(SMALL_SEGMENT),
        }
    }
}

impl Source for PlainSource {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn open(&self, kind: PoolKind, bytes: u64) -> Result<Arc<dyn Region>, SourceError> {
        let span = Self::segment_bytes(kind, bytes);
        let memory = DeviceMemory::allocate(&self.context, span)
            .map_err(|error| source_error(error, span))?;
        let base = memory.address();
        Ok(Arc::new(PlainRegion { base, span, memory: Mutex::new(Some(memory)) }))
    }

    fn segment_bytes(&self, kind: PoolKind, bytes: u64) -> u64 {
        Self::segment_bytes(kind, bytes)
    }

    fn growth_bytes(&self, _kind: PoolKind) -> u64 {
        0
    }
}

/// One allocation. It is there from the start; committing it hands it to its one piece.
#[derive(Debug)]
struct PlainRegion {
    base: u64,
    span: u64,
    memory: Mutex<Option<DeviceMemory>>,
}

// SAFETY: the region is one allocation of the driver's, which is its own until its only piece
// gives it back, and the piece owns it.
unsafe impl Region for PlainRegion {
    fn base(&self) -> u64 {
        self.base
    }

    fn span(&self) -> u64 {
        self.span
    }

    fn granularity(&self) -> u64 {
        self.span
    }

    fn is_recommittable(&self) -> bool {
        false
    }

    fn commit(&self, _offset: u64, bytes: u64) -> Result<Box<dyn Piece>, SourceError> {
        match self.memory.lock().take() {
            Some(memory) => Ok(Box::new(PlainPiece { memory })),
            None => Err(SourceError::OutOfMemory { bytes }),
        }
    }
}

#[derive(Debug)]
struct PlainPiece {
    memory: DeviceMemory,
}

impl Piece for PlainPiece {
    fn release(self: Box<Self>) -> Result<(), SourceError> {
        self.memory.release().map_err(SourceError::Driver)
    }
}
