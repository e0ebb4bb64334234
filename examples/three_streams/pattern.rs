//! The loop itself, in two ways: freed at once, or some steps later behind a wait.

use std::collections::VecDeque;
use std::error::Error;
use std::time::Duration;

use wellspring::{DeviceBuffer, Event, Kernels, Runtime};

/// How often the producer makes a buffer.
pub(crate) const STEPS: u16 = 200;
/// The numbers in a buffer: 1.25 MiB of them.
const LEN: usize = 320 << 10;
/// The numbers that a consumer looks at.
const SUM_LEN: usize = 4 << 10;
/// How long the producer works on a buffer, and each of the consumers: long beside what the calls
/// of a step take the host, so that the device is what a run is made of.
const PRODUCE_NANOSECONDS: u64 = 1_600_000;
const CONSUME_NANOSECONDS: [u64; 2] = [2_080_000, 960_000];

/// How an early free is made safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The program says who uses the buffer, and frees it.
    RecordStream,
    /// The program keeps it for so many steps, then has the producer wait for its users, and
    /// frees it.
    WaitLater(usize),
}

/// What a run took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    /// On the device, from before the first operation to after the last one.
    pub(crate) time: Duration,
    /// The most bytes that were allocated, or freed and in use.
    pub(crate) peak_active_bytes: u64,
    /// Whether every consumer read what the producer wrote.
    pub(crate) sums_are_right: bool,
}

/// A buffer that is freed later, with what must be over before.
struct Kept {
    over: Vec<Event>,
    buffer: DeviceBuffer<f32>,
}

/// Runs the loop.
///
/// # Errors
/// No memory, or the driver's answer.
pub(crate) fn run(runtime: &Runtime, way: Way) -> Result<Outcome, Box<dyn Error>> {
    let kernels = Kernels::load(runtime.context())?;
    let producer = runtime.create_stream()?;
    let consumers = [runtime.create_stream()?, runtime.create_stream()?];
    let start = runtime.context().create_timing_event()?;
    producer.record(&start)?;
    let mut sums = Vec::new();
    for consumer in &consumers {
        sums.push(DeviceBuffer::<f32>::zeroed(runtime, consumer, SUM_LEN)?);
    }

    let mut kept: VecDeque<Kept> = VecDeque::new();
    for step in 1..=STEPS {
        if let Way::WaitLater(steps) = way
            && steps <= kept.len()
            && let Some(oldest) = kept.pop_front()
        {
            for over in &oldest.over {
                producer.wait_event(over)?;
            }
            drop(oldest.buffer);
        }
        let mut buffer = DeviceBuffer::<f32>::new(runtime, &producer, LEN)?;
        let _busy = kernels.spin(&producer, PRODUCE_NANOSECONDS)?;
        let _filled = buffer.fill(&producer, f32::from(step))?;
        let mut over = Vec::new();
        for ((consumer, sum), nanoseconds) in
            consumers.iter().zip(&mut sums).zip(CONSUME_NANOSECONDS)
        {
            consumer.wait_stream(&producer)?;
            let _busy = kernels.spin(consumer, nanoseconds)?;
            let _added = kernels.scale_add(consumer, sum, &buffer, 1.0)?;
            if way == Way::RecordStream {
                buffer.record_stream(consumer);
            } else {
                over.push(consumer.record_event()?);
            }
        }
        if way == Way::RecordStream {
            buffer.free()?;
        } else {
            kept.push_back(Kept { over, buffer });
        }
    }

    let mut time = Duration::ZERO;
    for consumer in &consumers {
        let end = runtime.context().create_timing_event()?;
        consumer.record(&end)?;
        end.synchronize()?;
        time = time.max(end.elapsed_since(&start)?);
    }
    let peak_active_bytes = runtime.stats().active_bytes.peak;
    drop(kept);
    let expected = f32::from(STEPS) * f32::from(STEPS + 1) / 2.0;
    let mut sums_are_right = true;
    for (consumer, sum) in consumers.iter().zip(&sums) {
        sums_are_right &= sum.to_vec(consumer)?.iter().all(|value| *value == expected);
    }
    Ok(Outcome { time, peak_active_bytes, sums_are_right })
}

/// Bytes as MiB, to a tenth and better.
#[must_use]
pub(crate) fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0
}
