//! Buffers in cudarc's hands: the order of its reads and writes, and how long each use counts.
//!
//! Every step checks itself and says so; ends with 1 if one is wrong. Runs on a GPU, or on the
//! simulated driver (see `simulated_cuda.rs`).
#![expect(clippy::print_stdout, reason = "an example talks through its standard output")]

use std::process::ExitCode;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use cudarc_adapter::{Error, Neighbor, SharedBuffer};

type Outcome = Result<bool, Box<dyn std::error::Error>>;
type Step = fn(&Stage) -> Outcome;

const LEN: usize = 1 << 20;
/// How long a stream is kept busy that is to be late.
const LATE_NANOSECONDS: u64 = 20_000_000;

struct Stage {
    neighbor: Neighbor,
    spin: CudaFunction,
    home: Arc<CudaStream>,
    other: Arc<CudaStream>,
    /// Nobody tells the neighbor of it.
    unknown: Arc<CudaStream>,
}

impl Stage {
    /// Keeps a stream busy.
    fn delay(&self, stream: &Arc<CudaStream>) -> Result<(), Box<dyn std::error::Error>> {
        let mut launch = stream.launch_builder(&self.spin);
        let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
        launch.arg(&LATE_NANOSECONDS);
        // SAFETY: the kernel takes one number and touches no memory.
        unsafe { launch.launch(one) }?;
        Ok(())
    }

    fn filled(&self, value: u8) -> Result<SharedBuffer<u8>, Box<dyn std::error::Error>> {
        let mut buffer = self.neighbor.alloc::<u8>(&self.home, LEN)?;
        self.home.memcpy_htod(&vec![value; LEN], &mut buffer)?;
        Ok(buffer)
    }

    fn is_reused(&self, address: u64) -> Result<bool, Box<dyn std::error::Error>> {
        Ok(self.neighbor.alloc::<u8>(&self.home, LEN)?.buffer().address() == address)
    }
}

fn a_read_comes_after_the_last_write(stage: &Stage) -> Outcome {
    let mut buffer = stage.filled(1)?;
    stage.delay(&stage.home)?;
    stage.home.memset_zeros(&mut buffer)?;
    let seen = stage.other.clone_dtoh(&buffer)?;
    Ok(seen.iter().all(|byte| *byte == 0))
}

fn a_write_comes_after_every_read(stage: &Stage) -> Outcome {
    let mut buffer = stage.filled(2)?;
    let mut copy = stage.neighbor.alloc_zeros::<u8>(&stage.other, LEN)?;
    stage.delay(&stage.other)?;
    stage.other.memcpy_dtod(&buffer, &mut copy)?;
    stage.home.memset_zeros(&mut buffer)?;
    let seen = stage.other.clone_dtoh(&copy)?;
    Ok(seen.iter().all(|byte| *byte == 2))
}

fn a_stream_that_nobody_named_is_waited_for(stage: &Stage) -> Outcome {
    let mut buffer = stage.filled(3)?;
    stage.delay(&stage.home)?;
    stage.home.memset_zeros(&mut buffer)?;
    let mut copy = stage.unknown.alloc_zeros::<u8>(LEN)?;
    stage.delay(&stage.unknown)?;
    stage.unknown.memcpy_dtod(&buffer, &mut copy)?;
    // Its use is over: the host has waited, so the memory may serve at once.
    let address = buffer.buffer().address();
    drop(buffer);
    let reused = stage.is_reused(address)?;
    Ok(reused && stage.unknown.clone_dtoh(&copy)?.iter().all(|byte| *byte == 0))
}

fn a_loan_ends_with_its_own_launch(stage: &Stage) -> Outcome {
    let buffer = stage.filled(4)?;
    let address = buffer.buffer().address();
    let lent = buffer.on(&stage.other)?;
    // A launch would stand here.
    drop(lent);
    // Through our name of the stream, so that it is known: a wait of cudarc's own teaches nothing.
    stage.neighbor.stream(&stage.other)?.synchronize()?;
    stage.delay(&stage.other)?;
    drop(buffer);
    stage.is_reused(address)
}

#[expect(clippy::mem_forget, reason = "what a program may do")]
fn a_forgotten_loan_counts_until_the_free(stage: &Stage) -> Outcome {
    let buffer = stage.filled(5)?;
    let address = buffer.buffer().address();
    std::mem::forget(buffer.on(&stage.other)?);
    stage.delay(&stage.other)?;
    drop(buffer);
    Ok(!stage.is_reused(address)?)
}

fn the_per_thread_stream_is_refused_a_name(stage: &Stage) -> Outcome {
    let per_thread = stage.home.context().per_thread_stream();
    Ok(matches!(stage.neighbor.stream(&per_thread), Err(Error::PerThread)))
}

/// Was: the name of a stream outlived it, and named a stream that the driver had destroyed.
fn a_name_may_outlive_its_stream_and_its_neighbor(stage: &Stage) -> Outcome {
    let theirs = stage.home.context().new_stream()?;
    let neighbor = Neighbor::new(theirs.context())?;
    let (ours, context) = (neighbor.stream(&theirs)?, neighbor.runtime().context().clone());
    drop((neighbor, theirs));
    ours.synchronize()?;
    let event = ours.record_event()?;
    ours.wait_event(&event)?;
    context.synchronize()?;
    Ok(event.query()?)
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let context = CudaContext::new(0)?;
    println!("device: {}", context.name()?);
    let module = context.load_module(Ptx::from_src(kernels::PTX))?;
    let (home, other) = (context.new_stream()?, context.new_stream()?);
    let (spin, unknown) = (module.load_function("spin")?, context.new_stream()?);
    let stage = Stage { neighbor: Neighbor::new(&context)?, spin, home, other, unknown };
    stage.neighbor.stream(&stage.other)?;
    let steps: [(&str, Step); 7] = [
        ("a read comes after the last write", a_read_comes_after_the_last_write),
        ("a write comes after every read", a_write_comes_after_every_read),
        ("a stream that nobody named is waited for", a_stream_that_nobody_named_is_waited_for),
        ("a loan ends with its own launch", a_loan_ends_with_its_own_launch),
        ("a forgotten loan counts until the free", a_forgotten_loan_counts_until_the_free),
        ("the per-thread stream is refused a name", the_per_thread_stream_is_refused_a_name),
        (
            "a name may outlive its stream and its neighbor",
            a_name_may_outlive_its_stream_and_its_neighbor,
        ),
    ];
    let mut is_right = true;
    for (name, step) in steps {
        let right = step(&stage)?;
        println!("{name}: {}", if right { "right" } else { "WRONG" });
        is_right &= right;
        context.synchronize()?;
    }
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
