//! Streams and events as they were observed: what each stream comes after, and what is done.
//!
//! Order is taken from what was seen alone: the order of one stream; a wait for a record; what the
//! documentation says of the legacy default stream; and what the host learned. Where others may
//! have queued work or waits that nobody saw, everything counts as ordered: what cannot be seen is
//! not judged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use streams::observe::{Place, Reached, RecordId, StreamKind};

use crate::clock::Clock;

/// Records beyond this are forgotten, oldest first, and count as covering everything.
const RECORDS_MAX: usize = 1 << 16;
/// With this many streams, those that are over are forgotten.
const STREAMS_MAX: usize = 1 << 12;
/// Waits of one stream that are kept apart; the oldest are then taken together.
const WAITS_MAX: usize = 256;

/// A stream.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) context: u64,
    pub(crate) kind: StreamKind,
    pub(crate) non_blocking: bool,
    pub(crate) opened: Option<Place>,
    /// Whether others may queue what nobody sees.
    is_shared: bool,
    is_retired: bool,
    ordinal: u64,
    /// What the next operation comes after, of other streams.
    clock: Clock,
    /// What each wait brought, by its ordinal, as long as that is not known to be done.
    waits: Vec<(u64, Arc<Clock>)>,
    /// The last wait for each other stream.
    last_waits: HashMap<u64, WaitSeen>,
}

/// A wait for a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitSeen {
    /// How much of the other stream it covers.
    pub(crate) ordinal: u64,
    /// When it was seen.
    pub(crate) time: u64,
    pub(crate) waited: Option<Place>,
    pub(crate) recorded: Option<Place>,
}

#[derive(Debug)]
struct Record {
    stream: u64,
    ordinal: u64,
    clock: Arc<Clock>,
    place: Option<Place>,
    /// When it was made, in records.
    age: u64,
}

/// All streams and records.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    streams: HashMap<u64, Seen>,
    records: HashMap<RecordId, Record>,
    /// The last record of each event of the program.
    newest: HashMap<u64, u64>,
    recorded: u64,
    complete: Clock,
    /// How many streams there may be before those that are over are forgotten.
    streams_max: usize,
    /// Whether any stream was ever shared with others.
    pub(crate) has_strangers: bool,
}

impl Timeline {
    pub(crate) fn open(&mut self, stream: u64, seen: Seen) {
        self.has_strangers |= seen.is_shared;
        self.forget_streams();
        self.streams.insert(stream, seen);
    }

    pub(crate) fn share(&mut self, stream: u64) {
        self.has_strangers = true;
        if let Some(seen) = self.streams.get_mut(&stream) {
            seen.is_shared = true;
        }
    }

    pub(crate) fn retire(&mut self, stream: u64) {
        if let Some(seen) = self.streams.get_mut(&stream) {
            seen.is_retired = true;
        }
    }

    pub(crate) fn seen(&self, stream: u64) -> Option<&Seen> {
        self.streams.get(&stream)
    }

    /// How far a stream is.
    pub(crate) fn ordinal(&self, stream: u64) -> u64 {
        self.streams.get(&stream).map_or(0, |seen| seen.ordinal)
    }

    /// Something was added to a stream.
    pub(crate) fn add(&mut self, stream: u64, ordinal: u64) {
        self.join_implied(stream);
        if let Some(seen) = self.streams.get_mut(&stream) {
            seen.ordinal = seen.ordinal.max(ordinal);
        }
    }

    /// The legacy default stream of a context and its blocking streams take turns.
    pub(crate) fn join_implied(&mut self, stream: u64) {
        let Some(me) = self.streams.get(&stream) else { return };
        if me.non_blocking && me.kind != StreamKind::Legacy {
            return;
        }
        let (context, is_legacy) = (me.context, me.kind == StreamKind::Legacy);
        let mut implied = Clock::default();
        for (other, seen) in &self.streams {
            let blocks = match seen.kind == StreamKind::Legacy {
                true => !is_legacy,
                false => is_legacy && !seen.non_blocking,
            };
            if blocks && seen.context == context && *other != stream {
                implied.join(&seen.clock);
                implied.raise(*other, seen.ordinal);
            }
        }
        if let Some(me) = self.streams.get_mut(&stream) {
            me.clock.join(&implied);
        }
    }

