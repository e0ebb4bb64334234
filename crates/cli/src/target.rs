//! Devices, as targets of a replay: the only file here that knows streams and allocators.

use replay::{Figures, Gate, Lane, Placed, Plan, Served, StampCounts, Target, TargetError};
use trace::StreamNumber;
use wellspring::streams::{Fence, Gates};
use wellspring::{
    AllocError, Allocator, Block, Builder, Config, Context, DeviceChoice, DeviceKind, Kernels,
    OpenError, Policy, Runtime, Stream, StreamOptions,
};

use crate::arguments::SourceName;

mod stamper;

use stamper::Stamper;

/// How much of each block is stamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamps {
    /// A word at both ends and one in every 64 KiB.
    Sparse,
    /// Every word.
    Full,
}

/// A device that was opened, and how allocators are made on it.
#[derive(Debug)]
pub(crate) struct Session {
    builder: Builder,
    policy: Policy,
    /// Keeps a GPU's context open from one target to the next.
    runtime: Runtime,
}

impl Session {
    /// Opens the device that `choice` names.
    pub(crate) fn open(
        choice: DeviceChoice,
        policy: Policy,
        source: Option<SourceName>,
    ) -> Result<Self, OpenError> {
        let builder = Builder::new().policy(policy);
        let builder = match source {
            None => builder,
            Some(SourceName::Vmm) => builder.vmm_source(),
            Some(SourceName::Plain) => builder.plain_source(),
        };
        let runtime = builder.open_choice(choice)?;
        Ok(Self { builder, policy, runtime })
    }

    /// The device's name.
    pub(crate) fn device_name(&self) -> &str {
        self.runtime.device_name()
    }

    /// Why it is no GPU, where one was tried first.
    pub(crate) fn fallback_reason(&self) -> Option<String> {
        self.runtime.fallback_reason().map(ToString::to_string)
    }

    /// Where memory comes from.
    pub(crate) fn source_name(&self) -> &'static str {
        self.runtime.allocator().source_name()
    }

    /// All memory of the device.
    pub(crate) fn total_bytes(&self) -> Result<u64, TargetError> {
        self.runtime.device().total_bytes().map_err(failed)
    }

    /// A fresh target: an allocator with everything that `plan` needs.
    pub(crate) fn fresh(
        &self,
        plan: &Plan,
        capacity_bytes: Option<u64>,
        stamps: Option<Stamps>,
    ) -> Result<DeviceTarget, TargetError> {
        let mut config = Config::default().with_policy(self.policy);
        if let Some(bytes) = capacity_bytes {
            config = config.with_limit(bytes);
        }
        let builder = self.builder.clone().config(config);
        let opened = match self.runtime.device_kind() {
            DeviceKind::Gpu => builder.open_in(self.runtime.context()),
            // A machine of its own, so that every target finds the same one.
            DeviceKind::Simulated => builder.open_choice(DeviceChoice::Simulated),
        };
        DeviceTarget::new(opened.map_err(failed)?, plan, stamps)
    }
}

/// An allocator on a device, with the streams of a trace and the lanes of a plan.
#[derive(Debug)]
pub(crate) struct DeviceTarget {
    /// First of all: dropped, it opens every gate.
    gates: Option<Gates>,
    stamper: Option<Stamper>,
    lanes: Vec<LaneState>,
    streams: Vec<Stream>,
    allocator: Allocator,
    context: Context,
    /// Driver calls before the replay, and those it made for itself.
    other_calls: u64,
    /// The device; last, as a simulated machine goes with it.
    runtime: Runtime,
}

#[derive(Debug)]
struct LaneState {
    stream: Stream,
    /// The gates that are closed here, in order, each with a fence behind its last use; the last
    /// one's is recorded when the next is closed, or when it opens.
    closed: Vec<(Gate, Option<Fence>)>,
}

impl DeviceTarget {
    fn new(runtime: Runtime, plan: &Plan, stamps: Option<Stamps>) -> Result<Self, TargetError> {
        let allocator = runtime.allocator().clone();
        let context = runtime.context().clone();
        let create = |never_wait_on| {
            context
                .create_stream(StreamOptions { never_wait_on, ..StreamOptions::default() })
                .map_err(failed)
        };
        let lane = |_| create(true).map(|stream| LaneState { stream, closed: Vec::new() });
        // Lanes come first: a GPU has few queues, and each lane should have one of its own.
        let lanes: Vec<LaneState> = (0..plan.lane_count).map(lane).collect::<Result<_, _>>()?;
        let streams: Vec<Stream> =
            (0..plan.stream_count).map(|_| create(false)).collect::<Result<_, _>>()?;
        let needs_kernels = stamps.is_some() || 0 < plan.gate_count;
        let kernels = needs_kernels.then(|| Kernels::load(&context)).transpose().map_err(failed)?;
        let gated = kernels.as_ref().filter(|_| 0 < plan.gate_count).zip(lanes.first());
        let gates = gated
            .map(|(kernels, lane)| ready_gates(kernels, plan.gate_count, &lane.stream))
            .transpose()
            .map_err(failed)?;
        let stamper = match (kernels, stamps) {
            (Some(kernels), Some(stamps)) => {
                Some(Stamper::new(&context, kernels, stamps, &streams).map_err(failed)?)
            }
            (_, _) => None,
        };
        // Everything until here is no part of what is measured.
        let other_calls = context.driver_calls();
        Ok(Self { gates, stamper, lanes, streams, allocator, context, other_calls, runtime })
    }

