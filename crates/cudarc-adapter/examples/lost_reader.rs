//! Two streams read one buffer, the slower one first; it is dropped, and its stream asks for as
//! much again and overwrites it. Does the slow reader read what was there?
//!
//! First with buffers of Wellspring's in calls of cudarc's; then with cudarc's own slices in the
//! very same calls, whose one read event remembers the last reader only. Ends with 1 if
//! Wellspring's answer is wrong. Runs on a GPU, or on the simulated driver (see
//! `simulated_cuda.rs`), which finds that the memory of the slices is gone under the slow reader.
#![expect(clippy::print_stdout, reason = "an example talks through its standard output")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use cudarc::cublas::{CudaBlas, Gemv, GemvConfig, sys::cublasOperation_t};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DevicePtr, DevicePtrMut, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use cudarc_adapter::Neighbor;

const LEN: usize = 1 << 20;
const OLD: u8 = 0x11;
const NEW: u8 = 0x22;
/// How long the slow reader is kept from reading.
const SLOW_NANOSECONDS: u64 = 50_000_000;
const ROUNDS: usize = 20;

/// What every round works with.
struct Bench {
    spin: CudaFunction,
    copy: CudaFunction,
    home: Arc<CudaStream>,
    slow: Arc<CudaStream>,
    fast: Arc<CudaStream>,
}

impl Bench {
    fn new(context: &Arc<CudaContext>) -> Result<Self, Box<dyn Error>> {
        let module = context.load_module(Ptx::from_src(kernels::PTX))?;
        let (home, slow) = (context.new_stream()?, context.new_stream()?);
        Ok(Self {
            spin: module.load_function("spin")?,
            copy: module.load_function("copy_u32")?,
            home,
            slow,
            fast: context.new_stream()?,
        })
    }

    /// Keeps a stream busy.
    fn delay(&self, stream: &Arc<CudaStream>) -> Result<(), Box<dyn Error>> {
        let mut launch = stream.launch_builder(&self.spin);
        let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
        launch.arg(&SLOW_NANOSECONDS);
        // SAFETY: the kernel takes one number and touches no memory.
        unsafe { launch.launch(one) }?;
        Ok(())
    }

    /// What both readers do with a source, whoever owns it: the slow one comes first.
    fn read(
        &self,
        source: &impl DevicePtr<u8>,
        targets: [&mut impl DevicePtrMut<u8>; 2],
    ) -> Result<(), Box<dyn Error>> {
        let [slow, fast] = targets;
        self.delay(&self.slow)?;
        self.slow.memcpy_dtod(source, slow)?;
        self.fast.memcpy_dtod(source, fast)?;
        Ok(())
    }
}

/// How many bytes the slow reader read that were written after the drop: with cudarc's slices.
fn with_slices(bench: &Bench) -> Result<usize, Box<dyn Error>> {
    let home = &bench.home;
    let source = home.clone_htod(&vec![OLD; LEN])?;
    let mut seen_slow = bench.slow.alloc_zeros::<u8>(LEN)?;
    let mut seen_fast = bench.fast.alloc_zeros::<u8>(LEN)?;
    bench.read(&source, [&mut seen_slow, &mut seen_fast])?;
    drop(source);
    let _overwritten = home.clone_htod(&vec![NEW; LEN])?;
    home.synchronize()?;
    let seen = bench.slow.clone_dtoh(&seen_slow)?;
    Ok(seen.iter().filter(|byte| **byte != OLD).count())
}

/// The same round after round, in words. A device may also find the memory gone under the reader.
fn outcome_with_slices(context: &CudaContext, bench: &Bench) -> String {
    let mut lost = 0;
    for round in 1..=ROUNDS {
        let seen = with_slices(bench)
            .and_then(|seen| context.synchronize().map(|()| seen).map_err(Into::into));
        match seen {
            Ok(seen) => lost += usize::from(0 < seen),
            Err(error) => return format!("the device failed in round {round}: {error}"),
        }
    }
    format!("the slow reader lost its bytes in {lost} of {ROUNDS} rounds")
}

