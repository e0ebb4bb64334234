//! Virtual memory: addresses are reserved once, and memory is mapped into them as it is needed.
//!
//! A segment grows in place, so free memory at its end is extended instead of duplicated, and any
//! idle piece goes back alone. A piece is one physical handle, mapped and given back whole;
//! mapping costs about 0.1 ms whatever its size.

use streams::Context;
use streams::memory::{AddressRange, PhysicalMemory};

use super::{Piece, PoolKind, Region, Source, SourceError, source_error};
use crate::sync::{Arc, Mutex};

/// The least a pool grows by, where the device has room: one granule for small requests.
const SMALL_GROWTH: u64 = 2 << 20;
const LARGE_GROWTH: u64 = 2 << 20;

/// A growth is committed in about this many pieces: a single live block keeps a whole piece from
/// going back. Measured on recorded traces: with one piece a growth, reserved memory stood 5 to
/// 20 % above the page floor; with these figures, within 2 %.
const PIECES_TO_A_GROWTH: u64 = 16;
/// So many segments each get addresses for the whole device; of twice as many those above get half
/// of that, and so on. A device has addresses for some hundred times its memory, and a program with
/// a stream for each of its thousand requests wants a segment for each.
const WHOLE_SPANS_MAX: usize = 16;
/// A piece is at most this large, unless set otherwise.
const PIECE_BYTES_MAX: u64 = 8 << 20;

/// Memory of `cuMemCreate`, mapped into addresses of `cuMemAddressReserve`.
#[derive(Debug)]
pub struct VmmSource {
    context: Context,
    granularity: u64,
    /// The most addresses to reserve for a segment: what the whole device could fill.
    span: u64,
    piece_bytes_max: u64,
    /// Held by every segment's addresses.
    segments: Arc<()>,
}

impl VmmSource {
    /// A source of the context's memory; `None` on a device without virtual memory management.
    ///
    /// # Errors
    /// The device could not be asked about itself.
    pub fn new(context: &Context) -> Result<Option<Self>, streams::Error> {
        if !context.device().has_virtual_memory() {
            return Ok(None);
        }
        let granularity = PhysicalMemory::granularity(context)?;
        let span = context.device().total_bytes()?.next_multiple_of(granularity);
        let piece_bytes_max = PIECE_BYTES_MAX;
        let (context, segments) = (context.clone(), Arc::new(()));
        Ok(Some(Self { context, granularity, span, piece_bytes_max, segments }))
    }

    /// How many addresses the next segment gets, if it needs no more.
    fn next_span(&self) -> u64 {
        let segments = Arc::strong_count(&self.segments) - 1;
        let halvings = (segments / WHOLE_SPANS_MAX + 1).ilog2();
        (self.span >> halvings).next_multiple_of(self.granularity)
    }

    /// The same source with another largest piece: larger ones make growth cheaper (about 0.1 ms
    /// a piece), smaller ones keep reserved memory nearer to what is used. The default is 8 MiB.
    #[must_use]
    pub fn with_piece_bytes_max(mut self, bytes: u64) -> Self {
        self.piece_bytes_max = bytes.next_multiple_of(self.granularity);
        self
    }
}

impl Source for VmmSource {
    fn name(&self) -> &'static str {
        "vmm"
    }

    fn open(&self, _kind: PoolKind, bytes: u64) -> Result<Arc<dyn Region>, SourceError> {
        let least = bytes.next_multiple_of(self.granularity);
        let mut span = self.next_span().max(least);
        loop {
            match AddressRange::reserve(&self.context, span, self.granularity) {
                Ok(range) => {
                    let stuck = Mutex::new(Vec::new());
                    let _segment = Arc::clone(&self.segments);
                    let addresses = Arc::new(Addresses { range, stuck, _segment });
                    return Ok(Arc::new(VmmRegion {
                        context: self.context.clone(),
                        addresses,
                        granularity: self.granularity,
                    }));
                }
                // Addresses run short, also because others reserve some: smaller segments do too.
                Err(error) if span / 2 < least => return Err(source_error(error, least)),
                Err(_) => span = (span / 2).next_multiple_of(self.granularity),
            }
        }
    }

    fn segment_bytes(&self, _kind: PoolKind, _bytes: u64) -> u64 {
        0
    }

    fn piece_bytes(&self, bytes: u64) -> u64 {
        let part = (bytes / PIECES_TO_A_GROWTH).next_multiple_of(self.granularity);
        part.clamp(self.granularity, self.piece_bytes_max.max(self.granularity))
    }

    fn recycles(&self) -> bool {
        true
    }

    fn growth_bytes(&self, kind: PoolKind) -> u64 {
        match kind {
            PoolKind::Small => SMALL_GROWTH,
            PoolKind::Large => LARGE_GROWTH,
        }
    }
}

