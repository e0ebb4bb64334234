//! Random programs: what one does is drawn from a seed, and it is free of races by itself, so
//! whatever race is found is one that the allocator let in.
//!
//! A program orders its own uses: before a stream touches a block it waits for those that touched
//! it before, and it tells the block of the use in one of the ways there are. It never orders a
//! block's next owner after its last one; that is the allocator's part.

use std::num::NonZeroU32;

use allocator::{AllocError, Allocator, Block, Config, Hold, Policy, Stats};
use cuda_sim::{DeviceProfile, FaultPlan};
use cuda_sys::CUresult;
use streams::{DeviceSpan, Event, Stream};

use crate::chance::Chance;
use crate::live_ranges::LiveRanges;
use crate::plan::{Outcome, Plan};
use crate::scenarios::rig::{Desk, Gate, Rig as _};
use crate::simulated_rig::{SimulatedRig, machine};

/// A block that the program holds.
struct Live {
    block: Block,
    home: usize,
    word: Option<u32>,
    /// Who wrote it last; the home, by being handed it.
    writer: usize,
    readers: Vec<usize>,
}

/// Memory that is kept by a hold alone.
struct Kept {
    hold: Hold,
    range: DeviceSpan,
    home_id: u64,
}

struct World<'rig> {
    rig: &'rig SimulatedRig,
    plan: &'rig Plan,
    chance: Chance,
    allocator: Allocator,
    sizes: [u64; 4],
    /// Numbered by creation; those that are gone stay as nothing.
    streams: Vec<Option<Stream>>,
    stream_ids: Vec<u64>,
    events: Vec<Event>,
    gates: Vec<Gate<'rig>>,
    gates_closed: usize,
    blocks: Vec<Live>,
    kept: Vec<Kept>,
    ranges: LiveRanges,
    addresses: Vec<u64>,
    next_word: u32,
    faults: u64,
}

/// Runs a program to its end.
pub fn run(plan: &Plan) -> Outcome {
    let rig = rig_for(plan);
    let before = rig.machine().used_bytes();
    let mut world = World::new(&rig, plan);
    for _ in 0..plan.operations {
        world.step();
    }
    let (stats, addresses, faults) = world.end();
    let mismatches = rig.desk().mismatches();
    let left_behind = rig.machine().used_bytes() - before;
    let driver_calls = rig.machine().call_count();
    let hazards = rig.take_hazards().iter().map(ToString::to_string).collect();
    Outcome { hazards, mismatches, left_behind, stats, addresses, driver_calls, faults }
}

/// Runs a program up to the first thing that is found wrong, and gives that.
pub fn first_hazard(plan: &Plan) -> Option<String> {
    let rig = rig_for(plan);
    // What goes wrong on the device may end the program early: then the reports tell why.
    let steps = std::panic::AssertUnwindSafe(|| {
        let mut world = World::new(&rig, plan);
        for _ in 0..plan.operations {
            world.step();
            if !rig.is_clean() {
                break;
            }
        }
        // Blocks that are still held go with the program; that is no fault.
        rig.take_hazards()
    });
    let found = std::panic::catch_unwind(steps).unwrap_or_else(|_| rig.take_hazards());
    found.first().map(ToString::to_string)
}

fn rig_for(plan: &Plan) -> SimulatedRig {
    let mut profile = DeviceProfile::small(1 << 30);
    if plan.one_queue {
        profile = profile.with_hardware_queues(NonZeroU32::MIN);
    }
    SimulatedRig::on(machine(plan.schedule.clone(), profile))
}

