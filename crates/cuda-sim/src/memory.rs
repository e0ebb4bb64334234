//! The address space: which bytes an address means.
//!
//! A *mapping* gives a run of addresses to a *backing*: device bytes of the simulator's own, or
//! host memory. Several mappings may share a backing. Device addresses are the same in every run.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use smallvec::SmallVec;

use crate::handle::HandleReuse;
use crate::physical::SparseBytes;
use crate::shadow::{Seen, Shadow};
use crate::shims::raw::{HostPlace, PinnedBytes};

/// What made a mapping, and so what may end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MappingKind {
    Plain,
    /// Memory of a stream-ordered pool, by the pool's handle.
    Pool(usize),
    /// A physical handle mapped into a reservation; the devices that may use it, a bit each.
    Virtual {
        handle: usize,
        devices: u64,
    },
    Pinned,
    Registered,
}

/// A run of addresses and the bytes behind it.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    pub(crate) backing: usize,
    pub(crate) kind: MappingKind,
    pub(crate) device: usize,
    /// The context it belongs to, by its number.
    pub(crate) context: usize,
    /// The last operation of each timeline that used these addresses.
    pub(crate) uses: SmallVec<[Seen; 2]>,
    /// Whether a stream-ordered free of it has been queued.
    pub(crate) freed: bool,
}

/// The bytes themselves.
#[derive(Debug)]
pub(crate) enum Store {
    Device(SparseBytes),
    Pinned(PinnedBytes),
    Registered(HostPlace),
}

/// Bytes with the memory of who touched them.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) store: Store,
    pub(crate) shadow: Shadow,
    references: u32,
}

/// A part of a range of addresses that lies in one backing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) mapping: u64,
    pub(crate) backing: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The pieces of a range, in order.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;

/// A run of addresses to hand out, each size from its own stack of freed ones.
#[derive(Debug)]
pub(crate) struct Addresses {
    next: u64,
    end: u64,
    free: HashMap<u64, Vec<u64>>,
    reuse: HandleReuse,
}

impl Addresses {
    fn new(range: Range<u64>, reuse: HandleReuse) -> Self {
        Self { next: range.start, end: range.end, free: HashMap::new(), reuse }
    }

    pub(crate) fn take(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        if let Some(stack) = self.free.get_mut(&bytes)
            && let Some(position) = stack.iter().rposition(|at| at.is_multiple_of(alignment))
        {
            return Some(stack.remove(position));
        }
        let start = self.next.checked_next_multiple_of(alignment)?;
        let end = start.checked_add(bytes)?;
        if self.end < end {
            return None;
        }
        self.next = end;
        Some(start)
    }

    pub(crate) fn give_back(&mut self, address: u64, bytes: u64) {
        if self.reuse == HandleReuse::LastInFirstOut {
            self.free.entry(bytes).or_default().push(address);
        }
    }
}

const TIB: u64 = 1 << 40;
/// Where device memory lies; what is pinned on the host lies where the host has it, above this.
pub(crate) const DEVICE_ADDRESSES: Range<u64> = 2 * TIB..80 * TIB;
/// Below are whole allocations, above are reserved addresses.
const RESERVED_FROM: u64 = 40 * TIB;

/// All addresses of the machine and what is behind them.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    /// Reserved address ranges: start and length.
    pub(crate) reservations: BTreeMap<u64, u64>,
    pub(crate) plain: Addresses,
    pub(crate) reserved: Addresses,
    backings: Vec<Option<Backing>>,
    free_backings: Vec<usize>,
}

impl Memory {
    pub(crate) fn new(reuse: HandleReuse) -> Self {
        Self {
            mappings: BTreeMap::new(),
            reservations: BTreeMap::new(),
            plain: Addresses::new(DEVICE_ADDRESSES.start..RESERVED_FROM, reuse),
            reserved: Addresses::new(RESERVED_FROM..DEVICE_ADDRESSES.end, reuse),
            backings: Vec::new(),
            free_backings: Vec::new(),
        }
    }

    /// How much host memory stands behind device memory.
    pub(crate) fn resident(&self) -> u64 {
        self.backings
            .iter()
            .flatten()
            .map(|backing| match &backing.store {
                Store::Device(bytes) => bytes.resident(),
                Store::Pinned(_) | Store::Registered(_) => 0,
            })
            .sum()
    }

    /// New bytes with one reference to them.
    pub(crate) fn add_backing(&mut self, store: Store) -> usize {
        let backing = Backing { store, shadow: Shadow::default(), references: 1 };
        if let Some(index) = self.free_backings.pop()
            && let Some(slot) = self.backings.get_mut(index)
        {
            *slot = Some(backing);
            return index;
        }
        self.backings.push(Some(backing));
        self.backings.len() - 1
    }

    /// The program gave pinned memory back.
    pub(crate) fn free_pinned(&mut self, index: usize) {
        let backing = self.backings.get_mut(index).and_then(Option::as_mut);
        if let Some(Backing { store: Store::Pinned(bytes), .. }) = backing {
            bytes.free();
        }
    }

