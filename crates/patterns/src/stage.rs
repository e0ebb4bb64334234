//! Runs one pattern under one strategy.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use wellspring::kernels::launch::Stamped;
use wellspring::launch::{DeviceSlice, DeviceSliceMut};
use wellspring::streams::Gates;
use wellspring::{DeviceBuffer, Event, Kernels, Runtime, Stream};

use crate::outcome::Outcome;
use crate::plan::{GateSteps, Plan, Step};
use crate::strategy::{KEPT_BUFFERS, Strategy};
use crate::uncounted::uncounted;

/// How many words of a buffer are stamped, but for the last one.
const STAMPS: usize = 16;
/// The words of what a consumer writes where it makes no output.
const SCRATCH_WORDS: usize = 32;
/// The host looks this often at a producer whose progress it waits for.
const LOOK: Duration = Duration::from_micros(20);
/// The host gives up after so many times as long as the producer alone would take.
const PATIENCE_FACTOR: u64 = 4;

/// Why a pattern did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An allocation, a launch or a copy failed.
    #[error(transparent)]
    Runtime(#[from] wellspring::Error),
    /// A driver call failed.
    #[error(transparent)]
    Streams(#[from] wellspring::streams::Error),
    /// A buffer of the plan has more bytes than this machine counts.
    #[error("a buffer of {bytes} bytes is more than this machine counts")]
    TooLarge {
        /// The size.
        bytes: u64,
    },
}

/// A buffer that the program frees later, and what must be over before.
struct Kept {
    buffer: DeviceBuffer<u32>,
    over: Vec<Event>,
}

/// A consumer of one buffer.
struct User<'a> {
    stream: &'a Stream,
    scratch: &'a DeviceBuffer<u32>,
    nanoseconds: u64,
}

/// A pattern, ready to run round after round under one strategy. Memory stays cached in between.
#[derive(Debug)]
pub struct Stage {
    runtime: Runtime,
    kernels: Kernels,
    plan: Plan,
    strategy: Strategy,
    producer: Stream,
    consumers: [Stream; 2],
    mismatches: DeviceBuffer<u64>,
    scratch: [DeviceBuffer<u32>; 2],
    /// One a step, for the strategy without an allocator.
    prepared: Vec<DeviceBuffer<u32>>,
    value: u32,
    /// Where each buffer of the last round was.
    addresses: Vec<u64>,
}

impl Stage {
    /// A stage with streams of its own. `runtime` was opened with [`Strategy::builder`].
    ///
    /// # Errors
    /// No memory, or the driver's answer.
    pub fn new(runtime: &Runtime, plan: Plan, strategy: Strategy) -> Result<Self, Error> {
        let producer = runtime.create_stream()?;
        let consumers = [runtime.create_stream()?, runtime.create_stream()?];
        let is_unsynchronized = strategy == Strategy::Unsynchronized;
        let scratch_words = if is_unsynchronized && plan.makes_outputs {
            words_of(plan.bytes_max())?
        } else {
            SCRATCH_WORDS
        };
        let scratch = |stream| DeviceBuffer::new(runtime, stream, scratch_words);
        let mut prepared = Vec::new();
        for step in plan.steps.iter().filter(|_| is_unsynchronized) {
            prepared.push(DeviceBuffer::new(runtime, &producer, words_of(step.bytes)?)?);
        }
        let [first, second] = &consumers;
        Ok(Self {
            kernels: Kernels::load(runtime.context())?,
            mismatches: DeviceBuffer::zeroed(runtime, &producer, 1)?,
            scratch: [scratch(first)?, scratch(second)?],
            runtime: runtime.clone(),
            plan,
            strategy,
            producer,
            consumers,
            prepared,
            value: 0,
            addresses: Vec::new(),
        })
    }

    /// What it runs.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How it makes early frees safe.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// What it runs on.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The device address of each step's buffer in the last round.
    #[must_use]
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// The slots of its streams, the producer's first; which these are depends on what streams
    /// there were before.
    #[must_use]
    pub fn slots(&self) -> [u32; 3] {
        self.streams().map(|stream| stream.order().slot().index())
    }

