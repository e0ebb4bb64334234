//! Turns what a C caller hands over into values that safe code can use.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use cuda_sys::{CUhostFn, CUresult};

/// An argument of a C entry point and what it becomes.
pub(crate) trait Raw {
    type Cooked;

    /// # Safety
    /// - A pointer is null, or a handle, or points to what the driver's documentation says the
    ///   caller of this entry point hands over, for as long as that says.
    unsafe fn cook(self) -> Self::Cooked;
}

/// A pointer from a caller of the driver: null, a handle, or what the entry point asks for.
pub(crate) struct Pointer<T>(*mut T);

impl<T> Clone for Pointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pointer<T> {}

impl<T> Raw for *mut T {
    type Cooked = Pointer<T>;

    unsafe fn cook(self) -> Pointer<T> {
        Pointer(self)
    }
}

impl<T> Raw for *const T {
    type Cooked = Pointer<T>;

    unsafe fn cook(self) -> Pointer<T> {
        Pointer(self.cast_mut())
    }
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Raw for $type {
            type Cooked = Self;

            unsafe fn cook(self) -> Self {
                self
            }
        }
    )*};
}

plain!(
    u8,
    u32,
    i32,
    u64,
    usize,
    CUhostFn,
    cuda_sys::CUdevice_attribute,
    CUresult,
    cuda_sys::CUfunction_attribute,
    cuda_sys::CUpointer_attribute,
    cuda_sys::CUstreamCaptureMode,
    cuda_sys::CUmemAllocationGranularity_flags,
    cuda_sys::CUmemAllocationHandleType,
    cuda_sys::CUmemPool_attribute,
    cuda_sys::CUipcEventHandle,
    cuda_sys::CUipcMemHandle
);

impl<T> Pointer<T> {
    /// The number it is, for handles.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The caller's memory from here on.
    pub(crate) fn place(self, bytes: usize) -> HostPlace {
        HostPlace { address: self.0.expose_provenance(), bytes }
    }
}

impl<T: Copy> Pointer<T> {
    /// Writes a result.
    pub(crate) fn put(self, value: T) -> Result<(), CUresult> {
        if self.0.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not null, so by `cook` a place that the caller gave for this result.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes a result that the caller may not want.
    pub(crate) fn put_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so by `cook` a place that the caller gave for this result.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Reads an argument.
    pub(crate) fn get(self) -> Result<T, CUresult> {
        self.get_at(0)
    }

    /// Reads an element of an array.
    pub(crate) fn get_at(self, index: usize) -> Result<T, CUresult> {
        if self.0.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not null, so by `cook` an array that holds what the caller said.
        let element = unsafe { self.0.add(index) };
        // SAFETY: as above; the element was written by the caller.
        Ok(unsafe { element.read_unaligned() })
    }

    /// Writes an element of an array.
    pub(crate) fn put_at(self, index: usize, value: T) {
        // SAFETY: by `cook` an array that holds what the caller said.
        let element = unsafe { self.0.add(index) };
        // SAFETY: as above.
        unsafe { element.write_unaligned(value) };
    }
}

impl Pointer<c_void> {
    /// Reads an image that is text with a zero byte at its end.
    pub(crate) fn as_text(self) -> Result<String, CUresult> {
        Pointer::<c_char>(self.0.cast()).text()
    }
}

impl Pointer<c_char> {
    /// Reads text that ends with a zero byte.
    pub(crate) fn text(self) -> Result<String, CUresult> {
        if self.0.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not null, so by `cook` text that ends with a zero byte.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }

    /// Writes text and its zero byte, cut to what fits.
    pub(crate) fn put_text(self, text: &str, room: i32) -> Result<(), CUresult> {
        let room = usize::try_from(room).unwrap_or(0);
        if self.0.is_null() || room == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut bytes: Vec<u8> = text.bytes().take(room - 1).collect();
        bytes.push(0);
        self.place(room).write(0, &bytes);
        Ok(())
    }
}

/// Memory of the caller that an entry point, or the operation it queues, may use.
///
/// Only a [`Pointer`] makes one, so the caller of the driver vouched for it: it stays valid for
/// as long as the driver's documentation asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostPlace {
    address: usize,
    bytes: usize,
}

