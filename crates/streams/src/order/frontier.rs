//! A set of points, at most one per stream.

use smallvec::SmallVec;

use super::{Point, Registry, StreamSlot};

/// A set of points, at most one per stream, sorted by stream.
///
/// Of two points on one stream the later one covers the earlier, so only the later one is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frontier {
    points: SmallVec<[Point; 4]>,
}

impl Frontier {
    /// The empty frontier: after nothing, complete from the start.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `point`, unless a later one of its stream is there already.
    pub fn insert(&mut self, point: Point) {
        match self.place(point.stream) {
            Ok(at) => {
                if let Some(kept) = self.points.get_mut(at) {
                    kept.mark = kept.mark.max(point.mark);
                }
            }
            Err(at) => self.points.insert(at, point),
        }
    }

    /// Adds every point of `other`: the result comes after both.
    pub fn join(&mut self, other: &Self) {
        for &point in &other.points {
            self.insert(point);
        }
    }

    /// The mark this frontier has on `stream`.
    #[must_use]
    pub fn point_on(&self, stream: StreamSlot) -> Option<Point> {
        self.place(stream).ok().and_then(|at| self.points.get(at).copied())
    }

    /// Whether `point`, or a later point of its stream, is in the set.
    #[must_use]
    pub fn covers(&self, point: Point) -> bool {
        self.point_on(point.stream).is_some_and(|kept| point.mark <= kept.mark)
    }

    /// Whether every point of `other` is covered.
    #[must_use]
    pub fn covers_all(&self, other: &Self) -> bool {
        other.iter().all(|point| self.covers(point))
    }

    /// Every point, in the order of their streams.
    pub fn iter(&self) -> impl Iterator<Item = Point> + '_ {
        self.points.iter().copied()
    }

    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// How many points there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Drops the points that are settled: they say nothing any more, to anybody.
    pub fn prune_settled(&mut self, registry: &Registry) {
        self.points.retain(|point| !registry.is_settled(*point));
    }

    fn place(&self, stream: StreamSlot) -> Result<usize, usize> {
        self.points.binary_search_by_key(&stream, |point| point.stream)
    }
}

impl From<Point> for Frontier {
    fn from(point: Point) -> Self {
        let mut frontier = Self::new();
        frontier.insert(point);
        frontier
    }
}

impl FromIterator<Point> for Frontier {
    fn from_iter<I: IntoIterator<Item = Point>>(points: I) -> Self {
        let mut frontier = Self::new();
        points.into_iter().for_each(|point| frontier.insert(point));
        frontier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(stream: u32, mark: u64) -> Point {
        Point { stream: StreamSlot::new(stream), mark }
    }

    #[test]
    fn one_point_a_stream_and_the_later_one_stays() {
        let mut frontier = Frontier::from(point(3, 7));
        frontier.insert(point(1, 2));
        frontier.insert(point(3, 5));
        frontier.insert(point(3, 9));
        assert_eq!(frontier.iter().collect::<Vec<_>>(), [point(1, 2), point(3, 9)]);
        assert_eq!(frontier.len(), 2);
    }

    #[test]
    fn a_join_covers_both_and_nothing_else() {
        let left: Frontier = [point(1, 2), point(2, 9)].into_iter().collect();
        let right: Frontier = [point(1, 4), point(5, 1)].into_iter().collect();
        let mut joined = left.clone();
        joined.join(&right);
        assert!(joined.covers_all(&left));
        assert!(joined.covers_all(&right));
        assert!(!joined.covers(point(1, 5)));
        assert!(!joined.covers(point(3, 0)));
        assert!(!left.covers_all(&right));
    }

    #[test]
    fn the_empty_frontier_is_covered_by_all() {
        assert!(Frontier::new().is_empty());
        assert!(Frontier::new().covers_all(&Frontier::new()));
        assert_eq!(Frontier::from(point(1, 1)).point_on(StreamSlot::new(2)), None);
    }
}