impl<'rig> World<'rig> {
    fn new(rig: &'rig SimulatedRig, plan: &'rig Plan) -> Self {
        let mut chance = Chance::new(plan.seed);
        let policies = [Policy::Default, Policy::Default, Policy::Deterministic, Policy::PyTorch];
        let drawn = chance.pick(&policies);
        let mut config = Config::default().with_policy(plan.policy.unwrap_or(drawn));
        if let Some(limit) = chance.pick(&[None, Some(24 << 20), Some(48 << 20)]) {
            config = config.with_limit(limit);
        }
        if let Some(bound) = chance.pick(&[None, Some(0), Some(3 << 20)]) {
            config = config.with_pending_max(bound);
        }
        config.sabotage = plan.sabotage;
        let source = chance.pick(&[0, 0, 1]);
        let source = std::sync::Arc::clone(&rig.desk().sources()[source]);
        let allocator = Allocator::with_source(rig.desk().context(), config, source);
        let sizes = [512, 4 << 10, 64 << 10, 700_000, 1 << 20, 2 << 20, 3 << 20, 5 << 20];
        let mut world = Self {
            rig,
            plan,
            sizes: [0; 4].map(|_| chance.pick(&sizes)),
            chance,
            allocator: allocator.expect("an allocator"),
            streams: Vec::new(),
            stream_ids: Vec::new(),
            events: Vec::new(),
            gates: Vec::new(),
            gates_closed: 0,
            blocks: Vec::new(),
            kept: Vec::new(),
            ranges: LiveRanges::default(),
            addresses: Vec::new(),
            next_word: 1,
            faults: 0,
        };
        let count = 3 + world.chance.below(4);
        (0..count).for_each(|_| world.create_stream());
        world
    }

    fn step(&mut self) {
        match self.chance.weighted(&[30, 22, 40, 8, 6, 6, 6, 3, 3, 3, 2, 3, 3]) {
            0 => self.allocate(),
            1 => self.free(),
            2 => self.use_block(),
            3 => self.wait_somewhere(),
            4 => self.record_somewhere(),
            5 => self.ask(),
            6 => self.spin(),
            7 => self.synchronize(),
            8 => self.trim(),
            9 => self.gate(),
            10 => self.replace_stream(),
            11 => self.hold(),
            _ => self.fail_a_wait(),
        }
    }

