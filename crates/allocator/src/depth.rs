//! How many bursts a stream must have left behind a use, so that a wait for it costs nothing.
//!
//! Pure arithmetic on measured times. A stream *makes* blocks in turn and hands each to its
//! *users*, which work on them in order. With depth `d` it does not begin a turn before all users
//! are through with everything but the latest `d` bursts. From the times that each of them really
//! worked, waits left out, follows how long the whole would take with any depth; the least depth
//! that loses next to nothing against no wait at all is the one that is needed.
//!
//! Once in a while something takes long that has nothing to do with the program: the host is given
//! to somebody else, or comes back late from a call. In one step of hundreds that is more than the
//! accepted loss, and only a great depth would hide it. So the turns are looked at in parts, and
//! what most of them need is taken: what happened once is not what the program does.

use std::time::Duration;

use smallvec::SmallVec;

/// The loss that is accepted: one part in so many of the time without any wait. A depth that is
/// one greater may cost as much memory as several steps. On a GPU waits lose more than the
/// recurrence says, since whoever waited starts late: with one part in 66 a bursty consumer lost
/// two in a hundred. One part in a hundred lies so close to what it loses with one burst less that
/// windows of one program disagreed; and streams that are as quick as each other lose one in 250.
const LOSS_PARTS: u32 = 160;

/// The parts that must agree, most of them, and the fewest turns of each.
const PARTS: usize = 3;
const PART_TURNS_MIN: usize = 32;

/// One step of a stream and of those it hands blocks to, or several that count together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    /// How long the stream worked until it had made what it handed over.
    pub(crate) make: Duration,
    /// How long each user worked on what it was handed.
    pub(crate) uses: SmallVec<[Duration; 4]>,
    /// Into how many bursts the turn counts, at least one.
    pub(crate) bursts: u32,
}

impl Turn {
    /// Into how many bursts it counts.
    pub(crate) fn bursts_count(&self) -> usize {
        usize::try_from(self.bursts).unwrap_or(usize::MAX)
    }
}

/// What turns say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needed {
    /// The least depth, at least 1, that loses next to nothing.
    pub(crate) depth: usize,
    /// There were enough turns for parts, and most of them say that at least so much is needed.
    pub(crate) is_agreed: bool,
}

/// What is needed in most parts of these turns; in all of them together, if they are few.
pub(crate) fn needed(turns: &[Turn]) -> Needed {
    let part = turns.len() / PARTS;
    if part < PART_TURNS_MIN {
        return Needed { depth: least(turns), is_agreed: false };
    }
    let mut depths: SmallVec<[usize; PARTS]> = turns.chunks_exact(part).map(least).collect();
    depths.truncate(PARTS);
    depths.sort_unstable();
    let depth = depths.get(depths.len() / 2).copied().unwrap_or(1);
    Needed { depth, is_agreed: true }
}

/// The least depth, at least 1, that loses next to nothing in these turns.
fn least(turns: &[Turn]) -> usize {
    let free = total(turns, usize::MAX);
    let accepted = free + free / LOSS_PARTS;
    // A greater depth never takes longer, so the least one is found by halving.
    let bursts = turns.iter().map(Turn::bursts_count).sum::<usize>();
    let (mut below, mut enough) = (0, bursts.max(1));
    while below + 1 < enough {
        let depth = below.midpoint(enough);
        if total(turns, depth) <= accepted {
            enough = depth;
        } else {
            below = depth;
        }
    }
    enough
}

/// How long the turns take with a depth.
fn total(turns: &[Turn], depth: usize) -> Duration {
    let mut users: SmallVec<[Duration; 4]> = SmallVec::new();
    // When the last user was through with each burst.
    let mut ends: Vec<Duration> = Vec::new();
    let mut maker = Duration::ZERO;
    for turn in turns {
        users.resize(users.len().max(turn.uses.len()), Duration::ZERO);
        for _ in 0..turn.bursts {
            let gate = ends.len().checked_sub(depth.saturating_add(1));
            let gate = gate.and_then(|index| ends.get(index)).copied().unwrap_or_default();
            let made = maker.max(gate) + turn.make / turn.bursts;
            let mut end = made;
            for (user, work) in users.iter_mut().zip(&turn.uses) {
                *user = made.max(*user) + *work / turn.bursts;
                end = end.max(*user);
            }
            ends.push(end);
            maker = made;
        }
    }
    users.into_iter().fold(maker, Duration::max)
}

#[cfg(test)]
mod tests {
    use super::{Duration, LOSS_PARTS, Needed, Turn, least, needed, total};

