//! Blocks of a program: asked for, used in order, given back.

use allocator::{AllocError, Block, Hold};
use streams::{DeviceSpan, Stream, StreamOrder};

use crate::meetings::Side;
use crate::operation::{BlockName, Fault, Join, StreamName, Told, Way};
use crate::outcome::Feature;
use crate::raw::uncounted;
use crate::stand::{Parcel, range};
use crate::world::{Done, Known, World};

/// Memory that was handed out, and what the program knows of it.
pub(crate) struct Piece {
    pub(crate) range: DeviceSpan,
    /// The stream it was asked for on.
    pub(crate) home: StreamName,
    /// The streams that the allocator was told of, with everything that is there, by their ids.
    pub(crate) recorded: Vec<u64>,
    /// What keeps it: the handle, until it is given back.
    pub(crate) owner: Option<Block>,
    /// What else keeps it: graphs.
    pub(crate) graphs: usize,
    /// Whether a graph ever used it: one that is gone may keep it until its replays are done.
    pub(crate) was_captured: bool,
    pub(crate) word: Option<u32>,
    /// Who wrote it last; the home, by being handed it.
    pub(crate) writer: StreamOrder,
    pub(crate) readers: Vec<StreamOrder>,
}

/// Memory that is kept by a hold, and by graphs that used it.
pub(crate) struct Kept {
    hold: Hold,
    block: BlockName,
}

impl Piece {
    fn new(block: Block, name: StreamName, home: &Stream) -> Self {
        Self {
            range: range(&block),
            home: name,
            recorded: Vec::new(),
            owner: Some(block),
            graphs: 0,
            was_captured: false,
            word: None,
            writer: home.order().clone(),
            readers: Vec::new(),
        }
    }

    /// Those that touched it, as far as a new use must come after them.
    pub(crate) fn users(&self, writes: bool) -> Vec<StreamOrder> {
        let mut users = vec![self.writer.clone()];
        if writes {
            users.extend(self.readers.iter().cloned());
        }
        users
    }

    /// A stream writes it.
    pub(crate) fn written(&mut self, stream: &Stream, word: u32) {
        self.word = Some(word);
        self.writer = stream.order().clone();
        self.readers.clear();
    }

    /// A stream reads it.
    pub(crate) fn read(&mut self, stream: &Stream) {
        if self.readers.iter().all(|reader| reader.id() != stream.id()) {
            self.readers.push(stream.order().clone());
        }
    }
}

