//! Writes what was gathered for the page: columns of variable-length integers, zlib, base64.
//!
//! A part is its length in four bytes, low ones first, and its content. The first part is JSON:
//! counts, names, stacks. Then come the kinds of events, a byte each, and the columns that
//! `assets/decode.js` reads in the same order; a signed number is folded so that small ones stay
//! short, a later moment is told as its distance plus one, 0 for never.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};
use trace::pytorch::StreamHandle;
use trace::rounded_bytes;

use crate::gather::Gathered;
use crate::history::{Life, Moment, NEVER};
use crate::ranges::Range;

/// The packed content, as text.
pub(crate) fn pack(gathered: &Gathered) -> String {
    let base = address_base(gathered);
    let ranges = &gathered.ranges;
    let streams = Numbered::of(&gathered.history.streams, ranges.iter().map(|it| it.stream));
    let pools = Numbered::of(&[(0, 0)], ranges.iter().map(|it| it.pool));
    let mut parts = Parts::default();
    parts.add(told(gathered, base, &streams.list, &pools.list).to_string().as_bytes());
    let events = &gathered.history.events;
    parts.add(&events.iter().map(|event| event.kind.code()).collect::<Vec<_>>());
    parts.signed(differences(events.iter().map(|event| i128::from(event.time_us))));
    lives(&mut parts, gathered, base);
    held(&mut parts, ranges, base);
    parts.unsigned(ranges.iter().map(|range| streams.number(&range.stream)));
    parts.unsigned(ranges.iter().map(|range| pools.number(&range.pool)));
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&parts.bytes).expect("memory takes all bytes");
    STANDARD.encode(encoder.finish().expect("memory takes all bytes"))
}

fn lives(parts: &mut Parts, gathered: &Gathered, base: u64) {
    let lives = &gathered.history.lives;
    let offset = |address: u64| i128::from(address) - i128::from(base);
    parts.signed(differences(lives.iter().map(|life| offset(life.address))));
    parts.unsigned(lives.iter().map(|life| life.requested_bytes));
    // What is left of a block when the request is rounded up is nearly always nothing.
    let left = |life: &Life| life.bytes.saturating_sub(rounded_bytes(life.requested_bytes));
    parts.unsigned(lives.iter().map(left));
    parts.unsigned(lives.iter().map(|life| count(life.stream)));
    let mut before = 0;
    parts.unsigned(lives.iter().map(|life| {
        let step = u64::from(life.from.saturating_sub(before));
        before = life.from;
        step
    }));
    parts.unsigned(lives.iter().map(|life| later(life.from, life.freed)));
    parts.unsigned(lives.iter().map(|life| later(life.freed, life.completed)));
    let place = |place: &Option<usize>| place.map_or(0, |place| count(place) + 1);
    parts.unsigned(gathered.life_stacks.iter().map(place));
    parts.unsigned(gathered.owners.iter().map(|owner| count(*owner)));
    parts.unsigned(gathered.noted.iter().map(place));
    let sets = awaited_sets(gathered);
    let awaited = gathered.awaited.iter().flatten();
    parts.unsigned(awaited.map(|streams| sets.number(&streams.as_slice())));
}

/// The ranges, but for their streams and pools.
fn held(parts: &mut Parts, ranges: &[Range], base: u64) {
    let offset = |address: u64| i128::from(address) - i128::from(base);
    parts.signed(differences(ranges.iter().map(|range| offset(range.address))));
    parts.unsigned(ranges.iter().map(|range| range.bytes));
    let mut before = 0;
    parts.unsigned(ranges.iter().map(|range| {
        let step = u64::from(range.from.saturating_sub(before));
        before = range.from;
        step
    }));
    parts.unsigned(ranges.iter().map(|range| later(range.from, range.to)));
    let flags = |range: &Range| u64::from(range.is_expandable) + 2 * u64::from(range.is_small);
    parts.unsigned(ranges.iter().map(flags));
}