    /// An event was recorded.
    pub(crate) fn record(&mut self, id: RecordId, stream: u64, ordinal: u64, place: Option<Place>) {
        self.join_implied(stream);
        let Some(seen) = self.streams.get_mut(&stream) else { return };
        seen.clock.forget(&self.complete);
        let mut clock = seen.clock.clone();
        clock.raise(stream, ordinal);
        let before = self.newest.insert(id.event, id.version);
        if let Some(version) = before {
            self.records.remove(&RecordId { event: id.event, version });
        }
        self.recorded += 1;
        let (clock, age) = (Arc::new(clock), self.recorded);
        self.records.insert(id, Record { stream, ordinal, clock, place, age });
        if RECORDS_MAX < self.records.len() {
            self.forget_records();
        }
    }

    /// Forgets records that say nothing, and the older half if that is not enough.
    fn forget_records(&mut self) {
        let complete = &self.complete;
        self.records.retain(|_, record| !record.clock.is_within(complete));
        if RECORDS_MAX / 2 < self.records.len() {
            let oldest = self.recorded - u64::try_from(RECORDS_MAX / 2).unwrap_or(0);
            self.records.retain(|_, record| oldest < record.age);
        }
        let records = &self.records;
        self.newest.retain(|event, version| {
            records.contains_key(&RecordId { event: *event, version: *version })
        });
    }

    /// A stream waits for a record.
    pub(crate) fn wait(
        &mut self,
        (stream, ordinal): (u64, u64),
        id: RecordId,
        waited: Option<Place>,
        time: u64,
    ) {
        self.add(stream, ordinal);
        let Some(record) = self.records.get(&id) else {
            // One that was forgotten.
            return self.wait_for_anything(stream, ordinal);
        };
        let Some(seen) = self.streams.get_mut(&stream) else { return };
        seen.clock.join(&record.clock);
        seen.keep_wait(ordinal, Arc::clone(&record.clock));
        let (ordinal, recorded) = (record.ordinal, record.place);
        let wait = WaitSeen { ordinal, time, waited, recorded };
        seen.last_waits.insert(record.stream, wait);
    }

    /// A stream waits for something that nobody can tell: it may be anything that was queued.
    pub(crate) fn wait_for_anything(&mut self, stream: u64, ordinal: u64) {
        self.add(stream, ordinal);
        let mut all = Clock::default();
        for (other, seen) in &self.streams {
            all.raise(*other, seen.ordinal);
        }
        if let Some(seen) = self.streams.get_mut(&stream) {
            seen.clock.join(&all);
        }
    }

    /// A record has passed.
    pub(crate) fn pass_record(&mut self, id: RecordId) {
        if let Some(record) = self.records.get(&id) {
            self.complete.join(&record.clock);
        }
    }

    /// A stream has come this far.
    pub(crate) fn pass(&mut self, reached: Reached) {
        self.complete.raise(reached.stream, reached.ordinal);
        let Some(seen) = self.streams.get_mut(&reached.stream) else { return };
        if seen.ordinal <= reached.ordinal {
            self.complete.join(&seen.clock);
        }
        for (_, clock) in seen.waits.extract_if(.., |(ordinal, _)| *ordinal <= reached.ordinal) {
            self.complete.join(&clock);
        }
    }

    /// All streams of a context have come as far as they were; retired ones to their ends.
    pub(crate) fn pass_context(&mut self, context: u64, reached: &[Reached]) {
        let retired: Vec<Reached> = self
            .streams
            .iter()
            .filter(|(_, seen)| seen.context == context && seen.is_retired)
            .map(|(stream, seen)| Reached { stream: *stream, ordinal: seen.ordinal })
            .collect();
        for reached in reached.iter().chain(&retired) {
            self.pass(*reached);
        }
        self.forget_streams();
    }

    /// Forgets streams that are over, when there are many; what is unknown counts as done.
    fn forget_streams(&mut self) {
        if self.streams.len() < self.streams_max.max(STREAMS_MAX) {
            return;
        }
        let complete = &self.complete;
        self.streams
            .retain(|stream, seen| !seen.is_retired || complete.get(*stream) < seen.ordinal);
        let left: HashSet<u64> = self.streams.keys().copied().collect();
        self.complete.keep(|stream| left.contains(&stream));
        for seen in self.streams.values_mut() {
            seen.clock.keep(|stream| left.contains(&stream));
            seen.last_waits.retain(|stream, _| left.contains(stream));
        }
        // Where most are not over, they are not looked through at each new one.
        self.streams_max = left.len().saturating_mul(2);
    }

