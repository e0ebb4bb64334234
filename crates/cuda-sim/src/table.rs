//! A table of C functions for each slot.

use std::ffi::c_void;
use std::ptr;

use cuda_sys::{EntryPoint, Table};

use crate::call::{SLOT_COUNT, SLOTS, Slot};
use crate::state::State;

type Finder = fn(&str) -> Option<*const c_void>;

macro_rules! finders {
    ($($number:literal)*) => { [$(crate::shims::find::<$number>),*] };
}

/// For each slot, the function that finds its C functions.
static FINDERS: [Finder; SLOT_COUNT] = finders!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
);

/// The C function of an entry point in a slot.
pub(crate) fn find(slot: usize, name: &str) -> Option<*const c_void> {
    FINDERS.get(slot).and_then(|find| find(name))
}

/// A slot's number.
pub(crate) fn slot_number(slot: &'static Slot) -> Option<usize> {
    SLOTS.iter().position(|other| ptr::eq(other, slot))
}

impl State {
    /// The driver's version: that of the oldest profile.
    pub(crate) fn driver_version(&self) -> u32 {
        self.devices.iter().map(|device| device.profile.driver_version).min().unwrap_or(13_000)
    }

    /// Whether the driver that is played has an entry point.
    pub(crate) fn has_entry(&self, entry: &EntryPoint) -> bool {
        let removed =
            self.devices.iter().any(|device| device.profile.missing.contains(&entry.name));
        !removed && entry.since <= self.driver_version()
    }
}

/// Fills a table for a slot with the entry points that `has` allows.
pub(crate) fn fill(slot: usize, version: u32, has: impl Fn(&EntryPoint) -> bool) -> Table {
    let find_entry = |entry: &EntryPoint, _flags: u64| {
        let found = if has(entry) { find(slot, entry.name) } else { None };
        found.unwrap_or(ptr::null())
    };
    crate::shims::fill(version, find_entry)
}
