//! Memory: who may use it, and for how long.

/// A buffer is not used after it was freed.
///
/// ```compile_fail,E0382
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     buffer.free()?;
///     buffer.to_vec(stream)?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     buffer.to_vec(stream)?;
///     buffer.free()?;
///     Ok(())
/// }
/// ```
pub(crate) struct ABufferIsNotUsedAfterItWasFreed;

/// A buffer is not used after it was given to another thread.
///
/// ```compile_fail,E0382
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let thread = std::thread::spawn(move || drop(buffer));
///     buffer.to_vec(stream)?;
///     drop(thread);
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     buffer.to_vec(stream)?;
///     let thread = std::thread::spawn(move || drop(buffer));
///     drop(thread);
///     Ok(())
/// }
/// ```
pub(crate) struct ABufferIsNotUsedAfterItWasGivenToAnotherThread;

/// A buffer is not freed while a view of it is used.
///
/// ```compile_fail,E0505
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let view = buffer.view(1..3)?;
///     drop(buffer);
///     view.to_vec(stream)?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let view = buffer.view(1..3)?;
///     view.to_vec(stream)?;
///     drop(buffer);
///     Ok(())
/// }
/// ```
pub(crate) struct ABufferIsNotFreedWhileAViewOfItIsUsed;

/// A view does not outlive its buffer.
///
/// ```compile_fail,E0515
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program<'a>(buffer: DeviceBuffer<u32>, _: &'a ()) -> Result<DeviceView<'a, u32>, Error> {
///     buffer.view(1..3)
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &DeviceBuffer<u32>) -> Result<DeviceView<'_, u32>, Error> {
///     buffer.view(1..3)
/// }
/// ```
pub(crate) struct AViewDoesNotOutliveItsBuffer;

/// No two views that may be written are of one buffer.
///
/// ```compile_fail,E0499
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &mut DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let mut low = buffer.view_mut(..2)?;
///     let mut high = buffer.view_mut(1..)?;
///     low.fill(stream, 1)?;
///     high.fill(stream, 2)?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &mut DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let (mut low, mut high) = buffer.split_at_mut(2)?;
///     low.fill(stream, 1)?;
///     high.fill(stream, 2)?;
///     Ok(())
/// }
/// ```
pub(crate) struct NoTwoViewsThatMayBeWrittenAreOfOneBuffer;

/// A buffer is not read as a whole while a part of it may be written.
///
/// ```compile_fail,E0502
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &mut DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let mut low = buffer.view_mut(..2)?;
///     buffer.to_vec(stream)?;
///     low.fill(stream, 1)?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &mut DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let mut low = buffer.view_mut(..2)?;
///     low.fill(stream, 1)?;
///     buffer.to_vec(stream)?;
///     Ok(())
/// }
/// ```
pub(crate) struct ABufferIsNotReadAsAWholeWhileAPartOfItMayBeWritten;

