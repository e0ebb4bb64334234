//! Takes a target through the steps of a plan, timed or verified.

use std::time::Duration;

use trace::{BlockNumber, StreamNumber};

use crate::error::ReplayError;
use crate::live_ranges::LiveRanges;
use crate::plan::{Gate, Plan, Step};
use crate::stopwatch::Stopwatch;
use crate::target::{Figures, Placed, StampCounts, Target, TargetError};

/// Steps between two reports of progress.
const PROGRESS_STEPS: usize = 2048;
/// An odd number, so that every block's stamp differs; its bits are those of the golden ratio.
const STAMP_FACTOR: u32 = 0x9E37_79B1;

/// What a pass through the steps is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Time and figures, with nothing done to the blocks.
    Timed,
    /// Time and figures, ended by the first request that finds no room.
    UntilFull,
    /// Every block is stamped, and checked before it is freed; live ranges may not overlap.
    Verified,
}

/// Told how many steps are done, of how many.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// What one pass found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Allocations and frees that were made, and served.
    pub operation_count: u64,
    /// The time they took.
    pub elapsed: Duration,
    /// Requests that found no room.
    pub out_of_memory_count: u64,
    /// The block of the first of them.
    pub refused: Option<BlockNumber>,
    /// Stamps; none unless verified.
    pub stamps: StampCounts,
    /// Blocks that overlapped one that was live; none unless verified.
    pub overlap_count: u64,
    /// What the target counted, before the blocks that are left were freed.
    pub figures: Figures,
}

impl Outcome {
    /// Nanoseconds for an allocation or a free, on average; 0 if there was none.
    #[must_use]
    pub fn ns_per_operation(&self) -> f64 {
        let count = u32::try_from(self.operation_count).unwrap_or(u32::MAX);
        if count == 0 { 0.0 } else { self.elapsed.as_secs_f64() * 1e9 / f64::from(count) }
    }
}

/// Takes `target`, which has served nothing yet, through `plan`.
///
/// # Errors
/// The target failed in another way than by having no room.
pub fn run<T: Target>(
    target: &mut T,
    plan: &Plan,
    mode: Mode,
    progress: Progress<'_>,
) -> Result<Outcome, ReplayError> {
    let mut blocks = Vec::new();
    blocks.resize_with(plan.block_count, || None);
    let verifier = (mode == Mode::Verified).then(|| Verifier::new(plan.block_count));
    let mut pass = Pass {
        target,
        blocks,
        verifier,
        watch: Stopwatch::default(),
        outcome: Outcome::default(),
        opened: 0,
    };
    let step_count = plan.steps.len();
    for (index, step) in plan.steps.iter().enumerate() {
        if index % PROGRESS_STEPS == 0 {
            pass.watch.pause();
            progress(index, step_count);
        }
        pass.take(step).map_err(|source| ReplayError::Step { step: index, step_count, source })?;
        if mode == Mode::UntilFull && 0 < pass.outcome.out_of_memory_count {
            break;
        }
    }
    pass.watch.pause();
    let outcome = pass.finish(plan.gate_count).map_err(|source| ReplayError::End { source })?;
    progress(step_count, step_count);
    Ok(outcome)
}

struct Pass<'a, T: Target> {
    target: &'a mut T,
    /// By number: what is allocated now. A request that found no room leaves nothing here, and
    /// what the trace does with its block is passed over.
    blocks: Vec<Option<T::Block>>,
    verifier: Option<Verifier>,
    watch: Stopwatch,
    outcome: Outcome,
    /// Gates before this one are open.
    opened: u32,
}

