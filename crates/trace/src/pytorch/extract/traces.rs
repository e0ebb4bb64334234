//! The traces of devices, and leniently those of the host.

use super::Extractor;
use super::judge::{ADDRESS_MAX, FAILED_BYTES_MAX, SIZE_BYTES_MAX, judge, not_an_integer};
use crate::pytorch::entry::{Action, Entry};
use crate::pytorch::error::{Place, ReadError};
use crate::pytorch::heap::{Dict, Value};
use crate::pytorch::raw_entry::{Field, Given, RawAction, RawEntry};
use crate::pytorch::snapshot::StreamHandle;

impl Extractor {
    /// The traces of all devices. Afterwards no entries are left in the heap.
    pub(super) fn traces(&mut self, value: Value) -> Result<Vec<Vec<Entry>>, ReadError> {
        let device_count = self.items(value, Place::Top, "device_traces")?;
        let mut traces = Vec::new();
        self.heap.budget.reserve(&mut traces, device_count)?;
        let mut longest = (0, 0);
        for device in 0..device_count {
            let list = self.item(value, device);
            longest = longest.max((self.items(list, Place::Trace { device }, "entries")?, device));
            traces.push(Vec::new());
        }
        // The longest one comes last: its entries become the trace where they are.
        let (count, last) = longest;
        for device in (0..device_count).filter(|device| *device != last) {
            let trace = self.copied(self.item(value, device), device)?;
            *traces.get_mut(device).expect("there is one for each device") = trace;
        }
        if let Some(trace) = traces.get_mut(last) {
            let list = self.item(value, last);
            *trace = match list {
                Value::List(number) if self.heap.is_all_entries(number) => {
                    self.converted(count, last)?
                }
                _ => self.copied(list, last)?,
            };
        }
        Ok(traces)
    }

    fn copied(&mut self, list: Value, device: usize) -> Result<Vec<Entry>, ReadError> {
        let count = self.count(list);
        let mut entries = Vec::new();
        self.heap.budget.reserve_exact(&mut entries, count)?;
        for position in 0..count {
            let place = Place::Entry { device, entry: position };
            let Value::Dict(dict) = self.item(list, position) else {
                return Err(ReadError::WrongType { place, key: "action", expected: "a dict" });
            };
            let raw = self.raw_entry(dict)?;
            entries.push(self.entry(&raw, place)?);
        }
        Ok(entries)
    }

    /// The first `count` entries of the heap as a trace, in the memory that they have already:
    /// a raw entry is no smaller than an entry, so collecting makes no second copy.
    fn converted(&mut self, count: usize, device: usize) -> Result<Vec<Entry>, ReadError> {
        const { assert!(size_of::<Entry>() <= size_of::<RawEntry>()) };
        const { assert!(size_of::<RawEntry>() <= 56, "reading takes as long as its memory") };
        let mut raws = self.heap.take_entries();
        raws.truncate(count);
        let entry = |(position, raw): (usize, RawEntry)| match self.usual(&raw) {
            Some(entry) => Ok(entry),
            None => self.entry(&raw, Place::Entry { device, entry: position }),
        };
        raws.into_iter().enumerate().map(entry).collect()
    }

    /// The host's traces: a list of lists as for devices, or one list of entries. Entries that
    /// make no sense are left out, since nothing documents what they must have.
    pub(super) fn host_traces(&mut self, value: Value) -> Result<Vec<Vec<Entry>>, ReadError> {
        let count = self.items_if_any(value)?;
        let (mut traces, mut flat) = (Vec::new(), Vec::new());
        for position in 0..count {
            match self.item(value, position) {
                Value::Dict(dict) => self.add_host_entry(dict, &mut flat)?,
                list => {
                    let mut entries = Vec::new();
                    for position in 0..self.items_if_any(list)? {
                        if let Value::Dict(dict) = self.item(list, position) {
                            self.add_host_entry(dict, &mut entries)?;
                        }
                    }
                    self.heap.budget.push(&mut traces, entries)?;
                }
            }
        }
        if !flat.is_empty() {
            traces.push(flat);
        }
        Ok(traces)
    }

    fn add_host_entry(&mut self, dict: u32, entries: &mut Vec<Entry>) -> Result<(), ReadError> {
        let raw = self.raw_entry(dict)?;
        match self.entry(&raw, Place::Top) {
            Ok(entry) => self.heap.budget.push(entries, entry),
            Err(_) => Ok(()),
        }
    }

