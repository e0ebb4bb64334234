//! Runs random programs: `random-programs --seeds 0..1000 --jobs 16`.
//!
//! Prints how far it came, how many programs came through what, and, of the first that failed,
//! the shortest form found and the command that repeats it. Needs no GPU, no cargo, no files.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks through its standard streams"
)]

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use allocator::Sabotage;
use clap::Parser;
use random_programs::{Broken, Campaign, HUNG, Summary, run, shrink};

/// How often it is told how far the programs came.
const TELL_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Parser)]
#[command(about = "Runs random programs over the allocator on the simulated driver")]
struct Arguments {
    /// The seeds of the programs, such as 0..1000.
    #[arg(long, value_parser = seeds, default_value = "0..1000")]
    seeds: Range<u64>,
    /// How many programs run at one time; the default is one for each processor.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// No program is begun after so many seconds.
    #[arg(long, default_value_t = 86_400)]
    seconds_max: u64,
    /// How many host threads each program has; else its seed says, and most have one.
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// A program that is at one step for so many seconds hangs: it is left behind, and has failed.
    #[arg(long, default_value_t = 60)]
    hang_after: u64,
    /// A file for the counts, as JSON.
    #[arg(long)]
    summary: Option<PathBuf>,
    /// Takes a check out of the product: `swallowed-waits`, `hangs`, `deaf-checker`, or the
    /// name of a sabotage. Success is
    /// then that a program finds it.
    #[arg(long, value_parser = broken)]
    broken: Option<Broken>,
    /// Prints the program of the first seed, and runs nothing.
    #[arg(long)]
    show: bool,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parsed =
        text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.ok_or_else(|| String::from("seeds are like 0..1000"))
}

fn broken(text: &str) -> Result<Broken, String> {
    match text {
        "swallowed-waits" => return Ok(Broken::SwallowedWaits),
        "hangs" => return Ok(Broken::Hangs),
        "deaf-checker" => return Ok(Broken::DeafChecker),
        _ => {}
    }
    let found = Sabotage::ALL.into_iter().find(|sabotage| format!("{sabotage:?}") == text);
    found.map(Broken::Allocator).ok_or_else(|| format!("one of {:?}", Sabotage::ALL))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A program that panics is reported with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let campaign = Campaign {
        seeds: arguments.seeds.clone(),
        jobs: arguments.jobs.unwrap_or(processors),
        threads: arguments.threads.map(NonZeroUsize::get),
        broken: arguments.broken,
        time_max: Duration::from_secs(arguments.seconds_max),
        hang_after: Duration::from_secs(arguments.hang_after),
        stops_at_failure: arguments.broken.is_some(),
    };
    if arguments.show {
        println!("{}", campaign.program(arguments.seeds.start));
        return ExitCode::SUCCESS;
    }
    let summary = run_and_tell(&campaign);
    print_counts(&summary);
    print_verdicts(&summary);
    if let Some(path) = &arguments.summary
        && let Err(error) = write_summary(path, &summary)
    {
        eprintln!("error: {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    if campaign.broken.is_some() {
        verdict_of_broken(&summary)
    } else {
        verdict(&campaign, &summary)
    }
}

fn run_and_tell(campaign: &Campaign) -> Summary {
    let begin = Instant::now();
    let told = AtomicU64::new(0);
    let total = campaign.seeds.end.saturating_sub(campaign.seeds.start);
    campaign.run(|done| {
        let tick = begin.elapsed().as_secs() / TELL_EVERY.as_secs();
        if told.fetch_max(tick, Ordering::Relaxed) < tick {
            eprintln!("{done} of {total} programs after {} s", begin.elapsed().as_secs());
        }
    })
}

fn print_counts(summary: &Summary) {
    #[expect(clippy::cast_precision_loss, reason = "rounded for people")]
    let rate = summary.programs as f64 / summary.seconds;
    println!("{} programs in {:.1} s, {rate:.0} a second", summary.programs, summary.seconds);
    println!("{} failed", summary.failed);
    println!(
        "{} operations, {} in the median program, on at least {} streams",
        summary.performed,
        summary.performed_median(),
        summary.streams_min
    );
    println!("{} requests served", summary.requests);
    println!("{} comparisons of what is known with what is so", summary.comparisons);
    for (feature, count) in &summary.reached {
        #[expect(clippy::cast_precision_loss, reason = "rounded for people")]
        let share = 100.0 * *count as f64 / summary.programs.max(1) as f64;
        println!("  {feature:<18} {count:>9} programs, {share:>5.1} %");
    }
}

fn print_verdicts(summary: &Summary) {
    println!("the simulator's verdict and the checker's, of {} programs:", summary.checked());
    for (verdict, count) in &summary.verdicts {
        println!("  {verdict:<18} {count:>9} programs");
    }
    println!("mistakes made on purpose:");
    for (what, count) in &summary.mistakes {
        println!("  {what:<48} {count:>9}");
    }
}

fn write_summary(path: &PathBuf, summary: &Summary) -> std::io::Result<()> {
    std::fs::write(path, serde_json::to_string_pretty(summary)?)
}

fn verdict(campaign: &Campaign, summary: &Summary) -> ExitCode {
    for failure in &summary.failures {
        println!("seed {}: {}", failure.seed, failure.text);
    }
    if let Some(first) = summary.failures.first() {
        let (seed, program) = (first.seed, campaign.program(first.seed));
        let threads = campaign.threads.map(|threads| format!(" --threads {threads}"));
        let threads = threads.unwrap_or_default();
        println!("repeat it with: cargo xtask sim --seeds {seed}..{}{threads}", seed + 1);
        if first.kind == HUNG {
            println!("{program}");
            return ExitCode::FAILURE;
        }
        match shrink(&program, first.kind) {
            Some((program, finding)) => {
                println!("the shortest program found, of {} steps:", program.steps.len());
                println!("{program}{finding}");
            }
            None => println!("run again, it does not fail: {:?}", run(&program)),
        }
    }
    let shortcomings = summary.shortcomings();
    for shortcoming in &shortcomings {
        println!("error: {shortcoming}");
    }
    if shortcomings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn verdict_of_broken(summary: &Summary) -> ExitCode {
    match summary.failures.first() {
        Some(first) => {
            println!("found by seed {}: {}", first.seed, first.text);
            ExitCode::SUCCESS
        }
        None => {
            println!("error: no program found what is missing");
            ExitCode::FAILURE
        }
    }
}