    /// Does work of the replay's own, whose driver calls do not count.
    fn aside<R>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<R, wellspring::streams::Error>,
    ) -> Result<R, TargetError> {
        let before = self.context.driver_calls();
        let outcome = work(self);
        self.other_calls += self.context.driver_calls() - before;
        outcome.map_err(failed)
    }

    fn stream(&self, stream: StreamNumber) -> &Stream {
        self.streams.get(stream.index()).expect("the plan counted the streams")
    }

    fn lane(&mut self, lane: Lane) -> &mut LaneState {
        let index = usize::try_from(lane.0).expect("lanes have a small limit");
        self.lanes.get_mut(index).expect("the plan counted the lanes")
    }
}

/// Gates whose kernel has run once: a driver may load a kernel at its first launch, and wait for
/// all that runs while it does.
fn ready_gates(
    kernels: &Kernels,
    count: usize,
    lane: &Stream,
) -> Result<Gates, wellspring::streams::Error> {
    let open = kernels.gates(1)?;
    open.open(0);
    open.close(lane, 0)?.wait()?;
    kernels.gates(count)
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> TargetError {
    TargetError::Failed(Box::new(error))
}

fn gate_index(gate: Gate) -> usize {
    usize::try_from(gate.0).expect("the host counts at least as far as 32 bits")
}

impl Target for DeviceTarget {
    type Block = Block;

    #[inline]
    fn allocate(&mut self, stream: StreamNumber, bytes: u64) -> Result<Block, TargetError> {
        let stream = self.streams.get(stream.index()).expect("the plan counted the streams");
        self.allocator.allocate(stream, bytes).map_err(|error| {
            let is_full = matches!(error, AllocError::OutOfMemory(_) | AllocError::TooLarge { .. });
            if is_full { TargetError::OutOfMemory } else { failed(error) }
        })
    }

    fn placed(&self, block: &Block) -> Placed {
        Placed { address: block.address(), bytes: block.size() }
    }

    #[inline]
    fn free(&mut self, block: Block) -> Result<(), TargetError> {
        block.free().map_err(failed)
    }

    fn close(&mut self, lane: Lane, gate: Gate) -> Result<(), TargetError> {
        self.aside(|target| {
            let state = target.lane(lane);
            if let Some((_, fence @ None)) = state.closed.last_mut() {
                *fence = Some(state.stream.order().fence_now()?);
            }
            state.closed.push((gate, None));
            let stream = state.stream.clone();
            let gates = target.gates.as_ref().expect("a plan with steps to close has gates");
            gates.close(&stream, gate_index(gate)).map(drop)
        })
    }

    fn free_used(&mut self, block: Block, lane: Lane) -> Result<(), TargetError> {
        block.record_stream(&self.lane(lane).stream);
        block.free().map_err(failed)
    }

    /// What stands behind later gates is not waited for, as each gate's fence comes before them.
    fn open(&mut self, gate: Gate) -> Result<(), TargetError> {
        self.aside(|target| {
            let mut fences = Vec::new();
            for lane in &mut target.lanes {
                let passed = lane.closed.iter().take_while(|(closed, _)| *closed <= gate).count();
                for (_, fence) in lane.closed.drain(..passed) {
                    fences.push(fence.map_or_else(|| lane.stream.order().fence_now(), Ok)?);
                }
            }
            if let Some(gates) = &target.gates {
                gates.open(gate_index(gate));
            }
            fences.iter().try_for_each(Fence::synchronize)
        })
    }

    fn stamp(
        &mut self,
        placed: Placed,
        stream: StreamNumber,
        value: u32,
    ) -> Result<(), TargetError> {
        self.aside(|target| {
            let queue = target.stream(stream).clone();
            let stamper = target.stamper.as_mut();
            stamper.map_or(Ok(()), |stamper| stamper.stamp(&queue, placed, value))
        })
    }

    fn check(
        &mut self,
        placed: Placed,
        stream: StreamNumber,
        value: u32,
    ) -> Result<(), TargetError> {
        self.aside(|target| {
            let queue = target.stream(stream).clone();
            let stamper = target.stamper.as_mut();
            stamper.map_or(Ok(()), |stamper| stamper.check(&queue, stream, placed, value))
        })
    }

    fn settle(&mut self, stream: StreamNumber) -> Result<(), TargetError> {
        self.aside(|target| target.stream(stream).synchronize())
    }

    fn stamps(&mut self) -> Result<StampCounts, TargetError> {
        let counts = self.aside(|target| {
            let streams = &target.streams;
            target
                .stamper
                .as_ref()
                .map_or_else(|| Ok(StampCounts::default()), |stamper| stamper.counts(streams))
        })?;
        if let Some(machine) = self.runtime.machine()
            && let Some(hazard) = machine.hazards().first()
        {
            return Err(TargetError::Failed(hazard.to_string().into()));
        }
        Ok(counts)
    }

    fn figures(&self) -> Figures {
        let stats = self.allocator.stats();
        let served = stats.served_by;
        let by = |by, count| Served { by, count };
        Figures {
            peak_allocated_bytes: stats.allocated_bytes.peak,
            peak_active_bytes: stats.active_bytes.peak,
            peak_pending_bytes: stats.pending_bytes.peak,
            peak_reserved_bytes: stats.reserved_bytes.peak,
            segments: stats.segment_count,
            driver_calls: self.context.driver_calls() - self.other_calls,
            served: vec![
                by("own stream", served.own_stream),
                by("known order", served.known_order),
                by("completion", served.completion),
                by("device wait", served.device_wait),
                by("growth", served.growth),
                by("ladder", served.ladder),
            ],
        }
    }
}

#[cfg(test)]
mod tests;
