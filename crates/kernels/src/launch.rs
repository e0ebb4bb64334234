//! The kernels declared and ready to launch, each over whole ranges of memory.
//!
//! Declaring what a kernel reads and writes is a promise that only its author can make, so it is
//! made here, once. Launching is then safe: every count is taken from the memory that is given,
//! so no argument can send a kernel beyond it.

#![allow(unsafe_code, reason = "the author of the kernels promises here what they touch")]

use streams::launch::{
    Arguments, DeviceSlice, DeviceSliceMut, Dimensions, Reads, ReadsWrites, Signature, Writes,
};
use streams::{Context, DeviceBytes, DevicePart, Error, Gates, Kernel, Module, Stream, Submission};

use crate::{PTX, entry};

const WORD_BYTES: u64 = 4;
const COUNTER_BYTES: u64 = 8;
const THREADS_A_BLOCK: u32 = 256;
/// Enough blocks to fill any device; a kernel walks what they leave.
const BLOCKS_MAX: u64 = 1_024;

/// The kernels of [`PTX`], loaded in one context. Clones are the same kernels. `Send`, `Sync`.
#[derive(Debug, Clone)]
pub struct Kernels {
    nop: Kernel<()>,
    spin: Kernel<(u64,)>,
    fill_u32: Kernel<(Writes<u32>, u64, u32)>,
    check_u32: Kernel<(Reads<u32>, u64, u32, ReadsWrites<u64>)>,
    stamp: Kernel<(Writes<u32>, u64, u64, u32)>,
    check_stamp: Kernel<CheckStamp>,
    scale_add: Kernel<(ReadsWrites<f32>, Reads<f32>, f32, u64)>,
    copy_u32: Kernel<(Writes<u32>, Reads<u32>, u64)>,
    gate: Kernel<(Reads<u32>,)>,
    produce: Kernel<(Writes<u32>, u64, u64, u32, u64)>,
    consume: Kernel<Consume>,
    context: Context,
}

/// Words, how many, how far apart, the expected value, the counter.
type CheckStamp = (Reads<u32>, u64, u64, u32, ReadsWrites<u64>);

/// The output and its words, the input, its words and how far apart they are stamped, the expected
/// value, the counter, how long.
type Consume = (Writes<u32>, u64, Reads<u32>, u64, u64, u32, ReadsWrites<u64>, u64);

/// Declares the kernel `name` of our own module.
fn declare<S: Signature>(module: &Module, name: &str) -> Result<Kernel<S>, Error> {
    // SAFETY: the types at the fields of `Kernels` are the parameters that `kernels/wellspring.cu`
    // gives each kernel, and what is `Reads` there is only read; every method of `Kernels` passes
    // counts that stay inside the memory it was given; the kernels use no programmatic launch.
    unsafe { module.declare(name) }
}

impl Kernels {
    /// Loads the module in `context` and declares its kernels.
    ///
    /// # Errors
    /// The driver is older than the module, or its answer.
    pub fn load(context: &Context) -> Result<Self, Error> {
        let module = Module::load(context, PTX)?;
        Ok(Self {
            nop: declare(&module, entry::NOP)?,
            spin: declare(&module, entry::SPIN)?,
            fill_u32: declare(&module, entry::FILL_U32)?,
            check_u32: declare(&module, entry::CHECK_U32)?,
            stamp: declare(&module, entry::STAMP)?,
            check_stamp: declare(&module, entry::CHECK_STAMP)?,
            scale_add: declare(&module, entry::SCALE_ADD)?,
            copy_u32: declare(&module, entry::COPY_U32)?,
            gate: declare(&module, entry::GATE)?,
            produce: declare(&module, entry::PRODUCE)?,
            consume: declare(&module, entry::CONSUME)?,
            context: context.clone(),
        })
    }

    /// So many gates, which hold a stream until the host opens them; a GPU gives up waiting
    /// after 20 seconds.
    ///
    /// # Errors
    /// There is no pinned memory; or the driver's answer.
    pub fn gates(&self, count: usize) -> Result<Gates, Error> {
        Gates::new(&self.context, self.gate.clone(), count)
    }

