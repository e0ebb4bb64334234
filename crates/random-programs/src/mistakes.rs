//! Mistakes that a program makes on purpose, so that two verdicts can be compared on them: what a
//! user might forget, each beside the same done as it should be.

use streams::Stream;

use crate::blocks::Piece;
use crate::operation::{BlockName, Join, Mended, Mistake, StreamName, Way};
use crate::raw::uncounted;
use crate::verdicts::Made;
use crate::world::{Done, World};

impl World<'_> {
    /// Makes a mistake, or what would be one; what was made of it is left to be judged.
    pub(crate) fn make(&mut self, mistake: Mistake, mended: Mended) -> Done {
        // Without a second verdict there is nothing to compare.
        (self.alone && self.setup.checked).then_some(())?;
        let mends = mended == Mended::Yes;
        let asked = match mistake {
            Mistake::Untold { block, user } => self.untold(block, user, mends)?,
            Mistake::AfterFree { block, user } => {
                self.after_free(block, user, mends)?;
                None
            }
            Mistake::WrongEvent { block, early, late } => {
                self.too_late(block, (early, late), mends, true)?;
                None
            }
            Mistake::Unordered { block, early, late } => {
                self.too_late(block, (early, late), mends, false)?;
                None
            }
            Mistake::BeforeAllocation { block, bytes, home, user } => {
                self.before_allocation((block, bytes), home, user, mends)?;
                None
            }
        };
        self.made = Some(Made { mistake, asked });
        Some(())
    }

    /// A block that nothing but its handle keeps, and that is nobody's once that is gone.
    fn free_to_go(&self, name: BlockName) -> Option<&Piece> {
        self.pieces.get(&name).filter(|piece| piece.owner.is_some() && !piece.was_captured)
    }

    /// What the simulator says of the home's next operation when the block is given back: that is
    /// what nobody was told of. The use comes after all others, so it alone is asked about.
    fn untold(&mut self, name: BlockName, user: StreamName, mends: bool) -> Option<Option<String>> {
        let stream = self.known(user)?.stream;
        let piece = self.free_to_go(name)?;
        // Whoever was told of the stream was told of everything there.
        (!piece.recorded.contains(&stream.id())).then_some(())?;
        let (users, home, range) = (piece.users(true), self.known(piece.home)?, piece.range);
        self.order_all(&users, &stream, Join::Stream).then_some(())?;
        let word = self.new_word();
        self.stand.write(&stream, &mut uncounted(range), word);
        if mends {
            self.order(&stream, &home.stream, Join::Event).then_some(())?;
        }
        let asked = self.stand.machine.probe(range.address, range.bytes, home.handle);
        self.free(name, Way::Free, None)?;
        Some(asked.err().map(|hazard| hazard.to_string()))
    }

    fn after_free(&mut self, name: BlockName, user: StreamName, mends: bool) -> Done {
        let stream = self.known(user)?.stream;
        let piece = self.free_to_go(name)?;
        let (word, range) = (piece.word?, piece.range);
        self.order_all(&piece.users(true), &stream, Join::Event).then_some(())?;
        if mends {
            self.told(name, &stream);
            self.stand.check(&stream, &uncounted(range), word);
            return self.free(name, Way::Free, None);
        }
        self.free(name, Way::Free, None)?;
        self.stand.check(&stream, &uncounted(range), word);
        Some(())
    }

    /// One stream writes, and another one reads, after an event that was recorded before the
    /// write, or after nothing.
    fn too_late(
        &mut self,
        name: BlockName,
        (early, late): (StreamName, StreamName),
        mends: bool,
        waits: bool,
    ) -> Done {
        let (early, late) = (self.known(early)?.stream, self.known(late)?.stream);
        let piece = self.pieces.get(&name).filter(|piece| piece.owner.is_some())?;
        let (users, range) = (piece.users(true), piece.range);
        self.order_all(&users, &early, Join::Stream).then_some(())?;
        let before = early.record_event().expect("an event");
        let word = self.new_word();
        self.told(name, &early);
        self.stand.write(&early, &mut uncounted(range), word);
        if waits {
            late.wait_event(&before).expect("a wait");
        }
        if mends {
            self.order(&early, &late, Join::Event).then_some(())?;
        }
        self.told(name, &late);
        self.stand.check(&late, &uncounted(range), word);
        let piece = self.pieces.get_mut(&name)?;
        piece.written(&early, word);
        piece.read(&late);
        Some(())
    }

    fn before_allocation(
        &mut self,
        (name, bytes): (BlockName, u64),
        home: StreamName,
        user: StreamName,
        mends: bool,
    ) -> Done {
        let (before, stream) = (self.known(home)?.stream, self.known(user)?.stream);
        self.allocate(name, home, bytes, None)?;
        let range = self.pieces.get(&name)?.range;
        if mends {
            self.order(&before, &stream, Join::Stream).then_some(())?;
        }
        let word = self.new_word();
        self.told(name, &stream);
        self.stand.write(&stream, &mut uncounted(range), word);
        self.pieces.get_mut(&name)?.written(&stream, word);
        Some(())
    }

    /// The allocator is told of a stream.
    fn told(&mut self, name: BlockName, stream: &Stream) {
        let Some(piece) = self.pieces.get_mut(&name) else { return };
        if let Some(block) = &piece.owner {
            block.record_stream(stream);
            piece.recorded.push(stream.id());
        }
    }
}
