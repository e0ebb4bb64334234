//! The whole of a machine, behind its one lock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::time::{Duration, Instant};

use cuda_sys::CUresult;

use crate::clock::{Clock, Epoch, Observed};
use crate::context::{Context, Device};
use crate::event::Event;
use crate::fault::Faults;
use crate::graph::{Capture, Graph, GraphExec, UserObject};
use crate::handle::Handles;
use crate::hazard::Hazard;
use crate::journal::Journal;
use crate::kernel::KernelBody;
use crate::memory::Memory;
use crate::pool::Pool;
use crate::ptx::Entry;
use crate::schedule::{Chooser, Schedule};
use crate::shims::raw::HostCall;
use crate::stream::Stream;
use crate::tenancy::Tenancy;

/// What a driver call gives back.
pub(crate) type Answer<T = ()> = Result<T, CUresult>;

/// How many operations a stream holds before the submitter has to wait.
pub(crate) const QUEUE_MAX: usize = 1024;

/// How many hazards are kept until they are taken.
pub(crate) const HAZARDS_MAX: usize = 4096;

/// What a machine can be told when it is built, beside its devices.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) hazards: bool,
    pub(crate) refusals_max: u32,
    pub(crate) patience: Duration,
    /// Whether a pageable source may be read after the call that queues its copy.
    pub(crate) late_reads: bool,
}

/// What a machine's own thread is at.
#[derive(Debug, Default)]
pub(crate) struct WorkerAt {
    /// It has taken a job that is not over; told under the machine's lock.
    pub(crate) has_job: AtomicBool,
    /// Its number while it is inside a host function, else zero; told without the lock.
    pub(crate) inside: AtomicI32,
}

/// A host thread as the driver sees it.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) key: u64,
    /// Contexts, the current one last; null ones too.
    pub(crate) stack: Vec<Option<usize>>,
    pub(crate) capture_mode: u32,
}

/// A physical allocation that can be mapped.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) backing: usize,
    pub(crate) bytes: u64,
    pub(crate) device: usize,
    pub(crate) handle_types: u32,
    pub(crate) references: u32,
    pub(crate) mappings: u32,
}

/// An entry of a loaded module.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) module: usize,
    pub(crate) entry: Arc<Entry>,
}

/// A loaded module.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) functions: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct State {
    /// Tells this machine from the next one in the same slot.
    pub(crate) serial: u64,
    pub(crate) settings: Settings,
    pub(crate) initialized: bool,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Vec<Context>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) streams: Vec<Option<Box<Stream>>>,
    /// Timelines with queued operations.
    pub(crate) busy: Vec<u32>,
    pub(crate) observed: Observed,
    pub(crate) context_handles: Handles<usize>,
    pub(crate) stream_handles: Handles<u32>,
    pub(crate) events: Handles<Event>,
    pub(crate) physical: Handles<Physical>,
    pub(crate) modules: Handles<Module>,
    pub(crate) functions: Handles<Function>,
    pub(crate) captures: Vec<Option<Capture>>,
    pub(crate) graphs: Handles<Graph>,
    pub(crate) execs: Handles<GraphExec>,
    pub(crate) user_objects: Handles<UserObject>,
    pub(crate) pools: Handles<Pool>,
    pub(crate) memory: Memory,
    /// Where plain blocks were that a stream freed: a second free of one is not refused.
    pub(crate) plain_freed_in_order: BTreeSet<u64>,
    pub(crate) tenancy: Tenancy,
    pub(crate) hazards: Vec<Hazard>,
    pub(crate) hazard_count: u64,
    /// How often a thread lost its turn because it waited for something unknown.
    pub(crate) passed_over: u64,
    pub(crate) journal: Journal,
    pub(crate) faults: Faults,
    pub(crate) chooser: Chooser,
    pub(crate) kernel_bodies: BTreeMap<String, KernelBody>,
    pub(crate) kernel_names: Vec<Arc<str>>,
    /// Functions for the machine's own thread, with the timeline that waits for them.
    pub(crate) host_jobs: VecDeque<(Option<u32>, HostCall)>,
    pub(crate) worker: bool,
    /// What that thread is at.
    pub(crate) worker_at: Arc<WorkerAt>,
    /// Host functions on their way or waiting in a queue.
    pub(crate) host_functions: usize,
    /// Virtual time of the host, in nanoseconds.
    pub(crate) now: u64,
    pub(crate) started: Instant,
    next_id: u64,
    next_number: u64,
    last_thread: usize,
    pub(crate) live_captures: usize,
}