/// Reserved addresses.
#[derive(Debug)]
struct VmmRegion {
    context: Context,
    addresses: Arc<Addresses>,
    granularity: u64,
}

/// Addresses, and which of them could not be unmapped when their piece was given back.
#[derive(Debug)]
struct Addresses {
    range: AddressRange,
    /// Offset and bytes of mappings whose piece is gone.
    stuck: Mutex<Vec<(u64, u64)>>,
    /// Counts it among the segments that there are.
    _segment: Arc<()>,
}

impl Addresses {
    /// Unmaps what is stuck in a range that is about to be mapped: it belongs to nobody.
    fn free_up(&self, offset: u64, bytes: u64) -> Result<(), streams::Error> {
        let meets = |stuck: &(u64, u64)| stuck.0 < offset + bytes && offset < stuck.0 + stuck.1;
        let stuck: Vec<(u64, u64)> = self.stuck.lock().iter().copied().filter(meets).collect();
        for (offset, bytes) in stuck {
            self.range.unmap(offset, bytes)?;
            self.stuck.lock().retain(|known| *known != (offset, bytes));
        }
        Ok(())
    }
}

// SAFETY: the addresses are reserved for this region; a piece is physical memory that was mapped
// there with access for the device, and keeps the reservation alive until it is unmapped.
unsafe impl Region for VmmRegion {
    fn base(&self) -> u64 {
        self.addresses.range.address()
    }

    fn span(&self) -> u64 {
        self.addresses.range.bytes()
    }

    fn granularity(&self) -> u64 {
        self.granularity
    }

    fn is_recommittable(&self) -> bool {
        true
    }

    fn commit(&self, offset: u64, bytes: u64) -> Result<Box<dyn Piece>, SourceError> {
        self.addresses.free_up(offset, bytes)?;
        let range = &self.addresses.range;
        let physical = PhysicalMemory::create(&self.context, bytes)
            .map_err(|error| source_error(error, bytes))?;
        range.map(offset, &physical).map_err(|error| source_error(error, bytes))?;
        let addresses = Arc::clone(&self.addresses);
        let piece = VmmPiece { addresses, offset, bytes, physical: Some(physical) };
        range.set_access(offset, bytes).map_err(|error| source_error(error, bytes))?;
        Ok(Box::new(piece))
    }
}

/// One mapped handle.
#[derive(Debug)]
struct VmmPiece {
    addresses: Arc<Addresses>,
    offset: u64,
    bytes: u64,
    /// `None` once it has been given back.
    physical: Option<PhysicalMemory>,
}

impl VmmPiece {
    /// What cannot be unmapped stays until its addresses are wanted, or go.
    fn unmap(&self) -> Result<(), streams::Error> {
        let unmapped = self.addresses.range.unmap(self.offset, self.bytes);
        if unmapped.is_err() {
            self.addresses.stuck.lock().push((self.offset, self.bytes));
        }
        unmapped
    }
}

impl Piece for VmmPiece {
    fn release(mut self: Box<Self>) -> Result<(), SourceError> {
        let Some(physical) = self.physical.take() else { return Ok(()) };
        self.unmap()?;
        Ok(physical.release()?)
    }
}

impl Drop for VmmPiece {
    fn drop(&mut self) {
        if let Some(physical) = self.physical.take() {
            // A drop has nobody to tell: the addresses unmap it when they go, and the context
            // counts the errors of their destructor and of the memory's.
            let _untold = self.unmap();
            drop(physical);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use cuda_sim::{Machine, Schedule};
    use streams::Driver;

    use super::{PoolKind, Source, VmmSource, WHOLE_SPANS_MAX};

    /// Was: each segment got addresses for the whole device, and the 301st none at all.
    #[test]
    fn tens_of_thousands_of_segments_find_addresses() {
        let machine = Machine::builder().schedule(Schedule::Eager).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let source = VmmSource::new(&context).unwrap().unwrap();
        let open = |bytes| source.open(PoolKind::Small, bytes).unwrap();
        let mut regions: Vec<_> = (0..50_000).map(|_| open(512)).collect();
        let whole = regions.iter().take_while(|region| region.span() == source.span).count();
        assert_eq!(whole, WHOLE_SPANS_MAX);
        assert!(regions.iter().all(|region| 16 * source.granularity <= region.span()));
        let large = open(source.span / 2);
        assert_eq!(large.span(), source.span / 2, "what is asked for is had at any time");
        regions.truncate(WHOLE_SPANS_MAX);
        assert_eq!(open(512).span(), (source.span / 2).next_multiple_of(source.granularity));
        drop((regions, large));
        assert_eq!(open(512).span(), source.span);
    }
}