    /// Whether what was added to a stream is known to be done.
    pub(crate) fn is_complete(&self, stream: u64, ordinal: u64) -> bool {
        ordinal <= self.complete.get(stream) || self.is_hidden(stream)
    }

    /// Whether the next operation of `next` comes after what was added to `stream`.
    pub(crate) fn is_before(&self, stream: u64, ordinal: u64, next: u64) -> bool {
        let Some(seen) = self.streams.get(&next) else { return true };
        stream == next
            || seen.is_shared
            || ordinal <= seen.clock.get(stream)
            || self.is_complete(stream, ordinal)
    }

    /// The last wait of a stream for another one.
    pub(crate) fn last_wait(&self, stream: u64, other: u64) -> Option<WaitSeen> {
        self.streams.get(&stream)?.last_waits.get(&other).copied()
    }

    fn is_hidden(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_none_or(|seen| seen.is_shared)
    }
}

impl Seen {
    pub(crate) fn new(
        context: u64,
        kind: StreamKind,
        non_blocking: bool,
        opened: Option<Place>,
    ) -> Self {
        Self {
            context,
            kind,
            non_blocking,
            opened,
            is_shared: kind == StreamKind::Borrowed,
            is_retired: false,
            ordinal: 0,
            clock: Clock::default(),
            waits: Vec::new(),
            last_waits: HashMap::new(),
        }
    }

    fn keep_wait(&mut self, ordinal: u64, clock: Arc<Clock>) {
        self.waits.push((ordinal, clock));
        if WAITS_MAX < self.waits.len() {
            let mut joined = Clock::default();
            let mut last = 0;
            for (ordinal, clock) in self.waits.drain(..WAITS_MAX / 2) {
                joined.join(&clock);
                last = ordinal;
            }
            self.waits.insert(0, (last, Arc::new(joined)));
        }
    }
}

#[cfg(test)]
mod tests {
    use streams::observe::{Reached, RecordId, StreamKind};

    use super::{STREAMS_MAX, Seen, Timeline};

    const LIVING: u64 = 1;

    /// A stream that lives, and as many others, one after the other, that it waits for; each is
    /// synchronized with, by itself, where `are_over`.
    fn after_streams(count: u64, are_over: bool) -> Timeline {
        let mut timeline = Timeline::default();
        let seen = || Seen::new(1, StreamKind::Owned, true, None);
        timeline.open(LIVING, seen());
        for number in 0..count {
            let stream = 2 + number;
            timeline.open(stream, seen());
            timeline.add(stream, 1);
            let record = RecordId { event: 1, version: 2 * number };
            timeline.record(record, stream, 1, None);
            timeline.wait((LIVING, number + 1), record, None, number);
            if are_over {
                timeline.pass(Reached { stream, ordinal: 1 });
            }
            timeline.retire(stream);
        }
        timeline
    }

    /// Was: only a synchronization of the whole context let streams go, and what a stream knew of
    /// those stayed for good.
    #[test]
    fn streams_that_are_over_are_forgotten_by_a_program_that_makes_streams_for_ever() {
        let max = u64::try_from(STREAMS_MAX).expect("a small number");
        let timeline = after_streams(5 * max, true);
        assert!(timeline.streams.len() <= STREAMS_MAX);
        let living = timeline.seen(LIVING).expect("it lives");
        assert!(living.clock.len() <= STREAMS_MAX && living.last_waits.len() <= STREAMS_MAX);
        assert!(timeline.complete.len() <= STREAMS_MAX + 1);
        assert!(timeline.is_complete(2, 1) && timeline.is_before(2, 1, LIVING), "it was over");
    }

    #[test]
    fn streams_that_may_be_at_work_are_kept_however_many_they_are() {
        let max = u64::try_from(STREAMS_MAX).expect("a small number");
        let timeline = after_streams(2 * max, false);
        assert_eq!(timeline.streams.len(), 2 * STREAMS_MAX + 1);
        assert!(!timeline.is_complete(2, 1));
        assert!(timeline.is_before(2, 1, LIVING), "the wait for it is known");
    }
}
