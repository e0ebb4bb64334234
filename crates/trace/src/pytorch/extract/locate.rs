//! Finds the dictionary that a place in a snapshot names, once something is wrong there.

use super::Extractor;
use crate::pytorch::error::Place;
use crate::pytorch::heap::Value;
use crate::pytorch::word::Word;

impl Extractor {
    /// The number of the dictionary at `place` in the value `top`; of the nearest one around it
    /// where no dictionary stands. None where the snapshot is a list and the fault is that list.
    pub(super) fn dict_at(&self, top: Value, place: Place) -> Option<u32> {
        let in_top = |key| top.dict().and_then(|top| self.last(top, key));
        let found = match place {
            Place::Top | Place::Trace { .. } => None,
            Place::Entry { device, entry } => in_top(Word::DeviceTraces)
                .and_then(|traces| self.item_if_any(traces, device))
                .and_then(|entries| self.item_if_any(entries, entry)),
            Place::Segment { segment } | Place::Block { segment, .. } => {
                let segments =
                    if top.dict().is_some() { in_top(Word::Segments) } else { Some(top) };
                let segment = segments.and_then(|segments| self.item_if_any(segments, segment));
                match place {
                    Place::Block { block, .. } => {
                        let blocks = segment
                            .and_then(Value::dict)
                            .and_then(|segment| self.last(segment, Word::Blocks));
                        let block = blocks.and_then(|blocks| self.item_if_any(blocks, block));
                        block.filter(|block| block.dict().is_some()).or(segment)
                    }
                    _ => segment,
                }
            }
        };
        found.and_then(Value::dict).or(top.dict())
    }

    /// The item at `position` if `value` is a list or a tuple that has one.
    fn item_if_any(&self, value: Value, position: usize) -> Option<Value> {
        (position < self.count(value)).then(|| self.item(value, position))
    }
}
