//! Kernels: a module's entry gets its body from a closure registered under the entry's name.
//!
//! A body declares, from the arguments alone, which bytes it uses; the declaration is evaluated
//! when the kernel is launched, so that hazards follow from the order of submission and not from
//! when the body happens to run. The body then gets at exactly those bytes. One that declares
//! nothing counts as reading and writing every allocation its arguments point into.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use cuda_sys::CUresult;

use crate::memory::{Memory, size};
use crate::shadow::AccessKind;

/// Bytes that an operation uses, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// Device addresses, or addresses of pinned host memory.
    pub range: Range<u64>,
    /// How they are used.
    pub kind: AccessKind,
}

impl Access {
    /// Reads `bytes` from `address` on.
    #[must_use]
    pub fn read(address: u64, bytes: u64) -> Self {
        Self { range: address..address.saturating_add(bytes), kind: AccessKind::Read }
    }

    /// Writes, or reads and writes, `bytes` from `address` on.
    #[must_use]
    pub fn write(address: u64, bytes: u64) -> Self {
        Self { range: address..address.saturating_add(bytes), kind: AccessKind::Write }
    }

    /// Updates `bytes` from `address` on by atomic operations, whose order does not matter.
    #[must_use]
    pub fn atomic(address: u64, bytes: u64) -> Self {
        Self { range: address..address.saturating_add(bytes), kind: AccessKind::Atomic }
    }
}

/// What a kernel was launched with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelArguments {
    values: Vec<Vec<u8>>,
    grid: [u32; 3],
    block: [u32; 3],
}

impl KernelArguments {
    pub(crate) fn new(values: Vec<Vec<u8>>, grid: [u32; 3], block: [u32; 3]) -> Self {
        Self { values, grid, block }
    }

    /// How many parameters there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The blocks of the launch, in x, y and z.
    #[must_use]
    pub fn grid(&self) -> [u32; 3] {
        self.grid
    }

    /// The threads of a block, in x, y and z.
    #[must_use]
    pub fn block(&self) -> [u32; 3] {
        self.block
    }

    /// A parameter's bytes.
    ///
    /// # Panics
    /// The module declares no such parameter: the body is for another kernel.
    #[must_use]
    pub fn bytes(&self, index: usize) -> &[u8] {
        let count = self.values.len();
        self.values.get(index).unwrap_or_else(|| panic!("parameter {index} of {count} parameters"))
    }

    fn word<const N: usize>(&self, index: usize) -> [u8; N] {
        let bytes = self.bytes(index);
        let length = bytes.len();
        bytes.try_into().unwrap_or_else(|_| {
            panic!("parameter {index} has {length} bytes and was read as one of {N}")
        })
    }

    /// A parameter of four bytes. Panics, as all of these do, when the module says otherwise.
    #[must_use]
    pub fn u32(&self, index: usize) -> u32 {
        u32::from_le_bytes(self.word(index))
    }

    /// A signed parameter of four bytes.
    #[must_use]
    pub fn i32(&self, index: usize) -> i32 {
        i32::from_le_bytes(self.word(index))
    }

    /// A parameter of eight bytes.
    #[must_use]
    pub fn u64(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.word(index))
    }

    /// A signed parameter of eight bytes.
    #[must_use]
    pub fn i64(&self, index: usize) -> i64 {
        i64::from_le_bytes(self.word(index))
    }

    /// A parameter of single precision.
    #[must_use]
    pub fn f32(&self, index: usize) -> f32 {
        f32::from_le_bytes(self.word(index))
    }

    /// A parameter of double precision.
    #[must_use]
    pub fn f64(&self, index: usize) -> f64 {
        f64::from_le_bytes(self.word(index))
    }

    /// A pointer parameter: a device address.
    #[must_use]
    pub fn pointer(&self, index: usize) -> u64 {
        self.u64(index)
    }

    /// The parameters of eight bytes: those that may be pointers.
    pub(crate) fn eight_byte_values(&self) -> impl Iterator<Item = u64> {
        self.values
            .iter()
            .filter_map(|value| Some(u64::from_le_bytes(value.as_slice().try_into().ok()?)))
    }
}

