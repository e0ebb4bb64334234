//! A trace's operations as steps for a target, with every recorded use put on a lane.
//!
//! A trace tells when other streams were done with a freed block, not which streams they were. So
//! each such use becomes work on a lane: a stream of the replay's own that is held by a gate until
//! the trace says that the use is over. Uses that end at one moment share a gate. A lane is in
//! order, so a use may follow another one there only if it ends no earlier; which lane takes
//! which use is worked out here, ahead of the replay, for as few lanes as that allows.

use trace::{BlockNumber, Operation, Operations, StreamNumber};

/// The most lanes. A use that finds none in the right order lasts as long as the use before it on
/// the lane that is free first, and is counted.
pub const LANES_MAX: usize = 64;
/// The most closed gates on one lane, well below what a stream can queue.
pub const LANE_GATES_MAX: usize = 128;

/// What becomes of the uses that a trace recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Uses {
    /// They are replayed.
    #[default]
    Recorded,
    /// They are ignored: every free is a plain one.
    None,
}

/// A stream that replays uses, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u32);

/// A moment at which uses end, counted from 0; gates are opened in this order, and what is still
/// closed at the end of the steps is opened then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gate(pub u32);

/// One step of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Allocate a block.
    Allocate {
        /// The block.
        block: BlockNumber,
        /// How many bytes.
        bytes: u64,
        /// For which stream.
        stream: StreamNumber,
    },
    /// Free a block that only its own stream used.
    Free {
        /// The block.
        block: BlockNumber,
    },
    /// Free a block that is used by what is queued on a lane.
    FreeUsed {
        /// The block.
        block: BlockNumber,
        /// The lane.
        lane: Lane,
    },
    /// Hold a lane from here until a gate opens.
    Close {
        /// The lane.
        lane: Lane,
        /// The gate.
        gate: Gate,
    },
    /// Open a gate.
    Open {
        /// The gate.
        gate: Gate,
    },
    /// The use of a block is over, as far as the trace is concerned.
    Over {
        /// The block.
        block: BlockNumber,
    },
}

/// The steps of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    /// How many of them stand before the trace's own, to set up blocks it begins with.
    pub initial_step_count: usize,
    /// Allocations and frees among the steps.
    pub operation_count: usize,
    /// The trace's own frees, initial blocks left out, that are replayed as used by a lane.
    pub deferred_free_count: usize,
    /// How many streams.
    pub stream_count: usize,
    /// How many blocks.
    pub block_count: usize,
    /// How many lanes.
    pub lane_count: usize,
    /// How many gates.
    pub gate_count: usize,
    /// Uses that last longer than recorded, for want of a lane.
    pub prolonged_count: usize,
}

impl Plan {
    /// Works out the steps for a trace.
    #[must_use]
    pub fn new(operations: &Operations, uses: Uses) -> Self {
        let ends = match uses {
            Uses::Recorded => Ends::of(operations),
            Uses::None => Ends::default(),
        };
        let mut planner = Planner {
            plan: Self {
                steps: Vec::with_capacity(operations.list.len()),
                stream_count: operations.streams.len(),
                block_count: operations.block_count,
                gate_count: ends.gate_count,
                ..Self::default()
            },
            lanes: Vec::new(),
            open_next: 0,
        };
        for (position, operation) in operations.list.iter().enumerate() {
            if position == operations.initial_operation_count {
                planner.plan.initial_step_count = planner.plan.steps.len();
            }
            let is_initial = position < operations.initial_operation_count;
            planner.take(operation, &ends, is_initial);
        }
        planner.plan.lane_count = planner.lanes.len();
        planner.plan
    }
}

/// When the use of each block ends: the gate, by block.
#[derive(Default)]
struct Ends {
    gates: Vec<Option<Gate>>,
    gate_count: usize,
}

impl Ends {
    /// Completions with no allocation or free between them are one moment; what never completes
    /// ends after all of them.
    fn of(operations: &Operations) -> Self {
        let mut gates = vec![None; operations.block_count];
        let mut gate_count = 0;
        let mut follows_completion = false;
        for operation in &operations.list {
            if let Operation::Complete { block } = *operation {
                if !follows_completion {
                    gate_count += 1;
                }
                if let Some(gate) = gates.get_mut(block.index()) {
                    *gate = Some(gate_number(gate_count - 1));
                }
            }
            follows_completion = matches!(operation, Operation::Complete { .. });
        }
        let never = gate_number(gate_count);
        let mut some_never_end = false;
        for operation in &operations.list {
            if let Operation::Free { block, deferred: true } = *operation
                && let Some(gate @ None) = gates.get_mut(block.index())
            {
                *gate = Some(never);
                some_never_end = true;
            }
        }
        Self { gates, gate_count: gate_count + usize::from(some_never_end) }
    }

