//! Kernels of our own, whose signatures are declared here once, so that safe code can launch them.

use super::DriverHostMemory;
use crate::context::Context;
use crate::error::Error;
use crate::launch::{DeviceSlice, Kernel, Module, Reads, ReadsWrites, Writes};
use crate::memory::check_part;
use crate::stream::Stream;
use crate::submission::Submission;
use crate::sync::HostWord;

/// What is compiled from `kernels/wellspring.cu`.
const PTX: &str = include_str!("../../../../kernels/wellspring.ptx");

const WORD_BYTES: u64 = 4;
const COUNTER_BYTES: u64 = 8;
const THREADS: u64 = 128;
const BLOCKS_MAX: u64 = 1024;

type Check = (Reads<u32>, u64, u32, ReadsWrites<u64>);
type CheckStamp = (Reads<u32>, u64, u64, u32, ReadsWrites<u64>);

/// Small kernels that fill memory with words and check it, to see whether anyone else wrote there.
///
/// How far a kernel goes is given by the memory's own length, so no call reaches beyond it. The
/// simulated device needs bodies for them. `Send`, `Sync`.
#[derive(Debug, Clone)]
pub struct OwnKernels {
    fill: Kernel<(Writes<u32>, u64, u32)>,
    check: Kernel<Check>,
    stamp: Kernel<(Writes<u32>, u64, u64, u32)>,
    check_stamp: Kernel<CheckStamp>,
    gate: Kernel<(Reads<u32>,)>,
}

impl OwnKernels {
    /// Loads them into a context.
    ///
    /// # Errors
    /// The driver's answer; one that is older than the kernels refuses them.
    pub fn load(context: &Context) -> Result<Self, Error> {
        let module = Module::load(context, PTX)?;
        // SAFETY: `fill_u32(out, count, value)` writes `count` words, which `fill` takes from the
        // length of the memory, and lends itself to no early launch.
        let fill = unsafe { module.declare("fill_u32") }?;
        // SAFETY: `check_u32(in, count, expected, mismatches)` reads `count` words, which `check`
        // takes from the length of the memory, and adds to a counter whose length it checks.
        let check = unsafe { module.declare("check_u32") }?;
        // SAFETY: `stamp(out, words, stride, value)` writes some of `words` words, which the
        // method takes from the length of the memory.
        let stamp = unsafe { module.declare("stamp") }?;
        // SAFETY: `check_stamp(in, words, stride, expected, mismatches)`: as the two before it.
        let check_stamp = unsafe { module.declare("check_stamp") }?;
        // SAFETY: `gate(flag)` reads one word, whose place `Gates` has checked.
        let gate = unsafe { module.declare("gate") }?;
        Ok(Self { fill, check, stamp, check_stamp, gate })
    }

    /// Writes `value` to every word of `memory`.
    ///
    /// # Errors
    /// As for [`Kernel::launch`].
    pub fn fill<M: DeviceSlice<u32>>(
        &self,
        stream: &Stream,
        memory: &mut M,
        value: u32,
    ) -> Result<Submission, Error> {
        let words = memory.span().bytes / WORD_BYTES;
        let (grid, block) = shape(words);
        self.fill.launch(stream, grid, block, 0, (memory, words, value))
    }

    /// Adds to `mismatches` how many words of `memory` are not `expected`.
    ///
    /// # Errors
    /// The counter is too short; or as for [`Kernel::launch`].
    pub fn check<M: DeviceSlice<u32>, C: DeviceSlice<u64>>(
        &self,
        stream: &Stream,
        memory: &M,
        expected: u32,
        mismatches: &mut C,
    ) -> Result<Submission, Error> {
        check_part(0, COUNTER_BYTES, mismatches.span().bytes)?;
        let words = memory.span().bytes / WORD_BYTES;
        let (grid, block) = shape(words);
        self.check.launch(stream, grid, block, 0, (memory, words, expected, mismatches))
    }

    /// Writes `value` to the first word of `memory`, to every `stride_words`-th and to the last.
    ///
    /// # Errors
    /// As for [`Kernel::launch`].
    pub fn stamp<M: DeviceSlice<u32>>(
        &self,
        stream: &Stream,
        memory: &mut M,
        stride_words: u64,
        value: u32,
    ) -> Result<Submission, Error> {
        let words = memory.span().bytes / WORD_BYTES;
        let (grid, block) = shape(words / stride_words.max(1) + 2);
        self.stamp.launch(stream, grid, block, 0, (memory, words, stride_words, value))
    }

    /// Adds to `mismatches` how many of the words that [`OwnKernels::stamp`] writes are not
    /// `expected`.
    ///
    /// # Errors
    /// The counter is too short; or as for [`Kernel::launch`].
    pub fn check_stamp<M: DeviceSlice<u32>, C: DeviceSlice<u64>>(
        &self,
        stream: &Stream,
        memory: &M,
        stride_words: u64,
        expected: u32,
        mismatches: &mut C,
    ) -> Result<Submission, Error> {
        check_part(0, COUNTER_BYTES, mismatches.span().bytes)?;
        let words = memory.span().bytes / WORD_BYTES;
        let (grid, block) = shape(words / stride_words.max(1) + 2);
        let arguments = (memory, words, stride_words, expected, mismatches);
        self.check_stamp.launch(stream, grid, block, 0, arguments)
    }

    /// Holds `stream` until `flag` is other than zero.
    pub(crate) fn gate<M: DeviceSlice<u32>>(
        &self,
        stream: &Stream,
        flag: &M,
    ) -> Result<Submission, Error> {
        check_part(0, WORD_BYTES, flag.span().bytes)?;
        self.gate.launch(stream, 1, 1, 0, (flag,))
    }
}

/// Blocks and threads for so many words: a kernel strides over what is left.
fn shape(words: u64) -> (u32, u32) {
    let blocks = words.div_ceil(THREADS).clamp(1, BLOCKS_MAX);
    let narrow = |count: u64| u32::try_from(count).expect("both have a small limit");
    (narrow(blocks), narrow(THREADS))
}

impl DriverHostMemory {
    /// The word `index` of memory that was made for words that host and device share.
    pub(crate) fn word(&self, index: usize) -> Option<&HostWord> {
        let offset = index.checked_mul(size_of::<u32>())?;
        if self.len() < offset.checked_add(size_of::<u32>())? {
            return None;
        }
        let place = self.start().wrapping_add(offset).cast::<u32>();
        // SAFETY: the word lies inside live memory, which the driver aligns to more than a word;
        // it was zeroed when made, and all of the host's accesses to such memory are atomic.
        Some(unsafe { HostWord::from_ptr(place) })
    }
}
