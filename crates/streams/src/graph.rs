//! Capture into a graph, and replay.
//!
//! What a captured operation used is held by the graph, by every executable made from it, and
//! after an executable was destroyed until its last replays are done (C3).

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use cuda_sys::{CUresult, CUstreamCaptureMode};

use crate::capture::CaptureState;
use crate::context::Context;
use crate::driver::{DriverExec, DriverGraph};
use crate::error::{Code, Error};
use crate::fence::Fence;
use crate::observe::{Operation, Place, Told, Watch, What};
use crate::stream::Stream;
use crate::submission::Submission;
use crate::sync::{Arc, Mutex, Ordering, lock};

/// Which calls of other code a capture forbids while it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CaptureMode {
    /// Calls on any thread that might disturb it.
    #[default]
    Global,
    /// Such calls on the thread that began it.
    ThreadLocal,
    /// None.
    Relaxed,
}

impl From<CaptureMode> for CUstreamCaptureMode {
    fn from(mode: CaptureMode) -> Self {
        match mode {
            CaptureMode::Global => Self::CU_STREAM_CAPTURE_MODE_GLOBAL,
            CaptureMode::ThreadLocal => Self::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            CaptureMode::Relaxed => Self::CU_STREAM_CAPTURE_MODE_RELAXED,
        }
    }
}

/// Anything that keeps what a graph uses alive.
pub type Hold = Box<dyn Any + Send>;

/// What a graph holds; shared by all executables made from it.
struct Holds {
    held: Mutex<Vec<Hold>>,
    /// The capture, and who is told when nothing made of it can be launched any more.
    capture: u64,
    watch: Watch,
}

impl Drop for Holds {
    fn drop(&mut self) {
        let capture = self.capture;
        self.watch.tell(None, || What::GraphGone { capture });
    }
}

/// A capture that goes on. Dropped without [`Capture::end`], it is ended and thrown away.
///
/// Not `Send`: except in the relaxed mode the driver ends a capture only on the thread that began
/// it.
///
/// ```
/// # fn main() -> Result<(), streams::Error> {
/// # let machine = cuda_sim::Machine::builder().build();
/// # let context = streams::Driver::from_table(machine.table())?.device(0)?.primary_context()?;
/// use streams::memory::DeviceMemory;
/// use streams::{CaptureMode, RawSpan, StreamOptions};
///
/// let stream = context.create_stream(StreamOptions::default())?;
/// let memory = DeviceMemory::allocate(&context, 64)?;
/// // SAFETY: the memory outlives what is queued here.
/// let span = unsafe { RawSpan::from_raw(memory.address(), 64) };
/// let capture = stream.begin_capture(CaptureMode::ThreadLocal)?;
/// stream.fill_bytes(&span, 0, 64, 1)?;
/// let graph = capture.end()?.instantiate()?;
/// graph.launch(&stream)?.wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a capture that is dropped is thrown away"]
pub struct Capture {
    stream: Stream,
    state: Arc<CaptureState>,
    ended: bool,
    thread: PhantomData<*const ()>,
}

impl Stream {
    /// Begins to capture: what is submitted from now on goes into a graph and does not run.
    ///
    /// Streams that wait for an event recorded in the capture take part in it, and must be waited
    /// for by this stream before the end.
    ///
    /// # Errors
    /// The stream captures already, or is a default stream; or the driver's answer.
    #[track_caller]
    pub fn begin_capture(&self, mode: CaptureMode) -> Result<Capture, Error> {
        let core = self.order().core();
        let entered = core.enter()?;
        let state = CaptureState::new(self.context().driver().fresh_id());
        core.context().captures.fetch_add(1, Ordering::SeqCst);
        let place = Location::caller();
        let (stream, capture) = (self.id(), state.id());
        let begun = core.join_capture(&entered, &state, |raw| {
            raw.begin_capture(mode.into())?;
            core.watch().tell(Some(place), || What::CaptureBegun { stream, capture });
            Ok(())
        });
        if let Err(error) = begun {
            core.context().captures.fetch_sub(1, Ordering::SeqCst);
            return Err(error);
        }
        Ok(Capture { stream: self.clone(), state, ended: false, thread: PhantomData })
    }
}

impl Capture {
    /// The stream that captures.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Keeps `hold` alive for as long as the graph can run.
    pub fn hold(&self, hold: Hold) {
        self.state.hold(vec![hold]);
    }

    /// Ends the capture and gives the graph.
    ///
    /// # Errors
    /// The capture was broken, or a stream that took part was not waited for. It is over all the
    /// same.
    #[track_caller]
    pub fn end(mut self) -> Result<Graph, Error> {
        let (raw, held) = self.finish(Some(Location::caller()));
        let context = Context::from_core(Arc::clone(self.stream.order().core().context()));
        let (capture, watch) = (self.state.id(), context.driver().watch().clone());
        let holds = Arc::new(Holds { held: Mutex::new(held), capture, watch });
        Ok(Graph { raw: raw?, holds, context })
    }

