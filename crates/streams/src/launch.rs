//! Kernels: modules of PTX, declared signatures, launches.
//!
//! Declaring a kernel's signature is the `unsafe` step; launching is then safe. A launch has plain
//! stream order and no attribute that would let a kernel begin before its predecessor has ended:
//! none is offered (O11).

use std::fmt;
use std::marker::PhantomData;

use smallvec::SmallVec;

use crate::context::Context;
use crate::driver::{DriverFunction, DriverModule, ParameterValue, Shape};
use crate::error::Error;
use crate::observe::Operation;
use crate::stream::Stream;
use crate::submission::Submission;
use crate::sync::Arc;
use crate::uses::{Access, DeviceBytes, Use, WhenCaptured, submit_with};

/// A loaded module of PTX. Clones are the same module; it stays loaded while a kernel of it lives.
/// `Send`, `Sync`.
#[derive(Debug, Clone)]
pub struct Module {
    raw: Arc<DriverModule>,
    context: Context,
}

impl Module {
    /// Loads PTX into a context.
    ///
    /// # Errors
    /// The text holds a zero byte; or the driver's answer, which refuses PTX newer than itself.
    pub fn load(context: &Context, ptx: &str) -> Result<Self, Error> {
        let raw = Arc::new(DriverModule::load(&context.core().raw, ptx)?);
        Ok(Self { raw, context: context.clone() })
    }

    /// The kernel `name` with the parameters `S`, checked against what was compiled where the
    /// driver tells.
    pub(crate) fn kernel<S: Signature>(&self, name: &str) -> Result<Kernel<S>, Error> {
        let raw = self.raw.function(name)?;
        let declared = S::parameter_bytes();
        for index in 0..=declared.len() {
            let declared = declared.get(index).copied().unwrap_or(0);
            if let Some(actual) = raw.parameter_bytes(index)?
                && actual != declared
            {
                let kernel = name.to_owned();
                return Err(Error::WrongSignature { kernel, index, declared, actual });
            }
        }
        let inner = KernelInner { raw, context: self.context.clone(), name: name.to_owned() };
        Ok(Kernel { inner: Arc::new(inner), signature: PhantomData })
    }
}

/// A kernel that can be launched safely. Clones are the same kernel. `Send`, `Sync`.
///
/// ```
/// # fn main() -> Result<(), streams::Error> {
/// # let machine = cuda_sim::Machine::builder().build();
/// # let context = streams::Driver::from_table(machine.table())?.device(0)?.primary_context()?;
/// use cuda_sim::{KernelBody, KernelCall};
/// use streams::launch::Writes;
/// use streams::memory::DeviceMemory;
/// use streams::{Kernel, Module, RawSpan, StreamOptions};
///
/// const PTX: &str = "
///     .version 7.0
///     .target sm_70
///     .address_size 64
///     .visible .entry fill(.param .u64 out, .param .u64 count, .param .u32 value) { ret; }
/// ";
/// // On the simulated driver a kernel's body is a closure.
/// machine.register_kernel(
///     "fill",
///     KernelBody::new(|call: &mut KernelCall<'_>| {
///         let (out, count) = (call.arguments().pointer(0), call.arguments().u64(1));
///         call.fill_u32(out, count, call.arguments().u32(2));
///     }),
/// );
/// let module = Module::load(&context, PTX)?;
/// // SAFETY: the kernel writes `count` words from `out` on, and nothing else.
/// let fill: Kernel<(Writes<u32>, u64, u32)> = unsafe { module.declare("fill") }?;
///
/// let stream = context.create_stream(StreamOptions::default())?;
/// let memory = DeviceMemory::allocate(&context, 64)?;
/// // SAFETY: the memory outlives what is queued here.
/// let mut span = unsafe { RawSpan::from_raw(memory.address(), 64) };
/// fill.launch(&stream, 1, 16, 0, (&mut span, 16_u64, 7_u32))?;
/// let mut words = [0; 64];
/// stream.copy_to_host(&mut words, &span, 0)?;
/// assert_eq!(words[..4], 7_u32.to_ne_bytes());
/// # Ok(())
/// # }
/// ```
pub struct Kernel<S> {
    inner: Arc<KernelInner>,
    signature: PhantomData<fn(S)>,
}