impl World<'_> {
    pub(crate) fn allocate(
        &mut self,
        name: BlockName,
        home: StreamName,
        bytes: u64,
        fault: Option<Fault>,
    ) -> Done {
        let Known { stream, handle } = self.known(home)?;
        let memory = self.memory_of(name);
        let look = self.look(memory, &stream, bytes);
        let (served, struck) =
            self.with_fault_for(name, fault, |_| memory.allocate(&stream, bytes));
        self.judge_request(look, served.is_ok());
        self.note_place(name, served.as_ref().ok().map(Block::address));
        let block = match served {
            Ok(block) => block,
            Err(AllocError::OutOfMemory(_) | AllocError::TooLarge { .. }) => {
                self.tally.reached.add(Feature::OutOfMemory);
                return Some(());
            }
            Err(error) => {
                assert!(struck, "a request without a fault failed: {error}");
                return Some(());
            }
        };
        // Work of a graph that captures now is ordered after nothing.
        let asked_of = if stream.order().is_capturing() { self.stand.judge.handle } else { handle };
        self.stand.born(range(&block), handle, asked_of);
        let is_of_pool = !std::ptr::eq(memory, self.allocator);
        self.tally.reached.add_if(is_of_pool, Feature::Pool);
        self.tally.addresses.push(block.address());
        self.pieces.insert(name, Piece::new(block, home, &stream));
        Some(())
    }

    pub(crate) fn free(&mut self, name: BlockName, way: Way, fault: Option<Fault>) -> Done {
        let memory = self.memory_of(name);
        let block = self.take_owner(name)?;
        let (freed, struck) = self.with_fault_for(name, fault, |_| match way {
            Way::Free => block.free(),
            Way::Drop => {
                drop(block);
                Ok(())
            }
            Way::Raw => {
                let raw = block.into_raw();
                memory.from_raw(raw).expect("it is allocated").free()
            }
        });
        if let Err(error) = freed {
            assert!(struck, "a free without a fault failed: {error}");
        }
        Some(())
    }

    /// Frees a block while a hold keeps it.
    pub(crate) fn free_held(&mut self, name: BlockName) -> Done {
        let hold = self.pieces.get(&name)?.owner.as_ref()?.hold();
        self.kept.push(Kept { hold, block: name });
        self.tally.reached.add(Feature::Hold);
        // The hold is counted as a graph would be.
        self.pieces.get_mut(&name)?.graphs += 1;
        drop(self.take_owner(name)?);
        Some(())
    }

    pub(crate) fn end_hold(&mut self) -> Done {
        let Kept { hold, block } = (!self.kept.is_empty()).then(|| self.kept.remove(0))?;
        self.leave(block);
        drop(hold);
        Some(())
    }

    /// Takes a block from its piece; if nothing else keeps the memory, it is declared dead.
    pub(crate) fn take_owner(&mut self, name: BlockName) -> Option<Block> {
        let piece = self.pieces.get_mut(&name)?;
        let block = piece.owner.take()?;
        self.forget_unless_kept(name);
        Some(block)
    }

    /// One that keeps a piece goes.
    pub(crate) fn leave(&mut self, name: BlockName) {
        if let Some(piece) = self.pieces.get_mut(&name) {
            piece.graphs = piece.graphs.checked_sub(1).expect("it was kept");
            self.forget_unless_kept(name);
        }
    }

    fn forget_unless_kept(&mut self, name: BlockName) {
        let is_kept = |piece: &Piece| piece.owner.is_some() || 0 < piece.graphs;
        if let Some(piece) = self.pieces.get(&name)
            && !is_kept(piece)
        {
            self.stand.dead(piece.range);
            self.pieces.remove(&name);
        }
    }

    /// Reads or writes a block on some stream, in order with its earlier uses.
    pub(crate) fn use_block(
        &mut self,
        name: BlockName,
        stream: StreamName,
        writes: bool,
        told: Told,
        join: Join,
    ) -> Done {
        let stream = self.known(stream)?.stream;
        let piece = self.pieces.get(&name).filter(|piece| piece.owner.is_some())?;
        let writes = writes || piece.word.is_none();
        let users = piece.users(writes);
        self.order_all(&users, &stream, join).then_some(())?;
        let word = match piece_word(self.pieces.get(&name)?, writes) {
            Some(word) => word,
            None => self.new_word(),
        };
        let piece = self.pieces.get_mut(&name)?;
        let block = piece.owner.as_mut()?;
        let (stand, mut span) = (self.stand, uncounted(piece.range));
        let mut work = |block: Option<&mut Block>| match (block, writes) {
            (None, true) => stand.write(&stream, &mut span, word),
            (None, false) => stand.check(&stream, &span, word),
            (Some(block), true) => stand.write(&stream, block, word),
            (Some(block), false) => stand.check(&stream, block, word),
        };
        match told {
            Told::StreamBefore => {
                block.record_stream(&stream);
                work(None);
                piece.recorded.push(stream.id());
            }
            Told::StreamAfter => {
                work(None);
                block.record_stream(&stream);
                piece.recorded.push(stream.id());
            }
            Told::Exactly => {
                work(None);
                let _use = block.record_use(&stream);
            }
            Told::Announced => {
                let open = block.begin_use(&stream).expect("a living stream");
                work(None);
                let _use = open.sharpen();
            }
            Told::ByTheLaunch => work(Some(block)),
        }
        if writes {
            piece.written(&stream, word);
        } else {
            piece.read(&stream);
        }
        Some(())
    }

    /// Sends a block to another thread. What a graph uses stays here.
    pub(crate) fn send(&mut self, name: BlockName) -> Done {
        let piece = self.pieces.get(&name)?;
        (piece.owner.is_some() && piece.graphs == 0).then_some(())?;
        let piece = self.pieces.remove(&name)?;
        self.stand.send(Parcel { from: self.thread, piece });
        Some(())
    }

    /// Writes what another thread sent, and gives it back.
    pub(crate) fn receive(&mut self, stream: StreamName, join: Join) -> Done {
        let stream = self.known(stream)?.stream;
        let _under_way = self.stand.meetings.begin(Side::Crossing)?;
        let piece = self.stand.receive(self.thread)?;
        let users = piece.users(true);
        if self.order_all(&users, &stream, join) {
            let word = self.new_word();
            self.stand.write(&stream, &mut uncounted(piece.range), word);
            let block = piece.owner.as_ref().expect("what is sent has its handle");
            block.record_stream(&stream);
        }
        self.give_back(piece);
        Some(())
    }

    /// Gives a piece back that nothing else keeps.
    pub(crate) fn give_back(&mut self, piece: Piece) {
        self.stand.dead(piece.range);
        let block = piece.owner.expect("it has its handle");
        block.free().expect("a free without a fault");
    }

    /// Gives everything back.
    pub(crate) fn end(&mut self) {
        self.open_gates();
        let graphs: Vec<_> = self.graphs.keys().copied().collect();
        for graph in graphs {
            let _dropped = self.drop_graph(graph);
        }
        let blocks: Vec<_> = self.pieces.keys().copied().collect();
        for block in blocks {
            let _freed = self.free(block, Way::Free, None);
        }
        while self.end_hold().is_some() {}
    }
}

/// The word that a read finds; nothing for a write.
fn piece_word(piece: &Piece, writes: bool) -> Option<u32> {
    piece.word.filter(|_| !writes)
}
