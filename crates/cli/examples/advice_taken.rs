//! A program records itself, is advised, takes the advice, and looks whether it came true.
//!
//! The loop of `three_streams`, on the device that `WELLSPRING_DEVICE` names: recorded with
//! `record_stream` alone, then run as `advise` says, and once as it was without the recording. Says
//! what was predicted and what was found, and fails where they are further apart than the device's
//! own noise explains. A recording costs the host time at each operation: where the run was longer
//! for that, its times are those of the recording, and nothing is concluded.
#![expect(clippy::print_stdout, reason = "an example says what it shows")]

use std::error::Error;
use std::process::ExitCode;

use replay::advise::{Advice, Prediction, Verdict, advise};
use trace::pytorch::ReadOptions;
use trace::{AnyTrace, read_any};
use wellspring::{Builder, DeviceChoice, DeviceKind, Runtime};

#[path = "../../../examples/three_streams/pattern.rs"]
mod pattern;

use pattern::{Outcome, Way, mib};

/// Runs of the advised loop; the median counts.
const ROUNDS: usize = 5;
/// How far apart prediction and result may be, in percent: on a simulated device, whose kernels
/// take what they say, and on a GPU.
const PERCENT_SIMULATED: f64 = 5.0;
const PERCENT_GPU: f64 = 10.0;
/// A recorded run is as long as one that is not, up to so many percent.
const PERCENT_LONGER_MAX: f64 = 10.0;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let choice = DeviceChoice::from_environment()?;
    let open = || Builder::new().open_choice(choice);
    let runtime = open()?;
    println!("{}", runtime.describe());
    let percent_max = match runtime.device_kind() {
        DeviceKind::Simulated => PERCENT_SIMULATED,
        DeviceKind::Gpu => PERCENT_GPU,
    };
    let warm_up = pattern::run(&open()?, Way::RecordStream)?;
    let (recorded, advice) = advised(choice)?;
    let as_it_was = pattern::run(&open()?, Way::RecordStream)?;
    let longer = 100.0 * (recorded.time.as_secs_f64() / as_it_was.time.as_secs_f64() - 1.0);
    if PERCENT_LONGER_MAX < longer {
        println!("not recorded: {}", told(&as_it_was));
        println!("recording made the run {longer:.0} % longer: nothing is concluded from it");
        let all_right = [warm_up, recorded, as_it_was].iter().all(|run| run.sums_are_right);
        return Ok(if all_right { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let group = advice.groups.first().ok_or("the recording has no early free")?;
    let (Verdict::Wait, Some(lag), Some(advised)) = (group.verdict, group.lag, advice.advised)
    else {
        return Err(format!("no wait is advised:\n{}", advice.to_text()).into());
    };
    say("as it was", advice.as_recorded, &as_it_was);

    let taken: Result<Vec<Outcome>, _> =
        (0..ROUNDS).map(|_| pattern::run(&open()?, Way::WaitLater(lag))).collect();
    let mut taken = taken?;
    taken.sort_by_key(|outcome| outcome.time);
    let middle = taken.get(ROUNDS / 2).ok_or("no round was run")?;
    let way = format!("with the wait {lag} blocks later");
    say(&way, Some(advised), middle);
    let apart = Apart::of(advised, middle);
    println!(
        "time {:.1} % and peak {:.1} % from what was predicted; at most {percent_max:.0} % are \
         allowed here",
        apart.time, apart.peak
    );
    let mut all = taken.iter().chain([&warm_up, &recorded, &as_it_was]);
    let sums_are_right = all.all(|outcome| outcome.sums_are_right);
    println!("every sum is right: {sums_are_right}");
    let is_true = apart.time <= percent_max && apart.peak <= percent_max;
    Ok(if is_true && sums_are_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Records the loop, and has it advised on.
fn advised(choice: DeviceChoice) -> Result<(Outcome, Advice), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("run.wst");
    let runtime: Runtime = Builder::new().record_to(&file).open_choice(choice)?;
    let outcome = pattern::run(&runtime, Way::RecordStream)?;
    runtime.finish_recording()?;
    println!("recorded {} steps: {}", pattern::STEPS, told(&outcome));
    match read_any(&file, &ReadOptions::default(), None)? {
        AnyTrace::Recording(recording) => Ok((outcome, advise(&recording, "run.wst"))),
        AnyTrace::Snapshot(_) => Err("a recording was read as a snapshot".into()),
    }
}

/// How far the result is from the prediction, in percent of it.
struct Apart {
    time: f64,
    peak: f64,
}

impl Apart {
    fn of(predicted: Prediction, found: &Outcome) -> Self {
        let percent = |predicted: f64, found: f64| 100.0 * (found - predicted).abs() / predicted;
        Self {
            time: percent(milliseconds(predicted), found.time.as_secs_f64() * 1e3),
            peak: percent(mib(predicted.peak_bytes), mib(found.peak_active_bytes)),
        }
    }
}

fn milliseconds(predicted: Prediction) -> f64 {
    std::time::Duration::from_nanos(predicted.time_ns).as_secs_f64() * 1e3
}

fn say(way: &str, predicted: Option<Prediction>, found: &Outcome) {
    if let Some(predicted) = predicted {
        println!(
            "{way}: predicted {:.2} ms and {:.1} MiB, found {}",
            milliseconds(predicted),
            mib(predicted.peak_bytes),
            told(found)
        );
    }
}

fn told(outcome: &Outcome) -> String {
    let milliseconds = outcome.time.as_secs_f64() * 1e3;
    format!("{milliseconds:.2} ms and {:.1} MiB", mib(outcome.peak_active_bytes))
}