/// A part that may be written is used once at a time.
///
/// ```compile_fail,E0382
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(view: DeviceViewMut<'_, u32>, stream: &Stream) -> Result<(), Error> {
///     let (mut low, _) = view.split_at_mut(2)?;
///     view.split_at_mut(1)?;
///     low.fill(stream, 1)?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(view: DeviceViewMut<'_, u32>, stream: &Stream) -> Result<(), Error> {
///     let mut view = view;
///     let (mut low, _) = view.reborrow().split_at_mut(2)?;
///     low.fill(stream, 1)?;
///     view.split_at_mut(1)?;
///     Ok(())
/// }
/// ```
pub(crate) struct APartThatMayBeWrittenIsUsedOnceAtATime;

/// A buffer is not freed while it is lent.
///
/// ```compile_fail,E0505
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let lent = buffer.lend(stream)?;
///     drop(buffer);
///     drop(lent);
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let lent = buffer.lend(stream)?;
///     drop(lent);
///     drop(buffer);
///     Ok(())
/// }
/// ```
pub(crate) struct ABufferIsNotFreedWhileItIsLent;

/// What is lent to be written is not read meanwhile.
///
/// ```compile_fail,E0502
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &mut DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let lent = buffer.lend_mut(stream)?;
///     buffer.to_vec(stream)?;
///     drop(lent);
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &mut DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let lent = buffer.lend_mut(stream)?;
///     drop(lent);
///     buffer.to_vec(stream)?;
///     Ok(())
/// }
/// ```
pub(crate) struct WhatIsLentToBeWrittenIsNotReadMeanwhile;

/// A buffer does not move to another stream under a view.
///
/// ```compile_fail,E0502
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &mut DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     let view = buffer.view(1..3)?;
///     buffer.move_to(stream)?;
///     view.to_vec(stream)?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &mut DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     buffer.move_to(stream)?;
///     let view = buffer.view(1..3)?;
///     view.to_vec(stream)?;
///     Ok(())
/// }
/// ```
pub(crate) struct ABufferDoesNotMoveToAnotherStreamUnderAView;

/// Who only reads a buffer does not move it.
///
/// ```compile_fail,E0596
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     buffer.move_to(stream)
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &mut DeviceBuffer<u32>, stream: &Stream) -> Result<(), Error> {
///     buffer.move_to(stream)
/// }
/// ```
pub(crate) struct WhoOnlyReadsABufferDoesNotMoveIt;

/// Making memory of a number is a promise.
///
/// ```compile_fail,E0133
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(address: u64, stream: &Stream) -> Result<(), Error> {
///     let span = RawSpan::from_raw(address, 64);
///     stream.fill_bytes(&span, 0, 64, 1)?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(address: u64, stream: &Stream) -> Result<(), Error> {
///     let span = unsafe { RawSpan::from_raw(address, 64) };
///     stream.fill_bytes(&span, 0, 64, 1)?;
///     Ok(())
/// }
/// ```
pub(crate) struct MakingMemoryOfANumberIsAPromise;

/// Two numbers are no memory.
///
/// ```compile_fail,E0277
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(block: &Block, stream: &Stream) -> Result<(), Error> {
///     let memory = DeviceSpan { address: block.address(), bytes: block.size() };
///     stream.fill_bytes(&memory, 0, 64, 1)?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(block: &Block, stream: &Stream) -> Result<(), Error> {
///     let memory = block;
///     stream.fill_bytes(memory, 0, 64, 1)?;
///     Ok(())
/// }
/// ```
pub(crate) struct TwoNumbersAreNoMemory;

/// A part of a block does not outlive it.
///
/// ```compile_fail,E0505
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(block: Block, stream: &Stream) -> Result<(), Error> {
///     let part = block.whole().part(0, 64)?;
///     drop(block);
///     stream.fill_bytes(&part, 0, 64, 1)?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(block: Block, stream: &Stream) -> Result<(), Error> {
///     let part = block.whole().part(0, 64)?;
///     stream.fill_bytes(&part, 0, 64, 1)?;
///     drop(block);
///     Ok(())
/// }
/// ```
pub(crate) struct APartOfABlockDoesNotOutliveIt;

/// Pinned memory is not read while a copy into it may be queued.
///
/// ```compile_fail,E0502
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     buffer: &DeviceBuffer<u32>,
///     pinned: &mut PinnedBuffer<u32>,
///     stream: &Stream,
/// ) -> Result<u32, Error> {
///     let values = pinned.as_slice()?;
///     buffer.copy_to_pinned(stream, pinned)?;
///     Ok(values[0])
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     buffer: &DeviceBuffer<u32>,
///     pinned: &mut PinnedBuffer<u32>,
///     stream: &Stream,
/// ) -> Result<u32, Error> {
///     buffer.copy_to_pinned(stream, pinned)?;
///     let values = pinned.as_slice()?;
///     Ok(values[0])
/// }
/// ```
pub(crate) struct PinnedMemoryIsNotReadWhileACopyIntoItMayBeQueued;

/// Pinned memory is not written while a copy from it may be queued.
///
/// ```compile_fail,E0502
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     buffer: &mut DeviceBuffer<u32>,
///     pinned: &mut PinnedBuffer<u32>,
///     stream: &Stream,
/// ) -> Result<(), Error> {
///     let values = pinned.as_mut_slice()?;
///     buffer.copy_from_pinned(stream, pinned)?;
///     values[0] = 1;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     buffer: &mut DeviceBuffer<u32>,
///     pinned: &mut PinnedBuffer<u32>,
///     stream: &Stream,
/// ) -> Result<(), Error> {
///     let values = pinned.as_mut_slice()?;
///     values[0] = 1;
///     buffer.copy_from_pinned(stream, pinned)?;
///     Ok(())
/// }
/// ```
pub(crate) struct PinnedMemoryIsNotWrittenWhileACopyFromItMayBeQueued;

/// Pinned memory is not freed while it is read.
///
/// ```compile_fail,E0505
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(pinned: PinnedBuffer<u32>) -> Result<u32, Error> {
///     let values = pinned.as_slice()?;
///     drop(pinned);
///     Ok(values[0])
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(pinned: PinnedBuffer<u32>) -> Result<u32, Error> {
///     let first = pinned.as_slice()?[0];
///     drop(pinned);
///     Ok(first)
/// }
/// ```
pub(crate) struct PinnedMemoryIsNotFreedWhileItIsRead;

/// A buffer holds plain data only.
///
/// ```compile_fail,E0599
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(runtime: &Runtime, stream: &Stream) -> Result<(), Error> {
///     DeviceBuffer::<Box<u32>>::new(runtime, stream, 1)?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(runtime: &Runtime, stream: &Stream) -> Result<(), Error> {
///     DeviceBuffer::<u32>::new(runtime, stream, 1)?;
///     Ok(())
/// }
/// ```
pub(crate) struct ABufferHoldsPlainDataOnly;

/// Bytes are not taken for a type that has other bytes.
///
/// ```compile_fail,E0277
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &DeviceBuffer<u32>) -> Result<(), Error> {
///     buffer.as_view().cast::<bool>()?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(buffer: &DeviceBuffer<u32>) -> Result<(), Error> {
///     buffer.as_view().cast::<u8>()?;
///     Ok(())
/// }
/// ```
pub(crate) struct BytesAreNotTakenForATypeThatHasOtherBytes;
