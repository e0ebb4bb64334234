//! Marks: pieces of work of which it is asked who comes after them, twice: of what `streams`
//! knows, and of the simulator's own account. The two must agree (S2).
//!
//! What is known must be so; else a block may be handed out too early. And what is so, by calls
//! that were all made before our eyes, must be known; else blocks wait for nothing (R10).

use streams::Point;

use crate::operation::{MarkName, StreamName};
use crate::outcome::Finding;
use crate::raw::uncounted;
use crate::world::{Done, World};

/// A word that was written once, and the point of the stream that covers the write.
pub(crate) struct Mark {
    point: Point,
    number: u32,
}

impl World<'_> {
    pub(crate) fn mark(&mut self, name: MarkName, stream: StreamName) -> Done {
        let stream = self.known(stream)?.stream;
        let cell = self.stand.cell(name.0);
        let filled = stream.fill_words(&uncounted(cell), 0, 1, name.0).expect("a fill");
        self.marks.insert(name, Mark { point: filled.point(), number: name.0 });
        Some(())
    }

    /// Asks about every stream of this thread, and about what is complete for everybody.
    pub(crate) fn compare(&mut self, name: MarkName) -> Done {
        let mark = self.marks.get(&name)?;
        let stand = self.stand;
        let complete = stand.judge.stream.order().is_complete(mark.point);
        let mut asked = vec![(String::from("complete"), complete, stand.judge.handle)];
        for (stream, known) in &self.streams {
            let knows = known.stream.order().knows(mark.point);
            asked.push((format!("known to {stream:?}"), knows, known.handle));
        }
        for (what, is_known, handle) in asked {
            self.tally.comparisons += 1;
            let cell = stand.cell(mark.number);
            let found = stand.machine.probe(cell.address, cell.bytes, handle);
            match found {
                Err(hazard) if is_known => {
                    stand.report(Finding::FalseKnowledge(format!("{name:?} is {what}: {hazard}")));
                }
                // Another thread may be on its way from a call's success to what it teaches.
                Ok(()) if !is_known && self.alone => {
                    stand.report(Finding::MissingKnowledge(format!("{name:?} is not {what}")));
                }
                _ => {}
            }
        }
        Some(())
    }
}