    fn desk(&self) -> &'rig Desk {
        self.rig.desk()
    }

    fn create_stream(&mut self) {
        let stream = self.desk().stream();
        self.stream_ids.push(stream.id());
        self.streams.push(Some(stream));
    }

    /// A living stream.
    fn any_stream(&mut self) -> (usize, Stream) {
        let living: Vec<usize> =
            (0..self.streams.len()).filter(|key| self.streams[*key].is_some()).collect();
        let key = self.chance.pick(&living);
        (key, self.streams[key].clone().expect("a living stream"))
    }

    /// Does a call of the allocator's, now and then with a driver call that fails inside; says
    /// whether one may have.
    fn with_faults<R>(&mut self, call: impl FnOnce(&mut Self) -> R) -> (R, bool) {
        const CALLS: [(&str, CUresult); 9] = [
            ("cuMemCreate", CUresult::CUDA_ERROR_OUT_OF_MEMORY),
            ("cuMemAlloc", CUresult::CUDA_ERROR_OUT_OF_MEMORY),
            ("cuMemMap", CUresult::CUDA_ERROR_OUT_OF_MEMORY),
            ("cuMemSetAccess", CUresult::CUDA_ERROR_INVALID_VALUE),
            ("cuEventCreate", CUresult::CUDA_ERROR_OUT_OF_MEMORY),
            ("cuEventRecord", CUresult::CUDA_ERROR_INVALID_VALUE),
            ("cuEventQuery", CUresult::CUDA_ERROR_INVALID_VALUE),
            ("cuStreamWaitEvent", CUresult::CUDA_ERROR_INVALID_VALUE),
            ("cuMemUnmap", CUresult::CUDA_ERROR_INVALID_VALUE),
        ];
        if !self.plan.faults || !self.chance.once_in(12) {
            return (call(self), false);
        }
        let (entry_point, code) = self.chance.pick(&CALLS);
        let nth = self.chance.pick(&[1, 1, 2]);
        self.rig.machine().fail(FaultPlan { call: entry_point, nth, code, sticky: false });
        let result = call(self);
        self.rig.machine().clear_faults();
        self.faults += 1;
        (result, true)
    }

    fn allocate(&mut self) {
        if (48 << 20) < self.ranges.bytes() {
            return self.free();
        }
        let (home, stream) = self.any_stream();
        let bytes = self.chance.pick(&self.sizes.clone());
        let (served, faulty) = self.with_faults(|world| world.allocator.allocate(&stream, bytes));
        let block = match served {
            Ok(block) => block,
            Err(AllocError::OutOfMemory(_) | AllocError::TooLarge { .. }) => return,
            Err(_) if faulty => return,
            Err(error) => panic!("a request without a fault failed: {error}"),
        };
        let range = DeviceSpan { address: block.address(), bytes: block.size() };
        self.ranges.add(range);
        self.rig.born(range, stream.id());
        self.addresses.push(range.address);
        self.blocks.push(Live { block, home, word: None, writer: home, readers: Vec::new() });
    }

    fn take_block(&mut self) -> Option<Live> {
        if self.blocks.is_empty() {
            return None;
        }
        let place = self.chance.below(self.blocks.len());
        Some(self.blocks.swap_remove(place))
    }

    fn free(&mut self) {
        let Some(live) = self.take_block() else { return };
        let range = DeviceSpan { address: live.block.address(), bytes: live.block.size() };
        self.ranges.remove(range);
        self.rig.dead(range, self.stream_ids[live.home]);
        let way = self.chance.below(4);
        let (freed, faulty) = self.with_faults(|world| match way {
            0 => {
                let raw = live.block.into_raw();
                world.allocator.from_raw(raw).expect("it is allocated").free()
            }
            1 => {
                drop(live.block);
                Ok(())
            }
            _ => live.block.free(),
        });
        assert!(freed.is_ok() || faulty, "a free without a fault failed: {freed:?}");
    }

    /// Frees a block while a hold keeps it, or lets such a hold go.
    fn hold(&mut self) {
        if self.chance.once_in(2) || 4 < self.kept.len() {
            self.end_hold();
        } else if let Some(live) = self.take_block() {
            let range = DeviceSpan { address: live.block.address(), bytes: live.block.size() };
            let (hold, home_id) = (live.block.hold(), self.stream_ids[live.home]);
            drop(live.block);
            self.kept.push(Kept { hold, range, home_id });
        }
    }

    fn end_hold(&mut self) {
        let Some(kept) = self.kept.pop() else { return };
        self.ranges.remove(kept.range);
        self.rig.dead(kept.range, kept.home_id);
        drop(kept.hold);
    }

    /// Makes `after` wait for all that was queued on `before`; false if that cannot be.
    fn order(&mut self, before: usize, after: usize) -> bool {
        if before == after {
            return true;
        }
        let (Some(before), Some(after)) = (self.streams[before].clone(), &self.streams[after])
        else {
            return false;
        };
        let after = after.clone();
        if self.plan.swallow_waits {
            let plan = FaultPlan::next("cuStreamWaitEvent", CUresult::CUDA_SUCCESS);
            self.rig.machine().fail(plan);
        }
        let waited = if self.chance.once_in(2) {
            after.wait_stream(&before)
        } else {
            before.record_event().and_then(|event| after.wait_event(&event))
        };
        self.rig.machine().clear_faults();
        waited.is_ok()
    }

    /// Reads or writes a block on some stream, in order with its earlier uses.
    fn use_block(&mut self) {
        let Some(mut live) = self.take_block() else { return };
        let (on, stream) = if self.chance.once_in(3) {
            match self.streams[live.home].clone() {
                Some(home) => (live.home, home),
                None => self.any_stream(),
            }
        } else {
            self.any_stream()
        };
        let writes = live.word.is_none() || self.chance.once_in(2);
        let mut before = vec![live.writer];
        if writes {
            before.extend(&live.readers);
        }
        let ordered = before.into_iter().all(|before| self.order(before, on));
        if ordered {
            self.submit(&mut live, &stream, writes);
            if writes {
                live.writer = on;
                live.readers.clear();
            } else if !live.readers.contains(&on) {
                live.readers.push(on);
            }
        }
        self.blocks.push(live);
    }

    /// Submits the work and tells the block of it, in one of the ways there are.
    fn submit(&mut self, live: &mut Live, stream: &Stream, writes: bool) {
        let desk = self.desk();
        let range = DeviceSpan { address: live.block.address(), bytes: live.block.size() };
        if writes {
            live.word = Some(self.next_word);
            self.next_word += 1;
        }
        let word = live.word.expect("it was written");
        let work = || {
            if writes { desk.fill(stream, range, word) } else { desk.check(stream, range, word) }
        };
        match self.chance.below(5) {
            0 => {
                live.block.record_stream(stream);
                work();
            }
            1 => {
                work();
                live.block.record_stream(stream);
            }
            2 => {
                work();
                let _use = live.block.record_use(stream);
            }
            3 => {
                let open = live.block.begin_use(stream);
                work();
                let _use = open.sharpen();
            }
            _ if writes => desk.fill_memory(stream, &mut live.block, word),
            _ => desk.check_memory(stream, &live.block, word),
        }
    }

    fn wait_somewhere(&mut self) {
        let ((before, _), (after, stream)) = (self.any_stream(), self.any_stream());
        if self.events.is_empty() || self.chance.once_in(2) {
            self.order(before, after);
        } else {
            let place = self.chance.below(self.events.len());
            stream.wait_event(&self.events[place]).expect("a wait");
        }
    }

    fn record_somewhere(&mut self) {
        let (_, stream) = self.any_stream();
        if self.events.len() < 6 {
            self.events.push(stream.record_event().expect("an event"));
        } else {
            let place = self.chance.below(self.events.len());
            stream.record(&self.events[place]).expect("a record");
        }
    }

    fn ask(&mut self) {
        if !self.plan.queries {
            return;
        }
        let (_, stream) = self.any_stream();
        if self.events.is_empty() || self.chance.once_in(2) {
            let _answer = stream.query().expect("an answer");
        } else {
            let place = self.chance.below(self.events.len());
            let _answer = self.events[place].query().expect("an answer");
        }
    }

    fn spin(&mut self) {
        let (_, stream) = self.any_stream();
        self.desk().busy(&stream);
    }

    fn open_gates(&mut self) {
        self.gates.clear();
    }

    fn synchronize(&mut self) {
        self.open_gates();
        match self.chance.below(4) {
            0 => self.desk().context().synchronize().expect("all ends"),
            1 if !self.events.is_empty() => {
                let place = self.chance.below(self.events.len());
                self.events[place].synchronize().expect("an event passes");
            }
            _ => self.any_stream().1.synchronize().expect("a stream ends"),
        }
    }

    fn trim(&mut self) {
        if self.chance.once_in(3) {
            self.open_gates();
            let (trimmed, faulty) = self.with_faults(|world| world.allocator.empty_cache());
            assert!(trimmed.is_ok() || faulty, "{trimmed:?}");
        } else {
            let bytes = self.chance.pick(&[u64::MAX, 2 << 20]);
            let (trimmed, faulty) = self.with_faults(|world| world.allocator.trim(bytes));
            assert!(trimmed.is_ok() || faulty, "{trimmed:?}");
        }
    }

    /// Holds a stream until the host opens the gate, or opens the oldest.
    fn gate(&mut self) {
        if self.plan.one_queue {
            return;
        }
        if self.gates_closed < 40 && self.chance.once_in(2) {
            let (_, stream) = self.any_stream();
            self.gates_closed += 1;
            let gate = self.desk().hold(&stream);
            self.gates.push(gate);
        } else if !self.gates.is_empty() {
            drop(self.gates.remove(0));
        }
    }

    /// A stream goes, with whatever is queued there, and another one comes.
    fn replace_stream(&mut self) {
        if !self.plan.replaces_streams {
            return;
        }
        let (gone, _) = self.any_stream();
        self.streams[gone] = None;
        self.create_stream();
    }

    /// A wait that fails adds no knowledge (L26), and neither does a record that fails.
    fn fail_a_wait(&mut self) {
        if !self.plan.faults {
            return;
        }
        let ((_, before), (_, after)) = (self.any_stream(), self.any_stream());
        let call = self.chance.pick(&["cuStreamWaitEvent", "cuEventRecord"]);
        self.rig.machine().fail(FaultPlan::next(call, CUresult::CUDA_ERROR_INVALID_VALUE));
        let _failed = after.wait_stream(&before);
        self.rig.machine().clear_faults();
    }

    /// Gives everything back and lets the allocator go.
    fn end(mut self) -> (Stats, Vec<u64>, u64) {
        self.open_gates();
        while !self.blocks.is_empty() {
            self.free();
        }
        while !self.kept.is_empty() {
            self.end_hold();
        }
        assert_eq!(self.ranges.bytes(), 0, "the program gave everything back");
        let stats = self.allocator.stats();
        assert_eq!(stats.allocation_count, 0);
        assert_eq!((stats.allocated_bytes.current, stats.requested_bytes), (0, 0));
        (stats, self.addresses, self.faults)
    }
}
