//! Free blocks that still wait for uses: each is filed under one point it waits for.
//!
//! A pending block watches one point that the shard's own stream does not know yet. When that
//! point is known, the block is filed under the next one, or becomes ready. So learning that a
//! stream came further costs one look at the smallest mark watched there, however many blocks
//! wait.

use std::collections::BTreeSet;

use streams::order::{Frontier, Point, StreamSlot};

use crate::arena::Arena;
use crate::block::{BlockIndex, State};
use crate::carve::requirements;
use crate::shard::ShardState;

/// How many blocks of a watch are looked at, at most, to find what is worth waiting for. In which
/// watch a block is follows from slots, so where these must not show all are looked at (R9).
const LOOKS_MAX: usize = 64;

/// The watches of one shard: one ordered set for each stream that is waited for.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    watches: Vec<Watch>,
}

/// What waits for one stream.
#[derive(Debug)]
struct Watch {
    stream: StreamSlot,
    /// By mark, so that what is known comes first.
    blocks: BTreeSet<(u64, BlockIndex)>,
}

impl Limbo {
    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Files a block under a point it waits for.
    pub(crate) fn file(&mut self, arena: &mut Arena, block: BlockIndex, point: Point) {
        arena.at_mut(block).watch(point);
        let found = self.watches.iter_mut().find(|watch| watch.stream == point.stream);
        if let Some(watch) = found {
            watch.blocks.insert((point.mark, block));
        } else {
            let blocks = BTreeSet::from([(point.mark, block)]);
            self.watches.push(Watch { stream: point.stream, blocks });
        }
    }

    /// Takes a block out of its file.
    pub(crate) fn forget(&mut self, arena: &mut Arena, block: BlockIndex) {
        let Some(point) = arena.at_mut(block).take_watched() else { return };
        if let Some(watch) = self.watches.iter_mut().find(|watch| watch.stream == point.stream) {
            watch.blocks.remove(&(point.mark, block));
        }
        self.watches.retain(|watch| !watch.blocks.is_empty());
    }

    /// The streams that blocks wait for.
    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamSlot> + '_ {
        self.watches.iter().map(|watch| watch.stream)
    }
}

impl ShardState {
    /// Whether the shard's stream is known to come after `point`.
    #[inline]
    pub(crate) fn knows(&self, point: Point) -> bool {
        self.view.knows(&self.order, point)
    }

    /// Whether everything up to `point` is over.
    #[inline]
    pub(crate) fn is_complete(&self, point: Point) -> bool {
        self.view.is_complete(&self.order, point)
    }

    /// The first point of a block's frontier that the shard's stream does not know.
    #[inline]
    pub(crate) fn first_unknown(&self, block: BlockIndex) -> Option<Point> {
        let record = self.arena.at(block);
        let home = record.home_point();
        if home.stream != self.slot && !self.knows(home) {
            return Some(home);
        }
        if record.is_home_only() {
            return None;
        }
        record.frontier().find(|point| !self.knows(*point))
    }

    /// What the oldest pending blocks of at least so many bytes wait for, of those that wait for
    /// nothing beyond `latest`; and how many bytes these have.
    pub(crate) fn oldest_watched(&self, bytes: u64, latest: &Frontier) -> (Frontier, u64) {
        let looks = if self.view.inherits() { LOOKS_MAX } else { usize::MAX };
        let watches = self.limbo.watches.iter();
        let oldest = watches.flat_map(|watch| watch.blocks.iter().take(looks));
        let mut oldest: Vec<_> =
            oldest.map(|(_, block)| (self.arena.at(*block).freed_at, *block)).collect();
        oldest.sort_unstable();
        let (mut found, mut points) = (0, Frontier::default());
        for (_, block) in oldest {
            if bytes <= found {
                break;
            }
            let record = self.arena.at(block);
            let unmet = || requirements(record).filter(|point| !self.knows(*point));
            if unmet().all(|point| latest.covers(point)) {
                unmet().for_each(|point| points.insert(point));
                found += record.size;
            }
        }
        (points, found)
    }