#[derive(Debug)]
struct KernelInner {
    raw: DriverFunction,
    context: Context,
    name: String,
}

/// The size of a grid or a block in three dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dimensions(pub [u32; 3]);

impl From<u32> for Dimensions {
    fn from(x: u32) -> Self {
        Self([x, 1, 1])
    }
}

impl From<(u32, u32)> for Dimensions {
    fn from((x, y): (u32, u32)) -> Self {
        Self([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Dimensions {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self([x, y, z])
    }
}

fn shape(grid: Dimensions, block: Dimensions, shared_bytes: u32) -> Shape {
    Shape { grid: grid.0, block: block.0, shared_bytes }
}

impl<S: Signature> Kernel<S> {
    /// Queues a launch: `grid` blocks of `block` threads, each block with `shared_bytes` of
    /// dynamic shared memory. `arguments` is a tuple, one for each parameter: memory for the
    /// pointers (`&` to read, `&mut` to write), plain values for the rest.
    ///
    /// # Errors
    /// The stream is one of another context, or an owner refused the use; or the driver's answer.
    #[track_caller]
    pub fn launch<A: Arguments<S>>(
        &self,
        stream: &Stream,
        grid: impl Into<Dimensions>,
        block: impl Into<Dimensions>,
        shared_bytes: u32,
        arguments: A,
    ) -> Result<Submission, Error> {
        let shape = shape(grid.into(), block.into(), shared_bytes);
        self.queue(stream, shape, &arguments, WhenCaptured::Held)
    }

    /// The same, but refused on a stream that captures.
    #[track_caller]
    pub(crate) fn launch_eagerly<A: Arguments<S>>(
        &self,
        stream: &Stream,
        grid: impl Into<Dimensions>,
        block: impl Into<Dimensions>,
        shared_bytes: u32,
        arguments: A,
    ) -> Result<Submission, Error> {
        let shape = shape(grid.into(), block.into(), shared_bytes);
        self.queue(stream, shape, &arguments, WhenCaptured::Refused)
    }

    #[track_caller]
    fn queue<A: Arguments<S>>(
        &self,
        stream: &Stream,
        shape: Shape,
        arguments: &A,
        captured: WhenCaptured,
    ) -> Result<Submission, Error> {
        let (expected, found) = (self.inner.context.id(), stream.context().id());
        if expected != found {
            return Err(Error::OtherContext { expected, found });
        }
        let mut given = Given { values: SmallVec::new(), uses: SmallVec::new() };
        arguments.give(&mut given);
        let Given { mut values, uses } = given;
        let operation = Operation::Launch { kernel: &self.inner.name };
        submit_with(stream, operation, &uses, captured, |raw| {
            self.inner.raw.launch(raw, shape, &mut values)
        })
    }

    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }
}

impl<S> Clone for Kernel<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), signature: PhantomData }
    }
}

impl<S> fmt::Debug for Kernel<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

/// A parameter: a pointer to `T`s that the kernel only reads.
#[derive(Debug)]
pub struct Reads<T>(PhantomData<fn(T)>);

/// A parameter: a pointer to `T`s that the kernel only writes.
#[derive(Debug)]
pub struct Writes<T>(PhantomData<fn(T)>);

/// A parameter: a pointer to `T`s that the kernel reads and writes.
#[derive(Debug)]
pub struct ReadsWrites<T>(PhantomData<fn(T)>);

/// A type of kernel parameter: [`Reads`], [`Writes`], [`ReadsWrites`], or a number.
pub trait Parameter: sealed::Sealed {
    /// Its size as compiled.
    const BYTES: usize;
}

/// The parameters of a kernel: a tuple of [`Parameter`]s.
pub trait Signature: sealed::Sealed {
    /// The size of each parameter.
    fn parameter_bytes() -> Vec<usize>;
}

/// What can be given for a parameter `P`.
pub trait Argument<P> {
    #[doc(hidden)]
    fn give<'a>(&'a self, given: &mut Given<'a>);
}

