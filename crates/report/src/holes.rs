//! How broken up the free memory is, at evenly spaced moments.

use std::collections::BTreeMap;

use crate::history::{History, Moment};
use crate::ranges::Range;

/// At how many moments; more than a picture has columns to show them would tell nothing.
const SAMPLE_COUNT: u32 = 400;

/// The free memory at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) moment: Moment,
    /// Held from the driver and in no block.
    pub(crate) free_bytes: u64,
    /// The largest part of it that lies together.
    pub(crate) largest_bytes: u64,
    /// In how many parts it lies.
    pub(crate) hole_count: u64,
}

/// Samples from the first moment to the last, with `extra` among them.
pub(crate) fn samples(history: &History, ranges: &[Range], extra: Moment) -> Vec<Sample> {
    let end = history.end();
    let mut moments: Vec<Moment> = (0..=SAMPLE_COUNT)
        .map(|step| {
            let moment = u64::from(end) * u64::from(step) / u64::from(SAMPLE_COUNT);
            Moment::try_from(moment).unwrap_or(end)
        })
        .collect();
    moments.push(extra.min(end));
    moments.sort_unstable();
    moments.dedup();
    let mut walk = Walk::new(history, ranges);
    moments.into_iter().map(|moment| walk.sample(moment)).collect()
}

/// Blocks and ranges as they come and go.
struct Walk<'a> {
    history: &'a History,
    ranges: &'a [Range],
    /// Lives by the moment they end.
    ends: Vec<(Moment, u64)>,
    next_life: usize,
    next_end: usize,
    /// The end of each block by its address.
    blocks: BTreeMap<u64, u64>,
}

impl<'a> Walk<'a> {
    fn new(history: &'a History, ranges: &'a [Range]) -> Self {
        let mut ends: Vec<_> =
            history.lives.iter().map(|life| (life.completed, life.address)).collect();
        ends.sort_unstable();
        Self { history, ranges, ends, next_life: 0, next_end: 0, blocks: BTreeMap::new() }
    }

    fn sample(&mut self, moment: Moment) -> Sample {
        self.go_to(moment);
        let mut sample = Sample { moment, free_bytes: 0, largest_bytes: 0, hole_count: 0 };
        let mut held: Vec<Range> = self
            .ranges
            .iter()
            .take_while(|range| range.from <= moment)
            .filter(|range| moment < range.to)
            .copied()
            .collect();
        held.sort_unstable_by_key(|range| range.address);
        let mut open: Option<Range> = None;
        for range in held {
            match &mut open {
                Some(before) if joins(before, &range) => before.bytes += range.bytes,
                _ => {
                    self.count(open.replace(range), &mut sample);
                }
            }
        }
        self.count(open, &mut sample);
        sample
    }

    /// Ends come first: an address whose block has ended may be another's since.
    fn go_to(&mut self, moment: Moment) {
        while let Some(&(end, address)) = self.ends.get(self.next_end)
            && end <= moment
        {
            self.next_end += 1;
            self.blocks.remove(&address);
        }
        while let Some(life) = self.history.lives.get(self.next_life)
            && life.from <= moment
        {
            self.next_life += 1;
            if moment < life.completed {
                self.blocks.insert(life.address, life.address.saturating_add(life.bytes));
            }
        }
    }

    fn count(&self, range: Option<Range>, sample: &mut Sample) {
        let Some(range) = range else { return };
        let mut at = range.address;
        let mut hole = |bytes: u64| {
            if 0 < bytes {
                sample.free_bytes += bytes;
                sample.largest_bytes = sample.largest_bytes.max(bytes);
                sample.hole_count += 1;
            }
        };
        for (&start, &end) in self.blocks.range(range.address..range.end()) {
            hole(start.saturating_sub(at));
            at = at.max(end);
        }
        hole(range.end().saturating_sub(at));
    }
}

/// Whether a block can lie across both: they are one expandable segment.
fn joins(before: &Range, range: &Range) -> bool {
    before.is_expandable
        && range.is_expandable
        && before.stream == range.stream
        && before.end() == range.address
}