impl HostPlace {
    pub(crate) fn address(self) -> usize {
        self.address
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    fn at(self, offset: usize, count: usize) -> *mut u8 {
        let inside = offset.checked_add(count).is_some_and(|end| end <= self.bytes);
        assert!(inside, "host accesses stay inside what the caller handed over");
        ptr::with_exposed_provenance_mut(self.address + offset)
    }

    pub(crate) fn read(self, offset: usize, into: &mut [u8]) {
        let from = self.at(offset, into.len());
        if let Ok(word) = <&mut [u8; 4]>::try_from(&mut *into)
            && from.addr().is_multiple_of(4)
        {
            // SAFETY: aligned, inside the place, and valid by the type's contract; a host thread
            // may write the word at the same time, which an atomic load allows for.
            let shared = unsafe { AtomicU32::from_ptr(from.cast()) };
            *word = shared.load(Ordering::Acquire).to_ne_bytes();
        } else if let Ok(word) = <&mut [u8; 8]>::try_from(&mut *into)
            && from.addr().is_multiple_of(8)
        {
            // SAFETY: as above.
            let shared = unsafe { AtomicU64::from_ptr(from.cast()) };
            *word = shared.load(Ordering::Acquire).to_ne_bytes();
        } else {
            // SAFETY: inside the place, valid by the type's contract, and apart from `into`,
            // which is the simulator's own.
            unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        }
    }

    pub(crate) fn write(self, offset: usize, from: &[u8]) {
        let into = self.at(offset, from.len());
        if let Ok(word) = <[u8; 4]>::try_from(from)
            && into.addr().is_multiple_of(4)
        {
            // SAFETY: aligned, inside the place, and valid by the type's contract; a host thread
            // may read the word at the same time, which an atomic store allows for.
            let shared = unsafe { AtomicU32::from_ptr(into.cast()) };
            shared.store(u32::from_ne_bytes(word), Ordering::Release);
        } else if let Ok(word) = <[u8; 8]>::try_from(from)
            && into.addr().is_multiple_of(8)
        {
            // SAFETY: as above.
            let shared = unsafe { AtomicU64::from_ptr(into.cast()) };
            shared.store(u64::from_ne_bytes(word), Ordering::Release);
        } else {
            // SAFETY: inside the place, valid by the type's contract, and apart from `from`,
            // which is the simulator's own.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
        }
    }
}

/// Pinned memory of the simulator's own. Dropped, it is freed only if its owner freed it: the
/// program may still hold what ends with its machine or its context.
#[derive(Debug)]
pub(crate) struct PinnedBytes {
    place: HostPlace,
    layout: Layout,
    is_freed: bool,
}

impl PinnedBytes {
    /// Page-aligned and zeroed; nothing when the host has no room.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(1), 4096).ok()?;
        // SAFETY: the layout is not empty.
        let pointer = unsafe { alloc_zeroed(layout) };
        let place = HostPlace { address: pointer.expose_provenance(), bytes };
        (!pointer.is_null()).then_some(Self { place, layout, is_freed: false })
    }

    pub(crate) fn place(&self) -> HostPlace {
        self.place
    }

    /// The program gave it back and does not touch it any more.
    pub(crate) fn free(&mut self) {
        self.is_freed = true;
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        if !self.is_freed {
            return;
        }
        let pointer = ptr::with_exposed_provenance_mut(self.place.address);
        // SAFETY: `new` got it with this layout, and nothing else frees it.
        unsafe { dealloc(pointer, self.layout) };
    }
}

/// A function of the host, with its argument, as the driver keeps them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCall {
    function: unsafe extern "C" fn(*mut c_void),
    argument: usize,
}

impl HostCall {
    /// By the contract of [`Raw::cook`] the function may be called with this argument.
    pub(crate) fn new(function: CUhostFn, argument: Pointer<c_void>) -> Result<Self, CUresult> {
        let function = function.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        Ok(Self { function, argument: argument.0.expose_provenance() })
    }

    pub(crate) fn run(self) {
        let argument = ptr::with_exposed_provenance_mut(self.argument);
        // SAFETY: whoever handed the function over promised that it can be called with this
        // argument when the work before it is done.
        unsafe { (self.function)(argument) };
    }
}

/// The parameters of a launch: an array of pointers to values, sizes known from the module.
pub(crate) fn parameters(
    array: Pointer<*mut c_void>,
    sizes: &[usize],
) -> Result<Vec<Vec<u8>>, CUresult> {
    let mut values = Vec::with_capacity(sizes.len());
    for (index, &size) in sizes.iter().enumerate() {
        let pointer = Pointer(array.get_at(index)?);
        if pointer.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut bytes = vec![0; size];
        pointer.place(size).read(0, &mut bytes);
        values.push(bytes);
    }
    Ok(values)
}

/// How many times this process is a fork of the one that loaded the simulator.
pub(crate) fn fork_generation() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// The host's number for the calling thread.
#[cfg(target_os = "linux")]
pub(crate) fn host_thread_number() -> i32 {
    // SAFETY: the call takes nothing and only answers.
    unsafe { libc::gettid() }
}

/// Of other hosts nothing is asked about threads: no thread has this number.
#[cfg(not(target_os = "linux"))]
pub(crate) fn host_thread_number() -> i32 {
    0
}

static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has forks counted from now on.
pub(crate) fn watch_forks() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler only adds to an atomic, which is allowed in a forked child.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
}

/// Runs `work` in a forked child of this process, and gives what it returned there; `None` if there
/// was no child, or if it ended otherwise, by a panic or by running for more than twenty seconds.
/// **Blocks** until then. For tests of what a program does after a fork: only the calling thread is
/// in the child, where a lock that another one held is never let go.
#[must_use]
pub fn in_forked_child(work: impl FnOnce() -> u8) -> Option<u8> {
    // SAFETY: the child runs `work` alone, on a copy of this thread, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: an alarm that nobody handles ends the child.
        unsafe { libc::alarm(20) };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let code = ended.map_or(u8::MAX, |code| code.min(u8::MAX - 1));
        // SAFETY: it runs no destructor and no handler, and does not return.
        unsafe { libc::_exit(i32::from(code)) };
    }
    if child < 0 {
        // There is none, and waiting for it would be waiting for any.
        return None;
    }
    let mut status = 0;
    // SAFETY: the child is this process's own, and the status is ours to write.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    let has_exited = waited == child && libc::WIFEXITED(status);
    let code = u8::try_from(libc::WEXITSTATUS(status)).ok()?;
    (has_exited && code != u8::MAX).then_some(code)
}
