//! Work that reacts to the device: each job says when it is done, and its result starts the next.
//!
//! Jobs of different lengths are queued on streams of their own, and begin together. A host
//! function at the end of each sends a message; the host takes them as they come and queues the
//! second stage of whichever job came first. Nothing is asked in a loop and no thread waits for one
//! particular job.
#![expect(clippy::print_stdout, reason = "an example says what it shows")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use wellspring::cuda_sim::Schedule;
use wellspring::{Builder, DeviceBuffer, DeviceChoice, Kernels, Simulation, Stream};

const JOBS: u32 = 6;
const LEN: usize = 64 << 10;
const STEP_NANOSECONDS: u64 = 2_000_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// What a host function reports: a job has ended a stage.
struct Done {
    job: usize,
    stage: u32,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // A simulated device has to go on while the host waits for a message.
    let live = Simulation::default().schedule(Schedule::RealTime);
    let choice = DeviceChoice::from_environment()?;
    let runtime = Builder::new().simulation(live).open_choice(choice)?;
    println!("{}", runtime.describe());
    let kernels = Kernels::load(runtime.context())?;
    let (sender, done) = mpsc::channel();
    let announce = |stream: &Stream, job: usize, stage: u32| {
        let sender = sender.clone();
        // A host function may not call the driver; a message is all it sends.
        let report = move || drop(sender.send(Done { job, stage }));
        stream.launch_host_function(report)
    };

    // However slowly this thread queues them, the jobs begin when all of them are queued.
    let start = kernels.gates(1)?;
    let mut jobs = Vec::new();
    for number in 0..JOBS {
        let stream = runtime.create_stream()?;
        let mut buffer = DeviceBuffer::<u32>::new(&runtime, &stream, LEN)?;
        let _held = start.close(&stream, 0)?;
        // The first job is the longest, so it should be the last to end.
        let _busy = kernels.spin(&stream, u64::from(JOBS - number) * STEP_NANOSECONDS)?;
        let _filled = kernels.fill_u32(&stream, &mut buffer, number)?;
        let _announced = announce(&stream, jobs.len(), 1)?;
        jobs.push((stream, buffer));
    }
    start.open_all();

    let mut first_stage_order = Vec::new();
    let mut right = true;
    let mut open_jobs = jobs.len();
    while 0 < open_jobs {
        let Done { job, stage } = done.recv_timeout(PATIENCE)?;
        let (stream, buffer) = jobs.get_mut(job).ok_or("a message from no job")?;
        if stage == 1 {
            first_stage_order.push(job);
            let mut doubled = DeviceBuffer::<u32>::new(&runtime, stream, LEN)?;
            let _copied = doubled.copy_from(stream, &*buffer)?;
            // The old buffer is freed here, while the copy out of it is still queued.
            *buffer = doubled;
            let _announced = announce(stream, job, 2)?;
        } else {
            open_jobs -= 1;
            let expected = u32::try_from(job)?;
            right &= buffer.to_vec(stream)?.iter().all(|value| *value == expected);
        }
    }

    println!("jobs were queued in the order 0 to {}", JOBS - 1);
    println!("and ended their first stage in the order {first_stage_order:?}");
    right &= first_stage_order.first() != Some(&0);
    println!("every result is right, and the longest job was not the first to end: {right}");
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
