//! Question: how long does reading a snapshot take, beside Python's own `pickle.loads`?
//! Method: both get the same decompressed bytes in memory, in turns, and the medians count. The
//! files are those named on the command line; without any it is the largest of `traces/`, or where
//! that is not there, as on a machine without the sources, a generated one, which may also be
//! asked for as `generated:ENTRIES`. Python runs with its defaults; without `python3` only our
//! times are printed. Beside the time on the wall stands that of the processor, which other
//! programs on the machine change less. A line `figures: name=value …` holds the medians.
//! Not measured: decompression, reading from a disk, and what Python would still have to do to
//! make a table of the entries.
//! Premise, asserted: Python counts as many entries.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot be set up has nothing to measure, and prints what it measured"
)]

#[path = "../tests/it/generated.rs"]
mod generated;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use trace::pytorch::{ReadOptions, read};

const TURNS: usize = 5;
/// About as many entries as the largest of `traces/` has.
const GENERATED: &str = "generated:100000";
const VALUED_OPTIONS: [&str; 2] = ["--warm-up-time", "--measurement-time"];
const PYTHON: &str = "
import pickle, sys, time
data = open(sys.argv[1], 'rb').read()
wall, processor = time.perf_counter(), time.process_time()
snapshot = pickle.loads(data)
wall, processor = time.perf_counter() - wall, time.process_time() - processor
print(wall, processor, sum(len(trace) for trace in snapshot['device_traces']))
";

/// Seconds that one reading took.
#[derive(Clone, Copy)]
struct Seconds {
    wall: f64,
    /// None where the system does not tell.
    processor: Option<f64>,
}

fn main() {
    let named = named();
    for name in if named.is_empty() { vec![usual()] } else { named } {
        measure(&name);
    }
}

/// The files on the command line. Whoever runs all benches gives each the options of criterion,
/// some of which have a value.
fn named() -> Vec<String> {
    let mut words = std::env::args().skip(1);
    let mut named = Vec::new();
    while let Some(word) = words.next() {
        if VALUED_OPTIONS.contains(&word.as_str()) {
            words.next();
        } else if !word.starts_with('-') {
            named.push(word);
        }
    }
    named
}

fn usual() -> String {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let largest = traces.join("gpt_train.pickle.zst");
    if largest.is_file() { largest.display().to_string() } else { String::from(GENERATED) }
}

fn measure(name: &str) {
    let bytes = load(name);
    let plain = std::env::temp_dir().join(format!("trace-read-{}.pickle", std::process::id()));
    std::fs::write(&plain, &bytes).unwrap();
    let (mut ours, mut pythons) = (Vec::new(), Vec::new());
    let mut entries = 0;
    for _ in 0..TURNS {
        let (start, used) = (Instant::now(), processor_seconds());
        let snapshot = read(&bytes[..], 0, &ReadOptions::default(), None).unwrap();
        let processor = processor_seconds().zip(used).map(|(now, before)| now - before);
        ours.push(Seconds { wall: start.elapsed().as_secs_f64(), processor });
        entries = snapshot.device_traces.iter().map(Vec::len).sum();
        drop(snapshot);
        if let Some((seconds, count)) = python(&plain) {
            assert_eq!(count, entries, "Python reads another number of entries");
            pythons.push(seconds);
        }
    }
    std::fs::remove_file(&plain).unwrap();
    println!("{name}: {} bytes, {entries} entries, medians of {TURNS}", bytes.len());
    let wall = |seconds: &Seconds| Some(seconds.wall);
    let processor = |seconds: &Seconds| seconds.processor;
    let mut figures = format!("figures: name=read bytes={} entries={entries}", bytes.len());
    let clocks = [
        ("wall", "on the wall", wall as fn(&Seconds) -> Option<f64>),
        ("processor", "of the processor", processor),
    ];
    for (clock, words, of) in clocks {
        let (ours, python) = (median(&ours, of), median(&pythons, of));
        print(words, ours, python);
        for (whose, seconds) in [("ours", ours), ("python", python)] {
            if let Some(seconds) = seconds {
                write!(figures, " {whose}_{clock}_ms={:.1}", 1e3 * seconds).unwrap();
            }
        }
    }
    println!("{figures}");
    if let Some(peak) = peak_memory_kib() {
        let bytes_kib = u64::try_from(bytes.len()).unwrap() >> 10;
        println!("  peak memory {peak} KiB, of which {bytes_kib} KiB are the file's bytes");
    }
}

fn print(what: &str, ours: Option<f64>, python: Option<f64>) {
    let Some(ours) = ours else { return };
    print!("  {:8.1} ms {what}", 1e3 * ours);
    match python {
        Some(python) => {
            println!(", pickle.loads {:.1} ms: {:.1} times as long", 1e3 * python, python / ours)
        }
        None => println!("; there is no python3 here"),
    }
}

fn load(name: &str) -> Vec<u8> {
    if let Some(count) = name.strip_prefix("generated:") {
        return generated::snapshot(count.parse().unwrap());
    }
    let path = PathBuf::from(name);
    let mut bytes = Vec::new();
    let file = File::open(&path).unwrap();
    if path.extension().is_some_and(|extension| extension == "zst") {
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(file).unwrap();
        decoder.read_to_end(&mut bytes).unwrap();
    } else {
        (&file).read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// How long Python takes, and how many entries it counts; nothing where there is no Python.
fn python(path: &Path) -> Option<(Seconds, usize)> {
    let output = Command::new("python3").arg("-c").arg(PYTHON).arg(path).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace();
    let wall = words.next()?.parse().unwrap();
    let processor = words.next()?.parse().ok();
    Some((Seconds { wall, processor }, words.next()?.parse().unwrap()))
}

fn median(times: &[Seconds], of: impl Fn(&Seconds) -> Option<f64>) -> Option<f64> {
    let mut times: Vec<f64> = times.iter().filter_map(of).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

/// What this thread has had of a processor, where the system tells.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

/// The most memory this process has had, where the system tells.
fn peak_memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
