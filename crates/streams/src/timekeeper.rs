//! When operations end on the device, measured for an observer who wants to know.
//!
//! A timing event is recorded behind each operation, by the driver alone: it is no submission and
//! claims nothing. What has passed is asked for at later operations on the same stream, and told.
//!
//! Times count from one event a context, recorded on its first stream when that is new. The driver
//! tells the time between two events in milliseconds of 24 bits, so each stream counts on from one
//! of its own events, a new one every half second: what is lost is below a tenth of a microsecond.
//!
//! Nothing here fails: an operation whose event cannot be made, recorded or asked has no time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::driver::{DriverEvent, DriverStream, EventKind};
use crate::observe::{Place, What};
use crate::stream_core::{StreamCore, StreamKind};
use crate::sync::{Arc, Mutex, lock};

/// Events of one stream that are asked at each operation: more than one, so that they are caught
/// up with.
const ASKED_MAX: usize = 4;
/// A stream counts on from an event at most this old.
const REFERENCE_AGE: Duration = Duration::from_millis(500);

/// The timing events of one context.
#[derive(Debug, Default)]
pub(crate) struct Timekeeper {
    origin: Mutex<Option<Arc<DriverEvent>>>,
    streams: Mutex<BTreeMap<u64, Marks>>,
    /// Streams that are gone, some of whose operations may not have ended.
    gone: Mutex<VecDeque<u64>>,
    spare: Mutex<Vec<DriverEvent>>,
}

/// The timing events of one stream.
#[derive(Debug)]
struct Marks {
    /// An event that has passed, and when.
    reference: (Arc<DriverEvent>, Duration),
    /// Those that are not known to have passed, with the operations that they end.
    waiting: VecDeque<(u64, DriverEvent)>,
}

impl StreamCore {
    fn times(&self) -> &Timekeeper {
        &self.context().times
    }

    /// Begins the context's time, if this is its first stream and somebody wants times.
    pub(crate) fn start_clock(&self, raw: &DriverStream, place: Place) {
        // A stream that is not ours may be busy, and time would begin whenever that ends.
        let is_idle = self.traits().kind == StreamKind::Owned;
        if !self.watch().wants_times() || !is_idle || lock(&self.times().origin).is_some() {
            return;
        }
        let Ok(event) = DriverEvent::create(&self.context().raw, EventKind::Timing) else { return };
        if event.record(raw).and_then(|()| event.synchronize()).is_err() {
            return;
        }
        let mut origin = lock(&self.times().origin);
        if origin.is_some() {
            return;
        }
        *origin = Some(Arc::new(event));
        drop(origin);
        let context = self.context().id();
        self.watch().tell(Some(place), || What::ClockStarted { context });
    }

    /// Marks the end of an operation that was just queued, if somebody wants times. The caller has
    /// the stream's turn.
    pub(crate) fn mark_end(&self, raw: &DriverStream, ordinal: u64) {
        if !self.watch().wants_times() {
            return;
        }
        let Some(origin) = lock(&self.times().origin).clone() else { return };
        let spare = lock(&self.times().spare).pop();
        let made =
            spare.map_or_else(|| DriverEvent::create(&self.context().raw, EventKind::Timing), Ok);
        let Ok(event) = made else { return };
        if event.record(raw).is_err() {
            return;
        }
        let stream = self.traits().id;
        lock(&self.times().streams)
            .entry(stream)
            .or_insert_with(|| Marks {
                reference: (origin, Duration::ZERO),
                waiting: VecDeque::new(),
            })
            .waiting
            .push_back((ordinal, event));
        let tell = &mut |what| self.watch().tell(None, || what);
        self.times().tell_ended(stream, ASKED_MAX, tell);
        let gone = lock(&self.times().gone).pop_front();
        if let Some(gone) = gone {
            self.times().tell_ended(gone, ASKED_MAX, tell);
            lock(&self.times().gone).push_back(gone);
            self.times().forget_gone();
        }
    }

    /// The stream takes no more work, so that its marks can go when they have passed.
    pub(crate) fn end_marks(&self) {
        if self.watch().wants_times() {
            lock(&self.times().gone).push_back(self.traits().id);
        }
    }
}

impl Timekeeper {
    /// The streams that have marks.
    pub(crate) fn streams(&self) -> Vec<u64> {
        lock(&self.streams).keys().copied().collect()
    }

    /// Lets go of streams that are gone and all of whose operations have ended.
    pub(crate) fn forget_gone(&self) {
        let gone = std::mem::take(&mut *lock(&self.gone));
        let (over, open): (Vec<u64>, Vec<u64>) = gone.into_iter().partition(|stream| {
            lock(&self.streams).get(stream).is_none_or(|marks| marks.waiting.is_empty())
        });
        let left: Vec<Marks> =
            over.iter().filter_map(|stream| lock(&self.streams).remove(stream)).collect();
        lock(&self.gone).extend(open);
        // Without a lock: their events are destroyed.
        drop(left);
    }

    /// Tells of up to so many operations of a stream that have ended.
    pub(crate) fn tell_ended(
        &self,
        stream: u64,
        count_max: usize,
        tell: &mut dyn FnMut(What<'static>),
    ) {
        for _ in 0..count_max {
            let next = lock(&self.streams).get_mut(&stream).and_then(|marks| {
                let (ordinal, event) = marks.waiting.pop_front()?;
                Some((ordinal, event, marks.reference.clone()))
            });
            let Some((ordinal, event, (reference, at))) = next else { return };
            // No lock is held while the driver is asked.
            if !event.query().unwrap_or(false) {
                if let Some(marks) = lock(&self.streams).get_mut(&stream) {
                    marks.waiting.push_front((ordinal, event));
                }
                return;
            }
            let Ok(since) = event.elapsed_since(&reference) else { continue };
            let ended = at + since;
            if REFERENCE_AGE < since {
                if let Some(marks) = lock(&self.streams).get_mut(&stream) {
                    marks.reference = (Arc::new(event), ended);
                }
            } else {
                lock(&self.spare).push(event);
            }
            let nanoseconds = u64::try_from(ended.as_nanos()).unwrap_or(u64::MAX);
            tell(What::Ended { stream, ordinal, nanoseconds });
        }
    }
}
