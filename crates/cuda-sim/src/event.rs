//! Events: the last record of each, and what the host has been told about it.

use crate::clock::{Clock, Epoch};

/// An event at one moment of its life; the handle's later records do not matter to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventRef {
    pub(crate) handle: usize,
    /// Which record of which life of the handle is meant.
    pub(crate) record: u64,
}

/// What an event was recorded as.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// Tells the records of all events apart.
    pub(crate) number: u64,
    pub(crate) epoch: Epoch,
    /// What the record comes after on other timelines.
    pub(crate) clock: Clock,
    /// When it was done, in virtual time.
    pub(crate) finished_at: Option<u64>,
    /// How often the host was told "not ready".
    pub(crate) refused: u32,
}

/// A record made inside a capture.
#[derive(Debug, Clone)]
pub(crate) struct Captured {
    pub(crate) capture: usize,
    pub(crate) capture_id: u64,
    pub(crate) nodes: Vec<usize>,
}

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: usize,
    pub(crate) flags: u32,
    pub(crate) record: Option<Record>,
    pub(crate) captured: Option<Captured>,
}
