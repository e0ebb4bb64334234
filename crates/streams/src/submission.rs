//! Tokens: one queued operation that can be waited for by itself.

use std::fmt;

use crate::error::Error;
use crate::fence::Fence;
use crate::order::Point;
use crate::stream_core::StreamCore;
use crate::stream_order::StreamOrder;
use crate::sync::{Arc, OnceLock, Weak};

/// One queued operation: a copy, a fill, a launch, a host function or a graph launch.
///
/// Waiting for it does not wait for what was queued after it: while a token lives, its fence is
/// recorded before the next operation is queued. (Work that is queued through a raw handle comes
/// without that.) Dropping a token costs nothing and ends nothing. `Send`, `Sync`.
///
/// ```
/// # fn main() -> Result<(), streams::Error> {
/// # let machine = cuda_sim::Machine::builder().build();
/// # let context = streams::Driver::from_table(machine.table())?.device(0)?.primary_context()?;
/// use streams::memory::DeviceMemory;
/// use streams::{RawSpan, StreamOptions};
///
/// let stream = context.create_stream(StreamOptions::default())?;
/// let memory = DeviceMemory::allocate(&context, 64)?;
/// // SAFETY: the memory outlives what is queued here.
/// let span = unsafe { RawSpan::from_raw(memory.address(), 64) };
/// let filled = stream.fill_bytes(&span, 0, 64, 1)?;
/// filled.wait()?;
/// assert!(filled.query()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Submission {
    token: Arc<Token>,
    order: StreamOrder,
}

/// What clones of a [`Submission`] share with the stream.
#[derive(Debug)]
pub(crate) struct Token {
    point: Point,
    captured: bool,
    fence: OnceLock<Fence>,
}

impl Token {
    pub(crate) fn point(&self) -> Point {
        self.point
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.fence.get().is_some()
    }

    pub(crate) fn settle(&self, fence: Fence) {
        let _ = self.fence.set(fence);
    }
}

impl Submission {
    pub(crate) fn at(core: &Arc<StreamCore>, point: Point) -> Self {
        let token = Token { point, captured: false, fence: OnceLock::new() };
        Self { token: Arc::new(token), order: StreamOrder::new(Arc::clone(core)) }
    }

    /// An operation that went into a graph.
    pub(crate) fn captured(core: &Arc<StreamCore>) -> Self {
        let point = core.point_at(core.slot().submitted());
        let token = Token { point, captured: true, fence: OnceLock::new() };
        Self { token: Arc::new(token), order: StreamOrder::new(Arc::clone(core)) }
    }

    pub(crate) fn token(&self) -> Weak<Token> {
        Arc::downgrade(&self.token)
    }

    /// The point that covers the operation. For a captured one, the last point before the capture,
    /// which does not cover it.
    #[must_use]
    pub fn point(&self) -> Point {
        self.token.point
    }

    /// Whether the operation went into a graph and runs only when that is launched.
    #[must_use]
    pub fn is_captured(&self) -> bool {
        self.token.captured
    }

    /// The stream it was queued on.
    #[must_use]
    pub fn order(&self) -> &StreamOrder {
        &self.order
    }

    /// A fence for it: the one that was recorded before more was queued, else one recorded now.
    ///
    /// # Errors
    /// The operation was captured, or the stream is gone or belongs to another thread.
    #[track_caller]
    pub fn fence(&self) -> Result<Fence, Error> {
        if self.token.captured {
            return Err(self.order.core().capturing());
        }
        if let Some(fence) = self.token.fence.get() {
            return Ok(fence.clone());
        }
        let kept = self.order.core().fences.covering(self.token.point.mark);
        let fence = match kept {
            Some(fence) => fence,
            None => self.order.fence_now()?,
        };
        self.token.settle(fence.clone());
        Ok(fence)
    }

    /// Whether the operation is done.
    ///
    /// # Errors
    /// The driver's answer, or as for [`Submission::fence`].
    #[track_caller]
    pub fn query(&self) -> Result<bool, Error> {
        if !self.token.captured && self.order.is_complete(self.token.point) {
            return Ok(true);
        }
        self.fence()?.query()
    }

    /// Blocks until the operation is done.
    ///
    /// # Errors
    /// The driver's answer, or as for [`Submission::fence`].
    #[track_caller]
    pub fn wait(&self) -> Result<(), Error> {
        if !self.token.captured && self.order.is_settled(self.token.point) {
            return Ok(());
        }
        self.fence()?.synchronize()?;
        self.order.core().context().close_graves();
        Ok(())
    }
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("point", &self.token.point)
            .field("captured", &self.token.captured)
            .finish_non_exhaustive()
    }
}
