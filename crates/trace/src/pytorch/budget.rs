//! Counts memory against a limit, so that no file can ask for more than its reader allows.

use super::error::ReadError;
use super::window::to_u64;

/// Counts memory against a limit.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    limit: u64,
    /// Offset of the opcode being run, for messages.
    pub(super) offset: u64,
}

impl Budget {
    pub(super) const fn new(bytes_max: u64) -> Self {
        Self { left: bytes_max, limit: bytes_max, offset: 0 }
    }

    pub(super) const fn exceeded(&self) -> ReadError {
        ReadError::TooMuchMemory { limit: self.limit, offset: self.offset }
    }

    pub(super) fn charge(&mut self, count: usize, item_bytes: usize) -> Result<(), ReadError> {
        let bytes = to_u64(count).saturating_mul(to_u64(item_bytes));
        self.left = self.left.checked_sub(bytes).ok_or(self.exceeded())?;
        Ok(())
    }

    /// Makes room for `more` items, growing in doublings.
    pub(super) fn reserve<T>(&mut self, items: &mut Vec<T>, more: usize) -> Result<(), ReadError> {
        let wanted = items.len().saturating_add(more);
        if wanted <= items.capacity() {
            return Ok(());
        }
        let capacity = wanted.max(items.capacity().saturating_mul(2));
        self.charge(capacity - items.capacity(), size_of::<T>())?;
        items.try_reserve_exact(capacity - items.len()).map_err(|_| self.exceeded())
    }

    /// Makes room for exactly `more` items.
    pub(super) fn reserve_exact<T>(
        &mut self,
        items: &mut Vec<T>,
        more: usize,
    ) -> Result<(), ReadError> {
        self.charge(more, size_of::<T>())?;
        items.try_reserve_exact(more).map_err(|_| self.exceeded())
    }

    #[inline]
    pub(super) fn push<T>(&mut self, items: &mut Vec<T>, item: T) -> Result<(), ReadError> {
        if items.len() == items.capacity() {
            self.reserve(items, 1)?;
        }
        items.push(item);
        Ok(())
    }

    /// The same for who gives up without a reason.
    #[inline(always)]
    pub(super) fn push_if_room<T>(&mut self, items: &mut Vec<T>, item: T) -> Option<()> {
        if items.len() == items.capacity() {
            self.has_grown(items).then_some(())?;
        }
        items.push(item);
        Some(())
    }

    #[cold]
    fn has_grown<T>(&mut self, items: &mut Vec<T>) -> bool {
        self.reserve(items, 1).is_ok()
    }

    /// Gives a vector's memory back.
    pub(super) fn release<T>(&mut self, items: Vec<T>) {
        let bytes = to_u64(items.capacity()).saturating_mul(to_u64(size_of::<T>()));
        self.left = self.left.saturating_add(bytes).min(self.limit);
    }
}
