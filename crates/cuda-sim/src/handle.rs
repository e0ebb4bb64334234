//! Raw handles: numbers that look like pointers, given out again at once or never.
//!
//! A handle names a slot. What a destroyed slot held is gone, so a stale handle is told from a
//! live one until its slot is given out again; with [`HandleReuse::Never`] it always is.

use cuda_sys::CUresult;

/// When a destroyed handle, or a freed address, is given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HandleReuse {
    /// At once, last in, first out: what the real driver does.
    #[default]
    LastInFirstOut,
    /// Never, so that every use of a stale handle is found.
    Never,
}

const STRIDE: usize = 0x100;

/// What a raw handle turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    Null,
    Stale,
    Foreign,
}

impl From<Unfit> for CUresult {
    fn from(_: Unfit) -> Self {
        Self::CUDA_ERROR_INVALID_HANDLE
    }
}

/// All handles of one kind.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    base: usize,
    slots: Vec<Option<T>>,
    free: Vec<usize>,
    reuse: HandleReuse,
}

impl<T> Handles<T> {
    /// `kind` sets the handles of different kinds apart.
    pub(crate) fn new(kind: usize, reuse: HandleReuse) -> Self {
        Self { base: 0x5a00_0000_0000 + (kind << 36), slots: Vec::new(), free: Vec::new(), reuse }
    }

    pub(crate) fn insert(&mut self, value: T) -> usize {
        let index = if let Some(index) = self.free.pop() {
            if let Some(slot) = self.slots.get_mut(index) {
                *slot = Some(value);
            }
            index
        } else {
            self.slots.push(Some(value));
            self.slots.len() - 1
        };
        self.base + (index + 1) * STRIDE
    }

    fn index(&self, handle: usize) -> Result<usize, Unfit> {
        if handle == 0 {
            return Err(Unfit::Null);
        }
        let offset = handle.checked_sub(self.base + STRIDE).ok_or(Unfit::Foreign)?;
        let index = offset / STRIDE;
        if !offset.is_multiple_of(STRIDE) || self.slots.len() <= index {
            return Err(Unfit::Foreign);
        }
        Ok(index)
    }

    pub(crate) fn get(&self, handle: usize) -> Result<&T, Unfit> {
        let index = self.index(handle)?;
        self.slots.get(index).and_then(Option::as_ref).ok_or(Unfit::Stale)
    }

    pub(crate) fn get_mut(&mut self, handle: usize) -> Result<&mut T, Unfit> {
        let index = self.index(handle)?;
        self.slots.get_mut(index).and_then(Option::as_mut).ok_or(Unfit::Stale)
    }

    pub(crate) fn remove(&mut self, handle: usize) -> Result<T, Unfit> {
        let index = self.index(handle)?;
        let value = self.slots.get_mut(index).and_then(Option::take).ok_or(Unfit::Stale)?;
        if self.reuse == HandleReuse::LastInFirstOut {
            self.free.push(index);
        }
        Ok(value)
    }

    /// The handles that are alive.
    pub(crate) fn live(&self) -> impl Iterator<Item = (usize, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            slot.as_ref().map(|value| (self.base + (index + 1) * STRIDE, value))
        })
    }
}
