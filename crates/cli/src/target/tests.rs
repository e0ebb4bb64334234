//! What the device target does with work that is wrong: the negative controls of verification.

use replay::{Gate, Lane, Mode, Outcome, Placed, Plan, Target, TargetError, Uses, run};
use trace::pytorch::StreamHandle;
use trace::{BlockNumber, Operation, Operations, StreamNumber};
use wellspring::{DeviceChoice, Policy};

use super::{DeviceTarget, Session, Stamps};

const FIRST: StreamNumber = StreamNumber(0);
const SECOND: StreamNumber = StreamNumber(1);

/// Two streams; a block of each, the second used until a moment.
fn plan() -> Plan {
    let block = BlockNumber;
    let mut operations = Operations::default();
    operations.streams = vec![StreamHandle(0), StreamHandle(1)];
    operations.block_count = 3;
    operations.list = vec![
        Operation::Allocate { block: block(0), bytes: 1 << 20, stream: FIRST },
        Operation::Allocate { block: block(1), bytes: 4096, stream: SECOND },
        Operation::Free { block: block(1), deferred: true },
        Operation::Allocate { block: block(2), bytes: 4096, stream: SECOND },
        Operation::Complete { block: block(1) },
        Operation::Free { block: block(0), deferred: false },
        Operation::Free { block: block(2), deferred: false },
    ];
    Plan::new(&operations, Uses::Recorded)
}

fn fresh(stamps: Stamps) -> DeviceTarget {
    let session = Session::open(DeviceChoice::Simulated, Policy::Default, None).unwrap();
    session.fresh(&plan(), None, Some(stamps)).unwrap()
}

/// A sound target, but for one thing that is done to each block before its first check.
struct Meddling {
    inner: DeviceTarget,
    meddle: fn(&mut DeviceTarget, Placed, StreamNumber, u32),
}

impl Target for Meddling {
    type Block = <DeviceTarget as Target>::Block;

    fn allocate(&mut self, stream: StreamNumber, bytes: u64) -> Result<Self::Block, TargetError> {
        self.inner.allocate(stream, bytes)
    }

    fn placed(&self, block: &Self::Block) -> Placed {
        self.inner.placed(block)
    }

    fn free(&mut self, block: Self::Block) -> Result<(), TargetError> {
        self.inner.free(block)
    }

    fn close(&mut self, lane: Lane, gate: Gate) -> Result<(), TargetError> {
        self.inner.close(lane, gate)
    }

    fn free_used(&mut self, block: Self::Block, lane: Lane) -> Result<(), TargetError> {
        self.inner.free_used(block, lane)
    }

    fn open(&mut self, gate: Gate) -> Result<(), TargetError> {
        self.inner.open(gate)
    }

    fn stamp(
        &mut self,
        placed: Placed,
        stream: StreamNumber,
        value: u32,
    ) -> Result<(), TargetError> {
        self.inner.stamp(placed, stream, value)?;
        (self.meddle)(&mut self.inner, placed, stream, value);
        Ok(())
    }

    fn check(
        &mut self,
        placed: Placed,
        stream: StreamNumber,
        value: u32,
    ) -> Result<(), TargetError> {
        self.inner.check(placed, stream, value)
    }

    fn settle(&mut self, stream: StreamNumber) -> Result<(), TargetError> {
        self.inner.settle(stream)
    }

    fn stamps(&mut self) -> Result<replay::StampCounts, TargetError> {
        self.inner.stamps()
    }

    fn figures(&self) -> replay::Figures {
        self.inner.figures()
    }
}

fn verify(
    stamps: Stamps,
    meddle: fn(&mut DeviceTarget, Placed, StreamNumber, u32),
) -> Result<Outcome, String> {
    let mut target = Meddling { inner: fresh(stamps), meddle };
    run(&mut target, &plan(), Mode::Verified, &mut |_, _| ()).map_err(|error| error.to_string())
}

#[test]
fn nothing_is_wrong_when_nobody_meddles() {
    for (stamps, checked) in [(Stamps::Sparse, 17 + 2 * 2 + 2), (Stamps::Full, (1 << 18) + 3072)] {
        let outcome = verify(stamps, |_, _, _, _| ()).unwrap();
        assert_eq!((outcome.stamps.checked, outcome.stamps.wrong), (checked, 0), "{stamps:?}");
        assert!(4096 <= outcome.figures.peak_pending_bytes, "{outcome:?}");
    }
}

#[test]
fn a_word_that_another_writes_is_counted_on_each_check() {
    for stamps in [Stamps::Sparse, Stamps::Full] {
        // The first grain of the first block gets another stamp: one sparse word, or 128.
        let outcome = verify(stamps, |target, placed, stream, value| {
            if placed.bytes == 1 << 20 {
                let grain = Placed { address: placed.address, bytes: 512 };
                target.stamp(grain, stream, !value).unwrap();
            }
        })
        .unwrap();
        let wrong = if stamps == Stamps::Sparse { 1 } else { 128 };
        assert_eq!(outcome.stamps.wrong, wrong, "{stamps:?}");
    }
}

#[test]
fn the_last_word_of_a_used_block_counts_at_its_free_and_at_its_end() {
    let outcome = verify(Stamps::Sparse, |target, placed, stream, value| {
        if placed.bytes == 4096 {
            let last = Placed { address: placed.address + 4092, bytes: 4 };
            target.stamp(last, stream, !value).unwrap();
        }
    })
    .unwrap();
    // Block 1 is checked twice, block 2 once.
    assert_eq!(outcome.stamps.wrong, 3);
}

#[test]
fn another_stream_that_writes_the_same_without_order_is_a_hazard() {
    let error = verify(Stamps::Sparse, |target, placed, stream, value| {
        if stream == FIRST {
            target.stamp(placed, SECOND, value).unwrap();
        }
    })
    .unwrap_err();
    assert!(error.contains("stamp"), "the report names the operation: {error}");
}

#[test]
fn a_target_that_is_dropped_opens_its_gates() {
    let mut target = fresh(Stamps::Sparse);
    let block = target.allocate(SECOND, 4096).unwrap();
    target.close(Lane(0), Gate(0)).unwrap();
    target.free_used(block, Lane(0)).unwrap();
    assert_eq!(target.allocator.stats().pending_bytes.current, 4096);
    // A gate that stayed closed would end this with a report of a deadlock.
    let context = target.context.clone();
    let machine = target.runtime.machine().unwrap().clone();
    drop(target);
    assert_eq!((context.first_error(), context.silent_errors()), (None, 0));
    assert!(machine.hazards().is_empty());
}

#[test]
fn the_replay_s_own_calls_are_not_counted() {
    let mut target = fresh(Stamps::Sparse);
    let before = target.figures().driver_calls;
    target.close(Lane(0), Gate(0)).unwrap();
    target.open(Gate(0)).unwrap();
    target.stamps().unwrap();
    assert_eq!(target.figures().driver_calls, before);
    let block = target.allocate(FIRST, 4096).unwrap();
    let grown = target.figures().driver_calls;
    assert!(before < grown, "memory was committed");
    target.free(block).unwrap();
    drop(target.allocate(FIRST, 4096).unwrap());
    assert_eq!(target.figures().driver_calls, grown, "what is cached needs no call");
}
