//! Turns the results of a run into `docs/benchmarks.md` and the plots beside it.
//!
//! Refuses results of which fewer tests, replays, benches or examples ran than were packed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::Device;
use super::benches::{self, Median};
use super::page::{self, Page, number, words};
use super::patterns;
use super::probe::Probe;
use super::replays::ReplayLine;
use super::results::{
    BENCHES, EXAMPLES, PATTERNS, PROBE, RANDOM, REPLAYS, ReplayRun, Results, SANITIZER, TESTS,
    TestRun, headings, words_of,
};
use early_frees::EarlyFrees;

mod early_frees;
mod plot;
mod stress;
mod threads;

/// The examples whose words are part of the page, each with its heading: the one that takes the
/// advice from its own recording, and the one that shares buffers with cudarc.
const QUOTED_EXAMPLES: [(&str, &str); 2] =
    [("advice_taken", "## Advice taken"), ("lost_reader", "## Beside cudarc")];
/// The name in the line that says why nothing was checked.
const ABSENT: &str = "absent";

/// Everything a run left, read and checked for completeness.
struct Outcome {
    probe: Probe,
    tests: Vec<TestRun>,
    replays: Vec<ReplayRun>,
    medians: Vec<Median>,
    benches: Vec<(String, String)>,
    threads: Vec<patterns::Row>,
    examples: Vec<(String, String)>,
    example_words: String,
    early_frees: EarlyFrees,
    patterns: Vec<(String, String)>,
    sanitizer: Vec<patterns::Row>,
    random: String,
}

/// Writes the page made from the results in `folder`.
pub(crate) fn write(folder: &Path, file: &Path) -> Result<()> {
    let outcome = read(&Results::at(folder))?;
    let text = render(&outcome)?;
    if let Some(parent) = file.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    for (name, svg) in outcome.early_frees.plots()? {
        let plot = file.with_file_name(name);
        std::fs::write(&plot, svg).with_context(|| format!("writing {}", plot.display()))?;
    }
    let failed = outcome.tests.iter().filter(|run| !run.passed).count();
    let passed = outcome.tests.len() - failed;
    println!("{passed} tests passed, {failed} failed: {}", file.display());
    println!("next: git diff docs/benchmarks.md");
    Ok(())
}

fn read(results: &Results) -> Result<Outcome> {
    let probe: Probe = results.read_json(PROBE)?;
    let tests: Vec<TestRun> = results.read_json(TESTS)?;
    let replays = results.read_or_empty(REPLAYS)?;
    let replays = replays.lines().map(serde_json::from_str).collect::<Result<Vec<_>, _>>();
    let replays = replays.with_context(|| format!("parsing {REPLAYS}"))?;
    let bench_words = results.read_or_empty(BENCHES)?;
    let example_words = results.read_or_empty(EXAMPLES)?;
    let pattern_words = results.read_or_empty(PATTERNS)?;
    let outcome = Outcome {
        tests,
        replays,
        medians: benches::medians(&bench_words)?,
        benches: pairs(headings(&bench_words).into_iter()),
        threads: patterns::rows(&bench_words, benches::THREADS),
        examples: pairs(headings(&example_words).into_iter()),
        example_words,
        early_frees: EarlyFrees::read(&pattern_words),
        patterns: pairs(headings(&pattern_words).into_iter()),
        random: results.read_or_empty(RANDOM)?,
        sanitizer: patterns::rows(&results.read_or_empty(SANITIZER)?, "sanitizer: "),
        probe,
    };
    let packed = outcome.probe.packed;
    complete("tests", outcome.tests.len(), packed.tests)?;
    complete("replays", outcome.replays.len(), packed.replays)?;
    complete("benches", outcome.benches.len(), packed.benches)?;
    complete("examples", outcome.examples.len(), packed.examples)?;
    complete("random programs", headings(&outcome.random).len(), packed.random)?;
    complete("patterns", outcome.patterns.len(), packed.patterns)?;
    if !outcome.sanitizer.iter().any(|row| row.contains_key(ABSENT)) {
        complete("sanitized tests", outcome.sanitizer.len(), packed.sanitized)?;
    }
    Ok(outcome)
}

fn pairs<'a>(found: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    found.map(|(name, rest)| (name.to_owned(), rest.to_owned())).collect()
}

fn complete(what: &str, ran: usize, packed: usize) -> Result<()> {
    ensure!(packed <= ran, "{packed} {what} were packed and {ran} ran: run the pack to its end");
    Ok(())
}

