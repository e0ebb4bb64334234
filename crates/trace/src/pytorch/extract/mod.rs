//! Turns the machine's values into a [`Snapshot`], judging every number on the way.
//!
//! Only lists that a snapshot has are entered, to a fixed depth. A list may be shared, so what is
//! visited is counted: an honest file has no more records than bytes.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is not what a snapshot has in a place is refused or passed over there"
)]

mod judge;
mod locate;
mod rest;
mod segments;
mod traces;
mod words;

use words::Words;

use super::error::{Place, ReadError};
use super::heap::{Dict, Heap, Value};
use super::machine::Outcome;
use super::snapshot::Snapshot;
use super::window::to_u64;
use super::word::Word;
use crate::Origin;
use crate::origin::EXPECTED;

/// What is wrong with the values of a pickle.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: ReadError,
    /// The dictionary at fault, or the nearest around what is no dictionary, by its number.
    pub(super) dict: Option<u32>,
}

/// Judges the outcome of the pickle machine.
pub(super) fn snapshot(outcome: Outcome) -> Result<Snapshot, Fault> {
    let Outcome { heap, top, pickle_bytes } = outcome;
    let mut extractor =
        Extractor { heap, visited: 0, limit: pickle_bytes, words: Words::default() };
    let judged = match top {
        Value::Dict(top) => extractor.top(top),
        // What `torch.cuda.memory_snapshot()` gives: the segments alone.
        Value::List(_) => {
            extractor.segments(top).map(|segments| Snapshot { segments, ..Snapshot::default() })
        }
        _ => Err(ReadError::NotASnapshot { found: judge::describe(top) }),
    };
    let mut snapshot = judged.map_err(|error| {
        let dict = error.place().and_then(|place| extractor.dict_at(top, place));
        Fault { error, dict }
    })?;
    extractor.words.build_into(&mut snapshot);
    Ok(snapshot)
}

struct Extractor {
    heap: Heap,
    /// Records visited so far.
    visited: u64,
    limit: u64,
    words: Words,
}

impl Extractor {
    fn top(&mut self, top: u32) -> Result<Snapshot, ReadError> {
        let mut snapshot = Snapshot::default();
        let value = |key| self.last(top, key);
        let segments = value(Word::Segments);
        let (traces, overflows) = (value(Word::DeviceTraces), value(Word::Overflowed));
        let (host_segments, host_traces) = (value(Word::HostSegments), value(Word::HostTraces));
        let annotations = value(Word::ExternalAnnotations);
        let settings = value(Word::AllocatorSettings);
        let (made_of, made_up) = (value(Word::MadeOf), value(Word::MadeUpSegments));
        let segments =
            segments.ok_or(ReadError::MissingKey { place: Place::Top, key: "segments" })?;
        snapshot.segments = self.segments(segments)?;
        snapshot.origin = made_of.map_or(Ok(Origin::Pytorch), |mark| self.origin(mark))?;
        if made_up == Some(Value::Bool(true)) {
            snapshot.segments = Vec::new();
        }
        if let Some(overflows) = overflows {
            snapshot.device_overflows = self.flags(overflows)?;
        }
        if let Some(segments) = host_segments {
            snapshot.host_segments = self.host_segments(segments)?;
        }
        if let Some(traces) = host_traces {
            snapshot.host_traces = self.host_traces(traces)?;
        }
        if let Some(annotations) = annotations {
            snapshot.annotations = self.annotations(annotations)?;
        }
        snapshot.passed_over_count = self.passed_over_count(top);
        match settings {
            Some(Value::Dict(settings)) => {
                let (settings, passed_over_count) = self.settings(settings);
                snapshot.allocator_settings = Some(settings);
                snapshot.passed_over_count += passed_over_count;
            }
            Some(_) => snapshot.passed_over_count += 1,
            None => {}
        }
        // Last, because it leaves no entries behind.
        if let Some(traces) = traces {
            snapshot.device_traces = self.traces(traces)?;
        }
        Ok(snapshot)
    }

    /// What the file says that it was made of.
    fn origin(&self, mark: Value) -> Result<Origin, ReadError> {
        let origin = self.text(mark).and_then(|mark| Origin::of_mark(&mark));
        let (place, key, expected) = (Place::Top, "wellspring_made_of", EXPECTED);
        origin.ok_or(ReadError::WrongType { place, key, expected })
    }

    /// The value of `key`; later ones win.
    fn last(&self, dict: u32, key: Word) -> Option<Value> {
        let key = Value::Word(key);
        self.pairs(dict).iter().rev().find(|pair| pair.0 == key).map(|pair| pair.1)
    }

    fn text(&self, value: Value) -> Option<String> {
        let bytes = match value {
            Value::Word(word) => word.text(),
            Value::Text(text) => self.heap.text(text),
            _ => return None,
        };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// A dictionary's pairs; none where it was taken for a trace entry.
    fn pairs(&self, dict: u32) -> &[(Value, Value)] {
        match self.heap.dict(dict) {
            Dict::Pairs(pairs) => self.heap.pairs(pairs),
            Dict::Empty | Dict::Entry(_) => &[],
        }
    }

    /// How many items the list or tuple `value` has; all of them count as visited.
    fn items(&mut self, value: Value, place: Place, key: &'static str) -> Result<usize, ReadError> {
        if !matches!(value, Value::List(_) | Value::Tuple(_)) {
            return Err(ReadError::WrongType { place, key, expected: "a list" });
        }
        let count = self.count(value);
        self.visit(count)?;
        Ok(count)
    }

    fn count(&self, value: Value) -> usize {
        match value {
            Value::List(list) => self.heap.list(list).len(),
            Value::Tuple(tuple) => self.heap.tuples().get(tuple).len(),
            _ => 0,
        }
    }

    /// The same where anything may stand: what is no list has no items.
    fn items_if_any(&mut self, value: Value) -> Result<usize, ReadError> {
        match value {
            Value::List(_) | Value::Tuple(_) => self.items(value, Place::Top, ""),
            _ => Ok(0),
        }
    }

    fn item(&self, value: Value, position: usize) -> Value {
        let item = match value {
            Value::List(list) => {
                let item = self.heap.list(list).get(position);
                item.and_then(|item| self.heap.unpack(item))
            }
            Value::Tuple(tuple) => self.heap.tuples().get(tuple).get(position).copied(),
            _ => None,
        };
        item.expect("`items` counted them")
    }

    fn visit(&mut self, count: usize) -> Result<(), ReadError> {
        self.visited = self.visited.saturating_add(to_u64(count));
        if self.limit < self.visited {
            return Err(ReadError::Unfolds { limit: self.limit });
        }
        Ok(())
    }

    fn pool(&self, tuple: u32) -> Option<(u64, u64)> {
        match self.heap.tuples().get(tuple) {
            &[Value::Int(first), Value::Int(second)] => {
                Some((first.cast_unsigned(), second.cast_unsigned()))
            }
            _ => None,
        }
    }
}