    /// Does nothing.
    ///
    /// # Errors
    /// As for any launch.
    #[track_caller]
    pub fn nop(&self, stream: &Stream) -> Result<Submission, Error> {
        self.nop.launch(stream, 1, 1, 0, ())
    }

    /// Keeps the stream busy for this long.
    ///
    /// # Errors
    /// As for any launch.
    #[track_caller]
    pub fn spin(&self, stream: &Stream, nanoseconds: u64) -> Result<Submission, Error> {
        self.spin.launch(stream, 1, 1, 0, (nanoseconds,))
    }

    /// Writes `value` to every whole word of `out`.
    ///
    /// # Errors
    /// As for any launch.
    #[track_caller]
    pub fn fill_u32(
        &self,
        stream: &Stream,
        out: &mut impl DeviceSliceMut<u32>,
        value: u32,
    ) -> Result<Submission, Error> {
        let mut out = Given::of(out);
        let words = out.words();
        launch(&self.fill_u32, stream, words, (&mut out, words, value))
    }

    /// Adds to the first counter of `mismatches` how many whole words of `input` are not
    /// `expected`.
    ///
    /// # Errors
    /// `mismatches` has no room for a counter; or as for any launch.
    #[track_caller]
    pub fn check_u32(
        &self,
        stream: &Stream,
        input: &impl DeviceSlice<u32>,
        expected: u32,
        mismatches: &mut impl DeviceSliceMut<u64>,
    ) -> Result<Submission, Error> {
        let (input, mut counter) = (Given::of(input), Given::counter(mismatches)?);
        let words = input.words();
        launch(&self.check_u32, stream, words, (&input, words, expected, &mut counter))
    }

    /// Writes `value` to word 0 of `out`, to every `stride_words`-th word and to the last one.
    ///
    /// # Errors
    /// As for any launch.
    #[track_caller]
    pub fn stamp(
        &self,
        stream: &Stream,
        out: &mut impl DeviceSliceMut<u32>,
        stride_words: u64,
        value: u32,
    ) -> Result<Submission, Error> {
        let mut out = Given::of(out);
        let words = out.words();
        let places = words / stride_words.max(1) + 2;
        launch(&self.stamp, stream, places, (&mut out, words, stride_words, value))
    }

    /// Adds to the first counter of `mismatches` how many of the words that [`Kernels::stamp`]
    /// writes to `input` are not `expected`.
    ///
    /// # Errors
    /// `mismatches` has no room for a counter; or as for any launch.
    #[track_caller]
    pub fn check_stamp(
        &self,
        stream: &Stream,
        input: &impl DeviceSlice<u32>,
        stride_words: u64,
        expected: u32,
        mismatches: &mut impl DeviceSliceMut<u64>,
    ) -> Result<Submission, Error> {
        let (input, mut counter) = (Given::of(input), Given::counter(mismatches)?);
        let words = input.words();
        let places = words / stride_words.max(1) + 2;
        let arguments = (&input, words, stride_words, expected, &mut counter);
        launch(&self.check_stamp, stream, places, arguments)
    }

    /// Adds `factor` times `input` to `out`, element by element; the product and the sum are
    /// rounded one after the other.
    ///
    /// # Errors
    /// `input` is shorter than `out`; or as for any launch.
    #[track_caller]
    pub fn scale_add(
        &self,
        stream: &Stream,
        out: &mut impl DeviceSliceMut<f32>,
        input: &impl DeviceSlice<f32>,
        factor: f32,
    ) -> Result<Submission, Error> {
        let mut out = Given::of(out);
        let count = out.words();
        let input = Given(input.whole().part(0, count * WORD_BYTES)?);
        launch(&self.scale_add, stream, count, (&mut out, &input, factor, count))
    }