type Accesses = dyn Fn(&KernelArguments) -> Vec<Access> + Send + Sync;
type Duration = dyn Fn(&KernelArguments) -> u64 + Send + Sync;
type Ready = dyn Fn(&KernelCall<'_>) -> bool + Send + Sync;
type Run = dyn Fn(&mut KernelCall<'_>) + Send + Sync;

/// What a kernel does on the simulated device.
///
/// ```
/// use cuda_sim::{Access, KernelBody, KernelCall, Machine};
///
/// // fill(out: *u32, count: u64, value: u32)
/// let fill = KernelBody::new(|call: &mut KernelCall<'_>| {
///     call.fill_u32(call.pointer(0), call.u64(1), call.u32(2));
/// })
/// .accesses(|arguments| vec![Access::write(arguments.pointer(0), 4 * arguments.u64(1))])
/// .duration(|arguments| 1_000 + arguments.u64(1) / 700);
/// Machine::builder().build().register_kernel("fill", fill);
/// ```
#[derive(Clone)]
pub struct KernelBody {
    accesses: Option<Arc<Accesses>>,
    duration: Option<Arc<Duration>>,
    ready: Option<Arc<Ready>>,
    run: Arc<Run>,
}

impl KernelBody {
    /// A kernel that does `run`. It must not block and may make no driver call.
    pub fn new(run: impl Fn(&mut KernelCall<'_>) + Send + Sync + 'static) -> Self {
        Self { accesses: None, duration: None, ready: None, run: Arc::new(run) }
    }

    /// Declares the bytes it uses; called at the launch.
    #[must_use]
    pub fn accesses(
        mut self,
        accesses: impl Fn(&KernelArguments) -> Vec<Access> + Send + Sync + 'static,
    ) -> Self {
        self.accesses = Some(Arc::new(accesses));
        self
    }

    /// Says how many nanoseconds of virtual time it takes.
    #[must_use]
    pub fn duration(
        mut self,
        duration: impl Fn(&KernelArguments) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.duration = Some(Arc::new(duration));
        self
    }

    /// Says whether it can end yet. It is asked again and again until it says yes, and holds its
    /// stream up to then: a gate that the host opens. It may read the declared bytes.
    #[must_use]
    pub fn ready(
        mut self,
        ready: impl Fn(&KernelCall<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.ready = Some(Arc::new(ready));
        self
    }

    pub(crate) fn declared(&self, arguments: &KernelArguments) -> Option<Vec<Access>> {
        self.accesses.as_ref().map(|accesses| accesses(arguments))
    }

    pub(crate) fn nanoseconds(&self, arguments: &KernelArguments) -> u64 {
        self.duration.as_ref().map_or(crate::cost::KERNEL, |duration| duration(arguments))
    }

    pub(crate) fn has_gate(&self) -> bool {
        self.ready.is_some()
    }

    pub(crate) fn is_ready(&self, call: &KernelCall<'_>) -> bool {
        self.ready.as_ref().is_none_or(|ready| ready(call))
    }

    pub(crate) fn run(&self, call: &mut KernelCall<'_>) {
        (self.run)(call);
    }
}

impl<F: Fn(&mut KernelCall<'_>) + Send + Sync + 'static> From<F> for KernelBody {
    fn from(run: F) -> Self {
        Self::new(run)
    }
}

impl fmt::Debug for KernelBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelBody")
            .field("declares_accesses", &self.accesses.is_some())
            .field("is_gate", &self.ready.is_some())
            .finish_non_exhaustive()
    }
}

/// One launch of a kernel in the simulator's hands, ready to run or at the gate.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) name: u32,
    pub(crate) body: KernelBody,
    pub(crate) arguments: KernelArguments,
    pub(crate) accesses: Vec<Access>,
}

/// What went wrong while a kernel ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KernelFault {
    /// The address means nothing.
    Illegal(u64),
    /// The address is fine, but the kernel did not say that it would use it.
    Undeclared(Range<u64>, AccessKind),
    /// The body says so.
    Raised(CUresult),
}

/// A running kernel: its arguments, and the declared bytes.
///
/// An access outside the declared bytes reads zero, or writes nothing, and is reported; one that
/// means nothing breaks the context with an illegal address, as on hardware.
#[derive(Debug)]
pub struct KernelCall<'a> {
    memory: &'a mut Memory,
    launch: &'a Launch,
    fault: std::cell::RefCell<Option<KernelFault>>,
}

impl Deref for KernelCall<'_> {
    type Target = KernelArguments;

    fn deref(&self) -> &KernelArguments {
        &self.launch.arguments
    }
}

