//! Words of pinned memory that the host writes while the device reads them.

use super::DriverHostMemory;
use crate::sync::HostWord;

impl DriverHostMemory {
    /// The word `index`, if the memory is that long. Memory is used either through this or
    /// through slices, never both.
    pub(crate) fn word(&self, index: usize) -> Option<&HostWord> {
        let offset = index.checked_mul(size_of::<u32>())?;
        if self.len() < offset.checked_add(size_of::<u32>())? {
            return None;
        }
        let place = self.start().wrapping_add(offset).cast::<u32>();
        // SAFETY: the word lies inside live memory, which the driver aligns to more than a word;
        // it was zeroed when made, and every access of the host to it is atomic.
        Some(unsafe { HostWord::from_ptr(place) })
    }
}
