//! Private pools: memory that is kept apart, with a policy, bounds and figures of its own.

use std::fmt;

use streams::Stream;

use crate::allocator::{Allocator, Inner};
use crate::config::Config;
use crate::error::AllocError;
use crate::handle::Block;
use crate::sync::Arc;

/// A private pool of an allocator's memory.
///
/// It behaves as an allocator does: [`Pool::allocator`] gives its statistics, snapshots, limit and
/// everything else. Its segments serve its own requests only, under its own [`Config`], in which
/// the policy is free to choose; the limit of the allocator it was made by holds for all its pools
/// together. Cheap to clone; clones are the same pool. `Send` and `Sync`.
///
/// Blocks keep their pool alive beyond its handles. When the last handle goes, what is complete of
/// the pool's cache goes back to the device at once (a few driver calls, nothing is waited for);
/// the rest follows once it is complete, when the allocator or another pool of it polls, trims or
/// grows. When the allocator itself is gone, the last block to go waits for the pool's streams.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = cuda_sim::Machine::builder().build();
/// # let context = streams::Driver::from_table(machine.table())?.device(0)?.primary_context()?;
/// use allocator::{Allocator, Config, Policy};
///
/// let allocator = Allocator::new(&context, Config::default())?;
/// let stream = context.create_stream(streams::StreamOptions::default())?;
/// let pool = allocator.create_pool(Config::default().with_policy(Policy::PyTorch));
/// let block = pool.allocate(&stream, 3 << 20)?;
/// assert_eq!(pool.allocator().stats().allocated_bytes.current, 3 << 20);
/// assert_eq!(allocator.stats().reserved_bytes.current, 0);
/// drop(pool); // the block keeps it
/// drop(block);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Pool {
    allocator: Allocator,
}

impl Allocator {
    /// A private pool beside this allocator's own memory and its other pools. No driver call.
    ///
    /// `config` has the meaning it has for an allocator, except that the limit of this allocator
    /// holds for all its pools together, whatever theirs are.
    #[must_use = "a pool that is not kept goes at once"]
    pub fn create_pool(&self, config: Config) -> Pool {
        let parent = &self.inner;
        let inner = parent.sibling(config);
        if !parent.context.is_forked() {
            parent.family.add(&inner);
        }
        Pool { allocator: Self::of(inner) }
    }

    /// The private pools that are left: those that somebody has, and those that go once their
    /// memory is complete. For tools; a handle keeps its pool.
    #[must_use]
    pub fn pools(&self) -> Vec<Pool> {
        if self.inner.context.is_forked() {
            return Vec::new();
        }
        let private = self.inner.family.private().into_iter();
        private.map(|inner| Pool { allocator: Self::of(inner) }).collect()
    }

    /// Bytes of device memory held by this allocator and all its pools together.
    #[must_use]
    pub fn reserved_with_pools(&self) -> u64 {
        self.inner.family.reserved()
    }
}

impl Pool {
    /// Gives `bytes` of the pool's memory; see [`Allocator::allocate`].
    ///
    /// # Errors
    /// See [`AllocError`]; nothing is kept, and the same request may be made again.
    #[inline]
    #[track_caller]
    pub fn allocate(&self, stream: &Stream, bytes: u64) -> Result<Block, AllocError> {
        self.allocator.allocate(stream, bytes)
    }

    /// The pool as an allocator: its figures, snapshots, limits, trimming and raw blocks.
    #[must_use]
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Whether this is a pool of `allocator`, or of the allocator that made it.
    #[must_use]
    pub fn is_of(&self, allocator: &Allocator) -> bool {
        Arc::ptr_eq(&self.allocator.inner.family, &allocator.inner.family)
    }
}

impl AsRef<Allocator> for Pool {
    fn as_ref(&self) -> &Allocator {
        &self.allocator
    }
}

impl AsRef<Self> for Allocator {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Inner {
    /// The last handle goes. Gives back what is complete of a private pool of which no block is
    /// left; the family sees to the rest.
    pub(crate) fn leave_if_unused(self: &Arc<Self>) {
        // Who asks, and the family.
        let is_unused = !self.is_first && Arc::strong_count(self) <= 2;
        if !is_unused || self.context.first_error().is_some() {
            return;
        }
        self.learn_by_asking();
        if self.trim(u64::MAX).is_err() {
            self.count_drop_error();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("identity", &self.allocator.inner.identity())
            .field("policy", &self.allocator.inner.config.policy)
            .finish_non_exhaustive()
    }
}