    /// Ends the capture on every stream that takes part.
    fn finish(&mut self, place: Option<Place>) -> (Result<DriverGraph, Error>, Vec<Hold>) {
        self.ended = true;
        let core = self.stream.order().core();
        let members = self.state.close();
        members.iter().for_each(|member| member.membership.end());
        members.iter().for_each(|member| member.drain());
        let raw = core.enter().and_then(|entered| entered.raw().end_capture());
        core.watch().tell(place, || What::CaptureEnded {
            stream: self.stream.id(),
            capture: self.state.id(),
            succeeded: raw.is_ok(),
        });
        members.iter().for_each(|member| member.membership.ended());
        core.context().captures.fetch_sub(1, Ordering::SeqCst);
        (raw, self.state.take_holds())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !self.ended {
            let thrown_away = self.finish(None);
            let capture = self.state.id();
            self.stream.order().core().watch().tell(None, || What::GraphGone { capture });
            drop(thrown_away);
        }
    }
}

/// A captured graph. `Send`, `Sync`.
pub struct Graph {
    raw: DriverGraph,
    holds: Arc<Holds>,
    context: Context,
}

impl Graph {
    /// Keeps `hold` alive for as long as this graph, or anything made from it, can run.
    pub fn hold(&self, hold: Hold) {
        lock(&self.holds.held).push(hold);
    }

    /// How many things are held.
    #[must_use]
    pub fn hold_count(&self) -> usize {
        lock(&self.holds.held).len()
    }

    /// Makes the graph launchable.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn instantiate(&self) -> Result<GraphExec, Error> {
        self.context.core().close_graves();
        let raw = self.raw.instantiate()?;
        Ok(GraphExec {
            raw: Some(raw),
            holds: Arc::clone(&self.holds),
            context: self.context.clone(),
            replays: Mutex::default(),
        })
    }
}

/// A graph that can be launched. `Send`, `Sync`.
///
/// Dropped, it makes no host wait: what it holds is kept until its last replays are known to be
/// done, which later calls on the context find out.
pub struct GraphExec {
    /// Taken out only by `drop`.
    raw: Option<DriverExec>,
    holds: Arc<Holds>,
    context: Context,
    /// The last replay on each stream.
    replays: Mutex<Vec<Submission>>,
}

impl GraphExec {
    /// Replays the graph on `stream`; the replay is one submission.
    ///
    /// # Errors
    /// The driver's answer, or as for any submission.
    #[track_caller]
    pub fn launch(&self, stream: &Stream) -> Result<Submission, Error> {
        let raw = self.raw.as_ref().expect("the graph leaves only when it is dropped");
        let holds = Arc::clone(&self.holds);
        let hold = move || Some(vec![Box::new(holds) as Hold]);
        let told = Told::of(Operation::Graph { capture: self.holds.capture });
        let replay = stream.order().core().submit(told, hold, |on| raw.launch(on))?;
        if !replay.is_captured() {
            let mut replays = lock(&self.replays);
            replays.retain(|earlier| earlier.order().slot() != replay.order().slot());
            replays.push(replay.clone());
        }
        Ok(replay)
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        if self.context.is_forked() {
            return;
        }
        let raw = self.raw.take();
        let replays = std::mem::take(&mut *lock(&self.replays));
        let mut fences = Vec::new();
        let mut all_fenced = true;
        for replay in replays.iter().filter(|replay| !replay.order().is_settled(replay.point())) {
            match replay.fence() {
                Ok(fence) => fences.push(fence),
                Err(_) => all_fenced = false,
            }
        }
        drop(raw);
        let grave = Grave { fences, all_fenced, holds: Arc::clone(&self.holds) };
        if !grave.is_done() {
            self.context.core().bury(grave);
        }
    }
}

/// What a destroyed graph holds until its last replays are done.
pub(crate) struct Grave {
    fences: Vec<Fence>,
    /// Without a fence for every replay, nothing is ever let go of: leaked rather than reused.
    all_fenced: bool,
    #[expect(dead_code, reason = "held, not read")]
    holds: Arc<Holds>,
}

impl Grave {
    pub(crate) fn is_done(&self) -> bool {
        self.all_fenced && self.first_open_fence().is_none()
    }

    pub(crate) fn first_open_fence(&self) -> Option<&Fence> {
        self.fences.iter().find(|fence| !fence.is_settled())
    }
}

/// Whether the driver says that a capture was broken by somebody's call.
#[must_use]
pub fn is_broken_capture(error: &Error) -> bool {
    let broken = Code::of(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    matches!(error, Error::Driver(error) if error.code == broken)
}

impl fmt::Debug for Grave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grave").field("fences", &self.fences).finish_non_exhaustive()
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("holds", &self.hold_count()).finish_non_exhaustive()
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphExec").field("replays", &lock(&self.replays)).finish_non_exhaustive()
    }
}
