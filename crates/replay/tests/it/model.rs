//! A model allocator: first fit over one range of addresses, whose words are a map.
//!
//! It can be told to be wrong in one way, so that tests can show that the engine sees it.

use std::collections::{BTreeMap, HashMap};

use replay::{Figures, Gate, Lane, Placed, Served, StampCounts, Target, TargetError};
use trace::StreamNumber;

const GRAIN: u64 = 512;
const STRIDE: u64 = 64 << 10;

/// What the model does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The n-th block lies where the block before it does.
    Overlap(u64),
    /// The n-th block overlaps only the last grain of the block before it.
    OverlapOneGrain(u64),
    /// The first word of the n-th stamped block changes.
    CorruptStamp(u64),
    /// The last word of the n-th stamped block changes.
    CorruptStampEnd(u64),
    /// Uses are ignored: a block that a lane uses is free at once.
    IgnoreUses,
    /// The n-th request fails for another reason than memory.
    Fail(u64),
}

#[derive(Debug)]
pub(crate) struct Model {
    fault: Fault,
    capacity: u64,
    /// End by start of what is taken.
    taken: BTreeMap<u64, u64>,
    words: HashMap<u64, u32>,
    /// Gates closed on each lane, and blocks waiting for them.
    lanes: HashMap<Lane, Vec<Gate>>,
    waiting: Vec<(Gate, Block)>,
    last: Option<Block>,
    requests: u64,
    stamped: u64,
    stamps: StampCounts,
    allocated: u64,
    pending: u64,
    figures: Figures,
    /// Gates in the order in which they were opened.
    pub(crate) opened: Vec<Gate>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    address: u64,
    bytes: u64,
}

impl Model {
    pub(crate) fn new(capacity: u64, fault: Fault) -> Self {
        let served = vec![Served { by: "first fit", count: 0 }];
        Self {
            fault,
            capacity,
            taken: BTreeMap::new(),
            words: HashMap::new(),
            lanes: HashMap::new(),
            waiting: Vec::new(),
            last: None,
            requests: 0,
            stamped: 0,
            stamps: StampCounts::default(),
            allocated: 0,
            pending: 0,
            figures: Figures { segments: 1, served, ..Figures::default() },
            opened: Vec::new(),
        }
    }

    fn find(&self, bytes: u64) -> Option<u64> {
        let mut start = 0;
        for (&taken, &end) in &self.taken {
            if start + bytes <= taken {
                break;
            }
            start = start.max(end);
        }
        (start + bytes <= self.capacity).then_some(start)
    }

    fn count(&mut self) {
        let end = self.taken.values().copied().max().unwrap_or(0);
        let figures = &mut self.figures;
        figures.peak_reserved_bytes = figures.peak_reserved_bytes.max(end);
        figures.peak_allocated_bytes = figures.peak_allocated_bytes.max(self.allocated);
        figures.peak_pending_bytes = figures.peak_pending_bytes.max(self.pending);
        let active = self.allocated + self.pending;
        figures.peak_active_bytes = figures.peak_active_bytes.max(active);
    }

    fn release(&mut self, block: Block) {
        if self.taken.get(&block.address) == Some(&(block.address + block.bytes)) {
            self.taken.remove(&block.address);
        }
    }

    /// Addresses of the words that a stamp touches.
    fn places(placed: Placed) -> Vec<u64> {
        let Some(last) = placed.bytes.checked_sub(4) else { return Vec::new() };
        let mut places: Vec<u64> = (0..=last).step_by(65536).collect();
        if !last.is_multiple_of(STRIDE) {
            places.push(last);
        }
        places.iter().map(|offset| placed.address + offset).collect()
    }
}

impl Target for Model {
    type Block = Block;

    fn allocate(&mut self, _stream: StreamNumber, bytes: u64) -> Result<Block, TargetError> {
        self.requests += 1;
        if self.fault == Fault::Fail(self.requests) {
            return Err(TargetError::Failed("the model was told to fail".into()));
        }
        let rounded = bytes.next_multiple_of(GRAIN);
        let mut address = self.find(rounded).ok_or(TargetError::OutOfMemory)?;
        if let Some(last) = self.last {
            if self.fault == Fault::Overlap(self.requests) {
                address = last.address;
            }
            if self.fault == Fault::OverlapOneGrain(self.requests) {
                address = last.address + last.bytes - GRAIN;
            }
        }
        let block = Block { address, bytes: rounded };
        if rounded != 0 {
            self.taken.insert(address, address + rounded);
        }
        self.last = Some(block);
        self.allocated += rounded;
        self.figures.served[0].count += 1;
        self.count();
        Ok(block)
    }

    fn placed(&self, block: &Block) -> Placed {
        Placed { address: block.address, bytes: block.bytes }
    }

    fn free(&mut self, block: Block) -> Result<(), TargetError> {
        self.allocated -= block.bytes;
        self.release(block);
        Ok(())
    }

    fn close(&mut self, lane: Lane, gate: Gate) -> Result<(), TargetError> {
        self.lanes.entry(lane).or_default().push(gate);
        Ok(())
    }

    fn free_used(&mut self, block: Block, lane: Lane) -> Result<(), TargetError> {
        if self.fault == Fault::IgnoreUses {
            return self.free(block);
        }
        let gate = *self.lanes[&lane].last().expect("a used lane is held");
        self.allocated -= block.bytes;
        self.pending += block.bytes;
        self.waiting.push((gate, block));
        self.count();
        Ok(())
    }

    fn open(&mut self, gate: Gate) -> Result<(), TargetError> {
        self.opened.push(gate);
        for gates in self.lanes.values_mut() {
            gates.retain(|closed| *closed != gate);
        }
        let waiting = std::mem::take(&mut self.waiting);
        for (held_by, block) in waiting {
            if held_by <= gate {
                self.pending -= block.bytes;
                self.release(block);
            } else {
                self.waiting.push((held_by, block));
            }
        }
        Ok(())
    }

    fn stamp(&mut self, placed: Placed, _: StreamNumber, value: u32) -> Result<(), TargetError> {
        self.stamped += 1;
        let places = Self::places(placed);
        for place in &places {
            self.words.insert(*place, value);
        }
        let wrong = match self.fault {
            Fault::CorruptStamp(n) if n == self.stamped => places.first(),
            Fault::CorruptStampEnd(n) if n == self.stamped => places.last(),
            _ => None,
        };
        if let Some(place) = wrong {
            self.words.insert(*place, !value);
        }
        Ok(())
    }

    fn check(&mut self, placed: Placed, _: StreamNumber, value: u32) -> Result<(), TargetError> {
        for place in Self::places(placed) {
            self.stamps.checked += 1;
            let found = self.words.get(&place).copied().unwrap_or(0);
            self.stamps.wrong += u64::from(found != value);
        }
        Ok(())
    }

    fn settle(&mut self, _: StreamNumber) -> Result<(), TargetError> {
        Ok(())
    }

    fn stamps(&mut self) -> Result<StampCounts, TargetError> {
        Ok(self.stamps)
    }

    fn figures(&self) -> Figures {
        self.figures.clone()
    }
}
