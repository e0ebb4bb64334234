//! Records what a runtime does to a stream trace, which `cargo wellspring advise` reads.
//!
//! It is told as an observer, turns what it hears into the entries of a trace (`entries`), and
//! writes them as they come, so that a program that is killed leaves a trace that is cut, not one
//! that is lost. On a simulated device in virtual time, that is the host's time.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use allocator::Stats;
use trace::stream_trace::{Item, Writer};

use crate::error::OpenError;

mod entries;

use entries::Entries;

/// The variable that names the file to which a runtime records itself.
pub const RECORD_VARIABLE: &str = "WELLSPRING_RECORD";

/// Where a trace goes, and what is in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordSettings {
    pub(crate) path: Option<PathBuf>,
    pub(crate) without_times: bool,
}

impl RecordSettings {
    /// The file: the one that was set, else the one that the environment names. A process that
    /// opens several runtimes gets a file for each of the latter, with a number behind its name
    /// from the second on.
    pub(crate) fn file(&self) -> Option<Destination> {
        if let Some(path) = &self.path {
            return Some(Destination::unnumbered(path));
        }
        let name = std::env::var_os(RECORD_VARIABLE).filter(|name| !name.is_empty())?;
        Some(Destination::numbered(&name, &TAKEN))
    }
}

/// The numbers of the files that the environment asked for and that runtimes record to.
static TAKEN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// The file that one runtime is to record to.
#[derive(Debug)]
pub(crate) struct Destination {
    path: PathBuf,
    number: Option<Number>,
}

impl Destination {
    pub(crate) fn unnumbered(path: &Path) -> Self {
        Self { path: path.to_owned(), number: None }
    }

    /// The first of `name`, `name.2`, `name.3` and so on that no runtime has.
    fn numbered(name: &OsStr, taken: &'static Mutex<BTreeSet<u64>>) -> Self {
        let number = Number::take(taken);
        let mut name = name.to_owned();
        if 1 < number.value {
            name.push(format!(".{}", number.value));
        }
        Self { path: name.into(), number: Some(number) }
    }
}

/// A number of a file. Of a runtime that could not be opened it is free again: what is opened
/// instead, mostly a simulated device, records under the name that was asked for.
#[derive(Debug)]
struct Number {
    value: u64,
    taken: &'static Mutex<BTreeSet<u64>>,
    is_kept: AtomicBool,
}

impl Number {
    fn take(taken: &'static Mutex<BTreeSet<u64>>) -> Self {
        let mut numbers = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let value = (1..).zip(numbers.iter()).take_while(|(free, used)| free == *used).count();
        let value = u64::try_from(value).unwrap_or(u64::MAX).saturating_add(1);
        numbers.insert(value);
        Self { value, taken, is_kept: AtomicBool::new(false) }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.value);
        }
    }
}

/// Where the host's time comes from.
#[derive(Debug)]
pub(crate) enum Clock {
    /// The operating system.
    Host(Instant),
    /// A simulated machine.
    #[cfg(feature = "sim")]
    Virtual(cuda_sim::Machine, u64),
}

impl Clock {
    pub(crate) fn host() -> Self {
        Self::Host(Instant::now())
    }

    /// The host's time as a machine counts it.
    #[cfg(feature = "sim")]
    pub(crate) fn of_machine(machine: &cuda_sim::Machine) -> Self {
        Self::Virtual(machine.clone(), machine.virtual_time())
    }

    fn now_ns(&self) -> u64 {
        match self {
            Self::Host(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            #[cfg(feature = "sim")]
            Self::Virtual(machine, start) => machine.virtual_time().saturating_sub(*start),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Host(_) => "host",
            #[cfg(feature = "sim")]
            Self::Virtual(..) => "virtual",
        }
    }
}

/// A trace that is being written.
#[derive(Debug)]
pub(crate) struct Recorder {
    clock: Clock,
    wants_times: bool,
    path: PathBuf,
    state: Mutex<State>,
    /// Last: nothing is written any more when it is free again.
    number: Option<Number>,
}

#[derive(Debug)]
enum State {
    Open(Box<Entries>),
    Finished(Result<(), io::ErrorKind>),
}

impl Recorder {
    /// Begins a trace in a new file, or in place of the one that is there.
    pub(crate) fn create(
        destination: Destination,
        clock: Clock,
        wants_times: bool,
    ) -> Result<Self, OpenError> {
        let Destination { path, number } = destination;
        let refuse = |error: io::Error| OpenError::Record {
            path: path.display().to_string(),
            kind: error.kind(),
        };
        let file = File::create(&path).map_err(refuse)?;
        let unix_ns = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0));
        let mut writer = Writer::new(file, unix_ns).map_err(refuse)?;
        let setting = |name: &str, value: &str| Item::Setting {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        writer.put(0, &setting("clock", clock.name())).map_err(refuse)?;
        let state = Mutex::new(State::Open(Box::new(Entries::new(writer, wants_times))));
        Ok(Self { clock, wants_times, path, state, number })
    }

