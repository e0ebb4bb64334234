//! Memory that nobody has any more and the device may still use: its context gives it back.
//!
//! An allocator that ends where the driver may not be called, where nothing may be waited for, or
//! with work that it cannot wait for, leaves its memory here, each piece with the points that must
//! be complete first. Whoever next makes a call of a context that may take its time asks about
//! those points, and lets go of what is over.
//!
//! What is left must not keep the context, or it would keep it until somebody comes by. Memory of
//! this crate does not.

use std::fmt;

use crate::context::{Context, ContextCore, ORPHANS_ASKED_MAX};
use crate::driver::{DriverContext, in_host_function};
use crate::error::Error;
use crate::fence::Fence;
use crate::order::{Frontier, Registry};
use crate::stream_order::StreamOrder;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};

/// Something that goes once the device is done with it.
struct Leftover {
    bytes: u64,
    /// What must be complete; `None` where nobody can know when it is over.
    until: Option<Frontier>,
    #[expect(dead_code, reason = "held, not read")]
    what: Box<dyn Send>,
}

impl Leftover {
    fn is_over(&self, registry: &Registry) -> bool {
        let is_complete = |until: &Frontier| until.iter().all(|point| registry.is_complete(point));
        self.until.as_ref().is_some_and(is_complete)
    }
}

/// What is left to one context.
#[derive(Default)]
pub(crate) struct Leftovers {
    list: Mutex<Vec<Leftover>>,
    /// Whether there may be any, for those who ask often.
    is_any: AtomicBool,
}

impl Leftovers {
    fn add(&self, leftover: Leftover) {
        let mut list = lock(&self.list);
        list.push(leftover);
        self.is_any.store(true, Ordering::Release);
    }

    fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    fn open_points(&self, registry: &Registry) -> Frontier {
        open_points(&lock(&self.list), registry)
    }

    /// Drops what is over; says how many bytes that were.
    fn let_go(&self, registry: &Registry) -> u64 {
        let mut list = lock(&self.list);
        let over: Vec<_> = list.extract_if(.., |leftover| leftover.is_over(registry)).collect();
        self.is_any.store(!list.is_empty(), Ordering::Release);
        drop(list);
        // Without the lock: these destructors call the driver.
        over.into_iter().map(|leftover| leftover.bytes).sum()
    }
}

impl fmt::Debug for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leftovers").field("is_any", &self.is_any()).finish_non_exhaustive()
    }
}

impl ContextCore {
    /// Asks about what is left here, and lets go of what is over; says how many bytes that were.
    /// Waits for nothing, and does nothing where the driver may not be called.
    pub(crate) fn settle_leftovers(&self) -> u64 {
        self.raw.end_parked();
        if !self.leftovers.is_any() || !may_free(&self.raw) {
            return 0;
        }
        let open = self.leftovers.open_points(self.registry());
        for order in self.living_among(&open) {
            // A stream that cannot be asked stays as unknown as it was.
            let _unanswered = order.poll();
        }
        for fence in self.orphans_among(&open).iter().take(ORPHANS_ASKED_MAX) {
            let _unanswered = fence.query();
        }
        self.leftovers.let_go(self.registry())
    }

    fn living_among(&self, open: &Frontier) -> Vec<StreamOrder> {
        if open.is_empty() {
            return Vec::new();
        }
        let orders = self.living_streams().into_iter();
        let orders = orders.map(|handle| StreamOrder::new(Arc::clone(handle.core())));
        orders.filter(|order| open.point_on(order.slot()).is_some()).collect()
    }

    fn orphans_among(&self, open: &Frontier) -> Vec<Fence> {
        among(&lock(&self.orphans), open)
    }

    /// The end of the context: what is left here is waited for, or ends where that is allowed.
    pub(crate) fn end_leftovers(&self, orphans: Vec<Fence>) {
        let leftovers = std::mem::take(&mut *lock(&self.leftovers.list));
        if leftovers.is_empty() {
            return;
        }
        let (registry, raw) = (Arc::clone(self.registry()), Arc::clone(&self.raw));
        let estate = Estate { leftovers, orphans, registry, raw };
        if in_host_function() && self.raw.is_primary() {
            self.raw.park(Box::new(estate));
        }
    }
}

