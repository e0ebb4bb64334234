//! One run of one program: the product under a chosen order, or the model of a faulty design.
//!
//! A product's program asks for the memory again by [`Trial::ask`], which knows what the answer
//! must be. A model hands a piece of memory out itself, by [`Shelf`], when its design believes
//! that to be safe; the checker is asked at every hand-out.

use std::any::Any;
use std::cell::{Cell, RefCell};

use allocator::{Allocator, Config};
use streams::{Context, DeviceSpan, Stream};

use crate::scenarios::rig::{Desk, Gate, Held, Rig as _, WHOLE, take};
use crate::simulated_rig::SimulatedRig;

/// What orders the work that used the memory before the request for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Nothing, and that work is held up: the memory must not come back.
    Held,
    /// Nothing, and that work may end at any moment: the memory comes back if that was seen.
    Running,
    /// The order is known: the memory must come back, without a driver call.
    Present,
}

/// Which of two models runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// The faulty design.
    Wrong,
    /// The same with its fault mended: the checker has nothing to say.
    Right,
}

/// One run.
pub struct Trial<'rig> {
    pub rig: &'rig SimulatedRig,
    /// The context of another device, where the litmus needs one.
    pub other: Option<Context>,
    edge: Edge,
    /// Models run without them: what they do wrong is for the checker to find.
    has_assertions: bool,
    gates: RefCell<Vec<Gate<'rig>>>,
    kept: RefCell<Vec<Held<'rig>>>,
    belongings: RefCell<Vec<Box<dyn Any>>>,
    reused: Cell<bool>,
}

impl<'rig> Trial<'rig> {
    /// A run of the product.
    pub fn of_product(rig: &'rig SimulatedRig, other: Option<Context>, edge: Edge) -> Self {
        Self {
            rig,
            other,
            edge,
            has_assertions: true,
            gates: RefCell::default(),
            kept: RefCell::default(),
            belongings: RefCell::default(),
            reused: Cell::new(false),
        }
    }

    /// A run of a model.
    pub fn of_model(rig: &'rig SimulatedRig, other: Option<Context>) -> Self {
        Self { has_assertions: false, ..Self::of_product(rig, other, Edge::Held) }
    }

