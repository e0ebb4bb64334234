//! Which uses of blocks are still open, as far as a stream trace says.
//!
//! A use is a place in a stream's queue. It is over when the host was told that the stream has
//! come so far: by a record behind it, by a synchronization, or by a query. What a stream learned
//! by waiting for others is not followed, so a use may be over earlier than told here.

use crate::StreamNumber;
use crate::stream_trace::{RecordNumber, Subject};

/// A place in a stream's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) stream: StreamNumber,
    pub(super) position: u64,
}

/// How much was queued on each stream, and how far each was seen to have come.
#[derive(Debug, Default)]
pub(super) struct Queues {
    streams: Vec<Queue>,
    records: Vec<Point>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    queued: u64,
    passed: u64,
}

impl Queues {
    pub(super) fn open_stream(&mut self) {
        self.streams.push(Queue::default());
    }

    /// Something was queued on `stream`: its place.
    pub(super) fn submit(&mut self, stream: StreamNumber) -> Point {
        if let Some(queue) = self.streams.get_mut(stream.index()) {
            queue.queued += 1;
        }
        self.now(stream)
    }

    pub(super) fn record(&mut self, stream: StreamNumber) {
        let point = self.submit(stream);
        self.records.push(point);
    }

    /// The place of what was queued last on `stream`.
    pub(super) fn now(&self, stream: StreamNumber) -> Point {
        let position = self.streams.get(stream.index()).map_or(0, |queue| queue.queued);
        Point { stream, position }
    }

    /// The host learned that `subject` is done.
    pub(super) fn pass(&mut self, subject: Subject) {
        match subject {
            Subject::Record(record) => {
                if let Some(point) = self.record_point(record) {
                    self.pass_point(point);
                }
            }
            Subject::Stream(stream) => self.pass_point(self.now(stream)),
            Subject::Context | Subject::Everything => {
                for queue in &mut self.streams {
                    queue.passed = queue.queued;
                }
            }
        }
    }

    fn record_point(&self, record: RecordNumber) -> Option<Point> {
        self.records.get(usize::try_from(record.0).ok()?).copied()
    }

    fn pass_point(&mut self, point: Point) {
        if let Some(queue) = self.streams.get_mut(point.stream.index()) {
            queue.passed = queue.passed.max(point.position);
        }
    }

    pub(super) fn is_over(&self, point: Point) -> bool {
        let passed = self.streams.get(point.stream.index()).map_or(u64::MAX, |it| it.passed);
        point.position <= passed
    }
}