fn render(outcome: &Outcome) -> Result<String> {
    let mut page = Page::default();
    page.heading("# Measured");
    page.sentence("Written by `cargo xtask test-gpu --report`; do not edit.");
    machine(&mut page, &outcome.probe);
    tests(&mut page, &outcome.tests);
    stress::section(&mut page, &outcome.tests);
    sanitizer(&mut page, &outcome.sanitizer);
    random(&mut page, &outcome.random);
    outcome.early_frees.section(&mut page);
    replays(&mut page, &outcome.replays)?;
    medians(&mut page, &outcome.medians);
    threads::section(&mut page, &outcome.threads);
    programs(&mut page, "## Benches that ran", &outcome.benches);
    programs(&mut page, "## Programs of patterns", &outcome.patterns);
    programs(&mut page, "## Examples", &outcome.examples);
    quoted(&mut page, &outcome.example_words);
    Ok(page.into_text())
}

fn machine(page: &mut Page, probe: &Probe) {
    page.heading("## Machine");
    if probe.device == Device::Sim {
        page.sentence("A rehearsal on the simulated driver: nothing here was measured on a GPU.");
    }
    let cell = |name: &str, value: &str| vec![name.to_owned(), value.to_owned()];
    let mut rows = Vec::new();
    for gpu in probe.gpus.iter().filter(|_| probe.device == Device::Cuda) {
        rows.push(cell("GPU", &format!("{}, {}", gpu.name, gpu.memory)));
        rows.push(cell("driver", &gpu.driver));
        rows.push(cell("compute capability", &gpu.compute_capability));
    }
    let processor = format!("{}, {} threads", probe.processor, probe.processor_count);
    rows.push(cell("processor", &processor));
    rows.push(cell("commit", &probe.commit));
    for (kind, commit) in &probe.commits {
        rows.push(cell(&format!("commit of what ran as {kind}"), commit));
    }
    rows.push(cell("built", &probe.packed_at));
    for (fact, value) in &probe.measured {
        rows.push(cell(fact, value));
    }
    page.table(&[words("what"), words("value")], &rows);
}

fn tests(page: &mut Page, runs: &[TestRun]) {
    page.heading("## Tests");
    page.sentence("Each test ran in a process of its own.");
    let mut by_binary: BTreeMap<&str, (usize, usize, f64)> = BTreeMap::new();
    for run in runs {
        let (passed, failed, seconds) = by_binary.entry(&run.binary).or_default();
        *(if run.passed { passed } else { failed }) += 1;
        *seconds += run.seconds;
    }
    let rows: Vec<Vec<String>> = by_binary
        .iter()
        .map(|(binary, (passed, failed, seconds))| {
            let seconds = format!("{seconds:.1}");
            vec![(*binary).to_owned(), passed.to_string(), failed.to_string(), seconds]
        })
        .collect();
    let columns = [words("suite"), number("passed"), number("failed"), number("seconds")];
    page.table(&columns, &rows);
    let failed: Vec<Vec<String>> = runs
        .iter()
        .filter(|run| !run.passed)
        .map(|run| vec![format!("{}::{}", run.binary, run.test), run.how.clone()])
        .collect();
    if !failed.is_empty() {
        page.table(&[words("failed test"), words("how")], &failed);
    }
}

/// What the random programs printed, as it was.
fn random(page: &mut Page, text: &str) {
    if headings(text).is_empty() {
        return;
    }
    page.heading("## Random programs");
    page.sentence("On the simulated device, on the processors of the same machine.");
    page.code(text.lines().filter(|line| !line.is_empty() && !line.contains(" programs after ")));
}

fn sanitizer(page: &mut Page, rows: &[patterns::Row]) {
    if rows.is_empty() {
        return;
    }
    page.heading("## Under compute-sanitizer");
    if let Some(reason) = rows.iter().find_map(|row| row.get(ABSENT)) {
        page.sentence(&format!("Not checked: {}.", reason.replace('_', " ")));
        return;
    }
    let (left_out, rows): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row.contains_key("left_out"));
    let is_clean = |row: &&&patterns::Row| patterns::word(row, "verdict") == "clean";
    let clean = rows.iter().filter(is_clean).count();
    let all = rows.len();
    page.sentence(&format!("{clean} of {all} scenario tests were clean under its memcheck."));
    let bad = rows.iter().filter(|row| !is_clean(row));
    let bad: Vec<Vec<String>> =
        bad.map(|row| vec![patterns::word(row, "test").to_owned()]).collect();
    if !bad.is_empty() {
        page.table(&[words("not clean")], &bad);
    }
    if !left_out.is_empty() {
        let why = |row: &&patterns::Row| {
            let reason = patterns::word(row, "left_out").replace('_', " ");
            vec![patterns::word(row, "test").to_owned(), reason]
        };
        let table: Vec<Vec<String>> = left_out.iter().map(why).collect();
        page.table(&[words("left out"), words("because")], &table);
    }
}

