//! Chooses the driver declarations: the checked-in ones, or fresh ones from the user's toolkit.
//!
//! `CUDA_SYS_HEADER_DIR=/usr/local/cuda/include` regenerates them with the `bindgen` program
//! found on the PATH; nothing else ever needs a toolkit, libclang or bindgen.

use std::path::{Path, PathBuf};
use std::process::Command;

const VARIABLE: &str = "CUDA_SYS_HEADER_DIR";

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-changed=bindings/driver.rs");
    println!("cargo::rerun-if-changed=wrapper.h");
    let chosen = match std::env::var_os(VARIABLE) {
        None => checked_in(),
        Some(folder) => regenerate(Path::new(&folder)),
    };
    match chosen {
        Ok(path) => println!("cargo::rustc-env=CUDA_SYS_BINDINGS={}", path.display()),
        Err(reason) => println!("cargo::error={reason}"),
    }
}

fn checked_in() -> Result<PathBuf, String> {
    let root = std::env::var("CARGO_MANIFEST_DIR").map_err(|error| error.to_string())?;
    Ok(Path::new(&root).join("bindings/driver.rs"))
}

fn regenerate(include: &Path) -> Result<PathBuf, String> {
    if !include.join("cuda.h").is_file() {
        return Err(format!("{VARIABLE}={}: there is no cuda.h in it", include.display()));
    }
    let out = std::env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let out = Path::new(&out).join("driver.rs");
    let status = Command::new("bindgen")
        .arg("wrapper.h")
        .args(["--default-enum-style", "newtype", "--no-prepend-enum-name", "--no-doc-comments"])
        .args(["--with-derive-default", "--with-derive-eq", "--with-derive-hash"])
        .args(["--allowlist-function", "cu[A-Z].*", "--allowlist-type", "CU.*"])
        .arg("--output")
        .arg(&out)
        .args(["--", &format!("-I{}", include.display())])
        .status()
        .map_err(|error| format!("{VARIABLE} is set but `bindgen` could not be run: {error}"))?;
    if status.success() { Ok(out) } else { Err(format!("bindgen failed: {status}")) }
}