/// The points that are waited for and not known to be complete.
fn open_points(leftovers: &[Leftover], registry: &Registry) -> Frontier {
    let points = leftovers.iter().flat_map(|left| left.until.iter().flat_map(Frontier::iter));
    points.filter(|point| !registry.is_complete(*point)).collect()
}

/// The fences of streams that are gone which cover a point of `open`.
fn among(orphans: &[Fence], open: &Frontier) -> Vec<Fence> {
    let covers = |fence: &&Fence| open.point_on(fence.point().stream).is_some();
    orphans.iter().filter(covers).filter(|fence| !fence.is_known_complete()).cloned().collect()
}

/// Whether memory may be given back now, by this thread.
fn may_free(raw: &DriverContext) -> bool {
    !in_host_function() && raw.first_error().is_none() && !raw.is_blocking_forbidden()
}

/// What a context that has ended had left.
struct Estate {
    leftovers: Vec<Leftover>,
    orphans: Vec<Fence>,
    registry: Arc<Registry>,
    raw: Arc<DriverContext>,
}

impl Drop for Estate {
    /// All streams have ended, and have left their last fences where that was possible. A fence
    /// that may wait for the host is not waited for. What is not over then is leaked.
    fn drop(&mut self) {
        let leftovers = std::mem::take(&mut self.leftovers);
        if may_free(&self.raw) {
            let open = open_points(&leftovers, &self.registry);
            for fence in among(&self.orphans, &open).iter().filter(|fence| !fence.is_gated()) {
                let _unanswered = fence.synchronize();
            }
        }
        // On a context that has failed this frees nothing, and the driver takes it all.
        let may_go = may_free(&self.raw);
        let (over, open): (Vec<_>, Vec<_>) =
            leftovers.into_iter().partition(|left| may_go && left.is_over(&self.registry));
        drop(over);
        if !open.is_empty() {
            Box::leak(Box::new(open));
        }
    }
}

impl Context {
    /// Keeps `what`, which holds `bytes` of device memory, until everything up to `until` is
    /// complete, and drops it then: at a later [`Context::settle_leftovers`], which a
    /// synchronization of the context or of a stream, a new stream and [`Context::memory_info`]
    /// come by, or with the last of the context, which blocks until the device is done, unless
    /// that may be waiting for the host. For allocators that end where the driver may not be
    /// called, or with work that they cannot wait for. Without `until` it is kept for good.
    ///
    /// Makes no driver call; may be called in a host function. `what` should not keep the context.
    pub fn leave(&self, bytes: u64, until: Option<Frontier>, what: impl Send + 'static) {
        self.core().leftovers.add(Leftover { bytes, until, what: Box::new(what) });
    }

    /// Bytes of device memory that were left to the context ([`Context::leave`]) and have not gone
    /// back yet. No driver call.
    #[must_use]
    pub fn leftover_bytes(&self) -> u64 {
        if self.is_forked() || !self.core().leftovers.is_any() {
            return 0;
        }
        lock(&self.core().leftovers.list).iter().map(|leftover| leftover.bytes).sum()
    }

    /// Counts an error that only a destructor saw, of somebody who keeps memory of the context.
    pub fn count_silent_error(&self) {
        self.core().raw.count_silent_error();
    }

    /// Asks how far the streams came that what was left waits for ([`Context::leave`]), and gives
    /// back what is over; says how many bytes that were. Waits for nothing. Does nothing, and costs
    /// next to nothing, where nothing was left, and in a host function.
    pub fn settle_leftovers(&self) -> u64 {
        self.core().settle_leftovers()
    }

    /// The same after waiting for what can be waited for: not for what may itself be waiting for
    /// the host.
    ///
    /// # Errors
    /// The context has failed; what is left then goes with it.
    pub fn finish_leftovers(&self) -> Result<u64, Error> {
        let core = self.core();
        if !core.leftovers.is_any() || !may_free(&core.raw) {
            return self.failure().map_or(Ok(0), Err);
        }
        let open = core.leftovers.open_points(core.registry());
        for order in core.living_among(&open) {
            let point = open.point_on(order.slot());
            if let Some(point) = point.filter(|_| !order.is_known_gated()) {
                // What cannot be waited for stays.
                let _unanswered = order.apart().synchronize_point(point);
            }
        }
        for fence in core.orphans_among(&open).iter().filter(|fence| !fence.is_gated()) {
            let _unanswered = fence.synchronize_apart();
        }
        Ok(core.leftovers.let_go(core.registry()))
    }
}