/// The same with Wellspring's buffers.
fn with_buffers(bench: &Bench, neighbor: &Neighbor) -> Result<usize, Box<dyn Error>> {
    let home = &bench.home;
    // The readers are known, so that their use is a record and no wait of the host.
    neighbor.stream(&bench.slow)?;
    neighbor.stream(&bench.fast)?;
    let mut source = neighbor.alloc::<u8>(home, LEN)?;
    home.memcpy_htod(&vec![OLD; LEN], &mut source)?;
    let mut seen_slow = neighbor.alloc_zeros::<u8>(&bench.slow, LEN)?;
    let mut seen_fast = neighbor.alloc_zeros::<u8>(&bench.fast, LEN)?;
    bench.read(&source, [&mut seen_slow, &mut seen_fast])?;
    drop(source);
    let mut again = neighbor.alloc::<u8>(home, LEN)?;
    home.memcpy_htod(&vec![NEW; LEN], &mut again)?;
    home.synchronize()?;
    let seen = bench.slow.clone_dtoh(&seen_slow)?;
    Ok(seen.iter().filter(|byte| **byte != OLD).count())
}

/// A launch of cudarc's with two of our buffers, freed while it is queued behind a delay.
fn launch(bench: &Bench, neighbor: &Neighbor) -> Result<bool, Box<dyn Error>> {
    let words = LEN / 4;
    let mut source = neighbor.alloc_zeros::<u32>(&bench.home, words)?;
    source.fill(7)?;
    let mut target = neighbor.alloc_zeros::<u32>(&bench.home, words)?;
    bench.delay(&bench.slow)?;
    {
        let (read, written) = (source.on(&bench.slow)?, target.on_mut(&bench.slow)?);
        let count = u64::try_from(words)?;
        let mut launch = bench.slow.launch_builder(&bench.copy);
        launch.arg(&written).arg(&read).arg(&count);
        let shape = LaunchConfig::for_num_elems(u32::try_from(words)?);
        // SAFETY: `copy_u32(out, in, count)` copies `count` words, as many as both buffers have.
        unsafe { launch.launch(shape) }?;
    }
    drop(source);
    let mut again = neighbor.alloc::<u32>(&bench.home, words)?;
    bench.home.memset_zeros(&mut again)?;
    Ok(bench.home.clone_dtoh(&target)?.iter().all(|word| *word == 7))
}

/// A matrix times a vector by cuBLAS, where that is installed.
fn multiply(bench: &Bench, neighbor: &Neighbor) -> Result<Option<bool>, Box<dyn Error>> {
    // SAFETY: it only opens the library, whose initialization is NVIDIA's.
    if !unsafe { cudarc::cublas::sys::is_culib_present() } {
        return Ok(None);
    }
    let blas = CudaBlas::new(Arc::clone(&bench.home))?;
    let mut matrix = neighbor.alloc::<f32>(&bench.home, 4)?;
    bench.home.memcpy_htod(&[1.0, 2.0, 3.0, 4.0], &mut matrix)?;
    let mut vector = neighbor.alloc::<f32>(&bench.home, 2)?;
    bench.home.memcpy_htod(&[1.0, 1.0], &mut vector)?;
    let mut product = neighbor.alloc_zeros::<f32>(&bench.home, 2)?;
    let trans = cublasOperation_t::CUBLAS_OP_N;
    let (alpha, beta) = (1.0, 0.0);
    let config = GemvConfig { trans, m: 2, n: 2, alpha, lda: 2, incx: 1, beta, incy: 1 };
    // SAFETY: the sizes are those of the three buffers.
    unsafe { blas.gemv(config, &matrix, &vector, &mut product) }?;
    drop((matrix, vector));
    Ok(Some(bench.home.clone_dtoh(&product)? == [4.0, 6.0]))
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    println!("device: {}", context.name()?);
    let bench = Bench::new(&context)?;
    let neighbor = Neighbor::new(&context)?;
    let mut wrong = 0;
    for _ in 0..ROUNDS {
        wrong += usize::from(0 < with_buffers(&bench, &neighbor)?);
        context.synchronize()?;
    }
    println!("Wellspring's buffers: the slow reader lost its bytes in {wrong} of {ROUNDS} rounds");
    let launched = launch(&bench, &neighbor)?;
    println!("a launch of cudarc's: {}", if launched { "right" } else { "WRONG" });
    let multiplied = multiply(&bench, &neighbor)?;
    println!(
        "cuBLAS: {}",
        multiplied.map_or("not installed", |right| if right { "right" } else { "WRONG" })
    );
    drop(neighbor);
    // Last, as a reader whose memory has gone may break the context.
    println!("cudarc's slices: {}", outcome_with_slices(&context, &bench));
    let is_right = wrong == 0 && launched && multiplied != Some(false);
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