    pub(crate) fn share_backing(&mut self, index: usize) {
        if let Some(backing) = self.backing_mut(index) {
            backing.references += 1;
        }
    }

    /// One reference less; the last one frees the bytes.
    pub(crate) fn drop_backing(&mut self, index: usize) {
        let Some(backing) = self.backing_mut(index) else { return };
        backing.references -= 1;
        if backing.references == 0
            && let Some(slot) = self.backings.get_mut(index)
        {
            *slot = None;
            self.free_backings.push(index);
        }
    }

    pub(crate) fn backing_mut(&mut self, index: usize) -> Option<&mut Backing> {
        self.backings.get_mut(index)?.as_mut()
    }

    pub(crate) fn backing(&self, index: usize) -> Option<&Backing> {
        self.backings.get(index)?.as_ref()
    }

    /// The mapping that holds `address`.
    pub(crate) fn mapping_at(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (&start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.bytes).then_some((start, mapping))
    }

    /// What a range of addresses means: one mapping, or neighbouring accessible ones of virtual
    /// memory. `None` when some of it means nothing.
    pub(crate) fn pieces(&self, address: u64, bytes: u64) -> Option<Pieces> {
        let end = address.checked_add(bytes)?;
        let mut pieces = Pieces::new();
        let mut cursor = address;
        loop {
            let (start, mapping) = self.mapping_at(cursor)?;
            let stop = end.min(start + mapping.bytes);
            let may_go_on = match mapping.kind {
                MappingKind::Virtual { devices, .. } => devices != 0,
                MappingKind::Plain
                | MappingKind::Pool(_)
                | MappingKind::Pinned
                | MappingKind::Registered => pieces.is_empty() && stop == end,
            };
            if !may_go_on {
                return None;
            }
            let (backing, offset) = (mapping.backing, cursor - start);
            pieces.push(Piece { mapping: start, backing, offset, bytes: stop - cursor });
            if stop == end {
                return Some(pieces);
            }
            cursor = stop;
        }
    }

    /// Copies out of a range; false when some of it means nothing.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(pieces) = self.pieces(address, size(into.len())) else { return false };
        let mut rest = into;
        for piece in pieces {
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(host(piece.bytes));
            match self.backing(piece.backing).map(|backing| &backing.store) {
                Some(Store::Device(bytes)) => bytes.read(piece.offset, part),
                Some(Store::Pinned(bytes)) => bytes.place().read(host(piece.offset), part),
                Some(Store::Registered(place)) => place.read(host(piece.offset), part),
                None => return false,
            }
            rest = tail;
        }
        true
    }

    /// Copies into a range; false when some of it means nothing.
    pub(crate) fn write(&mut self, address: u64, from: &[u8]) -> bool {
        let Some(pieces) = self.pieces(address, size(from.len())) else { return false };
        let mut rest = from;
        for piece in pieces {
            let (part, tail) = rest.split_at(host(piece.bytes));
            match self.backing_mut(piece.backing).map(|backing| &mut backing.store) {
                Some(Store::Device(bytes)) => bytes.write(piece.offset, part),
                Some(Store::Pinned(bytes)) => bytes.place().write(host(piece.offset), part),
                Some(Store::Registered(place)) => place.write(host(piece.offset), part),
                None => return false,
            }
            rest = tail;
        }
        true
    }

    /// Repeats a word over a range; false when some of it means nothing. The address is a
    /// multiple of four unless all bytes of the word are equal.
    pub(crate) fn fill(&mut self, address: u64, bytes: u64, word: u32) -> bool {
        if bytes == 0 {
            return true;
        }
        let Some(pieces) = self.pieces(address, bytes) else { return false };
        for piece in pieces {
            let place = match self.backing_mut(piece.backing).map(|backing| &mut backing.store) {
                Some(Store::Device(bytes)) => {
                    bytes.fill(piece.offset, piece.bytes, word);
                    continue;
                }
                Some(Store::Pinned(bytes)) => bytes.place(),
                Some(Store::Registered(place)) => *place,
                None => return false,
            };
            let pattern = word.to_le_bytes();
            let filler: Vec<u8> = pattern.iter().copied().cycle().take(host(piece.bytes)).collect();
            place.write(host(piece.offset), &filler);
        }
        true
    }

    /// Copies from one range to another; false when some of either means nothing.
    pub(crate) fn copy(&mut self, to: u64, from: u64, bytes: u64) -> bool {
        const STEP: u64 = 1 << 20;
        if bytes == 0 {
            return true;
        }
        if self.pieces(to, bytes).is_none() || self.pieces(from, bytes).is_none() {
            return false;
        }
        let mut buffer = vec![0; host(bytes.min(STEP))];
        let mut done = 0;
        while done < bytes {
            let count = STEP.min(bytes - done);
            let Some(part) = buffer.get_mut(..host(count)) else { return false };
            if !self.read(from + done, part) || !self.write(to + done, part) {
                return false;
            }
            done += count;
        }
        true
    }
}

pub(crate) fn host(bytes: u64) -> usize {
    usize::try_from(bytes).expect("the host is a 64-bit machine")
}

pub(crate) fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("the host is a 64-bit machine")
}
