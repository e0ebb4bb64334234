//! Eight streams that hand blocks to each other: each user writes its own word and checks it.
//!
//! What happens is drawn from a mix that makes every step of service serve its share: blocks used
//! on another stream and freed at once (completion), the same while that stream is busy and the
//! memory is wanted back at once (a wait on the device), blocks that go over to a stream that
//! waited (known order), neighbours of two streams that serve a third one (cross-stream merge),
//! and blocks of a busy stream wanted by one that did not wait (which get others).

use std::collections::VecDeque;
use std::time::Instant;

use allocator::{Allocator, Config, Policy, Sabotage, Stats};
use streams::Stream;

use crate::device;
use crate::scenarios::rig::{Held, Rig, take};
use random_programs::Chance;

const STREAMS: usize = 8;
/// The first streams own memory; the others only get what goes over to them.
const OWNERS: usize = 4;
const SIZES: [u64; 3] = [256 << 10, 512 << 10, 1 << 20];
/// One of two neighbours; together they serve a third stream.
const HALF: u64 = 2 << 20;
/// More than the neighbours have together: wanted by a stream that did not wait.
const NOT_WAITED_FOR: u64 = 6 << 20;
/// More than all other free memory: wanted back while it is in use.
const WANTED_BACK: u64 = 16 << 20;
/// Blocks that are held at one time.
const HELD_MAX: usize = 8;
/// How long a user is busy now and then, so that its blocks are pending when they are asked for.
const BUSY_NANOSECONDS: u64 = 60_000;
const HARDWARE_COUNT: u64 = 10_000_000;
const SIMULATED_COUNT: u64 = 20_000;
/// The broken ones make this part of the allocations, and never more than that many.
const BROKEN_PART: u64 = 10;
const BROKEN_COUNT_MAX: u64 = 100_000;
/// Each way to serve a request must have served one in so many.
const SHARE_PARTS: u64 = 1_000;

/// How many allocations are made.
fn count() -> u64 {
    let usual = if device::is_simulated() { SIMULATED_COUNT } else { HARDWARE_COUNT };
    std::env::var("WELLSPRING_STRESS").map_or(usual, |text| text.parse().expect("a number"))
}

/// The sound product: no word is lost, and each way to serve a request had its share.
pub fn is_clean() {
    let (stats, lost, seconds) = run(Config::default(), count());
    report("stress", &stats, lost, seconds);
    assert_eq!(lost, 0, "words were lost");
    let served = &stats.served_by;
    for (step, share) in [
        ("known order", served.known_order),
        ("completion", served.completion),
        ("a device-side wait", served.device_wait),
        ("a cross-stream merge", stats.cross_stream_merges),
    ] {
        let least = stats.allocation_total / SHARE_PARTS;
        assert!(least <= share, "{share} of {} by {step}", stats.allocation_total);
    }
}

/// The product with a check left out loses words. Its policy never asks the device, so that it
/// gives nothing back whose use it has forgotten: that would end in an illegal address.
pub fn loses_words_without(sabotage: Sabotage) {
    let mut config = Config::default().with_policy(Policy::Deterministic);
    config.sabotage = Some(sabotage);
    let (stats, lost, seconds) = run(config, (count() / BROKEN_PART).min(BROKEN_COUNT_MAX));
    report(&format!("{sabotage:?}"), &stats, lost, seconds);
    assert!(0 < lost, "no word was lost without the check");
}

fn run(config: Config, count: u64) -> (Stats, u64, f64) {
    let rig = device::open();
    // Nothing may be pending without being waited for, rather than that memory grows.
    let allocator = rig.desk().allocator(config.with_pending_max(0));
    let begin = Instant::now();
    let mut stress = Stress {
        rig: rig.as_ref(),
        allocator: &allocator,
        streams: rig.desk().streams(),
        chance: Chance::new(1),
        held: VecDeque::new(),
        next_word: 1,
        allocations: 0,
    };
    while stress.allocations < count {
        stress.step();
    }
    drop(stress);
    let lost = rig.desk().mismatches();
    let stats = allocator.stats();
    drop(allocator);
    (stats, lost, begin.elapsed().as_secs_f64())
}

fn report(name: &str, stats: &Stats, lost: u64, seconds: f64) {
    let served = &stats.served_by;
    let figures = [
        ("allocations", stats.allocation_total),
        ("own_stream", served.own_stream),
        ("known_order", served.known_order),
        ("completion", served.completion),
        ("device_wait", served.device_wait),
        ("growth", served.growth),
        ("ladder", served.ladder),
        ("cross_stream_merges", stats.cross_stream_merges),
        ("reserved_peak_bytes", stats.reserved_bytes.peak),
        ("mismatches", lost),
    ];
    let row: Vec<String> =
        figures.iter().map(|(figure, value)| format!("{figure}={value}")).collect();
    println!("stress: test={name} {} seconds={seconds:.2}", row.join(" "));
    let json: Vec<String> =
        figures.iter().map(|(figure, value)| format!("\"{figure}\":{value}")).collect();
    println!("{{\"test\":\"{name}\",{},\"seconds\":{seconds:.2}}}", json.join(","));
}