    /// Copies to every whole word of `out` the word of `input` at its place.
    ///
    /// # Errors
    /// `input` is shorter than `out`; or as for any launch.
    #[track_caller]
    pub fn copy_u32(
        &self,
        stream: &Stream,
        out: &mut impl DeviceSliceMut<u32>,
        input: &impl DeviceSlice<u32>,
    ) -> Result<Submission, Error> {
        let mut out = Given::of(out);
        let count = out.words();
        let input = Given(input.whole().part(0, count * WORD_BYTES)?);
        launch(&self.copy_u32, stream, count, (&mut out, &input, count))
    }

    /// Stamps `out` as [`Kernels::stamp`] does, and keeps the stream busy for `nanoseconds`.
    ///
    /// # Errors
    /// As for any launch.
    #[track_caller]
    pub fn produce(
        &self,
        stream: &Stream,
        out: &mut impl DeviceSliceMut<u32>,
        stride_words: u64,
        value: u32,
        nanoseconds: u64,
    ) -> Result<Submission, Error> {
        let mut out = Given::of(out);
        let words = out.words();
        let arguments = (&mut out, words, stride_words, value, nanoseconds);
        self.produce.launch(stream, 1, THREADS_A_BLOCK, 0, arguments)
    }

    /// Keeps the stream busy for `nanoseconds`, then checks `input` as [`Kernels::check_stamp`]
    /// does, and stamps `out` with `expected`.
    ///
    /// # Errors
    /// `mismatches` has no room for a counter; or as for any launch.
    #[track_caller]
    pub fn consume(
        &self,
        stream: &Stream,
        out: &mut impl DeviceSliceMut<u32>,
        input: Stamped<'_, impl DeviceSlice<u32>>,
        mismatches: &mut impl DeviceSliceMut<u64>,
        nanoseconds: u64,
    ) -> Result<Submission, Error> {
        let Stamped { memory, stride_words, value } = input;
        let (mut out, memory) = (Given::of(out), Given::of(memory));
        let mut counter = Given::counter(mismatches)?;
        let (outs, words) = (out.words(), memory.words());
        let arguments =
            (&mut out, outs, &memory, words, stride_words, value, &mut counter, nanoseconds);
        self.consume.launch(stream, 1, THREADS_A_BLOCK, 0, arguments)
    }
}

/// Memory that was stamped: with which value, and how many words apart.
#[derive(Debug, Clone, Copy)]
pub struct Stamped<'a, M> {
    /// The memory.
    pub memory: &'a M,
    /// As it was given to the kernel that stamped it.
    pub stride_words: u64,
    /// What its words are.
    pub value: u32,
}

/// Memory as it was found when it was asked for, so that a kernel gets the pointer that its counts
/// were taken from.
struct Given<'memory>(DevicePart<'memory>);

impl<'memory> Given<'memory> {
    fn of(memory: &'memory impl DeviceBytes) -> Self {
        Self(memory.whole())
    }

    /// One counter of it.
    fn counter(memory: &'memory impl DeviceBytes) -> Result<Self, Error> {
        memory.whole().part(0, COUNTER_BYTES).map(Self)
    }

    /// How many whole words it has.
    fn words(&self) -> u64 {
        self.0.span().bytes / WORD_BYTES
    }
}

impl DeviceBytes for Given<'_> {
    fn whole(&self) -> DevicePart<'_> {
        self.0
    }
}

impl<T> DeviceSlice<T> for Given<'_> {}
impl<T> DeviceSliceMut<T> for Given<'_> {}

/// Launches with about one thread for each of `places`.
#[track_caller]
fn launch<S: Signature, A: Arguments<S>>(
    kernel: &Kernel<S>,
    stream: &Stream,
    places: u64,
    arguments: A,
) -> Result<Submission, Error> {
    let blocks = places.div_ceil(u64::from(THREADS_A_BLOCK)).clamp(1, BLOCKS_MAX);
    let grid = Dimensions::from(u32::try_from(blocks).expect("the bound on blocks is small"));
    kernel.launch(stream, grid, THREADS_A_BLOCK, 0, arguments)
}
