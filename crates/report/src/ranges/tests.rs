//! Ranges of made-up segments and changes.

use trace::pytorch::StreamHandle;

use super::{Change, Range, Walk, ranges, ranges_from_nothing, unmapped_steps};

const MIB: u64 = 1 << 20;

fn change(moment: u32, address: u64, bytes: u64, is_gain: bool) -> Change {
    let (stream, is_expandable) = (StreamHandle(0), true);
    Change { moment, address, bytes, stream, pool: (0, 0), is_gain, is_expandable }
}

/// Address, bytes and both moments of each range, in MiB.
fn told(ranges: &[Range]) -> Vec<(u64, u64, u32, u32)> {
    let told = |range: &Range| (range.address / MIB, range.bytes / MIB, range.from, range.to);
    ranges.iter().map(told).collect()
}

#[test]
fn a_segment_that_was_freed_is_held_until_then() {
    let changes = [change(1, 0, 20 * MIB, true), change(5, 0, 20 * MIB, false)];
    assert_eq!(told(&ranges([].iter(), &changes)), [(0, 20, 1, 5)]);
}

#[test]
fn what_is_never_given_back_is_held_to_the_end() {
    let changes =
        [change(1, 0, 20 * MIB, true), change(2, 64 * MIB, MIB, true), change(4, 0, MIB, false)];
    let never = super::NEVER;
    let held = [(0, 1, 1, 4), (1, 19, 1, never), (64, 1, 2, never)];
    assert_eq!(told(&ranges_from_nothing(&changes)), held);
}

#[test]
fn a_segment_without_a_beginning_is_held_from_the_start() {
    let changes = [change(3, 64 * MIB, 2 * MIB, false)];
    assert_eq!(told(&ranges([].iter(), &changes)), [(64, 2, 0, 3)]);
}

#[test]
fn what_is_unmapped_in_the_middle_leaves_both_ends() {
    let changes = [
        change(1, 0, 60 * MIB, true),
        change(2, 20 * MIB, 20 * MIB, false),
        change(3, 20 * MIB, 20 * MIB, true),
        change(4, 0, 60 * MIB, false),
    ];
    let held = ranges([].iter(), &changes);
    // The middle is held twice; the ends go at once with it, and came at once.
    assert_eq!(told(&held), [(0, 20, 1, 4), (20, 20, 1, 2), (40, 20, 1, 4), (20, 20, 3, 4)]);
    let steps = unmapped_steps(&held, &changes);
    let mib = |(moment, step): &(u32, i128)| (*moment, *step / i128::from(MIB));
    assert_eq!(steps.iter().map(mib).collect::<Vec<_>>(), [(2, 20), (3, -20), (4, 60)]);
}

#[test]
fn a_file_that_contradicts_itself_gives_no_overlap() {
    let mut walk = Walk::default();
    for (address, bytes) in [(0, 10), (5, 10), (3, 4), (u64::MAX - 1, 100)] {
        walk.open(Range {
            address,
            bytes,
            stream: StreamHandle(0),
            from: 0,
            to: 9,
            is_expandable: false,
            is_small: true,
            pool: (0, 0),
        });
    }
    let mut end = 0;
    for range in walk.held.values() {
        assert!(end <= range.address, "{range:?} begins before {end}");
        end = range.end();
    }
    let total: u64 = walk.held.values().take(3).map(|range| range.bytes).sum();
    assert_eq!(total, 15, "0 to 15 is held once");
}