impl<T: Target> Pass<'_, T> {
    #[inline]
    fn take(&mut self, step: &Step) -> Result<(), TargetError> {
        match *step {
            Step::Allocate { block, bytes, stream } => self.allocate(block, bytes, stream),
            Step::Free { block } => {
                let Some(held) = self.take_out(block) else { return Ok(()) };
                if let Some(verifier) = &mut self.verifier {
                    self.watch.pause();
                    verifier.check(block, self.target)?;
                    verifier.remove(block);
                }
                self.watch.start();
                self.outcome.operation_count += 1;
                self.target.free(held)
            }
            Step::FreeUsed { block, lane } => {
                let Some(held) = self.take_out(block) else { return Ok(()) };
                if let Some(verifier) = &mut self.verifier {
                    self.watch.pause();
                    verifier.check(block, self.target)?;
                }
                self.watch.start();
                self.outcome.operation_count += 1;
                self.target.free_used(held, lane)
            }
            Step::Close { lane, gate } => {
                self.watch.pause();
                self.target.close(lane, gate)
            }
            Step::Open { gate } => {
                self.watch.pause();
                self.opened = gate.0 + 1;
                self.target.open(gate)
            }
            Step::Over { block } => {
                let Some(verifier) = &mut self.verifier else { return Ok(()) };
                self.watch.pause();
                // Its use lasted until now, so it must still be what it was; and it is read
                // before anybody can be given it.
                if let Some(stream) = verifier.check(block, self.target)? {
                    self.target.settle(stream)?;
                }
                verifier.remove(block);
                Ok(())
            }
        }
    }

    #[inline]
    fn allocate(
        &mut self,
        number: BlockNumber,
        bytes: u64,
        stream: StreamNumber,
    ) -> Result<(), TargetError> {
        self.watch.start();
        let block = match self.target.allocate(stream, bytes) {
            Ok(block) => block,
            Err(TargetError::OutOfMemory) => {
                self.outcome.out_of_memory_count += 1;
                self.outcome.refused.get_or_insert(number);
                return Ok(());
            }
            Err(error @ TargetError::Failed(_)) => return Err(error),
        };
        self.outcome.operation_count += 1;
        if let Some(verifier) = &mut self.verifier {
            self.watch.pause();
            let placed = self.target.placed(&block);
            verifier.insert(number, placed, stream);
            self.target.stamp(placed, stream, stamp_of(number))?;
        }
        if let Some(place) = self.blocks.get_mut(number.index()) {
            *place = Some(block);
        }
        Ok(())
    }

    #[inline]
    fn take_out(&mut self, block: BlockNumber) -> Option<T::Block> {
        self.blocks.get_mut(block.index()).and_then(Option::take)
    }

    /// Reads the figures, opens what is closed, and checks the blocks that are left.
    fn finish(mut self, gate_count: usize) -> Result<Outcome, TargetError> {
        self.outcome.elapsed = self.watch.total();
        self.outcome.figures = self.target.figures();
        if let Some(verifier) = &self.verifier {
            // Those that are still allocated, and those whose use has not ended.
            for number in verifier.live_blocks() {
                verifier.check(number, self.target)?;
            }
            self.outcome.overlap_count = verifier.ranges.overlap_count();
        }
        let gates = (0..gate_count).filter_map(|gate| u32::try_from(gate).ok());
        for gate in gates.filter(|gate| self.opened <= *gate) {
            self.target.open(Gate(gate))?;
        }
        if self.verifier.is_some() {
            self.outcome.stamps = self.target.stamps()?;
        }
        Ok(self.outcome)
    }
}

/// What a block is stamped with: never zero, which fresh memory may hold, except for one block
/// in 2^32.
fn stamp_of(block: BlockNumber) -> u32 {
    block.0.wrapping_add(1).wrapping_mul(STAMP_FACTOR)
}

/// Follows where live blocks lie, those with unfinished uses included.
struct Verifier {
    ranges: LiveRanges,
    live: Vec<Option<(Placed, StreamNumber)>>,
}

impl Verifier {
    fn new(block_count: usize) -> Self {
        Self { ranges: LiveRanges::default(), live: vec![None; block_count] }
    }

    fn insert(&mut self, block: BlockNumber, placed: Placed, stream: StreamNumber) {
        self.ranges.insert(block, placed);
        if let Some(place) = self.live.get_mut(block.index()) {
            *place = Some((placed, stream));
        }
    }

    fn remove(&mut self, block: BlockNumber) {
        if let Some((placed, _)) = self.live.get_mut(block.index()).and_then(Option::take) {
            self.ranges.remove(block, placed.address);
        }
    }

    /// Has a live block checked on its stream, which is returned.
    fn check<T: Target>(
        &self,
        block: BlockNumber,
        target: &mut T,
    ) -> Result<Option<StreamNumber>, TargetError> {
        let Some(&Some((placed, stream))) = self.live.get(block.index()) else { return Ok(None) };
        target.check(placed, stream, stamp_of(block))?;
        Ok(Some(stream))
    }

    fn live_blocks(&self) -> impl Iterator<Item = BlockNumber> {
        let live = (0..).zip(&self.live).filter(|(_, live)| live.is_some());
        live.map(|(number, _)| BlockNumber(number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use trace::BlockNumber;

    use super::stamp_of;

    #[test]
    fn stamps_differ_and_are_not_zero() {
        let stamps: HashSet<u32> = (0..100_000).map(|n| stamp_of(BlockNumber(n))).collect();
        assert_eq!(stamps.len(), 100_000);
        assert!(!stamps.contains(&0));
    }
}
