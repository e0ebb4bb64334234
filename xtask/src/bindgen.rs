//! `cargo xtask bindgen`: generates `crates/cuda-sys/bindings/` from the pinned CUDA header.
//!
//! Needs Python's pip, which fetches the pinned header and libclang packages into `target/`;
//! `--check` compares instead of writing. Next: `cargo test -p cuda-sys`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use xshell::{Shell, cmd};

use crate::symbols::{self, Symbol};

/// The header's package: the oldest toolkit of the newest supported major version.
const HEADER_PACKAGE: &str = "nvidia-cuda-runtime==13.0.96";
/// The library bindgen parses with; it lacks the compiler's own headers.
const LIBCLANG_PACKAGE: &str = "libclang==18.1.1";
/// Where the loader of libclang looks first.
const LIBCLANG_VARIABLE: &str = "LIBCLANG_PATH";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Compare with the checked-in files and fail if they differ; write nothing.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let shell = Shell::new()?;
    let root = crate_root();
    let text = shell.read_file(root.join("symbols.txt"))?;
    let symbols = symbols::parse(&text)?;
    let tools = fetch_tools(&shell)?;
    if std::env::var_os(LIBCLANG_VARIABLE).is_none_or(|path| path != tools.libclang) {
        return run_with_libclang(&tools);
    }
    check_versions(&shell.read_file(tools.include.join("cudaTypedefs.h"))?, &symbols)?;
    let bindings = generate_bindings(&shell, &root, &symbols, &tools)?;
    let table = generate_table(&bindings, &symbols)?;
    for (name, content) in [("driver.rs", &bindings), ("table.rs", &table)] {
        let path = root.join("bindings").join(name);
        if options.check {
            let present = shell.read_file(&path)?;
            ensure!(present == *content, "{} is stale: run `cargo xtask bindgen`", path.display());
        } else {
            shell.write_file(&path, content)?;
        }
    }
    println!("bindings of {} entry points are {}", symbols.len(), outcome(options));
    if !options.check {
        println!("next: cargo test -p cuda-sys");
    }
    Ok(())
}

/// bindgen finds libclang through the environment, which only a new process can be given safely.
fn run_with_libclang(tools: &Tools) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env(LIBCLANG_VARIABLE, &tools.libclang);
    let status = command.status().context("starting this program with the pinned libclang")?;
    ensure!(status.success(), "with the pinned libclang: {status}");
    Ok(())
}

fn outcome(options: &Options) -> &'static str {
    if options.check { "up to date" } else { "written" }
}

fn crate_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cuda-sys")
}

/// Where the header and libclang lie once fetched.
struct Tools {
    include: PathBuf,
    libclang: PathBuf,
}

fn fetch_tools(shell: &Shell) -> Result<Tools> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bindgen-tools");
    if !target.join("complete").exists() {
        shell.remove_path(&target)?;
        let pip = "-m pip install --quiet --no-deps --only-binary=:all: --target";
        let words: Vec<&str> = pip.split(' ').collect();
        cmd!(shell, "python3 {words...} {target} {HEADER_PACKAGE} {LIBCLANG_PACKAGE}")
            .run()
            .context("fetching the pinned header and libclang with pip")?;
        shell.write_file(target.join("complete"), "")?;
    }
    let include = find(&target, "cuda.h").context("the header package holds no cuda.h")?;
    let libclang = find(&target, "libclang.so").context("the package holds no libclang.so")?;
    Ok(Tools { include, libclang })
}

/// The folder below `root` that holds a file called `name`.
fn find(root: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).ok()?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|file| file == name) {
                return Some(folder);
            }
        }
    }
    None
}

