//! `cargo xtask kernels`: compiles `kernels/wellspring.cu` to the checked-in PTX.
//!
//! Needs gcc and Python's pip, which fetches the pinned compiler packages into `target/`; no GPU
//! and no toolkit. `--check` compares instead of writing. Next: `cargo test -p kernels`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use xshell::{Shell, cmd};

use crate::pinned;

/// The compiler and what it reads, of the oldest toolkit of the newest supported major version:
/// PTX carries its compiler's version, and a driver refuses PTX that is newer than itself.
const COMPILER_PACKAGES: [&str; 4] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
];
/// The oldest architecture this compiler still writes for; newer devices take its PTX too.
const ARCHITECTURE: &str = "compute_75";
/// The newest PTX version that a 13.0 driver accepts.
const PTX_VERSION: &str = ".version 9.0";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Compare with the checked-in PTX and fail if it differs; write nothing.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let shell = Shell::new()?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels");
    let path = folder.join("wellspring.ptx");
    let compiler = fetch_compiler(&shell)?;
    let ptx = compile(&shell, &folder, &compiler)?;
    ensure!(
        ptx.lines().any(|line| line == PTX_VERSION),
        "the compiler did not write {PTX_VERSION}: is its package still pinned?"
    );
    pinned::settle(&shell, &path, &ptx, options.check, "kernels")?;
    let entries = ptx.lines().filter(|line| line.starts_with(".visible .entry")).count();
    let outcome = if options.check { "up to date" } else { "written" };
    println!("PTX of {entries} kernels is {outcome}");
    if !options.check {
        println!("next: cargo test -p kernels");
    }
    Ok(())
}

/// Where `nvcc` lies once fetched.
fn fetch_compiler(shell: &Shell) -> Result<PathBuf> {
    let target = pinned::fetch(shell, "kernel-tools", &COMPILER_PACKAGES)?;
    let compiler = target.join("nvidia/cu13/bin/nvcc");
    ensure!(compiler.is_file(), "the packages hold no {}", compiler.display());
    Ok(compiler)
}

/// Runs in the source's own folder and names it without a path, so that the text that comes out
/// is the same on every machine. No contraction: `a + b * c` rounds twice, as it does on the host.
fn compile(shell: &Shell, folder: &Path, compiler: &Path) -> Result<String> {
    let out = shell.create_temp_dir()?;
    let ptx = out.path().join("wellspring.ptx");
    let _folder = shell.push_dir(folder);
    let options = ["-ptx", "-O3", "-std=c++17", "-fmad=false"];
    cmd!(shell, "{compiler} {options...} -arch={ARCHITECTURE} -o {ptx} wellspring.cu")
        .run()
        .context("compiling wellspring.cu")?;
    Ok(shell.read_file(&ptx)?)
}
