//! The same early frees made safe by hand: the producer waits for the consumers before each free.
//!
//! Then every use is already known to be over in the producer's order when the buffer is freed, so
//! nothing is ever pending and one buffer serves all steps, without a question to the device. The
//! price is that the producer cannot run ahead: it fills only when both consumers are done.
#![expect(clippy::print_stdout, reason = "an example says what it shows")]

use std::error::Error;
use std::process::ExitCode;

use wellspring::{DeviceBuffer, Kernels};

const STEPS: u16 = 100;
const LEN: usize = 64 << 10;
/// How long the producer and a consumer work on each buffer.
const WORK_NANOSECONDS: u64 = 100_000;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let runtime = wellspring::open_from_environment()?;
    println!("{}", runtime.describe());
    let kernels = Kernels::load(runtime.context())?;
    let producer = runtime.create_stream()?;
    let consumers = [runtime.create_stream()?, runtime.create_stream()?];
    let mut sums = [
        DeviceBuffer::<f32>::zeroed(&runtime, &producer, LEN)?,
        DeviceBuffer::<f32>::zeroed(&runtime, &producer, LEN)?,
    ];
    let start = runtime.context().create_timing_event()?;
    producer.record(&start)?;

    for step in 1..=STEPS {
        let mut buffer = DeviceBuffer::<f32>::new(&runtime, &producer, LEN)?;
        let _busy = kernels.spin(&producer, WORK_NANOSECONDS)?;
        let _filled = buffer.fill(&producer, f32::from(step))?;
        for (consumer, sum) in consumers.iter().zip(&mut sums) {
            consumer.wait_stream(&producer)?;
            let _busy = kernels.spin(consumer, WORK_NANOSECONDS)?;
            let _added = kernels.scale_add(consumer, sum, &buffer, 1.0)?;
        }
        for consumer in &consumers {
            producer.wait_stream(consumer)?;
        }
        drop(buffer);
    }

    let end = runtime.context().create_timing_event()?;
    producer.record(&end)?;
    end.synchronize()?;

    let stats = runtime.stats();
    let milliseconds = end.elapsed_since(&start)?.as_secs_f64() * 1e3;
    println!("{STEPS} steps in {milliseconds:.1} ms on the device, one after the other");
    println!("{} KiB reserved at most", stats.reserved_bytes.peak >> 10);
    println!(
        "{} frees came before their uses were over; served by: {:?}",
        stats.deferred_free_total, stats.served_by
    );

    let expected = f32::from(STEPS) * f32::from(STEPS + 1) / 2.0;
    let mut right = stats.deferred_free_total == 0 && stats.pending_bytes.peak == 0;
    for (consumer, sum) in consumers.iter().zip(&sums) {
        right &= sum.to_vec(consumer)?.iter().all(|value| *value == expected);
    }
    println!("every sum is {expected} and nothing was ever pending: {right}");
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