/// Values in the order in which they were first seen, each with its number.
struct Numbered<T> {
    list: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T: Copy + Eq + Hash> Numbered<T> {
    /// The first ones, each of which is there once, and then the others.
    fn of(first: &[T], others: impl Iterator<Item = T>) -> Self {
        let list = first.to_vec();
        let numbers = list.iter().copied().zip(0..).collect();
        let mut numbered = Self { list, numbers };
        for other in others {
            let next = numbered.list.len();
            if *numbered.numbers.entry(other).or_insert(next) == next {
                numbered.list.push(other);
            }
        }
        numbered
    }

    fn number(&self, value: &T) -> u64 {
        self.numbers.get(value).map_or(0, |number| count(*number))
    }
}

/// What is told by name.
fn told(gathered: &Gathered, base: u64, streams: &[StreamHandle], pools: &[(u64, u64)]) -> Value {
    let history = &gathered.history;
    let stacks = &gathered.stacks;
    let failed = history.failed.iter().zip(&gathered.failed_stacks).map(|(it, stack)| {
        json!({
            "moment": it.moment,
            "bytes": it.bytes,
            "device_free": it.device_free_bytes,
            "stack": stack.map_or(-1, |it| i64::try_from(it).unwrap_or(-1)),
        })
    });
    let annotations = gathered
        .annotations
        .iter()
        .map(|it| json!({ "name": it.name, "from": it.from, "to": it.to, "depth": it.depth }));
    let holes = gathered
        .samples
        .iter()
        .map(|it| json!([it.moment, it.free_bytes, it.largest_bytes, it.hole_count]));
    let unmapped = gathered
        .unmapped
        .iter()
        .map(|(moment, step)| json!([moment, i64::try_from(*step).unwrap_or(0)]));
    json!({
        "counts": {
            "events": history.events.len(),
            "lives": history.lives.len(),
            "ranges": gathered.ranges.len(),
        },
        "device": gathered.device,
        "address_base": base.to_string(),
        "streams": streams.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "pools": pools.iter().map(|(a, b)| format!("({a}, {b})")).collect::<Vec<_>>(),
        "owners": gathered.owner_names,
        "texts": stacks.texts,
        "frames": stacks.frames,
        "stacks": stacks.stacks,
        "failed": failed.collect::<Vec<_>>(),
        "annotations": annotations.collect::<Vec<_>>(),
        "holes": holes.collect::<Vec<_>>(),
        "unmapped": unmapped.collect::<Vec<_>>(),
        "awaited": gathered.awaited.as_ref().map(|_| awaited_sets(gathered).list),
        "notes": gathered.notes,
    })
}

/// The lowest address: what is told is the distance from it, which a page can count exactly.
fn address_base(gathered: &Gathered) -> u64 {
    let lives = gathered.history.lives.iter().map(|life| life.address);
    lives.chain(gathered.ranges.iter().map(|range| range.address)).min().unwrap_or(0)
}

/// Every set of streams that lives waited for, the empty one first.
fn awaited_sets(gathered: &Gathered) -> Numbered<&[usize]> {
    Numbered::of(&[&[]], gathered.awaited.iter().flatten().map(Vec::as_slice))
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The distance from one moment to a later one, plus one; 0 for never.
fn later(from: Moment, to: Moment) -> u64 {
    if to == NEVER { 0 } else { u64::from(to.saturating_sub(from)) + 1 }
}

/// Each value as its difference from the one before.
fn differences(values: impl Iterator<Item = i128>) -> impl Iterator<Item = i128> {
    let mut before = 0;
    values.map(move |value| {
        let step = value - before;
        before = value;
        step
    })
}

#[derive(Default)]
struct Parts {
    bytes: Vec<u8>,
}

impl Parts {
    fn add(&mut self, part: &[u8]) {
        let length =
            u32::try_from(part.len()).expect("a part is smaller than the file it tells of");
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(part);
    }

    fn unsigned(&mut self, values: impl Iterator<Item = u64>) {
        let mut part = Vec::new();
        for value in values {
            variable(u128::from(value), &mut part);
        }
        self.add(&part);
    }

    fn signed(&mut self, values: impl Iterator<Item = i128>) {
        let mut part = Vec::new();
        for value in values {
            let folded = value.unsigned_abs() * 2 - u128::from(value < 0);
            variable(folded, &mut part);
        }
        self.add(&part);
    }
}

/// Seven bits a byte, low ones first.
fn variable(mut value: u128, into: &mut Vec<u8>) {
    while 127 < value {
        into.push(u8::try_from(value & 127).expect("seven bits are a byte") | 128);
        value >>= 7;
    }
    into.push(u8::try_from(value).expect("seven bits are a byte"));
}
