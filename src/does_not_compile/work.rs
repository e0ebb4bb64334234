//! Work: what is promised, and on which thread.

/// A pointer that is written takes no `&buffer`.
///
/// ```compile_fail,E0277
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     kernel: &Kernel<(Writes<u32>,)>,
///     buffer: &mut DeviceBuffer<u32>,
///     stream: &Stream,
/// ) {
///     drop(kernel.launch(stream, 1, 1, 0, (&*buffer,)));
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     kernel: &Kernel<(Writes<u32>,)>,
///     buffer: &mut DeviceBuffer<u32>,
///     stream: &Stream,
/// ) {
///     drop(kernel.launch(stream, 1, 1, 0, (&mut *buffer,)));
/// }
/// ```
pub(crate) struct APointerThatIsWrittenTakesNoSharedBuffer;

/// A pointer that is written takes no view that is only read.
///
/// ```compile_fail,E0277
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     kernel: &Kernel<(Writes<u32>,)>,
///     buffer: &mut DeviceBuffer<u32>,
///     stream: &Stream,
/// ) {
///     let mut view = buffer.as_view();
///     drop(kernel.launch(stream, 1, 1, 0, (&mut view,)));
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     kernel: &Kernel<(Writes<u32>,)>,
///     buffer: &mut DeviceBuffer<u32>,
///     stream: &Stream,
/// ) {
///     let mut view = buffer.as_view_mut();
///     drop(kernel.launch(stream, 1, 1, 0, (&mut view,)));
/// }
/// ```
pub(crate) struct APointerThatIsWrittenTakesNoViewThatIsOnlyRead;

/// A pointer takes a buffer of its own type.
///
/// ```compile_fail,E0277
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(kernel: &Kernel<(Reads<f32>,)>, buffer: &DeviceBuffer<u32>, stream: &Stream) {
///     drop(kernel.launch(stream, 1, 1, 0, (buffer,)));
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(kernel: &Kernel<(Reads<f32>,)>, buffer: &DeviceBuffer<f32>, stream: &Stream) {
///     drop(kernel.launch(stream, 1, 1, 0, (buffer,)));
/// }
/// ```
pub(crate) struct APointerTakesABufferOfItsOwnType;

/// One launch does not read and write one buffer.
///
/// ```compile_fail,E0502
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     kernel: &Kernel<(Writes<u32>, Reads<u32>)>,
///     buffer: &mut DeviceBuffer<u32>,
///     other: &DeviceBuffer<u32>,
///     stream: &Stream,
/// ) {
///     let _ = other;
///     drop(kernel.launch(stream, 1, 1, 0, (&mut *buffer, &*buffer)));
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     kernel: &Kernel<(Writes<u32>, Reads<u32>)>,
///     buffer: &mut DeviceBuffer<u32>,
///     other: &DeviceBuffer<u32>,
///     stream: &Stream,
/// ) {
///     let _ = other;
///     drop(kernel.launch(stream, 1, 1, 0, (&mut *buffer, other)));
/// }
/// ```
pub(crate) struct OneLaunchDoesNotReadAndWriteOneBuffer;

/// A launch has an argument for each parameter.
///
/// ```compile_fail,E0277
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     kernel: &Kernel<(Reads<f32>, u64)>,
///     buffer: &DeviceBuffer<f32>,
///     stream: &Stream,
/// ) {
///     drop(kernel.launch(stream, 1, 1, 0, (buffer,)));
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     kernel: &Kernel<(Reads<f32>, u64)>,
///     buffer: &DeviceBuffer<f32>,
///     stream: &Stream,
/// ) {
///     drop(kernel.launch(stream, 1, 1, 0, (buffer, 1_u64)));
/// }
/// ```
pub(crate) struct ALaunchHasAnArgumentForEachParameter;

/// A number is of the parameter's type.
///
/// ```compile_fail,E0277
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     kernel: &Kernel<(Reads<f32>, u64)>,
///     buffer: &DeviceBuffer<f32>,
///     stream: &Stream,
/// ) {
///     drop(kernel.launch(stream, 1, 1, 0, (buffer, 1_u32)));
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(
///     kernel: &Kernel<(Reads<f32>, u64)>,
///     buffer: &DeviceBuffer<f32>,
///     stream: &Stream,
/// ) {
///     drop(kernel.launch(stream, 1, 1, 0, (buffer, 1_u64)));
/// }
/// ```
pub(crate) struct ANumberIsOfTheParametersType;

/// Saying what a kernel touches is a promise.
///
/// ```compile_fail,E0133
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(module: &Module) -> Result<(), Error> {
///     let kernel: Kernel<(Reads<f32>,)> = module.declare("sum")?;
///     drop(kernel);
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(module: &Module) -> Result<(), Error> {
///     let kernel: Kernel<(Reads<f32>,)> = unsafe { module.declare("sum") }?;
///     drop(kernel);
///     Ok(())
/// }
/// ```
pub(crate) struct SayingWhatAKernelTouchesIsAPromise;

/// To borrow somebody's stream is a promise.
///
/// ```compile_fail,E0133
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(context: &Context, raw: cuda_sys::CUstream) -> Result<(), Error> {
///     let stream = context.borrow_stream(raw)?;
///     drop(stream);
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(context: &Context, raw: cuda_sys::CUstream) -> Result<(), Error> {
///     let stream = unsafe { context.borrow_stream(raw) }?;
///     drop(stream);
///     Ok(())
/// }
/// ```
pub(crate) struct ToBorrowSomebodysStreamIsAPromise;

/// A per-thread stream stays on its thread.
///
/// ```compile_fail,E0277
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(context: &Context) -> Result<(), Error> {
///     let stream = context.per_thread_stream()?;
///     drop(std::thread::spawn(move || drop(stream)));
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(context: &Context) -> Result<(), Error> {
///     let stream = context.legacy_stream()?;
///     drop(std::thread::spawn(move || drop(stream)));
///     Ok(())
/// }
/// ```
pub(crate) struct APerthreadStreamStaysOnItsThread;

/// A capture ends on the thread that began it.
///
/// ```compile_fail,E0277
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(stream: &Stream) -> Result<(), Error> {
///     let capture = stream.begin_capture(CaptureMode::ThreadLocal)?;
///     drop(std::thread::spawn(move || capture.end()));
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// fn program(stream: &Stream) -> Result<(), Error> {
///     let graph = stream.begin_capture(CaptureMode::ThreadLocal)?.end()?;
///     drop(std::thread::spawn(move || graph.instantiate()));
///     Ok(())
/// }
/// ```
pub(crate) struct ACaptureEndsOnTheThreadThatBeganIt;

/// A host function borrows nothing of its caller.
///
/// ```compile_fail,E0597
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// # use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
/// fn program(stream: &Stream) -> Result<(), Error> {
///     let seen = AtomicU32::new(0);
///     let borrowed = &seen;
///     stream.launch_host_function(|| borrowed.store(1, Ordering::SeqCst))?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use wellspring::{launch::{Reads, Writes}, streams::{DeviceSpan, RawSpan}, *};
/// # use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
/// fn program(stream: &Stream) -> Result<(), Error> {
///     let seen = Arc::new(AtomicU32::new(0));
///     let kept = seen.clone();
///     stream.launch_host_function(move || kept.store(1, Ordering::SeqCst))?;
///     Ok(())
/// }
/// ```
pub(crate) struct AHostFunctionBorrowsNothingOfItsCaller;