impl<'a> KernelCall<'a> {
    pub(crate) fn new(memory: &'a mut Memory, launch: &'a Launch) -> Self {
        Self { memory, launch, fault: std::cell::RefCell::new(None) }
    }

    pub(crate) fn into_fault(self) -> Option<KernelFault> {
        self.fault.into_inner()
    }

    /// The arguments of the launch.
    #[must_use]
    pub fn arguments(&self) -> &KernelArguments {
        &self.launch.arguments
    }

    /// Ends the kernel as if the device had found this error; the first one counts.
    pub fn raise(&self, code: CUresult) {
        self.note(KernelFault::Raised(code));
    }

    fn note(&self, fault: KernelFault) {
        self.fault.borrow_mut().get_or_insert(fault);
    }

    fn may(&self, address: u64, bytes: u64, kind: AccessKind) -> bool {
        let Some(end) = address.checked_add(bytes) else {
            self.note(KernelFault::Illegal(address));
            return false;
        };
        let declared = self.launch.accesses.iter().any(|access| {
            let enough = kind == AccessKind::Read || access.kind != AccessKind::Read;
            enough && access.range.start <= address && end <= access.range.end
        });
        if !declared {
            self.note(match self.memory.pieces(address, bytes) {
                None => KernelFault::Illegal(address),
                Some(_) => KernelFault::Undeclared(address..end, kind),
            });
        }
        declared
    }

    /// Reads bytes.
    pub fn read_bytes(&self, address: u64, into: &mut [u8]) {
        into.fill(0);
        let may = self.may(address, size(into.len()), AccessKind::Read);
        if may && !self.memory.read(address, into) {
            self.note(KernelFault::Illegal(address));
        }
    }

    /// Writes bytes.
    pub fn write_bytes(&mut self, address: u64, from: &[u8]) {
        let may = self.may(address, size(from.len()), AccessKind::Write);
        if may && !self.memory.write(address, from) {
            self.note(KernelFault::Illegal(address));
        }
    }

    /// Repeats `value` over `count` words.
    pub fn fill_u32(&mut self, address: u64, count: u64, value: u32) {
        let bytes = count.saturating_mul(4);
        let may = self.may(address, bytes, AccessKind::Write);
        if may && !self.memory.fill(address, bytes, value) {
            self.note(KernelFault::Illegal(address));
        }
    }

    /// Copies bytes from one declared range to another.
    pub fn copy_bytes(&mut self, to: u64, from: u64, bytes: u64) {
        let may = self.may(from, bytes, AccessKind::Read) && self.may(to, bytes, AccessKind::Write);
        if may && !self.memory.copy(to, from, bytes) {
            self.note(KernelFault::Illegal(to));
        }
    }

    /// Reads a word.
    #[must_use]
    pub fn read_u32(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        self.read_bytes(address, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// Writes a word.
    pub fn write_u32(&mut self, address: u64, value: u32) {
        self.write_bytes(address, &value.to_le_bytes());
    }

    /// Reads a double word.
    #[must_use]
    pub fn read_u64(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.read_bytes(address, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Writes a double word.
    pub fn write_u64(&mut self, address: u64, value: u64) {
        self.write_bytes(address, &value.to_le_bytes());
    }

    /// Reads a number of single precision.
    #[must_use]
    pub fn read_f32(&self, address: u64) -> f32 {
        f32::from_bits(self.read_u32(address))
    }

    /// Writes a number of single precision.
    pub fn write_f32(&mut self, address: u64, value: f32) {
        self.write_u32(address, value.to_bits());
    }

    /// Adds to a double word.
    pub fn add_u64(&mut self, address: u64, value: u64) {
        let sum = self.read_u64(address).wrapping_add(value);
        self.write_u64(address, sum);
    }

    /// Hands every word of a range to `each`, in order.
    pub fn for_each_u32(&self, address: u64, count: u64, mut each: impl FnMut(u32)) {
        const STEP: u64 = 4096;
        let mut done = 0;
        let mut buffer = vec![0; crate::memory::host(4 * STEP.min(count))];
        while done < count {
            let words = STEP.min(count - done);
            let part = buffer.get_mut(..crate::memory::host(4 * words)).unwrap_or_default();
            self.read_bytes(address + 4 * done, part);
            for word in part.chunks_exact(4) {
                each(u32::from_le_bytes(word.try_into().expect("a chunk has four bytes")));
            }
            done += words;
        }
    }
}
