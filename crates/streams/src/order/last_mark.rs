//! The last mark of one stream: what stays of its place in the registry when it has gone.

use crate::sync::{AtomicU64, Ordering};

const NONE: u64 = u64::MAX;

/// The last mark of one stream, published once, when the stream retires.
///
/// A slot is given to a new stream as soon as its old one is retired and complete, while others
/// may still hold the old one. They must not take what the slot says for theirs. So whoever reads
/// a slot on behalf of a stream, and does not keep that stream from retiring, reads it through
/// [`LastMark::unless_ended`]: read the slot, then look for the last mark; if there is one, what
/// was read is void, and the last mark answers.
///
/// That is enough, without a lock: the last mark is published before the slot is closed, and a
/// slot is opened only after it was closed. So whoever has read anything that the next stream
/// wrote there also finds the last mark. Reading never waits, and nobody can hold a slot back.
#[derive(Debug)]
pub(crate) struct LastMark(AtomicU64);

impl LastMark {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(NONE))
    }

    /// The stream has ended with this mark. Before its slot is closed.
    pub(crate) fn publish(&self, mark: u64) {
        self.0.store(mark, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<u64> {
        let mark = self.0.load(Ordering::SeqCst);
        (mark != NONE).then_some(mark)
    }

    /// What `read` finds in the slot, if the stream has it still; else what the last mark says.
    #[inline]
    pub(crate) fn unless_ended<T>(
        &self,
        read: impl FnOnce() -> T,
        ended: impl FnOnce(u64) -> T,
    ) -> T {
        // Looked at first, so that nothing is counted in the slot of another stream.
        let found = self.get().map_or_else(|| Ok(read()), Err);
        match (found, self.get()) {
            (Ok(found), None) => found,
            (Ok(_), Some(mark)) | (Err(mark), _) => ended(mark),
        }
    }
}