    pub fn desk(&self) -> &'rig Desk {
        self.rig.desk()
    }

    pub fn streams<const N: usize>(&self) -> [Stream; N] {
        self.desk().streams()
    }

    /// The context of the other device.
    pub fn elsewhere(&self) -> &Context {
        self.other.as_ref().expect("this litmus has two devices")
    }

    /// An allocator of the product.
    pub fn allocator(&self) -> Allocator {
        self.desk().allocator(Config::default())
    }

    /// A block that fills a piece of memory.
    pub fn take(&self, allocator: &Allocator, stream: &Stream) -> Held<'rig> {
        take(self.rig, allocator, stream, WHOLE)
    }

    pub fn has_edge(&self) -> bool {
        self.edge == Edge::Present
    }

    /// Holds a stream up, unless its work may end at any moment.
    pub fn hold(&self, stream: &Stream) {
        if self.edge != Edge::Running {
            self.gates.borrow_mut().push(self.desk().hold(stream));
        }
    }

    /// Queues a wait for a word in memory, which the host writes when it lets streams go on.
    pub fn wait_by_memory(&self, stream: &Stream) {
        self.gates.borrow_mut().push(self.desk().hold(stream));
    }

    /// Whether [`Trial::hold`] holds.
    pub fn is_held(&self) -> bool {
        self.edge != Edge::Running
    }

    /// Lets every held stream go on.
    pub fn open(&self) {
        self.gates.borrow_mut().clear();
    }

    /// Keeps something until everything has ended.
    pub fn keep(&self, belonging: impl Any) {
        self.belongings.borrow_mut().push(Box::new(belonging));
    }

    /// The order is known only by completion: lets everything end, and waits for one stream.
    pub fn end_of(&self, stream: &Stream) {
        self.open();
        stream.synchronize().expect("the stream ends");
    }

    /// The same, and waits for everything.
    pub fn end_of_all(&self) {
        self.open();
        self.desk().context().synchronize().expect("everything ends");
    }

    /// Asks for memory of this size on `stream`, and compares what comes with `freed`.
    pub fn ask(&self, allocator: &Allocator, stream: &Stream, (freed, bytes): (u64, u64)) -> bool {
        let before = self.rig.call_count();
        let block = take(self.rig, allocator, stream, bytes);
        let calls = self.rig.call_count() - before;
        let reused = block.address() == freed;
        if self.has_assertions {
            match self.edge {
                Edge::Held => assert!(!reused, "handed out while it was in use"),
                Edge::Running => {}
                Edge::Present => {
                    assert!(reused, "known to come before, and not handed out");
                    assert_eq!(calls, 0, "driver calls where order was known");
                }
            }
        }
        block.fill(stream, 99);
        block.check(stream, 99);
        self.kept.borrow_mut().push(block);
        self.reused.set(self.reused.get() | reused);
        reused
    }

    /// Asks for memory on `stream`, whichever comes, and uses it.
    pub fn ask_anything(&self, allocator: &Allocator, stream: &Stream, bytes: u64) {
        let block = take(self.rig, allocator, stream, bytes);
        block.fill(stream, 98);
        block.check(stream, 98);
        self.kept.borrow_mut().push(block);
    }

    /// A piece of memory for a model.
    pub fn shelf(&self) -> Shelf<'rig> {
        let allocator = self.allocator();
        let owner = self.desk().stream();
        let block = allocator.allocate(&owner, WHOLE).expect("memory");
        let range = Held::range_of(&block);
        self.keep((block, owner));
        Shelf { rig: self.rig, range }
    }

    /// Everything ends; whether the memory came back, and what was found wrong.
    pub fn end(self) -> (bool, Vec<String>) {
        self.open();
        let ended = self.desk().context().synchronize();
        if self.has_assertions {
            ended.expect("everything ends");
            assert_eq!(self.desk().mismatches(), 0, "words were lost");
        }
        let hazards = self.rig.take_hazards().iter().map(ToString::to_string).collect();
        self.kept.borrow_mut().clear();
        self.belongings.borrow_mut().clear();
        (self.reused.get(), hazards)
    }
}

/// A piece of memory that a model hands out and takes back as its design says.
pub struct Shelf<'rig> {
    rig: &'rig SimulatedRig,
    range: DeviceSpan,
}

impl Shelf<'_> {
    /// Hands the memory out.
    pub fn lend(&self, stream: &Stream) {
        self.rig.born(self.range, stream.id());
    }

    /// Takes it back.
    pub fn take_back(&self, stream: &Stream) {
        self.rig.dead(self.range, stream.id());
    }

    /// Work on the memory.
    pub fn write(&self, stream: &Stream, word: u32) {
        self.rig.desk().fill(stream, self.range, word);
    }

    /// Hands the memory out for work that follows at once.
    pub fn lend_and_write(&self, stream: &Stream) {
        self.lend(stream);
        self.write(stream, 99);
    }

    /// The memory was handed out, used on a stream that is held up, and freed there.
    pub fn freed_in_use(&self, trial: &Trial<'_>, home: &Stream) {
        self.lend(home);
        trial.hold(home);
        self.write(home, 1);
        self.take_back(home);
    }

    /// The memory was handed out for `home`, and each user is held up in its work on it.
    pub fn used_on(&self, trial: &Trial<'_>, home: &Stream, users: &[&Stream]) {
        self.lend(home);
        self.write(home, 1);
        for user in users {
            user.wait_stream(home).expect("a wait");
            trial.hold(user);
            self.rig.desk().check(user, self.range, 1);
        }
    }
}
