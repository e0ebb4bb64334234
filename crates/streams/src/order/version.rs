//! Which record a waiter may be credited with when several threads use one event (O4).
//!
//! The word holds the number of records in flight in its low bits and the number of records ever
//! begun above them. A record that was alone from its begin to its end publishes what it claims;
//! one that overlapped another publishes nothing, because nobody saw which reached the driver
//! last. A wait or query may claim what was published only if the word was quiet (no record in
//! flight) and the same before and after its call.

use crate::sync::{AtomicU64, Ordering};

const IN_FLIGHT: u64 = 1;
const BEGUN: u64 = 1 << 16;
const IN_FLIGHT_MASK: u64 = BEGUN - 1;

/// The version of one event.
#[derive(Debug)]
pub(crate) struct EventVersion(AtomicU64);

/// A record whose driver call is being made.
#[derive(Debug)]
#[must_use = "a record that never ends leaves its event without credit"]
pub(crate) struct RecordInFlight {
    alone: bool,
    begun: u64,
}

impl RecordInFlight {
    /// Which record of the event this is, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        EventVersion::number(self.begun)
    }
}

impl EventVersion {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Which record, counted from 1, a version that was quiet is about; 0 before the first.
    pub(crate) fn number(quiet: u64) -> u64 {
        quiet / BEGUN
    }

    /// A record begins: before its driver call.
    pub(crate) fn begin(&self) -> RecordInFlight {
        let before = self.0.fetch_add(BEGUN + IN_FLIGHT, Ordering::SeqCst);
        RecordInFlight {
            alone: before & IN_FLIGHT_MASK == 0,
            begun: before.wrapping_add(BEGUN + IN_FLIGHT),
        }
    }

    /// A record ends: after its driver call. `publish(true)` is called while the version still
    /// says "in flight", and `publish(false)` takes it back if another record overlapped.
    pub(crate) fn end(&self, record: &RecordInFlight, mut publish: impl FnMut(bool)) {
        publish(record.alone);
        if record.alone {
            let quiet = record.begun - IN_FLIGHT;
            let ended =
                self.0.compare_exchange(record.begun, quiet, Ordering::SeqCst, Ordering::SeqCst);
            if ended.is_ok() {
                return;
            }
            publish(false);
        }
        self.0.fetch_sub(IN_FLIGHT, Ordering::SeqCst);
    }

    /// The version, if no record is in flight.
    pub(crate) fn quiet(&self) -> Option<u64> {
        let version = self.0.load(Ordering::SeqCst);
        (version & IN_FLIGHT_MASK == 0).then_some(version)
    }

    /// Whether no record began since `quiet` was read.
    pub(crate) fn is_still(&self, quiet: Option<u64>) -> bool {
        quiet.is_some_and(|version| self.0.load(Ordering::SeqCst) == version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(version: &EventVersion, record: &RecordInFlight) -> bool {
        let mut published = false;
        version.end(record, |credit| published = credit);
        published
    }

    #[test]
    fn o4_a_record_alone_is_published() {
        let version = EventVersion::new();
        let record = version.begin();
        assert_eq!(version.quiet(), None);
        assert!(end(&version, &record));
        let quiet = version.quiet();
        assert!(version.is_still(quiet));
    }

    #[test]
    fn o4_records_that_overlap_are_not_published_in_any_order_of_ending() {
        for first_ends_first in [true, false] {
            let version = EventVersion::new();
            let (first, second) = (version.begin(), version.begin());
            let (one, other) = if first_ends_first { (&first, &second) } else { (&second, &first) };
            assert!(!end(&version, one));
            assert_eq!(version.quiet(), None);
            assert!(!end(&version, other));
            assert!(version.quiet().is_some());
            let alone = version.begin();
            assert!(end(&version, &alone), "a later record alone is credited again");
        }
    }

    #[test]
    fn o4_a_record_between_two_reads_is_seen() {
        let version = EventVersion::new();
        let before = version.quiet();
        let record = version.begin();
        assert!(!version.is_still(before));
        assert!(end(&version, &record));
        assert!(!version.is_still(before));
    }
}