    /// A runtime was opened with it: the file stays its own.
    pub(crate) fn opened(&self) {
        if let Some(number) = &self.number {
            number.is_kept.store(true, Ordering::Relaxed);
        }
    }

    /// Where the trace goes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in between leaves the trace as it was: its writer checks each entry before.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes entries with the time now. Times never run back, as they are read under the lock.
    fn write(&self, write: impl FnOnce(&mut Entries, u64) -> io::Result<()>) {
        let mut state = self.lock();
        let State::Open(entries) = &mut *state else { return };
        let now_ns = self.clock.now_ns();
        if let Err(error) = write(entries, now_ns) {
            *state = State::Finished(Err(error.kind()));
        }
    }

    /// Says something about the run.
    pub(crate) fn set(&self, name: &str, value: &str) {
        self.write(|entries, now_ns| {
            let (name, value) = (name.to_owned(), value.to_owned());
            entries.put(now_ns, &Item::Setting { name, value })
        });
    }

    /// Writes the figures and the end, unless that was done; says how it went.
    pub(crate) fn finish(&self, stats: &Stats) -> io::Result<()> {
        let figures = [
            ("peak_allocated_bytes", stats.allocated_bytes.peak),
            ("peak_active_bytes", stats.active_bytes.peak),
            ("peak_pending_bytes", stats.pending_bytes.peak),
            ("peak_reserved_bytes", stats.reserved_bytes.peak),
        ];
        self.write(|entries, now_ns| {
            figures.into_iter().try_for_each(|(name, value)| {
                entries.put(now_ns, &Item::Figure { name: name.to_owned(), value })
            })
        });
        let mut state = self.lock();
        let before = std::mem::replace(&mut *state, State::Finished(Ok(())));
        let outcome = match before {
            State::Open(entries) => entries.finish().map_err(|error| error.kind()),
            State::Finished(outcome) => outcome,
        };
        *state = State::Finished(outcome);
        outcome.map_err(Into::into)
    }
}

impl streams::observe::Observer for Recorder {
    fn observe(&self, happening: &streams::observe::Happening<'_>) {
        self.write(|entries, now_ns| entries.of_streams(now_ns, happening));
    }

    fn wants_times(&self) -> bool {
        self.wants_times
    }
}

impl allocator::observe::Observer for Recorder {
    fn observe(&self, happening: &allocator::observe::Happening) {
        self.write(|entries, now_ns| entries.of_memory(now_ns, happening));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;
    use std::sync::Mutex;

    use super::{Clock, Destination, Recorder};

    #[test]
    fn a_runtime_that_could_not_be_opened_leaves_its_file_to_the_next() {
        static TAKEN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
        let name = format!("wellspring-{}-numbers.wst", std::process::id());
        let name = std::env::temp_dir().join(name);
        let second = name.with_extension("wst.2");
        let create = || {
            let destination = Destination::numbered(OsStr::new(&name), &TAKEN);
            Recorder::create(destination, Clock::host(), false).expect("the folder is there")
        };
        drop(create());
        let first = create();
        assert_eq!(first.path(), name, "the one before was not opened");
        first.opened();
        drop(create());
        let next = create();
        assert_eq!(next.path(), second, "the first is taken, the second was not opened");
        drop(first);
        assert_eq!(create().path(), name.with_extension("wst.3"), "what was opened keeps its file");
        for file in [&name, &second, &name.with_extension("wst.3")] {
            std::fs::remove_file(file).expect("it was made");
        }
    }
}
