//! Writes small files of every kind that the target `file` reads, for it to start from: the first
//! entries of the traces that it is given, as each kind of file that this crate writes, and an RMM
//! log. `cargo run --example seeds -- FOLDER TRACE...`

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use trace::pytorch::{ReadOptions, Snapshot};
use trace::stream_trace::{Item, Recording};
use trace::{AnyTrace, chrome, convert, csv, pytorch, read_any, rmm};

/// How many entries a seed keeps.
const ENTRY_COUNTS: [usize; 3] = [3, 12, 40];
/// How many segments a snapshot keeps.
const SEGMENT_COUNT: usize = 2;
/// What a fuzzer is told to keep its inputs below; longer seeds would be cut anywhere.
const SEED_BYTES_MAX: usize = 8192;

const LOG: &str = "\n\
    1,10:00:00.000001,allocate,0x7f0000000000,1024,0x0\n\
    2,10:00:00:000002,allocate,0x7f0000000400,64,(nil)\n\
    1,10:00:00.000003,allocate failure,(nil),99999999999,0x55d0\n\
    1,23:59:59.999999,free,0x7f0000000000,1024,0x0\n\
    1,00:00:00.000001,free,0x7f0000000400,64,0x55d0\n";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().ok_or("which folder do the seeds go to?")?;
    fs::create_dir_all(&folder)?;
    let seeds = Seeds { folder };
    seeds.keep("log.csv", format!("{}{LOG}", rmm::HEADER).as_bytes())?;
    for path in arguments {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().replace('.', "_");
        let trace = read_any(&path, &ReadOptions::default(), None)?;
        for count in ENTRY_COUNTS {
            let name = format!("{name}_{count}");
            match &trace {
                AnyTrace::Snapshot(snapshot) => seeds.snapshot(&name, snapshot, count)?,
                AnyTrace::Recording(recording) => seeds.recording(&name, recording, count)?,
            }
        }
    }
    Ok(())
}

struct Seeds {
    folder: PathBuf,
}

impl Seeds {
    fn snapshot(&self, name: &str, whole: &Snapshot, count: usize) -> Result<(), Box<dyn Error>> {
        let mut snapshot = whole.clone();
        snapshot.segments.truncate(SEGMENT_COUNT);
        for entries in snapshot.device_traces.iter_mut().chain(&mut snapshot.host_traces) {
            entries.truncate(count);
        }
        self.keep(&format!("{name}.pickle"), &pytorch::write(&snapshot, Vec::new(), None)?)?;
        self.made(&format!("{name}.csv"), |sink| {
            csv::write_snapshot(&snapshot, None, None, sink, None)
        })?;
        let trace = snapshot.trace(None)?;
        self.made(&format!("{name}.json"), |sink| {
            chrome::write_snapshot(&snapshot, &trace, None, sink, None)
        })?;
        let (bytes, _) = convert::write_recording(&snapshot, &trace, Vec::new(), None)?;
        // The same entries once more, in the words of a stream trace.
        let recording = Recording::load(bytes.as_slice())?;
        self.recording(&format!("{name}_wst"), &recording, recording.entries.len())
    }

    fn recording(&self, name: &str, whole: &Recording, count: usize) -> Result<(), Box<dyn Error>> {
        let mut recording = whole.clone();
        // Figures name nothing, and stand at the end.
        let figures = recording.entries.split_off(count.min(recording.entries.len()));
        let is_figure = |item: &Item| matches!(item, Item::Figure { .. });
        recording.entries.extend(figures.into_iter().filter(|it| is_figure(&it.item)).take(2));
        let (bytes, _) = convert::rewrite_recording(&recording, Vec::new())?;
        self.keep(&format!("{name}.wst"), &bytes)?;
        self.made(&format!("{name}.csv"), |sink| csv::write_recording(&recording, sink, None))?;
        self.made(&format!("{name}.json"), |sink| {
            chrome::write_recording(&recording, None, sink, None)
        })
    }

    fn made(
        &self,
        name: &str,
        write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> Result<(), Box<dyn Error>> {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        self.keep(name, &bytes)
    }

    fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
        let path: &Path = &self.folder.join(name);
        if SEED_BYTES_MAX < bytes.len() {
            writeln!(io::stderr(), "{name} has {} bytes, too many for a seed", bytes.len())?;
            return Ok(());
        }
        Ok(fs::write(path, bytes)?)
    }
}