impl State {
    pub(crate) fn new(
        serial: u64,
        devices: Vec<Device>,
        chooser: Chooser,
        settings: Settings,
    ) -> Self {
        let reuse = devices.first().map(|device| device.profile.reuse).unwrap_or_default();
        Self {
            serial,
            settings,
            initialized: false,
            devices,
            contexts: Vec::new(),
            threads: Vec::new(),
            streams: Vec::new(),
            busy: Vec::new(),
            observed: Observed::default(),
            context_handles: Handles::new(1, reuse),
            stream_handles: Handles::new(2, reuse),
            events: Handles::new(3, reuse),
            physical: Handles::new(4, reuse),
            modules: Handles::new(5, reuse),
            functions: Handles::new(6, reuse),
            captures: Vec::new(),
            graphs: Handles::new(7, reuse),
            execs: Handles::new(8, reuse),
            user_objects: Handles::new(9, reuse),
            pools: Handles::new(10, reuse),
            memory: Memory::new(reuse),
            plain_freed_in_order: BTreeSet::new(),
            tenancy: Tenancy::default(),
            hazards: Vec::new(),
            hazard_count: 0,
            passed_over: 0,
            journal: Journal::new(),
            faults: Faults::default(),
            chooser,
            kernel_bodies: BTreeMap::new(),
            kernel_names: Vec::new(),
            host_jobs: VecDeque::new(),
            worker: false,
            worker_at: Arc::default(),
            host_functions: 0,
            now: 0,
            started: Instant::now(),
            next_id: 0,
            next_number: 0,
            last_thread: 0,
            live_captures: 0,
        }
    }

    /// An id for a context or stream; never given twice.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// A number for an operation or record; never given twice.
    pub(crate) fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The last number given.
    pub(crate) fn numbers(&self) -> u64 {
        self.next_number
    }

    /// The calling thread's place; made on its first call.
    pub(crate) fn thread_index(&mut self, key: u64) -> usize {
        if self.threads.get(self.last_thread).is_some_and(|thread| thread.key == key) {
            return self.last_thread;
        }
        let known = self.threads.iter().position(|thread| thread.key == key);
        self.last_thread = known.unwrap_or_else(|| {
            self.threads.push(Thread { key, stack: Vec::new(), capture_mode: 0 });
            self.threads.len() - 1
        });
        self.last_thread
    }

    pub(crate) fn stream(&self, timeline: u32) -> Option<&Stream> {
        self.streams.get(index(timeline))?.as_deref()
    }

    pub(crate) fn stream_mut(&mut self, timeline: u32) -> Option<&mut Stream> {
        self.streams.get_mut(index(timeline))?.as_deref_mut()
    }

    /// The stream of a timeline that is known to be alive.
    pub(crate) fn live(&self, timeline: u32) -> &Stream {
        self.stream(timeline).expect("a stream outlives its queued operations and its handle")
    }

    pub(crate) fn live_mut(&mut self, timeline: u32) -> &mut Stream {
        self.stream_mut(timeline).expect("a stream outlives its queued operations and its handle")
    }

    /// Whether an operation has run.
    pub(crate) fn is_done(&self, timeline: u32, place: u64) -> bool {
        self.stream(timeline).is_none_or(|stream| place <= stream.done)
    }

    /// Notes that the host saw all of a stream's work so far complete.
    pub(crate) fn observe_stream(&mut self, timeline: u32) {
        let Some(stream) = self.streams.get(index(timeline)).and_then(Option::as_deref) else {
            return;
        };
        let epoch = Epoch { timeline, place: stream.submitted() };
        self.observed.learn(epoch, &stream.clock);
    }

    /// Notes that the host saw one operation complete.
    pub(crate) fn observe(&mut self, epoch: Epoch, clock: &Clock) {
        self.observed.learn(epoch, clock);
    }

    /// Keeps a hazard, unless there are too many already, and counts it.
    pub(crate) fn report(&mut self, hazard: Hazard) {
        self.hazard_count += 1;
        if self.hazards.len() < HAZARDS_MAX {
            self.hazards.push(hazard);
        }
    }

    /// Virtual time, or real time where operations take real time.
    pub(crate) fn time(&self) -> u64 {
        if *self.chooser.schedule() == Schedule::RealTime {
            u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
        } else {
            self.now
        }
    }
}

pub(crate) fn index(timeline: u32) -> usize {
    usize::try_from(timeline).expect("the host is a 64-bit machine")
}
