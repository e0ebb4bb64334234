//! A few streams, given out in turn.

use crate::context::Context;
use crate::error::Error;
use crate::stream::{Stream, StreamOptions};
use crate::sync::{AtomicUsize, Ordering};

/// A few streams, given out in turn, for work that is better spread than named. `Send`, `Sync`.
///
/// ```
/// # fn main() -> Result<(), streams::Error> {
/// # let machine = cuda_sim::Machine::builder().build();
/// # let context = streams::Driver::from_table(machine.table())?.device(0)?.primary_context()?;
/// use streams::StreamOptions;
///
/// let pool = context.stream_pool(2, StreamOptions::default())?;
/// assert_ne!(pool.take_turn().id(), pool.take_turn().id());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StreamPool {
    streams: Vec<Stream>,
    given: AtomicUsize,
}

impl Context {
    /// A pool of `count` streams, at least one.
    ///
    /// # Errors
    /// As for [`Context::create_stream`].
    #[track_caller]
    pub fn stream_pool(&self, count: usize, options: StreamOptions) -> Result<StreamPool, Error> {
        let streams =
            (0..count.max(1)).map(|_| self.create_stream(options)).collect::<Result<_, _>>()?;
        Ok(StreamPool { streams, given: AtomicUsize::new(0) })
    }
}

impl StreamPool {
    /// The next stream in turn.
    #[must_use]
    pub fn take_turn(&self) -> &Stream {
        let turn = self.given.fetch_add(1, Ordering::Relaxed);
        let at = turn % self.streams.len();
        self.streams.get(at).expect("a pool has at least one stream")
    }

    /// All its streams.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }
}