struct Stress<'rig> {
    rig: &'rig dyn Rig,
    allocator: &'rig Allocator,
    streams: [Stream; STREAMS],
    chance: Chance,
    held: VecDeque<Held<'rig>>,
    next_word: u32,
    allocations: u64,
}

impl<'rig> Stress<'rig> {
    fn step(&mut self) {
        match self.chance.below(100) {
            0..14 => self.merge(),
            14..19 => self.want_back(),
            19..20 => self.want_without_order(),
            20..28 => self.hand_over(),
            28..38 => self.stay(),
            _ => self.use_elsewhere(),
        }
    }

    fn take(&mut self, stream: usize, bytes: u64) -> Held<'rig> {
        self.allocations += 1;
        take(self.rig, self.allocator, &self.streams[stream], bytes)
    }

    /// A stream writes a word of its own into a block, and checks it.
    fn write_and_check(&mut self, block: &Held<'_>, stream: usize) -> u32 {
        let word = self.next_word;
        self.next_word = self.next_word.wrapping_add(1);
        block.fill(&self.streams[stream], word);
        block.check(&self.streams[stream], word);
        word
    }

    /// A block that one stream alone uses.
    fn stay(&mut self) {
        let home = self.chance.below(OWNERS);
        let bytes = self.chance.pick(&SIZES);
        let block = self.take(home, bytes);
        self.write_and_check(&block, home);
        self.hold(block);
    }

    /// Keeps a block for a while, and frees the oldest of many.
    fn hold(&mut self, block: Held<'rig>) {
        self.held.push_back(block);
        if HELD_MAX < self.held.len()
            && let Some(oldest) = self.held.pop_front()
        {
            oldest.give_back();
        }
    }

    /// A block that its home writes, another stream reads and writes anew, and that is freed as
    /// soon as that is queued.
    fn use_elsewhere(&mut self) {
        let home = self.chance.below(OWNERS);
        let user = (home + 1 + self.chance.below(STREAMS - 1)) % STREAMS;
        let bytes = self.chance.pick(&SIZES);
        let block = self.take(home, bytes);
        let word = self.write_and_check(&block, home);
        let stream = self.streams[user].clone();
        stream.wait_stream(&self.streams[home]).expect("a wait");
        if self.chance.once_in(12) {
            self.spin(user);
        }
        block.check(&stream, word);
        self.write_and_check(&block, user);
        if self.chance.once_in(2) {
            block.block().record_stream(&stream);
        } else {
            let _use = block.block().record_use(&stream);
        }
        if self.chance.once_in(2) {
            block.give_back();
        } else {
            self.hold(block);
        }
    }

    fn spin(&self, stream: usize) {
        let kernels = self.rig.desk().kernels();
        let _running = kernels.spin(&self.streams[stream], BUSY_NANOSECONDS).expect("a spin");
    }

    /// A block that a busy stream still reads when its home wants it back.
    fn want_back(&mut self) {
        let (home, user) = (1, 7);
        let block = self.take(home, WANTED_BACK);
        let word = self.write_and_check(&block, home);
        self.streams[user].wait_stream(&self.streams[home]).expect("a wait");
        self.spin(user);
        block.check(&self.streams[user], word);
        block.block().record_stream(&self.streams[user]);
        block.give_back();
        let block = self.take(home, WANTED_BACK);
        self.write_and_check(&block, home);
        block.give_back();
    }

    /// A block that its busy home has freed, and a request of a stream that is not after it.
    fn want_without_order(&mut self) {
        let (home, other) = (2, 3);
        let block = self.take(home, NOT_WAITED_FOR);
        self.spin(home);
        self.write_and_check(&block, home);
        block.give_back();
        let block = self.take(other, NOT_WAITED_FOR);
        self.write_and_check(&block, other);
        block.give_back();
    }

    /// A block that goes from its stream to one that waited for it.
    fn hand_over(&mut self) {
        let home = self.chance.below(OWNERS);
        let next = OWNERS + self.chance.below(STREAMS - OWNERS);
        let bytes = self.chance.pick(&SIZES);
        let block = self.take(home, bytes);
        self.write_and_check(&block, home);
        block.give_back();
        self.streams[next].wait_stream(&self.streams[home]).expect("a wait");
        let block = self.take(next, bytes);
        self.write_and_check(&block, next);
        block.give_back();
    }

    /// Two neighbours, freed on two streams, serve one request of a third.
    fn merge(&mut self) {
        let (a, b, c) = (0, 4, 5);
        let [left, right] = [0, 1].map(|_| self.take(a, HALF));
        right.give_back();
        self.streams[b].wait_stream(&self.streams[a]).expect("a wait");
        let right = self.take(b, HALF);
        if self.chance.once_in(4) {
            self.spin(b);
        }
        self.write_and_check(&left, a);
        self.write_and_check(&right, b);
        left.give_back();
        right.give_back();
        self.streams[c].wait_stream(&self.streams[a]).expect("a wait");
        self.streams[c].wait_stream(&self.streams[b]).expect("a wait");
        let both = self.take(c, 2 * HALF);
        self.write_and_check(&both, c);
        both.give_back();
        self.streams[a].wait_stream(&self.streams[c]).expect("a wait");
    }
}
