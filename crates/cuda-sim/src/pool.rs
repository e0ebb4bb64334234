//! Stream-ordered pools, as far as a plain source of memory needs them.

/// A pool: what it may keep and what it has handed out.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    pub(crate) used: u64,
    pub(crate) used_high: u64,
    pub(crate) release_threshold: u64,
    /// The switches for reuse, as they were last set.
    pub(crate) reuse: [u32; 3],
    pub(crate) is_default: bool,
}

impl Pool {
    pub(crate) fn new(device: usize, is_default: bool) -> Self {
        Self { device, used: 0, used_high: 0, release_threshold: 0, reuse: [1; 3], is_default }
    }
}
