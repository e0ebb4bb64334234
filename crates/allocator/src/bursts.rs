//! Where frees left fences on the streams that had used their blocks.
//!
//! A *burst* is what a used stream was given between two frees that needed a fence there. So the
//! marks of those fences tell two things without a driver call: which fence covers a use and
//! nothing queued after the free of its block (O6), and how many bursts a stream has queued behind
//! a use, that is, how much it still has to do when the use is over.

use std::collections::{BTreeMap, VecDeque};

use streams::Fence;
use streams::order::{Frontier, Point, StreamSlot};

use crate::sync::Mutex;

/// How many marks of a stream are kept, the latest ones. A block that was freed before all of them
/// can be asked about, but not waited for on the device. As many as a stream keeps fences.
pub(crate) const MARKS_MAX: usize = 4096;

/// The marks of every stream that uses blocks of others. Its lock is taken last and held for a
/// look only.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    streams: Mutex<BTreeMap<StreamSlot, Marks>>,
}

/// The ends of one stream's bursts, in order.
#[derive(Debug, Default)]
struct Marks {
    marks: VecDeque<Mark>,
    /// The latest mark that is not kept any more. A use up to there may have had a fence before all
    /// that are.
    forgotten: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    mark: u64,
    /// No fence could be recorded at the free, so none that comes later may be waited for.
    unfenced: bool,
}

impl Bursts {
    /// A block was freed whose use ends at `point`; its fence, if there is one.
    pub(crate) fn note(&self, point: Point, fence: Option<&Fence>) {
        let mark = fence.map_or(point.mark, |fence| fence.point().mark);
        let mut streams = self.streams.lock();
        let marks = streams.entry(point.stream).or_default();
        marks.insert(Mark { mark, unfenced: fence.is_none() });
    }

    /// The point of the fence that covers `point` and nothing that was queued after the free.
    pub(crate) fn fenced(&self, point: Point) -> Option<Point> {
        let streams = self.streams.lock();
        let mark = streams.get(&point.stream)?.fenced(point.mark)?;
        Some(Point { stream: point.stream, mark })
    }

    /// On each stream the latest point behind which it has at least `depth` more bursts queued.
    pub(crate) fn with_bursts_behind(&self, depth: usize) -> Frontier {
        let streams = self.streams.lock();
        let latest = |(stream, marks): (&StreamSlot, &Marks)| {
            Some(Point { stream: *stream, mark: marks.with_behind(depth)? })
        };
        streams.iter().filter_map(latest).collect()
    }
}

impl Marks {
    /// The first mark at or after `mark`, if it has a fence.
    fn fenced(&self, mark: u64) -> Option<u64> {
        if self.forgotten.is_some_and(|forgotten| mark <= forgotten) {
            return None;
        }
        let found = self.marks.get(self.marks.partition_point(|kept| kept.mark < mark))?;
        (!found.unfenced).then_some(found.mark)
    }

    /// The latest mark with `depth` more after it.
    fn with_behind(&self, depth: usize) -> Option<u64> {
        let index = self.marks.len().checked_sub(depth.saturating_add(1))?;
        self.marks.get(index).map(|found| found.mark)
    }

    fn insert(&mut self, new: Mark) {
        let at = self.marks.partition_point(|kept| kept.mark < new.mark);
        match self.marks.get_mut(at) {
            Some(found) if found.mark == new.mark => found.unfenced |= new.unfenced,
            _ => self.marks.insert(at, new),
        }
        if MARKS_MAX < self.marks.len() {
            let gone = self.marks.pop_front().map(|gone| gone.mark);
            self.forgotten = self.forgotten.max(gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MARKS_MAX, Mark, Marks};

    fn fenced(mark: u64) -> Mark {
        Mark { mark, unfenced: false }
    }

    fn marks(all: impl IntoIterator<Item = Mark>) -> Marks {
        let mut marks = Marks::default();
        all.into_iter().for_each(|mark| marks.insert(mark));
        marks
    }

    #[test]
    fn an_exact_use_is_covered_by_the_first_fence_that_a_free_left_after_it() {
        let marks = marks([8, 3, 8, 12].map(fenced));
        let found = [2, 3, 4, 8, 9, 13].map(|mark| marks.fenced(mark));
        assert_eq!(found, [Some(3), Some(3), Some(8), Some(8), Some(12), None]);
    }

    #[test]
    fn a_free_without_a_fence_is_not_covered_by_a_later_one() {
        let marks = marks([fenced(3), Mark { mark: 5, unfenced: true }, fenced(9)]);
        assert_eq!([3, 4, 5, 6].map(|mark| marks.fenced(mark)), [Some(3), None, None, Some(9)]);
    }

    #[test]
    fn only_bursts_behind_a_use_count() {
        let marks = marks([3, 8, 12].map(fenced));
        let latest = [0, 1, 2, 3].map(|depth| marks.with_behind(depth));
        assert_eq!(latest, [Some(12), Some(8), Some(3), None]);
    }

    /// Was: a block that was freed before all marks that are kept was waited for by the first of
    /// them, and so for everything that had been queued after its free (O6).
    #[test]
    fn o6_a_use_whose_mark_is_forgotten_is_not_covered_by_a_later_one() {
        let count = u64::try_from(MARKS_MAX).unwrap();
        let mut marks = marks((1..=count).map(|burst| fenced(10 * burst)));
        assert_eq!([5, 10, 15].map(|mark| marks.fenced(mark)), [Some(10), Some(10), Some(20)]);
        marks.insert(fenced(10 * (count + 1)));
        assert_eq!([5, 10, 11].map(|mark| marks.fenced(mark)), [None, None, Some(20)]);
        // A thread that comes late with a mark of before does not bring them back.
        marks.insert(fenced(7));
        assert_eq!([5, 7, 10, 11].map(|mark| marks.fenced(mark)), [None, None, None, Some(20)]);
    }

    #[test]
    fn the_oldest_marks_go_when_there_are_too_many() {
        let count = u64::try_from(MARKS_MAX).unwrap();
        let marks = marks((0..=count).map(fenced));
        assert_eq!(marks.with_behind(MARKS_MAX - 1), Some(1));
        assert_eq!(marks.with_behind(MARKS_MAX), None);
    }
}
