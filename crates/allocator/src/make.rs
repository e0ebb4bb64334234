//! How an allocator, or a pool beside it, is put together.

use std::collections::BTreeMap;

use streams::Context;

use crate::allocator::Inner;
use crate::bursts::Bursts;
use crate::bytes::{Bytes, REQUEST_BYTES_MAX};
use crate::config::Config;
use crate::error::AllocError;
use crate::family::Family;
use crate::observe::Watch;
use crate::owners::Owners;
use crate::pace::Pace;
use crate::shard::ShardSetup;
use crate::source::{PlainSource, Source, VmmSource};
use crate::stats::SharedCounters;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, StaticU64, Weak};
use crate::table::ShardTable;
use crate::view::View;

/// Where the memory of a pool comes from.
#[derive(Debug)]
pub(crate) struct Means {
    pub(crate) context: Context,
    pub(crate) source: Arc<dyn Source>,
    /// What the device has, in bytes.
    pub(crate) total: u64,
    pub(crate) watch: Watch,
    pub(crate) family: Arc<Family>,
}

impl Inner {
    /// A pool that has nothing yet; `is_first` of the allocator's own.
    pub(crate) fn new(means: Means, config: Config, is_first: bool) -> Arc<Self> {
        Arc::new_cyclic(|allocator| Self::of(means, config, is_first, allocator.clone()))
    }

    fn of(means: Means, config: Config, is_first: bool, allocator: Weak<Self>) -> Self {
        let Means { context, source, total, watch, family } = means;
        let limit_max = total.min(REQUEST_BYTES_MAX);
        let limit = config.limit_bytes.map_or(limit_max, |limit| limit.min(limit_max));
        let bound = Config::pending_bound(Bytes(total)).0;
        let counters = Arc::new(SharedCounters::new());
        let view = View::of(&config, &context);
        let setup = ShardSetup {
            allocator,
            context: context.clone(),
            is_watched: watch.is_on(),
            shared: Arc::clone(&counters),
            view,
            sabotage: config.sabotage,
        };
        let made = Self {
            context,
            source,
            view,
            pending_max: config.pending_bytes_max.unwrap_or(bound),
            config,
            shards: ShardTable::new(),
            owners: Owners::default(),
            counters,
            bursts: Bursts::default(),
            pace: Pace::default(),
            family,
            is_first,
            identity: next_identity(),
            setup,
            quick_limit: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            watch,
            total,
            group_count: Mutex::new(0),
            settling: Mutex::new(()),
            orders: Mutex::new(BTreeMap::new()),
        };
        if !made.is_slow() {
            made.quick_limit.store(limit, Ordering::Relaxed);
        }
        made
    }

    /// Another pool of the same family.
    pub(crate) fn sibling(&self, config: Config) -> Arc<Self> {
        let means = Means {
            context: self.context.clone(),
            source: Arc::clone(&self.source),
            total: self.total,
            watch: self.watch.clone(),
            family: Arc::clone(&self.family),
        };
        Self::new(means, config, false)
    }

    /// Whether each request goes the slow way: somebody watches, or looks at what is in flight.
    pub(crate) fn is_slow(&self) -> bool {
        self.watch.is_on() || self.config.bounds_allocated()
    }

    /// No limit is above it.
    pub(crate) fn limit_max(&self) -> u64 {
        self.total.min(REQUEST_BYTES_MAX)
    }
}

/// The best way to memory that the device has.
pub(crate) fn best_source(context: &Context) -> Result<Arc<dyn Source>, AllocError> {
    Ok(match VmmSource::new(context)? {
        Some(vmm) => Arc::new(vmm),
        None => Arc::new(PlainSource::new(context)),
    })
}

fn next_identity() -> u64 {
    static NEXT: StaticU64 = StaticU64::new(1);
    // Kept below 2^31, so that it fits beside a slot in a raw token.
    NEXT.fetch_add(1, Ordering::Relaxed) & (u64::MAX >> 33)
}