    fn microseconds(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    /// So many turns of one maker and its users.
    fn turns(count: u64, make: u64, uses: impl Fn(u64) -> Vec<u64>) -> Vec<Turn> {
        let turn = |index| Turn {
            make: microseconds(make),
            uses: uses(index).into_iter().map(microseconds).collect(),
            bursts: 1,
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn a_wait_for_the_latest_burst_would_serialize_both() {
        let equal = turns(100, 200, |_| vec![200]);
        assert_eq!(total(&equal, usize::MAX), microseconds(101 * 200));
        assert_eq!(total(&equal, 0), microseconds(200 * 200));
        assert_eq!(total(&equal, 1), microseconds(101 * 200));
    }

    #[test]
    fn one_burst_is_enough_where_all_take_the_same_time_each_turn() {
        assert_eq!(least(&turns(100, 200, |_| vec![200, 200])), 1, "as slow as its users");
        assert_eq!(least(&turns(100, 10, |_| vec![400, 12])), 1, "quicker than its users");
        assert_eq!(least(&turns(100, 400, |_| vec![10])), 1, "slower than its users");
        assert_eq!(least(&turns(0, 0, |_| vec![])), 1, "nothing known");
    }

    #[test]
    fn a_bursty_user_needs_as_many_as_it_uses_up_before_the_maker_can_follow() {
        let bursty = turns(200, 100, |index| vec![if index % 10 == 9 { 800 } else { 40 }]);
        let depth = least(&bursty);
        let free = total(&bursty, usize::MAX);
        assert!((4..=8).contains(&depth), "{depth}");
        assert!(total(&bursty, depth) <= free + free / LOSS_PARTS);
        assert!(free + free / LOSS_PARTS < total(&bursty, depth - 1), "one less is not enough");
    }

    #[test]
    fn a_side_that_is_slow_for_a_while_stops_the_maker_unless_it_may_run_ahead() {
        // The maker has much to do by itself after a few long uses.
        let side = turns(64, 100, |index| vec![if index % 64 < 4 { 1_200 } else { 0 }]);
        let depth = least(&side);
        assert!(2 < depth && total(&side, 1) > total(&side, depth));
    }

    #[test]
    fn bursts_of_one_turn_count_each() {
        let mut double = turns(100, 200, |_| vec![200]);
        double.iter_mut().for_each(|turn| turn.bursts = 2);
        assert_eq!(total(&double, usize::MAX), microseconds(100 * 200 + 100));
        assert_eq!(least(&double), 1);
    }

    /// A bursty user, as one was measured on a GPU: a depth of 6 loses 0.7 to 0.8 %, 7 nothing.
    fn bursty(count: u64) -> Vec<Turn> {
        turns(count, 104, |index| vec![if index % 10 == 9 { 805 } else { 45 }, 27])
    }

    /// A quick maker, as one was measured on a GPU.
    fn quick(count: u64) -> Vec<Turn> {
        turns(count, 46, |_| vec![405, 46])
    }

    /// Was: memory came for the first steps of a program, and the host was busy with that behind
    /// what it had queued. The makes after it looked 0.9 ms long, which taught twice the depth.
    #[test]
    fn a_host_that_was_busy_for_some_steps_teaches_no_depth() {
        let mut turns = quick(190);
        assert_eq!(needed(&turns), Needed { depth: 1, is_agreed: true });
        for late in [3, 7] {
            turns[late].make = microseconds(940);
        }
        assert!(1 < least(&turns[..63]), "one part alone would");
        assert_eq!(needed(&turns), Needed { depth: 1, is_agreed: true });
    }

    #[test]
    fn a_host_that_stops_for_milliseconds_once_teaches_no_depth() {
        for at in [0, 20, 63, 64, 100, 189] {
            for late in [2_000, 10_000] {
                let (mut even, mut uneven) = (quick(190), bursty(190));
                even[at].make = microseconds(late);
                uneven[at].make = microseconds(late);
                assert_eq!(needed(&even).depth, 1, "{late} at {at}");
                assert_eq!(needed(&uneven).depth, 7, "{late} at {at}");
            }
        }
    }

    #[test]
    fn a_use_that_is_long_once_teaches_no_depth() {
        let mut turns = turns(190, 100, |_| vec![90]);
        turns[77].uses[0] = microseconds(9_000);
        assert!(1 < least(&turns), "without parts it would");
        assert_eq!(needed(&turns).depth, 1);
    }

    #[test]
    fn bursts_are_seen_in_every_part_of_a_window() {
        for count in [160, 175, 192] {
            assert_eq!(needed(&bursty(count)), Needed { depth: 7, is_agreed: true }, "{count}");
        }
    }

    #[test]
    fn few_turns_have_no_parts_that_could_agree() {
        assert!(!needed(&bursty(60)).is_agreed);
    }
}
