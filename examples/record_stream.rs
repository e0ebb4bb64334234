//! Three streams, early frees: the caller says who uses a buffer, the allocator finds the order.
//!
//! A producer fills a buffer, two consumers read it, and the host frees it at once, long before
//! the device is done. A launch counts its use by itself; for work that goes through another
//! library there is `record_stream`. Reserved memory stays near the bound that was set, and every
//! sum is right, so no buffer was filled again while a consumer still read it.
#![expect(clippy::print_stdout, reason = "an example says what it shows")]

use std::error::Error;
use std::process::ExitCode;

use wellspring::{Builder, DeviceBuffer, DeviceChoice, Kernels};

const STEPS: u16 = 100;
const LEN: usize = 64 << 10;
const PENDING_MAX: u64 = 2 << 20;
/// How long the producer and a consumer work on each buffer.
const WORK_NANOSECONDS: u64 = 100_000;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let choice = DeviceChoice::from_environment()?;
    let runtime = Builder::new().pending_bytes_max(PENDING_MAX).open_choice(choice)?;
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
        // The launches have said so already; this is how another library's work is announced.
        buffer.record_stream(&consumers[1]);
        drop(buffer);
    }

    for consumer in &consumers {
        producer.wait_stream(consumer)?;
    }
    let end = runtime.context().create_timing_event()?;
    producer.record(&end)?;
    end.synchronize()?;

    let stats = runtime.stats();
    let asked_mib = (usize::from(STEPS) * LEN * size_of::<f32>()) >> 20;
    let peak_mib = stats.reserved_bytes.peak >> 20;
    println!(
        "{STEPS} steps in {:.1} ms on the device",
        end.elapsed_since(&start)?.as_secs_f64() * 1e3
    );
    println!("asked for {asked_mib} MiB in all, {peak_mib} MiB reserved at most");
    println!(
        "{} frees came before their uses were over; {} waits on the device; served by: {:?}",
        stats.deferred_free_total,
        stats.device_waits(),
        stats.served_by
    );

    let expected = f32::from(STEPS) * f32::from(STEPS + 1) / 2.0;
    let mut right = peak_mib <= 8;
    for (consumer, sum) in consumers.iter().zip(&sums) {
        right &= sum.to_vec(consumer)?.iter().all(|value| *value == expected);
    }
    println!("every sum is {expected} and memory stayed low: {right}");
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
