//! Graphs: what a capture collects, and what a replay queues.
//!
//! A replay is a begin on the launching stream, the nodes on lanes of the graph's own, and an end
//! on the launching stream. Lanes are streams that nobody else holds, so that branches of a graph
//! are compared with each other by the rules that hold for everything else.

use cuda_sys::CUresult;

use crate::clock::{Clock, Epoch};
use crate::shims::raw::HostCall;
use crate::state::{Answer, State};
use crate::stream::{StreamKind, Work};

/// Modes of a capture, and of a thread towards captures.
pub(crate) const GLOBAL: u32 = 0;
pub(crate) const RELAXED: u32 = 2;

/// A capture in progress.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) id: u64,
    pub(crate) origin: u32,
    pub(crate) mode: u32,
    /// The thread that began it.
    pub(crate) thread: usize,
    pub(crate) context: usize,
    pub(crate) invalid: bool,
    /// The graph it fills.
    pub(crate) graph: usize,
    /// All timelines that take part.
    pub(crate) members: Vec<u32>,
}

/// One operation of a graph.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) work: Work,
    pub(crate) after: Vec<usize>,
}

/// A graph, and the references to user objects that it holds.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) objects: Vec<(usize, u32)>,
}

/// A graph made ready to run.
#[derive(Debug)]
pub(crate) struct GraphExec {
    pub(crate) context: usize,
    pub(crate) nodes: Vec<Node>,
    /// For each node the lane it runs on.
    lane_of: Vec<usize>,
    lanes: Vec<u32>,
    objects: Vec<(usize, u32)>,
    /// The end of the last replay: no two replays overlap.
    last_end: Option<(Epoch, Clock)>,
}

/// A counted object of the user's with what is to happen when the count is zero.
#[derive(Debug)]
pub(crate) struct UserObject {
    pub(crate) destroy: HostCall,
    pub(crate) references: u32,
}

impl State {
    pub(crate) fn capture(&self, capture: usize) -> Option<&Capture> {
        self.captures.get(capture)?.as_ref()
    }

    pub(crate) fn capture_mut(&mut self, capture: usize) -> Option<&mut Capture> {
        self.captures.get_mut(capture)?.as_mut()
    }

    pub(crate) fn capture_id(&self, capture: usize) -> u64 {
        self.capture(capture).map_or(0, |capture| capture.id)
    }

    /// Whether this very capture is still in progress.
    pub(crate) fn capture_lives(&self, capture: usize, id: u64) -> bool {
        self.capture(capture).is_some_and(|capture| capture.id == id)
    }

    /// Whether a capture can take another operation.
    pub(crate) fn check_capture(&self, capture: usize) -> Answer {
        match self.capture(capture) {
            Some(capture) if !capture.invalid => Ok(()),
            _ => Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
        }
    }

    pub(crate) fn invalidate(&mut self, capture: usize) {
        if let Some(capture) = self.capture_mut(capture) {
            capture.invalid = true;
        }
    }

