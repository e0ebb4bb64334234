//! Copies that run beside the compute: pinned memory, two streams, two buffers in turn.
//!
//! The same work twice: each piece is copied in and worked on, first on one stream, then with the
//! copies on a stream of their own. Pinned memory knows the copies under way and a freed buffer its
//! uses, so the only thing the program says is which stream waits for which.
#![expect(clippy::print_stdout, reason = "an example says what it shows")]

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use wellspring::{DeviceBuffer, Kernels, PinnedBuffer, Runtime, Stream};

const PIECES: usize = 16;
const LEN: usize = 512 << 10;
/// About as long as the copy of a piece takes.
const WORK_NANOSECONDS: u64 = 60_000;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let runtime = wellspring::open_from_environment()?;
    println!("{}", runtime.describe());
    let kernels = Kernels::load(runtime.context())?;
    let (compute, copies) = (runtime.create_stream()?, runtime.create_stream()?);
    let mut pieces = Vec::new();
    for number in 1_u8..=u8::try_from(PIECES)? {
        let mut piece = PinnedBuffer::<f32>::new(&runtime, LEN)?;
        piece.as_mut_slice()?.fill(f32::from(number));
        pieces.push(piece);
    }

    // The first run finds cold memory; it is not compared.
    run(&runtime, &kernels, &compute, &copies, &pieces)?;
    let (one, first) = run(&runtime, &kernels, &compute, &compute, &pieces)?;
    let (two, second) = run(&runtime, &kernels, &compute, &copies, &pieces)?;

    let mib = (PIECES * LEN * size_of::<f32>()) >> 20;
    println!("{mib} MiB copied in and worked on, in {PIECES} pieces");
    println!("one stream:  {:.2} ms", one.as_secs_f64() * 1e3);
    println!("two streams: {:.2} ms", two.as_secs_f64() * 1e3);
    let expected: f32 = (1_u8..=16).map(f32::from).sum();
    let sums_are_right =
        [&first, &second].iter().all(|sums| sums.iter().all(|sum| *sum == expected));
    let right = sums_are_right && two.as_secs_f64() < 0.9 * one.as_secs_f64();
    println!("every sum is {expected}, and two streams were at least a tenth faster: {right}");
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Copies each piece in on `copies`, adds it up on `compute`; gives the device's time and the sums.
fn run(
    runtime: &Runtime,
    kernels: &Kernels,
    compute: &Stream,
    copies: &Stream,
    pieces: &[PinnedBuffer<f32>],
) -> Result<(Duration, Vec<f32>), Box<dyn Error>> {
    let mut sums = DeviceBuffer::<f32>::zeroed(runtime, compute, LEN)?;
    let (start, end) =
        (runtime.context().create_timing_event()?, runtime.context().create_timing_event()?);
    copies.wait_stream(compute)?;
    compute.record(&start)?;
    for piece in pieces {
        let mut buffer = DeviceBuffer::<f32>::new(runtime, copies, LEN)?;
        let copied = buffer.copy_from_pinned(copies, piece)?;
        compute.wait_submission(&copied)?;
        let _busy = kernels.spin(compute, WORK_NANOSECONDS)?;
        let _added = kernels.scale_add(compute, &mut sums, &buffer, 1.0)?;
    }
    compute.record(&end)?;
    end.synchronize()?;
    Ok((end.elapsed_since(&start)?, sums.to_vec(compute)?))
}