/// What can be given for a whole signature: a tuple of [`Argument`]s.
pub trait Arguments<S> {
    #[doc(hidden)]
    fn give<'a>(&'a self, given: &mut Given<'a>);
}

/// Collects the values and the uses of one launch.
#[doc(hidden)]
pub struct Given<'a> {
    values: SmallVec<[ParameterValue; 8]>,
    uses: SmallVec<[Use<'a>; 4]>,
}

impl fmt::Debug for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("values", &self.values).finish_non_exhaustive()
    }
}

/// Memory that holds `T`s, so that it can be given for a pointer to `T` that is read.
pub trait DeviceSlice<T>: DeviceBytes {}

/// Memory that holds `T`s and may be written, so that it can be given for any pointer to `T`.
pub trait DeviceSliceMut<T>: DeviceSlice<T> {}

mod sealed {
    /// Only this crate says what can be a parameter.
    pub trait Sealed {}
}

macro_rules! pointers {
    ($($pointer:ident $access:ident $slice:ident $reference:ty),*) => {$(
        impl<T> sealed::Sealed for $pointer<T> {}

        impl<T> Parameter for $pointer<T> {
            const BYTES: usize = 8;
        }

        impl<T, B: $slice<T>> Argument<$pointer<T>> for $reference {
            fn give<'a>(&'a self, given: &mut Given<'a>) {
                let memory = (**self).whole();
                given.values.push(ParameterValue::new(memory.span().address.to_ne_bytes()));
                given.uses.push((memory, Access::$access));
            }
        }
    )*};
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl sealed::Sealed for $number {}

        impl Parameter for $number {
            const BYTES: usize = size_of::<$number>();
        }

        impl Argument<$number> for $number {
            fn give<'a>(&'a self, given: &mut Given<'a>) {
                given.values.push(ParameterValue::new(self.to_ne_bytes()));
            }
        }
    )*};
}

macro_rules! signatures {
    ($(($($parameter:ident $argument:ident),*))*) => {$(
        impl<$($parameter: Parameter),*> sealed::Sealed for ($($parameter,)*) {}

        impl<$($parameter: Parameter),*> Signature for ($($parameter,)*) {
            fn parameter_bytes() -> Vec<usize> {
                vec![$($parameter::BYTES),*]
            }
        }

        impl<$($parameter,)* $($argument: Argument<$parameter>),*> Arguments<($($parameter,)*)>
            for ($($argument,)*)
        {
            #[expect(non_snake_case, reason = "each variable is named after its type")]
            fn give<'a>(&'a self, given: &mut Given<'a>) {
                let ($($argument,)*) = self;
                $($argument.give(given);)*
            }
        }
    )*};
}

pointers! {
    Reads Read DeviceSlice &B,
    Writes Write DeviceSliceMut &mut B,
    ReadsWrites ReadWrite DeviceSliceMut &mut B
}
numbers! { u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }
signatures! {
    (P0 A0)
    (P0 A0, P1 A1)
    (P0 A0, P1 A1, P2 A2)
    (P0 A0, P1 A1, P2 A2, P3 A3)
    (P0 A0, P1 A1, P2 A2, P3 A3, P4 A4)
    (P0 A0, P1 A1, P2 A2, P3 A3, P4 A4, P5 A5)
    (P0 A0, P1 A1, P2 A2, P3 A3, P4 A4, P5 A5, P6 A6)
    (P0 A0, P1 A1, P2 A2, P3 A3, P4 A4, P5 A5, P6 A6, P7 A7)
    (P0 A0, P1 A1, P2 A2, P3 A3, P4 A4, P5 A5, P6 A6, P7 A7, P8 A8)
    (P0 A0, P1 A1, P2 A2, P3 A3, P4 A4, P5 A5, P6 A6, P7 A7, P8 A8, P9 A9)
}

impl sealed::Sealed for () {}

impl Signature for () {
    fn parameter_bytes() -> Vec<usize> {
        Vec::new()
    }
}

impl Arguments<()> for () {
    fn give<'a>(&'a self, _: &mut Given<'a>) {}
}