    /// Begins a capture on a stream.
    pub(crate) fn begin_capture(&mut self, timeline: u32, mode: u32, thread: usize) -> Answer {
        if RELAXED < mode {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let stream = self.live(timeline);
        let context = stream.context;
        if stream.kind == StreamKind::Legacy {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        if stream.capture.is_some() {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
        }
        let graph = self.graphs.insert(Graph::default());
        let id = self.new_id();
        let capture = Capture {
            id,
            origin: timeline,
            mode,
            thread,
            context,
            invalid: false,
            graph,
            members: Vec::new(),
        };
        let number = self.captures.iter().position(Option::is_none);
        let number = number.unwrap_or_else(|| {
            self.captures.push(None);
            self.captures.len() - 1
        });
        if let Some(place) = self.captures.get_mut(number) {
            *place = Some(capture);
        }
        self.live_captures += 1;
        self.join_capture(timeline, number, &[]);
        Ok(())
    }

    /// A stream becomes part of a capture, behind some of its nodes.
    pub(crate) fn join_capture(&mut self, timeline: u32, number: usize, nodes: &[usize]) {
        if let Some(capture) = self.capture_mut(number)
            && !capture.members.contains(&timeline)
        {
            capture.members.push(timeline);
        }
        let stream = self.live_mut(timeline);
        stream.capture = Some(number);
        for node in nodes {
            if !stream.capture_tail.contains(node) {
                stream.capture_tail.push(*node);
            }
        }
    }

    /// Adds an operation to the graph that a stream captures.
    pub(crate) fn capture_work(&mut self, timeline: u32, work: Work) -> Answer {
        let stream = self.live_mut(timeline);
        let number = stream.capture.ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
        self.check_capture(number)?;
        let graph = self.capture(number).map_or(0, |capture| capture.graph);
        let after = std::mem::take(&mut self.live_mut(timeline).capture_tail);
        let graph = self.graphs.get_mut(graph)?;
        graph.nodes.push(Node { work, after });
        let node = graph.nodes.len() - 1;
        self.live_mut(timeline).capture_tail.push(node);
        Ok(())
    }

    /// Ends a capture on the stream where it began; gives the graph.
    pub(crate) fn end_capture(&mut self, timeline: u32, thread: usize) -> Answer<usize> {
        let number = self.live(timeline).capture.ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
        let capture = self.capture(number).ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
        if capture.origin != timeline {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != thread {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        }
        let invalid = capture.invalid;
        let graph = capture.graph;
        let joined = self.all_joined(number);
        self.close_capture(number);
        if !invalid && joined {
            return Ok(graph);
        }
        self.remove_graph(graph)?;
        Err(if invalid {
            CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        } else {
            CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED
        })
    }

    /// Whether everything captured comes before the end of the origin stream.
    fn all_joined(&self, number: usize) -> bool {
        let Some(capture) = self.capture(number) else { return false };
        let Ok(graph) = self.graphs.get(capture.graph) else { return false };
        let mut before_end = vec![false; graph.nodes.len()];
        let mut open = self.live(capture.origin).capture_tail.clone();
        while let Some(node) = open.pop() {
            if let Some(seen) = before_end.get_mut(node)
                && !std::mem::replace(seen, true)
            {
                open.extend(graph.nodes.get(node).into_iter().flat_map(|node| &node.after));
            }
        }
        let tails = capture.members.iter().flat_map(|&member| &self.live(member).capture_tail);
        tails.into_iter().all(|&node| before_end.get(node).copied().unwrap_or(false))
    }

    /// Forgets a capture; its streams run for themselves again.
    fn close_capture(&mut self, number: usize) {
        let Some(capture) = self.captures.get_mut(number).and_then(Option::take) else { return };
        self.live_captures -= 1;
        for member in capture.members {
            if let Some(stream) = self.stream_mut(member) {
                stream.capture = None;
                stream.capture_tail.clear();
            }
        }
    }

    /// A stream that is destroyed ends the capture that began on it, and leaves any other.
    pub(crate) fn leave_capture(&mut self, timeline: u32) {
        let Some(number) = self.live(timeline).capture else { return };
        let Some(capture) = self.capture_mut(number) else { return };
        if capture.origin == timeline {
            let graph = capture.graph;
            self.close_capture(number);
            let _gone = self.remove_graph(graph);
        } else {
            capture.members.retain(|&member| member != timeline);
        }
    }

    /// Ends every capture of a context.
    pub(crate) fn end_captures_in(&mut self, context: usize) {
        for number in 0..self.captures.len() {
            if let Some(capture) = self.capture(number)
                && capture.context == context
            {
                let graph = capture.graph;
                self.close_capture(number);
                let _gone = self.remove_graph(graph);
            }
        }
    }

    pub(crate) fn remove_graph(&mut self, handle: usize) -> Answer {
        let graph = self.graphs.remove(handle)?;
        for (object, count) in graph.objects {
            self.release_object(object, count);
        }
        Ok(())
    }

    /// Makes a graph ready to run: its nodes get lanes.
    pub(crate) fn instantiate(&mut self, graph: usize, context: usize) -> Answer<usize> {
        let graph = self.graphs.get(graph)?;
        let nodes = graph.nodes.clone();
        let objects = graph.objects.clone();
        for &(object, count) in &objects {
            if let Ok(object) = self.user_objects.get_mut(object) {
                object.references += count;
            }
        }
        let mut lane_of = Vec::with_capacity(nodes.len());
        let mut last_on: Vec<usize> = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let lane = node.after.iter().find_map(|&before| {
                let lane: usize = *lane_of.get(before)?;
                (last_on.get(lane) == Some(&before)).then_some(lane)
            });
            let lane = lane.unwrap_or_else(|| {
                last_on.push(number);
                last_on.len() - 1
            });
            if let Some(last) = last_on.get_mut(lane) {
                *last = number;
            }
            lane_of.push(lane);
        }
        let lanes = last_on.iter().map(|_| self.new_stream(context, StreamKind::Lane)).collect();
        let last_end = None;
        Ok(self.execs.insert(GraphExec { context, nodes, lane_of, lanes, objects, last_end }))
    }

    /// Queues one replay behind a stream's work.
    pub(crate) fn replay(&mut self, handle: usize, timeline: u32) -> Answer {
        let exec = self.execs.get_mut(handle)?;
        let nodes = exec.nodes.clone();
        let lanes: Vec<u32> =
            exec.lane_of.iter().filter_map(|&lane| exec.lanes.get(lane).copied()).collect();
        let mut after = Vec::new();
        if let Some((epoch, clock)) = exec.last_end.take() {
            after.push((epoch.timeline, epoch.place));
            self.learn(timeline, epoch, &clock);
        }
        self.submit(timeline, Work::Nothing, after);
        let begin = self.end_of(timeline);
        let mut places: Vec<(Epoch, Clock)> = Vec::with_capacity(nodes.len());
        for (node, &lane) in nodes.iter().zip(&lanes) {
            let before: Vec<(Epoch, Clock)> = if node.after.is_empty() {
                vec![begin.clone()]
            } else {
                node.after.iter().filter_map(|&before| places.get(before).cloned()).collect()
            };
            let after = self.come_after(lane, &before);
            self.submit(lane, node.work.clone(), after);
            places.push(self.end_of(lane));
        }
        let after = self.come_after(timeline, &places);
        self.submit(timeline, Work::Nothing, after);
        let end = self.end_of(timeline);
        self.execs.get_mut(handle)?.last_end = Some(end);
        Ok(())
    }

    /// A stream's last operation and what it comes after.
    fn end_of(&self, timeline: u32) -> (Epoch, Clock) {
        let stream = self.live(timeline);
        (Epoch { timeline, place: stream.submitted() }, stream.clock.clone())
    }

    /// Orders a timeline's next operation after others; gives those still to run.
    pub(crate) fn come_after(
        &mut self,
        timeline: u32,
        before: &[(Epoch, Clock)],
    ) -> Vec<(u32, u64)> {
        let mut after = Vec::with_capacity(before.len());
        for (epoch, clock) in before {
            self.learn(timeline, *epoch, clock);
            if epoch.timeline != timeline && !self.is_done(epoch.timeline, epoch.place) {
                after.push((epoch.timeline, epoch.place));
            }
        }
        after
    }

    /// Destroys an exec; what is queued of it still runs, and keeps the user's objects alive.
    pub(crate) fn remove_exec(&mut self, handle: usize) -> Answer {
        let exec = self.execs.remove(handle)?;
        for lane in exec.lanes {
            let stream = self.live_mut(lane);
            stream.destroyed = true;
            if stream.queue.is_empty() {
                self.retire(lane);
            }
        }
        if exec.objects.is_empty() {
            return Ok(());
        }
        let lane = self.new_stream(exec.context, StreamKind::Lane);
        let before: Vec<(Epoch, Clock)> = exec.last_end.into_iter().collect();
        let after = self.come_after(lane, &before);
        let at_once = after.is_empty();
        self.live_mut(lane).destroyed = true;
        self.submit(lane, Work::Release(exec.objects), after);
        if at_once {
            self.execute(lane);
        }
        Ok(())
    }

    /// Drops references to a user object; the last one has it destroyed on the machine's thread.
    pub(crate) fn release_object(&mut self, handle: usize, count: u32) {
        let Ok(object) = self.user_objects.get_mut(handle) else { return };
        object.references = object.references.saturating_sub(count);
        if object.references == 0
            && let Ok(object) = self.user_objects.remove(handle)
        {
            self.host_jobs.push_back((None, object.destroy));
        }
    }
}