    /// Runs the plan once, from an idle device to an idle device.
    ///
    /// # Errors
    /// What the program met first; the device is idle then, unless that fails as well.
    pub fn round(&mut self) -> Result<Outcome, Error> {
        self.settle()?;
        self.addresses.clear();
        let gates = self.plan.gate.map(|_| self.kernels.gates(1)).transpose()?;
        let before = self.runtime.stats();
        let start = self.runtime.context().create_timing_event()?;
        self.producer.record(&start)?;
        let calls_before = self.runtime.context().driver_calls();
        let mut kept = VecDeque::new();
        for index in 0..self.plan.steps.len() {
            if let (Some(gates), Some(at)) = (&gates, self.plan.gate) {
                self.work_gate(gates, at, index)?;
            }
            self.stall(index);
            self.step(index, &mut kept)?;
        }
        let driver_calls = self.runtime.context().driver_calls() - calls_before;
        let nanoseconds = self.end(&start)?;
        let after = self.runtime.stats();
        // The device is idle: what is kept has no user any more.
        drop(kept);
        Ok(Outcome {
            nanoseconds,
            active_peak_bytes: after.active_bytes.peak,
            pending_peak_bytes: after.pending_bytes.peak,
            reserved_peak_bytes: after.reserved_bytes.peak,
            waits: after.device_waits() - before.device_waits(),
            growths: after.served_by.growth - before.served_by.growth,
            driver_calls,
            mismatches: self.take_mismatches()?,
            wait_depth: self.wait_depth(),
        })
    }

    /// Makes the device idle, lets the allocator see it, and starts its peaks anew.
    fn settle(&self) -> Result<(), Error> {
        self.runtime.synchronize()?;
        for stream in self.streams() {
            drop(DeviceBuffer::<u32>::new(&self.runtime, stream, 1)?);
        }
        self.runtime.allocator().reset_peaks();
        Ok(())
    }

    fn wait_depth(&self) -> u64 {
        self.runtime.allocator().wait_depth(&self.producer).map_or(0, u64::from)
    }

    fn streams(&self) -> [&Stream; 3] {
        let [first, second] = &self.consumers;
        [&self.producer, first, second]
    }

