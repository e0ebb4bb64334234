//! A producer and two consumers, recorded and tuned: what `cargo wellspring advise` is for.
//!
//! First as it is written down soonest: the buffer is freed at once, and `record_stream` says who
//! still uses it. Recorded with `WELLSPRING_RECORD=run.wst`, `cargo wellspring advise run.wst` says
//! where to wait instead, and what that will take. `three_streams wait N` is the same loop with
//! that advice taken: it keeps each buffer for N steps, waits for its users, and frees it.
#![expect(clippy::print_stdout, reason = "an example says what it shows")]

use std::error::Error;
use std::process::ExitCode;

mod pattern;

use pattern::{Way, run};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let way = match words.as_slice() {
        [] | ["record_stream"] => Way::RecordStream,
        ["wait", steps] => Way::WaitLater(steps.parse()?),
        _ => return Err("usage: three_streams [record_stream | wait STEPS]".into()),
    };
    let runtime = wellspring::open_from_environment()?;
    println!("{}", runtime.describe());
    let outcome = run(&runtime, way)?;
    println!(
        "{} steps in {:.2} ms on the device, at most {:.1} MiB in use",
        pattern::STEPS,
        outcome.time.as_secs_f64() * 1e3,
        pattern::mib(outcome.peak_active_bytes),
    );
    if let Some(path) = runtime.recording_path() {
        runtime.finish_recording()?;
        println!("recorded to {}", path.display());
    }
    println!("every sum is right: {}", outcome.sums_are_right);
    Ok(if outcome.sums_are_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
