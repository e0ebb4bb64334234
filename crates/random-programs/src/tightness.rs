//! Looks at the allocator from outside: was a request served as cheaply as it could be, and do the
//! figures agree with what is there?
//!
//! A look takes a snapshot, so only programs that look do: then before every request. Other
//! threads would change what was seen, so programs of several threads do not look.

use allocator::Stats;
use streams::Stream;

use crate::outcome::Finding;
use crate::world::World;

/// What was seen before a request.
pub(crate) struct Look {
    /// Where a block, or neighbours, lay that the request could have had at once.
    fit: Option<u64>,
    bytes: u64,
    stats: Stats,
}

impl World<'_> {
    /// Looks at what is there before a request, if this program looks.
    pub(crate) fn look(&self, stream: &Stream, bytes: u64) -> Option<Look> {
        // Inside a capture only what is complete will do, and a fit is told for known order.
        if !self.setup.looks || !self.alone || stream.order().is_capturing() {
            return None;
        }
        let stats = self.allocator.stats();
        let snapshot = self.allocator.snapshot();
        self.check_figures(&stats, &snapshot);
        Some(Look { fit: snapshot.find_fit(stream, bytes), bytes, stats })
    }

    /// No request waits, grows or fails while a block that is ready fits (R10).
    pub(crate) fn judge_request(&self, look: Option<Look>, served: bool) {
        let Some(Look { fit: Some(address), bytes, stats: before }) = look else { return };
        let after = self.allocator.stats().served_by;
        let costly = [
            ("waited on the device", before.served_by.device_wait, after.device_wait),
            ("grew", before.served_by.growth, after.growth),
            ("climbed the ladder", before.served_by.ladder, after.ladder),
            ("failed", u64::from(served), 1),
        ];
        let took = costly.iter().find(|(_, before, after)| before < after);
        if let Some((what, _, _)) = took {
            let text = format!("a request for {bytes} bytes {what}; {address:#x} was ready");
            self.stand.report(Finding::Shy(text));
        }
    }

    /// Every figure that has a current value can be computed again from what is there.
    pub(crate) fn check_figures(&self, stats: &Stats, snapshot: &allocator::Snapshot) {
        if let Err(mismatch) = snapshot.check(stats) {
            self.stand.report(Finding::WrongFigure(mismatch.to_string()));
        }
    }
}