    /// Makes ready what has become known. No driver call.
    ///
    /// In the order of the frees, and what is still unknown is filed anew and nothing else: under
    /// which of its points a block is filed follows from slots, and `deterministic` must not show
    /// those.
    #[inline(never)]
    pub(crate) fn sweep(&mut self) {
        let mut known = Vec::new();
        for watch in &self.limbo.watches {
            for (mark, block) in &watch.blocks {
                if !self.knows(Point { stream: watch.stream, mark: *mark }) {
                    break;
                }
                let record = self.arena.at(*block);
                known.push(((record.freed_at, record.address), *block));
            }
        }
        known.sort_unstable();
        for (_, block) in known {
            // One before it may have taken it in.
            if self.arena.at(block).state != State::Pending {
                continue;
            }
            match self.first_unknown(block) {
                Some(point) => {
                    self.limbo.forget(&mut self.arena, block);
                    self.limbo.file(&mut self.arena, block, point);
                }
                None => {
                    self.take_out(block, State::Reserved);
                    self.settle(block);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use cuda_sim::{Machine, Schedule};
    use streams::order::Frontier;
    use streams::{Context, Driver, Stream, StreamOptions};

    use super::LOOKS_MAX;
    use crate::{Allocator, Block, Config, Policy};

    const BYTES: u64 = 1024;

    fn stream(context: &Context) -> Stream {
        context.create_stream(StreamOptions::default()).unwrap()
    }

    /// A stream is given something to do; up to there is it used.
    fn use_exactly(block: &Block, stream: &Stream) {
        drop(stream.launch_host_function(|| {}).unwrap());
        let _used = block.record_use(stream);
    }

    /// So many blocks of `home` that one user has first, and one that the other has too and that is
    /// freed before them; gives what would be waited for, for one block.
    fn oldest(context: &Context, policy: Policy, [home, user, other]: [&Stream; 3]) -> Frontier {
        let config = Config::default().with_policy(policy);
        let allocator = Allocator::new(context, config).unwrap();
        let take = || allocator.allocate(home, BYTES).unwrap();
        let blocks: Vec<Block> = (0..LOOKS_MAX).map(|_| take()).collect();
        let first = take();
        blocks.iter().for_each(|block| use_exactly(block, user));
        [user, other].into_iter().for_each(|stream| use_exactly(&first, stream));
        drop(first);
        drop(blocks);
        let latest = [user, other].map(|stream| stream.order().position());
        let latest: Frontier = latest.into_iter().collect();
        let shard = allocator.inner.shards.get(home.order().slot()).unwrap();
        let (found, bytes) = shard.with(|state| state.oldest_watched(1, &latest));
        assert_eq!(bytes, BYTES);
        found
    }

    fn rig() -> (Context, Machine) {
        let machine = Machine::builder().schedule(Schedule::Lazy).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        (driver.device(0).unwrap().primary_context().unwrap(), machine)
    }

    #[test]
    fn no_more_blocks_of_one_watch_are_looked_at_than_is_said() {
        let (context, _machine) = rig();
        let [home, user, other] = [(); 3].map(|()| stream(&context));
        let found = oldest(&context, Policy::Default, [&home, &user, &other]);
        assert_eq!(found.len(), 1, "the one that was freed first is behind those looked at");
        context.synchronize().unwrap();
    }

    /// Was: a block that waits for two streams was looked at or not as their slots were, and so
    /// others were waited for.
    #[test]
    fn r9_what_is_worth_waiting_for_does_not_depend_on_which_slots_the_streams_have() {
        let (context, _machine) = rig();
        let [home, low, high] = [(); 3].map(|()| stream(&context));
        for users in [[&low, &high], [&high, &low]] {
            let [user, other] = users;
            let found = oldest(&context, Policy::Deterministic, [&home, user, other]);
            assert_eq!(found.len(), 2, "what was freed first waits for both");
            context.synchronize().unwrap();
        }
    }
}
