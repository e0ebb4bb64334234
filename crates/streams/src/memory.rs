//! Owners of memory: plain device memory, addresses and physical memory apart, pinned host memory.
//!
//! Freeing and unmapping are safe in Rust's sense: they touch no memory of the program, and each
//! thing is given back once. That no queued work touches it any more is the proof of whoever gives
//! it back, an allocator in general: where it is wrong, that work fails on the device, and the
//! context with it. No proof rests on a free that waits (L5).

use std::collections::BTreeMap;

use crate::context::Context;
use crate::driver::{DriverHostMemory, DriverMemory, DriverPhysical, DriverRange, granularity};
use crate::error::Error;
use crate::submission::Submission;
use crate::sync::{Mutex, lock};

/// Checks that a part lies inside a whole.
pub(crate) fn check_part(offset: u64, bytes: u64, length: u64) -> Result<(), Error> {
    match offset.checked_add(bytes) {
        Some(end) if end <= length => Ok(()),
        Some(_) | None => Err(Error::OutOfRange { offset, bytes, length }),
    }
}

/// Device memory of `cuMemAlloc`. Dropped, it is freed; the driver may wait for running work.
/// `Send`, `Sync`.
#[derive(Debug)]
pub struct DeviceMemory {
    raw: DriverMemory,
}

impl DeviceMemory {
    /// New memory, aligned to 512 bytes, not cleared.
    ///
    /// # Errors
    /// There is no room, or `bytes` is zero; or the driver's answer.
    pub fn allocate(context: &Context, bytes: u64) -> Result<Self, Error> {
        Ok(Self { raw: DriverMemory::allocate(&context.core().raw, bytes)? })
    }

    /// Where it begins.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.raw.address()
    }

    /// How much it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.raw.bytes()
    }

    /// Gives the memory back. On a context that has failed this succeeds without a call (L4).
    ///
    /// The caller has proof that all work that touches the memory is complete.
    ///
    /// # Errors
    /// The driver's answer; the memory is then leaked.
    pub fn release(self) -> Result<(), Error> {
        self.raw.release()
    }
}

/// Physical device memory of `cuMemCreate`. It may be dropped while it is mapped: the mapping
/// keeps it. `Send`, `Sync`.
#[derive(Debug)]
pub struct PhysicalMemory {
    raw: DriverPhysical,
}

impl PhysicalMemory {
    /// Sizes are multiples of this.
    ///
    /// # Errors
    /// The driver has no such memory; or its answer.
    pub fn granularity(context: &Context) -> Result<u64, Error> {
        granularity(&context.core().raw)
    }

    /// New memory on the context's device, not cleared.
    ///
    /// # Errors
    /// There is no room, or `bytes` is not a multiple of the granularity; or the driver's answer.
    pub fn create(context: &Context, bytes: u64) -> Result<Self, Error> {
        Ok(Self { raw: DriverPhysical::create(&context.core().raw, bytes)? })
    }

    /// How much it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.raw.bytes()
    }

    /// Gives the handle back; the memory itself goes when it is mapped nowhere.
    ///
    /// # Errors
    /// The driver's answer; the memory is then leaked.
    pub fn release(self) -> Result<(), Error> {
        self.raw.release()
    }
}

/// A range of device addresses of `cuMemAddressReserve`, and what is mapped there. Dropped, it is
/// unmapped and given back. `Send`, `Sync`.
///
/// ```
/// # fn main() -> Result<(), streams::Error> {
/// # let machine = cuda_sim::Machine::builder().build();
/// # let context = streams::Driver::from_table(machine.table())?.device(0)?.primary_context()?;
/// use streams::memory::{AddressRange, PhysicalMemory};
///
/// let page = PhysicalMemory::granularity(&context)?;
/// let range = AddressRange::reserve(&context, 8 * page, 0)?;
/// range.map(0, &PhysicalMemory::create(&context, page)?)?;
/// range.set_access(0, page)?;
/// assert_eq!(range.mapped_bytes(), page);
/// range.unmap(0, page)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AddressRange {
    /// Taken out only by `release`.
    raw: Option<DriverRange>,
    /// The bytes of each mapping, by where it begins.
    mappings: Mutex<BTreeMap<u64, u64>>,
}