fn replays(page: &mut Page, runs: &[ReplayRun]) -> Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    page.heading("## Recorded training runs");
    page.sentence(
        "PyTorch's reserved peak is read from the trace; ours is measured while serving it.",
    );
    let mut rows = Vec::new();
    let mut worse = Vec::new();
    for run in runs {
        let Some(value) = run.line.clone() else {
            let first = run.stderr.lines().next().unwrap_or_default();
            rows.push(vec![run.name.clone(), format!("FAILED, {}: {first}", run.how)]);
            continue;
        };
        let line: ReplayLine =
            serde_json::from_value(value).with_context(|| format!("replay of {}", run.name))?;
        if line.recorded_peak_reserved_bytes.is_some_and(|peak| peak < line.peak_reserved_bytes) {
            worse.push(run.name.as_str());
        }
        rows.push(replay_row(run, &line));
    }
    let columns = [
        words("trace"),
        words("verdict"),
        number("PyTorch reserved"),
        number("Wellspring reserved"),
        number("saving"),
        number("pending peak"),
        number("utilization"),
        number("segments"),
        number("operations"),
        number("driver calls"),
        number("ns/op"),
        number("stamps"),
        number("stamp errors"),
        words("policy, source"),
    ];
    page.table(&columns, &rows);
    page.sentence("");
    page.sentence(&match worse.as_slice() {
        [] => String::from("No trace needed more reserved memory than PyTorch's recorded peak."),
        worse => format!("More reserved than PyTorch's recorded peak: {}.", worse.join(", ")),
    });
    Ok(())
}

fn replay_row(run: &ReplayRun, line: &ReplayLine) -> Vec<String> {
    let recorded = line.recorded_peak_reserved_bytes;
    let verdict = if run.passed { String::from("passed") } else { format!("FAILED, {}", run.how) };
    vec![
        run.name.clone(),
        verdict,
        recorded.map_or_else(|| String::from("-"), page::bytes),
        page::bytes(line.peak_reserved_bytes),
        recorded
            .map_or_else(|| String::from("-"), |peak| page::saving(line.peak_reserved_bytes, peak)),
        page::bytes(line.peak_pending_bytes),
        format!("{:.3}", line.utilization),
        page::count(line.segments),
        page::count(line.operations),
        page::count(line.driver_calls),
        format!("{:.1}", line.ns_per_operation),
        page::count(line.stamps_checked),
        page::count(line.stamp_errors),
        format!("{}, {}", line.policy, line.source),
    ]
}

fn medians(page: &mut Page, all: &[Median]) {
    if all.is_empty() {
        return;
    }
    page.heading("## Host time");
    page.sentence(
        "Median of criterion with its 95 % interval; the ratio is to mimalloc in the same run, and \
         of what is on to what is off.",
    );
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|median| {
            let ratio = benches::ratio(median, all);
            let ratio = ratio.map_or_else(|| String::from("-"), |ratio| format!("{ratio:.2}"));
            let interval = format!("{:.1} to {:.1}", median.lower, median.upper);
            vec![median.name.clone(), format!("{:.1}", median.nanoseconds), interval, ratio]
        })
        .collect();
    let columns = [words("benchmark"), number("ns"), number("interval"), number("ratio")];
    page.table(&columns, &rows);
}

/// What examples said that measure something.
fn quoted(page: &mut Page, text: &str) {
    for (example, heading) in QUOTED_EXAMPLES {
        let lines = words_of(text, example);
        if !lines.is_empty() {
            page.heading(heading);
            page.sentence(&format!("What the example `{example}` said."));
            page.code(lines.into_iter());
        }
    }
}

fn programs(page: &mut Page, heading: &str, programs: &[(String, String)]) {
    if programs.is_empty() {
        return;
    }
    page.heading(heading);
    let rows: Vec<Vec<String>> =
        programs.iter().map(|(name, how)| vec![name.clone(), how.clone()]).collect();
    page.table(&[words("program"), words("how it ended")], &rows);
}

#[cfg(test)]
mod tests;
