//! What must not meet on two threads: a capture, and work that would be drawn into it or refused
//! because of it.
//!
//! A stream that waits for one that captures joins the capture, and a context in which something
//! captures is not waited for: what a program does about the streams of other threads is kept apart
//! from captures, as a program of users would have to. Whoever comes second does nothing.

use std::sync::{Mutex, PoisonError};

/// What is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A capture.
    Capture,
    /// Something about streams of other threads.
    Crossing,
}

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    /// How many captures, and how many crossings.
    under_way: Mutex<(usize, usize)>,
}

/// Something is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay<'meetings> {
    meetings: &'meetings Meetings,
    side: Side,
}

impl Meetings {
    /// Begins one side, if nothing of the other one is under way.
    pub(crate) fn begin(&self, side: Side) -> Option<UnderWay<'_>> {
        self.change(side, |own, other| {
            let begins = other == 0;
            *own += usize::from(begins);
            begins.then(|| UnderWay { meetings: self, side })
        })
    }

    fn change<R>(&self, side: Side, change: impl FnOnce(&mut usize, usize) -> R) -> R {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let (captures, crossings) = &mut *under_way;
        match side {
            Side::Capture => change(captures, *crossings),
            Side::Crossing => change(crossings, *captures),
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.meetings.change(self.side, |own, _| *own -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::{Meetings, Side};

    #[test]
    fn sides_do_not_meet_and_each_may_be_under_way_twice() {
        let meetings = Meetings::default();
        let captures = [Side::Capture; 2].map(|side| meetings.begin(side));
        assert!(captures.iter().all(Option::is_some));
        assert!(meetings.begin(Side::Crossing).is_none());
        drop(captures);
        let _crossing = meetings.begin(Side::Crossing).expect("nothing captures");
        assert!(meetings.begin(Side::Capture).is_none());
    }
}