impl AddressRange {
    /// Reserves addresses; zero for `alignment` leaves it to the driver.
    ///
    /// # Errors
    /// There is no room among the addresses; or the driver's answer.
    pub fn reserve(context: &Context, bytes: u64, alignment: u64) -> Result<Self, Error> {
        let raw = DriverRange::reserve(&context.core().raw, bytes, alignment)?;
        Ok(Self { raw: Some(raw), mappings: Mutex::default() })
    }

    /// Where it begins.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.driver().start()
    }

    /// How long it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.driver().bytes()
    }

    /// How many bytes are mapped.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        lock(&self.mappings).values().sum()
    }

    /// Maps all of `physical` at `offset`. Access is set apart, by [`AddressRange::set_access`].
    ///
    /// # Errors
    /// It does not fit; or the driver's answer, which refuses overlap.
    pub fn map(&self, offset: u64, physical: &PhysicalMemory) -> Result<(), Error> {
        let bytes = physical.bytes();
        check_part(offset, bytes, self.bytes())?;
        self.driver().map(offset, &physical.raw)?;
        lock(&self.mappings).insert(offset, bytes);
        Ok(())
    }

    /// Lets the context's own device read and write one or more whole mappings side by side.
    ///
    /// # Errors
    /// The part is not exactly that; or the driver's answer.
    pub fn set_access(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        if !covers_whole(&lock(&self.mappings), offset, bytes) {
            return Err(Error::NotMapped { offset, bytes });
        }
        self.driver().set_access(offset, bytes)
    }

    /// Unmaps one or more whole mappings side by side. On a context that has failed this succeeds
    /// without a call (L4).
    ///
    /// The caller has proof that all work that touches the part is complete.
    ///
    /// # Errors
    /// The part is not exactly that; or the driver's answer, and then the mappings are taken to be
    /// there still.
    pub fn unmap(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        let taken: BTreeMap<u64, u64> = {
            let mut mappings = lock(&self.mappings);
            if !covers_whole(&mappings, offset, bytes) {
                return Err(Error::NotMapped { offset, bytes });
            }
            mappings.extract_if(offset..offset + bytes, |_, _| true).collect()
        };
        self.driver().unmap(offset, bytes).inspect_err(|_| lock(&self.mappings).extend(taken))
    }

    /// Unmaps what is mapped and gives the addresses back.
    ///
    /// The caller has proof that all work that touches the range is complete.
    ///
    /// # Errors
    /// The driver's answer; what is left is leaked.
    pub fn release(mut self) -> Result<(), Error> {
        let mappings = std::mem::take(&mut *lock(&self.mappings));
        for (offset, bytes) in mappings {
            self.driver().unmap(offset, bytes)?;
        }
        // Nothing is mapped now, so the destructor has only the addresses to give back.
        let raw = self.raw.take().expect("the range leaves only once");
        raw.release()
    }

    fn driver(&self) -> &DriverRange {
        self.raw.as_ref().expect("the range leaves only when it is released")
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        if let Some(raw) = &self.raw {
            for (offset, bytes) in std::mem::take(&mut *lock(&self.mappings)) {
                raw.discard(offset, bytes);
            }
        }
    }
}

/// Whether the part is one or more whole mappings side by side.
fn covers_whole(mappings: &BTreeMap<u64, u64>, offset: u64, bytes: u64) -> bool {
    let Some(end) = offset.checked_add(bytes) else { return false };
    let mut reached = offset;
    for (&start, &length) in mappings.range(offset..end) {
        if start != reached {
            return false;
        }
        reached += length;
    }
    offset < end && reached == end
}

/// Pinned host memory of `cuMemHostAlloc`, zeroed, for copies that run beside the host.
///
/// It knows the copies that are under way: reading waits for those that write it, writing waits
/// for all, and so does dropping, which therefore **may block**. `Send`, `Sync`.
///
/// ```
/// # fn main() -> Result<(), streams::Error> {
/// # let machine = cuda_sim::Machine::builder().build();
/// # let context = streams::Driver::from_table(machine.table())?.device(0)?.primary_context()?;
/// use streams::memory::{DeviceMemory, PinnedMemory};
/// use streams::{RawSpan, StreamOptions};
///
/// let stream = context.create_stream(StreamOptions::default())?;
/// let memory = DeviceMemory::allocate(&context, 64)?;
/// // SAFETY: the memory outlives what is queued here.
/// let span = unsafe { RawSpan::from_raw(memory.address(), 64) };
/// let mut pinned = PinnedMemory::allocate(&context, 64)?;
/// pinned.as_mut_slice()?.fill(7);
/// stream.copy_from_pinned(&span, 0, &pinned, 0..32)?;
/// stream.copy_to_pinned(&mut pinned, 32..64, &span, 0)?; // the host runs on
/// assert_eq!(pinned.as_slice()?, [7; 64]); // and waits here
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PinnedMemory {
    raw: Option<DriverHostMemory>,
    readers: Mutex<Vec<Submission>>,
    writers: Mutex<Vec<Submission>>,
}