    fn raw_entry(&mut self, dict: u32) -> Result<RawEntry, ReadError> {
        Ok(match self.heap.dict(dict) {
            Dict::Entry(entry) => self.heap.entry(entry),
            Dict::Empty => RawEntry::EMPTY,
            Dict::Pairs(pairs) => {
                let pairs = self.heap.pairs(pairs);
                let visited = pairs.len();
                let raw = RawEntry::from_pairs(pairs);
                self.visit(visited)?;
                raw
            }
        })
    }

    /// Judges a trace entry that has a known action and all its numbers, as [`Self::entry`] would:
    /// nearly every one. Nothing comes of others.
    #[inline(always)]
    fn usual(&mut self, raw: &RawEntry) -> Option<Entry> {
        let action = raw.usual_action()?;
        let size_max = if action.has_address() { SIZE_BYTES_MAX } else { FAILED_BYTES_MAX };
        let address = u64::try_from(raw.address).ok().filter(|address| *address <= ADDRESS_MAX)?;
        let bytes = u64::try_from(raw.size).ok().filter(|bytes| *bytes <= size_max)?;
        Some(self.worded(raw, action, (address, bytes, raw.stream.cast_unsigned()), raw.time_us))
    }

    /// Judges a trace entry.
    #[inline(never)]
    fn entry(&mut self, raw: &RawEntry, place: Place) -> Result<Entry, ReadError> {
        let action = match raw.action() {
            RawAction::Known(action) => action,
            RawAction::Unknown(name) => self.words.unknown_action(name, &self.heap),
            RawAction::Missing => return Err(ReadError::MissingKey { place, key: "action" }),
            RawAction::NotText => {
                return Err(ReadError::WrongType { place, key: "action", expected: "a text" });
            }
        };
        let (address, bytes, stream) = match action {
            Action::Other(_) => unjudged(raw),
            _ => numbers(raw, action, place)?,
        };
        let time_us = match raw.number(Field::TimeUs) {
            Given::Int(time_us) => time_us,
            Given::Missing | Given::Odd => 0,
        };
        Ok(self.worded(raw, action, (address, bytes, stream), time_us))
    }

    /// An entry with these numbers, and what it says in words.
    #[inline(always)]
    fn worded(
        &mut self,
        raw: &RawEntry,
        action: Action,
        (address, bytes, stream): (u64, u64, u64),
        time_us: i64,
    ) -> Entry {
        let stack = match raw.frames.list() {
            Some(list) => self.words.stack(list, &self.heap),
            None => {
                let tuple = raw.frames.tuple();
                tuple.and_then(|tuple| self.words.stack_of_tuple(tuple, &self.heap))
            }
        };
        let id = raw.pool.tuple().and_then(|tuple| self.pool(tuple));
        let pool = id.and_then(|id| self.words.pool(id));
        Entry {
            action,
            address,
            bytes,
            stream: StreamHandle(stream),
            time_us,
            stack,
            pool,
            metadata: self.words.text(raw.metadata, &self.heap),
            compile_context: self.words.text(raw.compile_context, &self.heap),
        }
    }
}

/// The address, size and stream of an entry.
fn numbers(raw: &RawEntry, action: Action, place: Place) -> Result<(u64, u64, u64), ReadError> {
    let size_max = if action.has_address() { SIZE_BYTES_MAX } else { FAILED_BYTES_MAX };
    let address = number(raw, Field::Address, place, action.has_address(), ADDRESS_MAX)?;
    let bytes = number(raw, Field::Size, place, action.needs_size(), size_max)?;
    let stream = match raw.number(Field::Stream) {
        Given::Missing => 0,
        Given::Odd => return Err(not_an_integer(place, Field::Stream.key())),
        Given::Int(handle) => handle.cast_unsigned(),
    };
    Ok((address, bytes, stream))
}

/// The same of an entry that nobody knows: what is not there, or makes no sense, is 0.
fn unjudged(raw: &RawEntry) -> (u64, u64, u64) {
    let number = |field| match raw.number(field) {
        Given::Int(value) => value,
        Given::Missing | Given::Odd => 0,
    };
    let size = |field| u64::try_from(number(field)).unwrap_or(0);
    (size(Field::Address), size(Field::Size), number(Field::Stream).cast_unsigned())
}

/// A size or an address of an entry; 0 if it may be missing and is.
fn number(
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