    /// Waits for all streams; the time from `start` until the last one was done.
    fn end(&self, start: &Event) -> Result<u64, Error> {
        let mut ends = Vec::new();
        for stream in self.streams() {
            let end = self.runtime.context().create_timing_event()?;
            stream.record(&end)?;
            ends.push(end);
        }
        let mut longest = Duration::ZERO;
        for end in ends {
            end.synchronize()?;
            longest = longest.max(end.elapsed_since(start)?);
        }
        Ok(u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX))
    }

    fn take_mismatches(&mut self) -> Result<u64, Error> {
        let found = self.mismatches.to_vec(&self.producer)?;
        let _queued = self.mismatches.fill(&self.producer, 0)?;
        self.runtime.synchronize()?;
        Ok(found.iter().sum())
    }

    /// Closes the gate before its step; opens it once the producer has come to the other one.
    fn work_gate(&self, gates: &Gates, at: GateSteps, index: usize) -> Result<(), Error> {
        if index == at.closed_before {
            let _held = gates.close(&self.consumers[1], 0)?;
        }
        if index == at.opened_before {
            let progress = self.producer.record_event()?;
            let alone = self.plan.produce_nanoseconds(at.opened_before);
            let patience = Duration::from_nanos(alone.saturating_mul(PATIENCE_FACTOR));
            self.watch(&progress, patience)?;
            gates.open(0);
        }
        Ok(())
    }

    /// Does nothing for as long as the plan says.
    fn stall(&self, index: usize) {
        for stall in self.plan.stalls.iter().filter(|stall| stall.before == index) {
            match self.runtime.machine() {
                Some(machine) => machine.advance(stall.nanoseconds),
                None => std::thread::sleep(Duration::from_nanos(stall.nanoseconds)),
            }
        }
    }

    /// Returns when `event` is complete, or when the patience is over.
    fn watch(&self, event: &Event, patience: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        let mut waited = Duration::ZERO;
        while !event.query()? && waited < patience {
            match self.runtime.machine() {
                Some(machine) => {
                    machine.advance(u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX));
                    waited += LOOK;
                }
                None => {
                    std::thread::sleep(LOOK);
                    waited = begin.elapsed();
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, index: usize, kept: &mut VecDeque<Kept>) -> Result<(), Error> {
        let Some(&step) = self.plan.steps.get(index) else { return Ok(()) };
        self.value = self.value.wrapping_add(1);
        if let Some(buffer) = self.prepared.get(index) {
            return self.work(&mut uncounted(buffer), &step);
        }
        let words = words_of(step.bytes)?;
        let mut buffer = DeviceBuffer::<u32>::new(&self.runtime, &self.producer, words)?;
        self.addresses.push(buffer.address());
        if self.strategy.counts_uses() {
            self.work(&mut buffer, &step)?;
        } else {
            self.work(&mut uncounted(&buffer), &step)?;
        }
        self.release(buffer, &step, kept)
    }

    /// Queues what a step does with its buffer.
    fn work(&self, memory: &mut impl DeviceSliceMut<u32>, step: &Step) -> Result<(), Error> {
        let stride = stride_words(step.bytes);
        let nanoseconds = step.produce_nanoseconds;
        let producer = &self.producer;
        let _queued = self.kernels.produce(producer, memory, stride, self.value, nanoseconds)?;
        for user in self.users(step) {
            user.stream.wait_stream(&self.producer)?;
            let input = Stamped { memory: &*memory, stride_words: stride, value: self.value };
            self.consume(&user, input, step)?;
        }
        Ok(())
    }

    fn consume(
        &self,
        user: &User<'_>,
        input: Stamped<'_, impl DeviceSlice<u32>>,
        step: &Step,
    ) -> Result<(), Error> {
        let mut counter = uncounted(&self.mismatches);
        let User { stream: consumer, scratch, nanoseconds } = *user;
        let makes_output = self.plan.makes_outputs && self.prepared.is_empty();
        if makes_output {
            let words = words_of(step.bytes)?;
            let mut output = DeviceBuffer::<u32>::new(&self.runtime, consumer, words)?;
            self.kernels.consume(consumer, &mut output, input, &mut counter, nanoseconds)?;
        } else {
            let mut output = uncounted(scratch);
            self.kernels.consume(consumer, &mut output, input, &mut counter, nanoseconds)?;
        }
        Ok(())
    }

    /// The consumers that are given the buffer of a step.
    fn users(&self, step: &Step) -> impl Iterator<Item = User<'_>> {
        let all = self.consumers.iter().zip(&self.scratch).zip(step.consume_nanoseconds);
        let users =
            all.map(|((stream, scratch), nanoseconds)| User { stream, scratch, nanoseconds });
        users.filter(|user| 0 < user.nanoseconds)
    }

    /// Frees the buffer, now or later, as the strategy has it.
    fn release(
        &self,
        buffer: DeviceBuffer<u32>,
        step: &Step,
        kept: &mut VecDeque<Kept>,
    ) -> Result<(), Error> {
        if self.strategy.records_streams() {
            self.users(step).for_each(|user| buffer.record_stream(user.stream));
        }
        if self.strategy == Strategy::WaitAtEveryFree {
            for user in self.users(step) {
                self.producer.wait_stream(user.stream)?;
            }
        }
        let (count_max, bytes_max) = match self.strategy {
            Strategy::HandTuned => (KEPT_BUFFERS, u64::MAX),
            Strategy::Bound(bytes_max) => (usize::MAX, bytes_max),
            Strategy::Unsynchronized
            | Strategy::RecordStream
            | Strategy::OwnUses
            | Strategy::AlwaysGrow
            | Strategy::WaitAtEveryFree
            | Strategy::Deterministic => return Ok(()),
        };
        // A buffer that nobody else used is free for its own stream at once.
        if self.users(step).next().is_none() {
            return Ok(());
        }
        let over = self.users(step).map(|user| user.stream.record_event());
        kept.push_back(Kept { over: over.collect::<Result<_, _>>()?, buffer });
        let bytes = |kept: &VecDeque<Kept>| kept.iter().map(|kept| kept.buffer.bytes()).sum();
        while count_max < kept.len() || bytes_max < bytes(kept) {
            let Some(oldest) = kept.pop_front() else { break };
            for event in &oldest.over {
                self.producer.wait_event(event)?;
            }
        }
        Ok(())
    }
}

fn words_of(bytes: u64) -> Result<usize, Error> {
    usize::try_from(bytes / 4).map_err(|_| Error::TooLarge { bytes })
}

/// How many words apart a buffer of so many bytes is stamped.
fn stride_words(bytes: u64) -> u64 {
    let stamps = u64::try_from(STAMPS).unwrap_or(u64::MAX);
    (bytes / 4 / stamps).max(1)
}
