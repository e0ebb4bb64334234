//! Opens the installed driver and fills a table from it.
//!
//! `cuGetProcAddress` is asked first, each name with the version that brought the signature bound
//! here; a version above the driver's own is not asked for, because the driver refuses it. A
//! driver without `cuGetProcAddress` is read by its exported symbols.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, OnceLock};

use libloading::Library;

use crate::driver::{CUdriverProcAddressQueryResult, CUresult, cuuint64_t};
use crate::error::{LoadError, MissingEntryPoint};
use crate::table::{EntryPoint, Table};

/// The driver's library, as its installer names it.
const LIBRARY: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// The entry point that finds all others, on drivers that have it.
type GetProcAddress = unsafe extern "C" fn(
    *const c_char,
    *mut *mut c_void,
    c_int,
    cuuint64_t,
    *mut CUdriverProcAddressQueryResult,
) -> CUresult;

/// Opens the installed driver, once in the life of the process.
///
/// Thread-safe. Calls nothing in the driver but `cuDriverGetVersion` and `cuGetProcAddress`.
///
/// # Errors
/// There is no driver, or it lacks a required entry point. The answer stays the same for the life
/// of the process.
pub fn load() -> Result<Arc<Table>, LoadError> {
    static TABLE: OnceLock<Result<Arc<Table>, LoadError>> = OnceLock::new();
    TABLE.get_or_init(|| open(OsStr::new(LIBRARY)).map(Arc::new)).clone()
}

/// Opens a driver library at a path of your own, for example a simulated one.
///
/// # Errors
/// There is no library at `path`, or it lacks a required entry point.
pub fn load_from(path: &Path) -> Result<Arc<Table>, LoadError> {
    open(path.as_os_str()).map(Arc::new)
}

fn open(name: &OsStr) -> Result<Table, LoadError> {
    let shown = name.to_string_lossy().into_owned();
    // SAFETY: a driver library's initialisers are trusted to be sound to run; nothing else is
    // promised of a file with that name.
    let library = unsafe { Library::new(name) }
        .map_err(|error| LoadError::NoLibrary { library: shown.clone(), reason: words(&error) })?;
    let finder = Finder::new(&library);
    // SAFETY: the pointers come from the driver under the driver's own names and versions, and
    // the table keeps the library open.
    let filled = unsafe { Table::fill(finder.version, |entry, flags| finder.find(entry, flags)) };
    let mut table =
        filled.map_err(|missing| LoadError::MissingRequired { library: shown, missing })?;
    table.library = Some(library);
    Ok(table)
}

/// The dynamic linker's own sentence.
fn words(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Looks entry points up in one opened library.
struct Finder<'library> {
    library: &'library Library,
    get_proc_address: Option<GetProcAddress>,
    version: Option<u32>,
}

impl<'library> Finder<'library> {
    fn new(library: &'library Library) -> Self {
        let get_proc_address = symbol(library, "cuGetProcAddress_v2");
        // SAFETY: the symbol has had this signature since CUDA 12.0 brought it.
        let get_proc_address = unsafe {
            std::mem::transmute::<*const c_void, Option<GetProcAddress>>(get_proc_address)
        };
        Self { library, get_proc_address, version: version(library) }
    }

    fn find(&self, entry: &EntryPoint, flags: u64) -> *const c_void {
        if self.version.is_some_and(|version| version < entry.since) {
            return ptr::null();
        }
        match self.get_proc_address {
            Some(get_proc_address) => ask(get_proc_address, entry, flags),
            None => symbol(self.library, entry.symbol),
        }
    }
}

fn ask(get_proc_address: GetProcAddress, entry: &EntryPoint, flags: u64) -> *const c_void {
    let name = CString::new(entry.name).expect("entry point names hold no zero byte");
    let since = c_int::try_from(entry.since).expect("versions are small numbers");
    let mut pointer = ptr::null_mut();
    let mut status = CUdriverProcAddressQueryResult(0);
    // SAFETY: the name ends with a zero byte and both results are ours to write.
    let code =
        unsafe { get_proc_address(name.as_ptr(), &raw mut pointer, since, flags, &raw mut status) };
    if code == CUresult::CUDA_SUCCESS { pointer } else { ptr::null() }
}

fn version(library: &Library) -> Option<u32> {
    let pointer = symbol(library, "cuDriverGetVersion");
    type DriverGetVersion = unsafe extern "C" fn(*mut c_int) -> CUresult;
    // SAFETY: the symbol has had this signature since CUDA 2.2 brought it.
    let call = unsafe { std::mem::transmute::<*const c_void, Option<DriverGetVersion>>(pointer) }?;
    let mut version = 0;
    // SAFETY: the result is ours to write; the call needs no initialisation.
    let code = unsafe { call(&raw mut version) };
    (code == CUresult::CUDA_SUCCESS).then(|| u32::try_from(version).ok())?
}

/// The address of an exported symbol, or null.
fn symbol(library: &Library, name: &str) -> *const c_void {
    // SAFETY: only the address is taken here; whoever calls it answers for its signature.
    let found = unsafe { library.get::<*const c_void>(name) };
    found.map_or(ptr::null(), |symbol| *symbol)
}

impl From<MissingEntryPoint> for CUresult {
    /// The code the driver itself gives for an entry point it does not have.
    fn from(_: MissingEntryPoint) -> Self {
        Self::CUDA_ERROR_NOT_FOUND
    }
}