fn generate_bindings(
    shell: &Shell,
    root: &Path,
    symbols: &[Symbol],
    tools: &Tools,
) -> Result<String> {
    let compiler_include = cmd!(shell, "gcc -print-file-name=include").read()?;
    let mut builder = ::bindgen::Builder::default()
        .header(root.join("wrapper.h").display().to_string())
        .clang_arg(format!("-I{}", tools.include.display()))
        .clang_arg(format!("-I{compiler_include}"))
        .default_enum_style(::bindgen::EnumVariation::NewType {
            is_bitfield: false,
            is_global: false,
        })
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(true)
        .derive_default(true)
        .derive_eq(true)
        .derive_hash(true)
        .disable_header_comment()
        .formatter(::bindgen::Formatter::Prettyplease)
        .allowlist_type("CUdevice_attribute|CUresult|CUfunction_attribute|CUctx_flags")
        .allowlist_type("CUstream_flags|CUevent_flags|CUpointer_attribute|CUmem.*_enum")
        .allowlist_type("CUdriverProcAddress.*|CUipcMem_flags|CUlaunchAttribute.*")
        .raw_line("// Generated by `cargo xtask bindgen`; do not edit.")
        .raw_line(format!("// From the header of {HEADER_PACKAGE}."));
    for symbol in symbols {
        builder = builder.allowlist_function(&symbol.declared);
    }
    Ok(builder.generate().context("bindgen refused the header")?.to_string())
}

/// `cudaTypedefs.h` names a type for every name and version that `cuGetProcAddress` knows. Asked
/// for anything else, a driver gives an older function of the name, with another signature.
fn check_versions(typedefs: &str, symbols: &[Symbol]) -> Result<()> {
    for symbol in symbols {
        let known = format!("PFN_{}_v{}", symbol.base, symbol.version);
        let is_there = typedefs.match_indices(&known).any(|(at, _)| {
            let rest = typedefs.get(at + known.len()..).unwrap_or_default();
            !rest.starts_with(|next: char| next.is_ascii_digit())
        });
        ensure!(is_there, "the header knows no {known}: see cudaTypedefs.h for its versions");
    }
    Ok(())
}

/// The table is made from the signatures bindgen found, so the two cannot disagree.
fn generate_table(bindings: &str, symbols: &[Symbol]) -> Result<String> {
    let signatures = signatures(bindings)?;
    let mut rows = String::new();
    for symbol in symbols {
        let Some(signature) = signatures.get(&symbol.declared) else {
            bail!("the header declares no {}", symbol.declared);
        };
        let need = if symbol.required { "required" } else { "optional" };
        writeln!(
            rows,
            "    {need} {} {} {:?} {:?} fn{signature};",
            symbol.field(),
            symbol.version,
            symbol.base,
            symbol.exported,
        )?;
    }
    Ok(format!(
        "// Generated by `cargo xtask bindgen` from symbols.txt; do not edit.\n\
         entry_points! {{\n{rows}}}\n"
    ))
}

/// `name -> "(type, ...) -> result"` for every function of the bindings.
fn signatures(bindings: &str) -> Result<HashMap<String, String>> {
    let file = syn::parse_file(bindings).context("parsing the bindings")?;
    let mut found = HashMap::new();
    for item in file.items {
        let syn::Item::ForeignMod(block) = item else { continue };
        for item in block.items {
            let syn::ForeignItem::Fn(function) = item else { continue };
            let inputs: Vec<String> = function.sig.inputs.iter().map(argument).collect();
            let syn::ReturnType::Type(_, output) = &function.sig.output else { continue };
            let signature = format!("({}) -> {}", inputs.join(", "), plain(output));
            found.insert(function.sig.ident.to_string(), signature);
        }
    }
    Ok(found)
}

fn argument(input: &syn::FnArg) -> String {
    let syn::FnArg::Typed(typed) = input else { return String::from("self") };
    plain(&typed.ty)
}

/// A type as a person writes it: C's own types come from `std::ffi`, imported as a module.
fn plain(ty: &syn::Type) -> String {
    let words = quote::quote!(#ty).to_string();
    let words = words.replace(":: std :: os :: raw :: ", "ffi::");
    words.replace(" :: ", "::").replace("* ", "*")
}

#[cfg(test)]
mod tests {
    use super::check_versions;
    use crate::symbols;

    #[test]
    fn a_version_that_the_header_does_not_know_is_refused() {
        let typedefs = "typedef CUresult (CUDAAPI *PFN_cuX_v11000)(int);\n\
                        typedef CUresult (CUDAAPI *PFN_cuY_v2000_ptsz)(int);";
        let check = |text: &str| check_versions(typedefs, &symbols::parse(text).unwrap());
        check("cuX 11000 required\ncuY 2000 required").unwrap();
        for wrong in ["cuX 1100 required", "cuX 12000 required", "cuZ 2000 required"] {
            let refusal = check(wrong).unwrap_err().to_string();
            assert!(refusal.starts_with("the header knows no PFN_cu"), "{refusal}");
        }
    }
}
