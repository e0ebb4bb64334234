//! A graph keeps the memory it uses, although the program has freed it.
//!
//! A scratch buffer is used inside a capture and dropped before the graph runs even once. The graph
//! holds it: other requests get other memory for as long as the graph can be replayed, and the
//! same memory once it is gone.
#![expect(clippy::print_stdout, reason = "an example says what it shows")]

use std::error::Error;
use std::process::ExitCode;

use wellspring::{CaptureMode, DeviceBuffer, Kernels};

const REPLAYS: u16 = 10;
const LEN: usize = 1 << 20;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let runtime = wellspring::open_from_environment()?;
    println!("{}", runtime.describe());
    let kernels = Kernels::load(runtime.context())?;
    let stream = runtime.create_stream()?;
    let mut total = DeviceBuffer::<f32>::zeroed(&runtime, &stream, LEN)?;
    let mut scratch = DeviceBuffer::<f32>::new(&runtime, &stream, LEN)?;
    let scratch_address = scratch.address();

    let capture = stream.begin_capture(CaptureMode::ThreadLocal)?;
    let _filled = scratch.fill(&stream, 2.0)?;
    let _added = kernels.scale_add(&stream, &mut total, &scratch, 1.0)?;
    let graph = capture.end()?;
    drop(scratch);
    println!("captured; the graph has {} holds on buffers", graph.hold_count());
    let exec = graph.instantiate()?;
    drop(graph);

    let mut reused_early = false;
    for _ in 0..REPLAYS {
        let _replayed = exec.launch(&stream)?;
        // Were this the scratch buffer's memory, the next replay would spoil it.
        let mut other = DeviceBuffer::<f32>::new(&runtime, &stream, LEN)?;
        reused_early |= other.address() == scratch_address;
        let _filled = other.fill(&stream, -1.0)?;
    }
    let expected = 2.0 * f32::from(REPLAYS);
    let totals_are_right = total.to_vec(&stream)?.iter().all(|value| *value == expected);
    let pending_mib = runtime.stats().pending_bytes.current >> 20;
    println!("after {REPLAYS} replays each total is {expected}; {pending_mib} MiB are held");

    drop(exec);
    runtime.synchronize()?;
    let after_mib = runtime.stats().pending_bytes.current >> 20;
    println!("after the graph is gone {after_mib} MiB are held");
    let right = totals_are_right && !reused_early && 4 <= pending_mib && after_mib == 0;
    println!("totals right, nothing reused early, everything given back: {right}");
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
