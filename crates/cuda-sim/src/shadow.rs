//! Who touched which bytes last: what the hazard checker compares a new operation with.
//!
//! Kept per physical allocation, so that two mappings of the same bytes share it. An access that
//! every later operation must come after anyway is dropped.

use std::collections::BTreeMap;
use std::ops::Range;

use smallvec::SmallVec;

use crate::clock::Epoch;

/// An operation that touched bytes, as small as a report allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) epoch: Epoch,
    /// The operation's number in the machine's life.
    pub(crate) number: u64,
    pub(crate) label: Label,
}

/// What kind of operation it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    /// An index into the machine's kernel names.
    Kernel(u32),
    Fill,
    Copy,
    PoolFree,
    WriteValue,
    WaitValue,
    Marker,
    Record,
    HostFunction,
}

/// How an operation uses bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessKind {
    /// It reads them.
    Read,
    /// It writes, or reads and writes, them.
    Write,
    /// It updates them atomically: any order of such updates is as good as another.
    Atomic,
}

impl AccessKind {
    fn clashes(self, other: Self) -> bool {
        self != other || self == Self::Write
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    end: u64,
    seen: SmallVec<[(AccessKind, Seen); 2]>,
}

/// The accesses to one physical allocation.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    cells: BTreeMap<u64, Cell>,
}

/// A clash of a new access with an older one.
#[derive(Debug, Clone)]
pub(crate) struct Clash {
    pub(crate) earlier: Seen,
    pub(crate) earlier_kind: AccessKind,
    pub(crate) range: Range<u64>,
}

impl Shadow {
    /// Compares an access with all earlier ones and gives the first that nothing orders before.
    pub(crate) fn check(
        &self,
        range: Range<u64>,
        kind: AccessKind,
        ordered: impl Fn(&Seen) -> bool,
    ) -> Option<Clash> {
        let start = self.first_key(range.start);
        self.cells
            .range(start..range.end)
            .filter(|(_, cell)| range.start < cell.end)
            .find_map(|(&from, cell)| cell.clash(from, &range, kind, &ordered))
    }

    /// Compares and then remembers an access.
    pub(crate) fn touch(
        &mut self,
        range: Range<u64>,
        kind: AccessKind,
        seen: Seen,
        ordered: impl Fn(&Seen) -> bool,
    ) -> Option<Clash> {
        if range.is_empty() {
            return None;
        }
        if let Some(cell) = self.cells.get_mut(&range.start)
            && cell.end == range.end
        {
            let clash = cell.clash(range.start, &range, kind, &ordered);
            cell.apply(kind, seen, &ordered);
            return clash;
        }
        let clash = self.check(range.clone(), kind, &ordered);
        self.split(range.start);
        self.split(range.end);
        let whole = |end| Cell { end, seen: SmallVec::from_iter([(kind, seen)]) };
        if kind == AccessKind::Write {
            self.remove_inside(&range, |_, _| ());
            self.cells.insert(range.start, whole(range.end));
        } else {
            self.add(&range, kind, seen, whole, &ordered);
        }
        clash
    }

    /// Cells in the range gain an access, gaps become cells, equal neighbours one.
    fn add(
        &mut self,
        range: &Range<u64>,
        kind: AccessKind,
        seen: Seen,
        gap: impl Fn(u64) -> Cell,
        ordered: &impl Fn(&Seen) -> bool,
    ) {
        let mut parts: SmallVec<[(u64, Cell); 8]> = SmallVec::new();
        let mut add = |from: u64, cell: Cell| {
            if let Some((_, last)) = parts.last_mut()
                && last.end == from
                && last.seen == cell.seen
            {
                last.end = cell.end;
            } else {
                parts.push((from, cell));
            }
        };
        let mut cursor = range.start;
        self.remove_inside(range, |from, mut cell| {
            if cursor < from {
                add(cursor, gap(from));
            }
            cursor = cell.end;
            cell.apply(kind, seen, ordered);
            add(from, cell);
        });
        if cursor < range.end {
            add(cursor, gap(range.end));
        }
        self.cells.extend(parts);
    }

    fn remove_inside(&mut self, range: &Range<u64>, mut each: impl FnMut(u64, Cell)) {
        while let Some(from) = self.cells.range(range.clone()).next().map(|(&from, _)| from) {
            if let Some(cell) = self.cells.remove(&from) {
                each(from, cell);
            }
        }
    }

    fn first_key(&self, at: u64) -> u64 {
        self.cells.range(..=at).next_back().map_or(at, |(&from, _)| from)
    }

    fn split(&mut self, at: u64) {
        let Some((_, cell)) = self.cells.range_mut(..at).next_back() else { return };
        if at < cell.end {
            let tail = cell.clone();
            cell.end = at;
            self.cells.insert(at, tail);
        }
    }
}

impl Cell {
    fn clash(
        &self,
        from: u64,
        range: &Range<u64>,
        kind: AccessKind,
        ordered: &impl Fn(&Seen) -> bool,
    ) -> Option<Clash> {
        let &(earlier_kind, earlier) = self
            .seen
            .iter()
            .find(|(earlier_kind, earlier)| kind.clashes(*earlier_kind) && !ordered(earlier))?;
        let range = from.max(range.start)..self.end.min(range.end);
        Some(Clash { earlier, earlier_kind, range })
    }

    /// A write stands for all before it; another access only for ordered ones of its own kind.
    fn apply(&mut self, kind: AccessKind, seen: Seen, ordered: &impl Fn(&Seen) -> bool) {
        if kind == AccessKind::Write {
            self.seen.clear();
        } else {
            self.seen.retain(|(other, earlier)| *other != kind || !ordered(earlier));
        }
        self.seen.push((kind, seen));
    }
}