impl PinnedMemory {
    /// New memory, zeroed.
    ///
    /// # Errors
    /// There is no room; or the driver's answer.
    pub fn allocate(context: &Context, bytes: usize) -> Result<Self, Error> {
        let raw = DriverHostMemory::allocate(&context.core().raw, bytes)?;
        Ok(Self { raw: Some(raw), readers: Mutex::default(), writers: Mutex::default() })
    }

    /// How much it is.
    #[must_use]
    pub fn len(&self) -> usize {
        self.driver().len()
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, after the copies that write them are done.
    ///
    /// # Errors
    /// Such a copy failed.
    pub fn as_slice(&self) -> Result<&[u8], Error> {
        wait_all(&self.writers)?;
        Ok(self.driver().as_slice())
    }

    /// The bytes, after every copy that uses them is done.
    ///
    /// # Errors
    /// Such a copy failed.
    pub fn as_mut_slice(&mut self) -> Result<&mut [u8], Error> {
        wait_all(&self.readers)?;
        wait_all(&self.writers)?;
        Ok(self.raw.as_mut().expect("the memory leaves only when it is dropped").as_mut_slice())
    }

    pub(crate) fn driver(&self) -> &DriverHostMemory {
        self.raw.as_ref().expect("the memory leaves only when it is dropped")
    }

    pub(crate) fn read_by(&self, submission: &Submission) {
        keep_last(&self.readers, submission);
    }

    pub(crate) fn written_by(&mut self, submission: &Submission) {
        keep_last(&self.writers, submission);
    }
}

/// One entry a stream is enough: the last one covers the earlier ones, whatever the order in which
/// threads come here.
fn keep_last(uses: &Mutex<Vec<Submission>>, submission: &Submission) {
    let mut uses = lock(uses);
    let same = |earlier: &&mut Submission| earlier.order().id() == submission.order().id();
    match uses.iter_mut().find(same) {
        Some(last) if last.point().mark < submission.point().mark => *last = submission.clone(),
        Some(_) => {}
        None => uses.push(submission.clone()),
    }
}

fn wait_all(uses: &Mutex<Vec<Submission>>) -> Result<(), Error> {
    // The entries stay until every wait has succeeded: one that failed may still be under way.
    let waited: Vec<Submission> = lock(uses).clone();
    waited.iter().try_for_each(Submission::wait)?;
    lock(uses).retain(|left| !left.order().is_complete(left.point()));
    Ok(())
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        let uses = [&self.readers, &self.writers];
        // Where waiting is forbidden, memory that may still be in use is never given back.
        let is_over = if raw.is_blocking_forbidden() {
            let is_complete = |used: &Submission| used.order().is_complete(used.point());
            uses.into_iter().all(|uses| lock(uses).iter().all(is_complete))
        } else {
            uses.into_iter().all(|uses| wait_all(uses).is_ok())
        };
        if !is_over {
            raw.leak();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use super::{keep_last, lock};
    use crate::sync::Mutex;
    use crate::{Driver, StreamOptions};

    /// Was: the use that was reported last was kept, so that of two threads that copy from one
    /// piece of memory the slower one could take the other's later use away, and the host could
    /// write under it.
    #[test]
    fn of_two_uses_on_a_stream_the_later_one_is_waited_for_whoever_reports_first() {
        let machine = cuda_sim::Machine::builder().build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = context.create_stream(StreamOptions::default()).unwrap();
        let [early, late] = [(); 2].map(|()| stream.launch_host_function(|| ()).unwrap());
        for reported in [[&early, &late], [&late, &early]] {
            let uses = Mutex::default();
            reported.into_iter().for_each(|submission| keep_last(&uses, submission));
            let kept: Vec<_> = lock(&uses).iter().map(|submission| submission.point()).collect();
            assert_eq!(kept, [late.point()]);
        }
        stream.synchronize().unwrap();
    }
}
