//! Where segments lie: known from a recording, or assumed.

use std::collections::BTreeMap;

use crate::sizes::CHUNK_SMALL_BYTES;

/// Gives addresses. It never runs out: how much there is, [`crate::Limits`] say.
pub trait Driver {
    /// The address of a new segment of so many bytes.
    fn allocate(&mut self, bytes: u64) -> u64;
    /// A segment is given back.
    fn free(&mut self, address: u64, bytes: u64);
    /// The address of an expandable segment, which takes so many bytes of address space.
    fn reserve(&mut self, bytes: u64) -> u64;
    /// The address space of an expandable segment is given back.
    fn release(&mut self, address: u64, bytes: u64);
}

/// How an [`AssumedDriver`] chooses among free addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressOrder {
    /// The highest free range that fits, as a CUDA driver does on the whole.
    #[default]
    FromAbove,
    /// The lowest free range that fits.
    FromBelow,
    /// Anywhere, by a seed.
    Scattered(u64),
}

/// Addresses as a driver might give them: 32 MiB apart for what is larger than a page table's
/// reach, side by side for what is smaller.
#[derive(Debug, Clone)]
pub struct AssumedDriver {
    order: AddressOrder,
    /// Free ranges: first byte to length.
    free: BTreeMap<u64, u64>,
    /// Where expandable segments go, each above the last.
    reserved_end: u64,
}

/// The addresses that segments come from: far more than a device has, so that no order of
/// segments leaves too short a gap.
const SEGMENTS_START: u64 = 0x7000_0000_0000;
const SEGMENTS_END: u64 = 1 << 62;
/// The addresses that expandable segments come from.
const RESERVED_START: u64 = 0x3_0000_0000;
/// Segments of this size and more begin at multiples of it.
const ALIGNMENT_BYTES: u64 = 32 << 20;

impl AssumedDriver {
    /// A driver that gave nothing yet.
    #[must_use]
    pub fn new(order: AddressOrder) -> Self {
        let free = BTreeMap::from([(SEGMENTS_START, SEGMENTS_END - SEGMENTS_START)]);
        Self { order, free, reserved_end: RESERVED_START }
    }

    /// Keeps a range out of what it gives, as somebody holds it, until it is given back.
    pub fn occupy(&mut self, address: u64, bytes: u64) {
        let range = self.free.range(..=address).next_back();
        let is_free =
            range.is_some_and(|(start, length)| bytes <= length - (address - start).min(*length));
        if is_free && 0 < bytes {
            self.take(address, bytes);
        }
    }

    fn take(&mut self, address: u64, bytes: u64) {
        let range = self.free.range(..=address).next_back();
        let (start, length) = range.map(|(start, length)| (*start, *length)).expect("it was free");
        self.free.remove(&start);
        if start < address {
            self.free.insert(start, address - start);
        }
        let rest = (start + length) - (address + bytes);
        if 0 < rest {
            self.free.insert(address + bytes, rest);
        }
    }
}

/// The highest place in a free range.
fn highest((start, length): (u64, u64), bytes: u64) -> Option<u64> {
    let align = alignment(bytes);
    let address = (start + length).checked_sub(bytes)? / align * align;
    (start <= address).then_some(address)
}

/// The lowest place in a free range.
fn lowest((start, length): (u64, u64), bytes: u64) -> Option<u64> {
    let address = start.next_multiple_of(alignment(bytes));
    (address + bytes <= start + length).then_some(address)
}

const fn alignment(bytes: u64) -> u64 {
    if bytes < ALIGNMENT_BYTES / 2 { CHUNK_SMALL_BYTES } else { ALIGNMENT_BYTES }
}

impl Driver for AssumedDriver {
    fn allocate(&mut self, bytes: u64) -> u64 {
        let ranges = || self.free.iter().map(|(start, length)| (*start, *length));
        let found = match &mut self.order {
            AddressOrder::FromAbove => ranges().rev().find_map(|range| highest(range, bytes)),
            AddressOrder::FromBelow => ranges().find_map(|range| lowest(range, bytes)),
            AddressOrder::Scattered(seed) => {
                // The generator known as xorshift64.
                let mut word = (*seed).max(1);
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                *seed = word;
                let middle = SEGMENTS_START + word % (SEGMENTS_END - SEGMENTS_START);
                let above = self.free.range(middle..).map(|(start, length)| (*start, *length));
                above.chain(ranges()).find_map(|range| lowest(range, bytes))
            }
        };
        let address = found.expect("the assumed address space is larger than any device");
        self.take(address, bytes);
        address
    }

    fn free(&mut self, address: u64, bytes: u64) {
        let (mut start, mut end) = (address, address.saturating_add(bytes));
        let before = self.free.range(..end).next_back();
        if before.is_some_and(|(start, length)| address < start + length) {
            // Not one of its own, as what was adopted may be.
            return;
        }
        if let Some((before, length)) = self.free.range(..address).next_back()
            && before + length == address
        {
            start = *before;
        }
        if let Some(length) = self.free.remove(&end) {
            end += length;
        }
        self.free.insert(start, end - start);
    }

    fn reserve(&mut self, bytes: u64) -> u64 {
        let address = self.reserved_end;
        self.reserved_end += bytes.next_multiple_of(ALIGNMENT_BYTES);
        address
    }

    fn release(&mut self, _address: u64, _bytes: u64) {}
}

#[cfg(test)]
mod tests {
    use super::{AddressOrder, AssumedDriver, Driver};

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_given_back_is_given_again_and_nothing_overlaps() {
        for order in [AddressOrder::FromAbove, AddressOrder::FromBelow, AddressOrder::Scattered(7)]
        {
            let mut driver = AssumedDriver::new(order);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for round in 0..200_u64 {
                let bytes = (round % 7 * 18 + 2) * MIB;
                let address = driver.allocate(bytes);
                let overlaps = |(start, length): &(u64, u64)| {
                    *start < address + bytes && address < start + length
                };
                assert!(!held.iter().any(overlaps), "{order:?} gave {address:#x} twice");
                held.push((address, bytes));
                if round % 3 == 2 {
                    let (address, bytes) = held.swap_remove(0);
                    driver.free(address, bytes);
                }
            }
            held.into_iter().for_each(|(address, bytes)| driver.free(address, bytes));
            assert_eq!(driver.free.len(), 1, "all of it is one range again");
        }
    }
}
