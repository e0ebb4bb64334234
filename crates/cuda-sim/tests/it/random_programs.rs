//! Random programs against a model too simple to be wrong: a graph of operations, searched.

use std::collections::BTreeSet;

use cuda_sim::Schedule;
use cuda_sys::{CUevent, CUstream};

use crate::rig::{Rig, SUCCESS};
use crate::{cu, ok};

const STREAMS: usize = 4;
const WORDS: u64 = 12;

/// The generator known as xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % count
    }

    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count.try_into().unwrap())).unwrap()
    }
}

/// Every operation, what it directly follows, and what it touches.
#[derive(Default)]
struct Model {
    before: Vec<Vec<usize>>,
    touches: Vec<Vec<(u64, bool)>>,
    last_of: [Option<usize>; STREAMS],
    waits_of: [Vec<usize>; STREAMS],
    observed: Vec<usize>,
}

impl Model {
    /// What the next operation of a stream directly follows.
    fn followed(&self, stream: usize) -> Vec<usize> {
        let waits = self.waits_of[stream].iter().chain(&self.observed);
        self.last_of[stream].iter().chain(waits).copied().collect()
    }

    /// Whether an operation would race with an earlier one.
    fn would_race(&self, stream: usize, touches: &[(u64, bool)]) -> bool {
        let reached = self.reach(&self.followed(stream));
        (0..self.touches.len()).any(|earlier| {
            let clash = self.touches[earlier].iter().any(|(word, wrote)| {
                touches.iter().any(|(other, writes)| word == other && (*wrote || *writes))
            });
            clash && !reached.contains(&earlier)
        })
    }

    fn submit(&mut self, stream: usize, touches: Vec<(u64, bool)>) {
        self.before.push(self.followed(stream));
        self.waits_of[stream].clear();
        self.touches.push(touches);
        self.last_of[stream] = Some(self.before.len() - 1);
    }

    fn reach(&self, from: &[usize]) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = from.to_vec();
        while let Some(operation) = open.pop() {
            if reached.insert(operation) {
                open.extend(&self.before[operation]);
            }
        }
        reached
    }
}

/// Submits an operation that touches just these words: a fill, a kernel or a copy.
fn perform(rig: &Rig, stream: CUstream, block: u64, touches: &[(u64, bool)]) {
    let at = |word: u64| block + 4 * word;
    let reads = touches.iter().filter(|(_, wrote)| !wrote).count();
    let (first, written) = (touches[0].0, touches.len() - reads);
    match (reads, written) {
        (0, 1) => rig.put(stream, at(first), 1),
        (0, count) => ok!(rig, memset_d32_async(at(first), 1, count, stream)),
        (1, 1) => rig.get(stream, at(first), at(touches[1].0)),
        (count, _) => {
            ok!(rig, memcpy_dtod_async(at(touches[count].0), at(first), 4 * count, stream));
        }
    }
}

/// What a seed's first race is by the simulator and by the model, as a count of steps.
fn first_races(seed: u64) -> (Option<usize>, Option<usize>) {
    let rig = Rig::new(Schedule::Seeded(seed));
    let mut random = Random(seed * 2 + 1);
    let streams: Vec<CUstream> = (0..STREAMS).map(|_| rig.stream()).collect();
    let events: Vec<CUevent> = (0..3).map(|_| rig.event()).collect();
    let mut recorded: [Option<usize>; 3] = [None; 3];
    let (handle, reservation) = (rig.physical(), rig.reservation(2));
    let names = [reservation, reservation + (2 << 20)];
    names.iter().for_each(|&name| rig.map(name, handle));
    let mut model = Model::default();
    for step in 0..80 {
        let stream = random.index(STREAMS);
        let event = random.index(3);
        let word = random.below(WORDS);
        let mut races = false;
        // Either name of the same bytes will do.
        let block = names[random.index(2)];
        match random.below(10) {
            0..=4 => {
                let touches = match random.below(4) {
                    0 => vec![(word, true)],
                    1 => vec![(word, false), (WORDS + step, true)],
                    2 => (word..=random.below(WORDS).max(word)).map(|word| (word, true)).collect(),
                    _ => {
                        let count = random.below(WORDS / 2) + 1;
                        let from = random.below(WORDS / 2 - count + 1);
                        let to = WORDS / 2 + random.below(WORDS / 2 - count + 1);
                        let read = (from..from + count).map(|word| (word, false));
                        read.chain((to..to + count).map(|word| (word, true))).collect()
                    }
                };
                races = model.would_race(stream, &touches);
                if races && 0 < random.below(30) {
                    continue;
                }
                perform(&rig, streams[stream], block, &touches);
                model.submit(stream, touches);
            }
            5 | 6 => {
                ok!(rig, event_record(events[event], streams[stream]));
                model.submit(stream, Vec::new());
                recorded[event] = model.last_of[stream];
            }
            7 | 8 => {
                ok!(rig, stream_wait_event(streams[stream], events[event], 0));
                if let Some(operation) = recorded[event] {
                    model.waits_of[stream].push(operation);
                }
            }
            _ if random.below(3) == 0 => {
                ok!(rig, stream_synchronize(streams[stream]));
                model.observed.extend(model.last_of[stream]);
                let waits = model.waits_of[stream].clone();
                model.observed.extend(waits);
            }
            _ => {
                if cu!(rig, event_query(events[event])) == SUCCESS {
                    model.observed.extend(recorded[event]);
                }
            }
        }
        let reported = !rig.machine.hazards().is_empty();
        if reported || races {
            let step = usize::try_from(step).unwrap();
            return (reported.then_some(step), races.then_some(step));
        }
    }
    (None, None)
}

#[test]
fn s2_the_checker_agrees_with_a_search_through_the_graph() {
    let mut racy = 0;
    let mut sound = 0;
    for seed in 1..3_000 {
        let (reported, expected) = first_races(seed);
        assert_eq!(reported, expected, "seed {seed}");
        if expected.is_some() { racy += 1 } else { sound += 1 }
    }
    assert!(500 < racy && 500 < sound, "{racy} racy programs, {sound} sound ones");
}
