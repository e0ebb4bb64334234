//! Waiting, on the device, for everybody who has used a block.

use streams::order::Point;
use streams::{Error, Stream, StreamOrder};

use crate::allocator::Inner;
use crate::handle::{Block, check_takes_work};
use crate::view::View;

/// A stream that used a block, and how far it must come.
type User = (StreamOrder, Point);

impl Block {
    /// Makes what is submitted to `stream` from now on come after every use of the block so far:
    /// what was queued on its home stream, and what every stream that was recorded
    /// ([`Block::record_stream`], [`Block::record_use`], launches and copies) was said to do with
    /// it.
    ///
    /// For a write to a block that several streams have filled or read, where a wait for one of
    /// them is not enough. On the device: the host goes on. A driver call only for a stream that
    /// is not known to come before; where an exact use has a fence, nothing that was queued behind
    /// it is waited for. The program asks for these waits, so gated streams are waited for too.
    ///
    /// # Errors
    /// As for [`Stream::wait_stream`], also where there is nobody to wait for; a stream that has
    /// ended and left no fence can only be synchronized. Or this is a fork of the block's process.
    /// Streams that were waited for before stay waited for.
    #[track_caller]
    pub fn wait_all_users(&self, stream: &Stream) -> Result<(), Error> {
        self.check_process()?;
        check_takes_work(stream)?;
        let inner = self.inner();
        self.users(&inner).iter().try_for_each(|user| inner.order_after(stream, user))
    }

    fn users(&self, inner: &Inner) -> Vec<User> {
        let Some((shard, name)) = self.place() else { return Vec::new() };
        let (home, uses) = shard.with(|state| {
            state.list_uses(name.index());
            let record = state.arena.at(name.index());
            (record.home, record.copy_uses())
        });
        let home =
            inner.order_of(home).map(|order| (order.clone(), inner.view.home_position(&order)));
        let used = uses.iter().filter_map(|used| Some((used.order.clone(), used.point_at_free()?)));
        // The home last: those that used the block mostly waited for it.
        used.chain(home).collect()
    }
}

impl Inner {
    /// Makes `stream` wait for one user, unless that is known to come before.
    #[track_caller]
    fn order_after(&self, stream: &Stream, (user, point): &User) -> Result<(), Error> {
        let same = user.id() == stream.id();
        if !same && user.is_gated() && self.context.keeps_answers() {
            // The stream will count as gated, and that must not depend on answers (R9).
            return Self::come_after(stream, user, *point, View::Settled);
        }
        if same || self.view.knows(stream.order(), *point) {
            return Ok(());
        }
        Self::come_after(stream, user, *point, self.view)
    }

    /// Makes `stream` wait for one user, as `view` does it.
    #[track_caller]
    fn come_after(
        stream: &Stream,
        user: &StreamOrder,
        point: Point,
        view: View,
    ) -> Result<(), Error> {
        if let Some(fence) = view.fence_exactly(user, point)
            && stream.order().may_wait()
        {
            return view.wait_fence(stream.order(), &fence);
        }
        match user.stream() {
            Some(living) => view.wait_stream(stream, &living),
            None => {
                user.await_last_fence();
                let gone = Error::StreamGone { stream: user.id() };
                let fence = view.fence_covering(user, point).ok_or(gone)?;
                view.wait_fence(stream.order(), &fence)
            }
        }
    }
}