    fn of_block(&self, block: BlockNumber) -> Option<Gate> {
        self.gates.get(block.index()).copied().flatten()
    }
}

fn gate_number(index: usize) -> Gate {
    Gate(u32::try_from(index).expect("there are fewer moments than blocks"))
}

/// A lane while planning: the gates that are closed there, in order.
#[derive(Debug, Default)]
struct LaneState {
    gates: std::collections::VecDeque<Gate>,
}

struct Planner {
    plan: Plan,
    lanes: Vec<LaneState>,
    /// The first gate that has not been opened.
    open_next: u32,
}

impl Planner {
    fn take(&mut self, operation: &Operation, ends: &Ends, is_initial: bool) {
        match *operation {
            Operation::Allocate { block, bytes, stream } => {
                self.plan.operation_count += 1;
                self.plan.steps.push(Step::Allocate { block, bytes, stream });
            }
            Operation::Free { block, deferred } => {
                self.plan.operation_count += 1;
                match ends.of_block(block).filter(|_| deferred) {
                    Some(gate) => {
                        self.plan.deferred_free_count += usize::from(!is_initial);
                        let lane = self.lane_for(gate);
                        self.plan.steps.push(Step::FreeUsed { block, lane });
                    }
                    None => self.plan.steps.push(Step::Free { block }),
                }
            }
            Operation::Complete { block } => {
                if let Some(gate) = ends.of_block(block) {
                    self.plan.steps.push(Step::Over { block });
                    self.open(gate);
                }
            }
            // What the recorded allocator could not serve never became a block.
            Operation::OutOfMemory { .. } => {}
        }
    }

    /// The lane for a use that ends at `gate`, with that gate the last one closed there.
    fn lane_for(&mut self, gate: Gate) -> Lane {
        let last = |lane: &LaneState| lane.gates.back().copied();
        if let Some(lane) = self.position(|lane| last(lane) == Some(gate)) {
            return lane;
        }
        let fits = |lane: &LaneState| {
            lane.gates.len() < LANE_GATES_MAX && last(lane).is_none_or(|last| last < gate)
        };
        // Of the lanes in the right order, the one that is held longest: the others stay free
        // for uses that end sooner.
        let best = (0..).zip(&self.lanes).filter(|(_, lane)| fits(lane));
        let best = best.max_by_key(|(_, lane)| last(lane)).map(|(number, _)| Lane(number));
        if let Some(lane) = best {
            return self.close(lane, gate);
        }
        if self.lanes.len() < LANES_MAX {
            let number = u32::try_from(self.lanes.len()).expect("lanes have a small limit");
            self.lanes.push(LaneState::default());
            return self.close(Lane(number), gate);
        }
        // Any last gate that opens later will do; a lane that is full but opens earlier will not.
        let later = (0..).zip(&self.lanes).filter(|(_, lane)| last(lane) > Some(gate));
        let later = later.min_by_key(|(_, lane)| last(lane)).map(|(number, _)| Lane(number));
        match later {
            Some(lane) => {
                self.plan.prolonged_count += 1;
                lane
            }
            // Every lane is full of gates that open sooner: one of them grows beyond the limit.
            None => {
                let shortest = (0..).zip(&self.lanes).min_by_key(|(_, lane)| lane.gates.len());
                self.close(Lane(shortest.map_or(0, |(number, _)| number)), gate)
            }
        }
    }

    fn position(&self, mut is_it: impl FnMut(&LaneState) -> bool) -> Option<Lane> {
        (0..).zip(&self.lanes).find(|(_, lane)| is_it(lane)).map(|(number, _)| Lane(number))
    }

    fn close(&mut self, lane: Lane, gate: Gate) -> Lane {
        self.plan.steps.push(Step::Close { lane, gate });
        let index = usize::try_from(lane.0).expect("lanes have a small limit");
        if let Some(state) = self.lanes.get_mut(index) {
            state.gates.push_back(gate);
        }
        lane
    }

    /// Opens `gate` unless a completion of the same moment did.
    fn open(&mut self, gate: Gate) {
        if gate.0 < self.open_next {
            return;
        }
        self.open_next = gate.0 + 1;
        self.plan.steps.push(Step::Open { gate });
        for lane in &mut self.lanes {
            while lane.gates.front().is_some_and(|first| *first <= gate) {
                lane.gates.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests;
