//! Writes, compiles and questions a stub driver library.
//!
//! Each entry point the stub has is a C function that returns a number of its own. With
//! `cuGetProcAddress` it answers as the driver does: it refuses a version above its own, and one
//! below the version that brought the name; and it writes down what it was asked.

use std::ffi::{CStr, c_char, c_int, c_ulonglong};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cuda_sys::{EntryPoint, Table};

/// The code of the first entry point; high enough to be no code of the driver's.
const FIRST_CODE: u32 = 100_000;

/// The number a stub's `name` returns.
pub(crate) fn code_of(name: &str) -> u32 {
    let index = Table::ENTRY_POINTS.iter().position(|entry| entry.name == name);
    FIRST_CODE + u32::try_from(index.expect("an entry point of the table")).unwrap()
}

/// A stub driver being described.
pub(crate) struct Description {
    name: &'static str,
    version: u32,
    lacks: Vec<&'static str>,
    get_proc_address: bool,
}

impl Description {
    /// What `cuDriverGetVersion` says; the stub has nothing newer.
    pub(crate) fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Entry points it does not have, although its version does.
    pub(crate) fn lacks(mut self, names: &[&'static str]) -> Self {
        self.lacks.extend_from_slice(names);
        self
    }

    /// Without `cuGetProcAddress`, as drivers before CUDA 12.0 are for this loader.
    pub(crate) fn by_symbol(mut self) -> Self {
        self.get_proc_address = false;
        self
    }

    /// Compiles it.
    pub(crate) fn build(self) -> Stub {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Another run of these tests may write its own at the same time.
        let source = folder.join(format!("stub-{}-{}.c", self.name, std::process::id()));
        let path = folder.join(format!("libstub-{}.so", self.name));
        std::fs::write(&source, self.source()).unwrap();
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let mut build = cc::Build::new();
        build.cargo_metadata(false).opt_level(0).warnings(false).target(&triple).host(&triple);
        let compiler = build.get_compiler();
        let mut command = compiler.to_command();
        // Written beside and moved, so that a library in use is never written into.
        let fresh = path.with_extension(format!("{}.so", std::process::id()));
        command.args(["-std=gnu11", "-shared", "-fPIC", "-o"]).arg(&fresh).arg(&source);
        let output = command.output().expect("a C compiler, which Rust links with too");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(&fresh, &path).unwrap();
        std::fs::remove_file(&source).unwrap();
        // SAFETY: the library is the stub just compiled; it has no initialisers.
        let library = unsafe { libloading::Library::new(&path) }.unwrap();
        Stub { path, library }
    }

    fn has(&self, entry: &EntryPoint) -> bool {
        entry.since <= self.version && !self.lacks.contains(&entry.name)
    }

    /// One C function for each entry point, and `cuGetProcAddress` over a table of them.
    fn source(&self) -> String {
        let mut functions = String::new();
        let mut rows = String::new();
        for entry in Table::ENTRY_POINTS.iter().filter(|entry| self.has(entry)) {
            match entry.name {
                "cuDriverGetVersion" => writeln!(
                    functions,
                    "int cuDriverGetVersion(int *version) {{ *version = {}; return 0; }}",
                    self.version
                ),
                "cuGetProcAddress" => continue,
                name => {
                    writeln!(functions, "int {}() {{ return {}; }}", entry.symbol, code_of(name))
                }
            }
            .unwrap();
            writeln!(rows, "    {{\"{}\", {}, {}}},", entry.name, entry.since, entry.symbol)
                .unwrap();
        }
        let mut source = functions;
        let questions = include_str!("get_proc_address.c");
        if self.get_proc_address {
            writeln!(source, "#define DRIVER_VERSION {}", self.version).unwrap();
            writeln!(source, "#define ROWS \\\n{}", rows.replace('\n', " \\\n")).unwrap();
            source.push_str(questions);
        }
        source
    }
}

/// A compiled stub driver, held open so that it can be questioned.
pub(crate) struct Stub {
    path: PathBuf,
    library: libloading::Library,
}

impl Stub {
    /// Begins a description; `name` is the library's own, so that tests do not share one.
    #[expect(clippy::new_ret_no_self, reason = "a stub begins as its description")]
    pub(crate) fn new(name: &'static str) -> Description {
        Description { name, version: 0, lacks: Vec::new(), get_proc_address: true }
    }

    /// Where the library lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What `cuGetProcAddress` was asked so far, as (name, version, flags).
    pub(crate) fn asked(&self) -> Vec<(String, u32, u64)> {
        type Asked = unsafe extern "C" fn(c_int, *mut c_int, *mut c_ulonglong) -> *const c_char;
        // SAFETY: get_proc_address.c defines the symbol with this signature.
        let Ok(asked) = (unsafe { self.library.get::<Asked>("stub_asked") }) else {
            return Vec::new();
        };
        let mut list = Vec::new();
        for index in 0.. {
            let (mut version, mut flags) = (0, 0);
            // SAFETY: the stub takes any index and writes only to the two results.
            let name = unsafe { asked(index, &raw mut version, &raw mut flags) };
            if name.is_null() {
                break;
            }
            // SAFETY: a name the stub gives ends with a zero byte and lies in the stub.
            let name = unsafe { CStr::from_ptr(name) };
            let name = name.to_str().unwrap().to_owned();
            list.push((name, u32::try_from(version).unwrap(), flags));
        }
        list
    }
}
