//! Two host threads that take turns as a seed says: L2, L14, L19, L20 and L22.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use allocator::{Block, Config};
use cuda_sim::Machine;
use streams::{Event, Stream};

use super::Litmus;
use super::trial::Design;
use crate::scenarios::rig::WHOLE;
use crate::stage::Stage;

/// Something that happened on another thread.
#[derive(Default)]
struct Flag(AtomicBool);

impl Flag {
    /// Raises it, and lets the other thread look.
    fn raise(&self, machine: &Machine) {
        self.0.store(true, Ordering::SeqCst);
        machine.yield_point();
    }

    fn is_up(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn wait(&self, machine: &Machine) {
        machine.wait_until(|| self.is_up());
    }
}

/// A block of the first stream's for a program, or for a model to hand out.
fn stage<const N: usize>(machine: &Machine) -> (Stage<'_>, [Stream; N]) {
    let stage = Stage::new(machine, Config::default());
    let streams = std::array::from_fn(|_| stage.stream());
    (stage, streams)
}

/// Asks for the memory again, uses it, and gives it back.
fn ask(stage: &Stage<'_>, stream: &Stream, freed: u64) -> bool {
    let block = stage.take(stream, WHOLE);
    stage.write(stream, &block);
    let reused = block.address() == freed;
    stage.give_back(stream, block);
    reused
}

/// One thread frees while another first does `acts`, then asks for the memory on another stream.
fn freed_beside(
    machine: &Machine,
    is_ordered: bool,
    acts: impl FnOnce(&Stage<'_>, &Stream, &Event) + Send,
) -> bool {
    let (stage, [home, next]) = stage(machine);
    let x = stage.take(&home, WHOLE);
    let event = home.record_event().expect("an event");
    let (address, freed, reused) = (x.address(), Flag::default(), Flag::default());
    machine.run_threads(vec![
        Box::new(|| {
            stage.write(&home, &x);
            stage.give_back(&home, x);
            home.record(&event).expect("a record");
            freed.raise(machine);
        }),
        Box::new(|| {
            if is_ordered {
                freed.wait(machine);
            }
            acts(&stage, &next, &event);
            if ask(&stage, &next, address) {
                reused.raise(machine);
            }
        }),
    ]);
    stage.end();
    reused.is_up()
}

/// A model's piece of memory, and its first tenant's last work on it.
fn model(
    machine: &Machine,
    first: impl FnOnce(&Stage<'_>, &Stream, &Block, &Event) + Send,
    second: impl FnOnce(&Stage<'_>, &Stream, &Block, &Event) + Send,
) -> Vec<String> {
    let (stage, [home, next]) = stage(machine);
    let block = stage.allocator.allocate(&home, WHOLE).expect("memory");
    stage.lend(&home, &block);
    let event = home.record_event().expect("an event");
    event.synchronize().expect("nothing is queued");
    machine.run_threads(vec![
        Box::new(|| first(&stage, &home, &block, &event)),
        Box::new(|| second(&stage, &next, &block, &event)),
    ]);
    stage.found()
}

fn free_on(stage: &Stage<'_>, home: &Stream, block: &Block) {
    stage.write(home, block);
    stage.take_back(home, block);
}

fn lend_and_write(stage: &Stage<'_>, stream: &Stream, block: &Block) {
    stage.lend(stream, block);
    stage.write(stream, block);
}

pub const L2: Litmus = Litmus::threads(
    "L2",
    "a block is in the free list before its event is recorded, which still says done",
    |machine, is_ordered| {
        let (stage, [home, user]) = stage(machine);
        let x = stage.take(&home, WHOLE);
        stage.write(&home, &x);
        user.wait_stream(&home).expect("a wait");
        stage.write(&user, &x);
        x.record_stream(&user);
        let (address, freed, reused) = (x.address(), Flag::default(), Flag::default());
        machine.run_threads(vec![
            Box::new(|| {
                stage.give_back(&home, x);
                freed.raise(machine);
            }),
            Box::new(|| {
                if is_ordered {
                    freed.wait(machine);
                    home.wait_stream(&user).expect("a wait");
                }
                if ask(&stage, &home, address) {
                    reused.raise(machine);
                }
            }),
        ]);
        stage.end();
        reused.is_up()
    },
    |machine, design| {
        let published = Flag::default();
        model(
            machine,
            |stage, home, block, event| {
                free_on(stage, home, block);
                if design == Design::Wrong {
                    published.raise(machine);
                }
                home.record(event).expect("a record");
                published.raise(machine);
            },
            |stage, next, block, event| {
                published.wait(machine);
                if event.query().expect("an answer") {
                    lend_and_write(stage, next, block);
                }
            },
        )
    },
);

pub const L14: Litmus = Litmus::threads(
    "L14",
    "after a synchronization everything freed by then counts as complete",
    |machine, is_ordered| {
        freed_beside(machine, is_ordered, |stage, _, _| {
            stage.context.synchronize().expect("all ends");
        })
    },
    |machine, design| {
        let freed = Flag::default();
        model(
            machine,
            |stage, home, block, _| {
                free_on(stage, home, block);
                freed.raise(machine);
            },
            |stage, next, block, _| {
                let before = freed.is_up();
                stage.context.synchronize().expect("all ends");
                if before || (design == Design::Wrong && freed.is_up()) {
                    lend_and_write(stage, next, block);
                }
            },
        )
    },
);

/// A model that asks which record an event stands for after a call about it, or before.
fn asked_after(
    machine: &Machine,
    design: Design,
    call: impl FnOnce(&Stream, &Event) + Send,
) -> Vec<String> {
    let records = AtomicU32::new(0);
    let last = || records.load(Ordering::SeqCst);
    model(
        machine,
        |stage, home, block, event| {
            free_on(stage, home, block);
            home.record(event).expect("a record");
            records.fetch_add(1, Ordering::SeqCst);
        },
        |stage, next, block, event| {
            let before = last();
            call(next, event);
            machine.yield_point();
            let credited = if design == Design::Wrong { last() } else { before };
            if credited == 1 {
                lend_and_write(stage, next, block);
            }
        },
    )
}

pub const L19_THREADS: Litmus = Litmus::threads(
    "L19 (threads)",
    "a wait is credited with the record that is the last one when it returns",
    |machine, is_ordered| {
        freed_beside(machine, is_ordered, |_, next, event| {
            next.wait_event(event).expect("a wait");
        })
    },
    |machine, design| {
        asked_after(machine, design, |next, event| next.wait_event(event).expect("a wait"))
    },
);

pub const L20: Litmus = Litmus::threads(
    "L20",
    "a synchronization is credited with the record that is the last one when it returns",
    |machine, is_ordered| {
        freed_beside(machine, is_ordered, |_, _, event| {
            event.synchronize().expect("an event passes");
        })
    },
    |machine, design| {
        asked_after(machine, design, |_, event| event.synchronize().expect("an event passes"))
    },
);

pub const L22: Litmus = Litmus::threads(
    "L22",
    "the per-thread stream is fenced by the thread that frees, which means its own",
    |machine, is_ordered| {
        let (stage, [home]) = stage(machine);
        let x = stage.take(&home, WHOLE);
        let address = x.address();
        let (used, asked, fenced) = (Flag::default(), Flag::default(), Flag::default());
        let (parcel, reused) = (Mutex::new(None), Flag::default());
        machine.run_threads(vec![
            Box::new(|| {
                let own = stage.context.per_thread_stream().expect("a stream");
                own.wait_stream(&home).expect("a wait");
                stage.write(&own, &x);
                x.record_stream(&own);
                *parcel.lock().expect("no panic") = Some(x);
                used.raise(machine);
                asked.wait(machine);
                own.synchronize().expect("it ends");
                fenced.raise(machine);
            }),
            Box::new(|| {
                used.wait(machine);
                let x = parcel.lock().expect("no panic").take();
                stage.give_back(&home, x.expect("it was passed on"));
                let kept = stage.take(&home, WHOLE);
                stage.write(&home, &kept);
                assert_ne!(kept.address(), address, "nobody has fenced the other thread's stream");
                asked.raise(machine);
                if is_ordered {
                    fenced.wait(machine);
                }
                if ask(&stage, &home, address) {
                    reused.raise(machine);
                }
                stage.give_back(&home, kept);
            }),
        ]);
        stage.end();
        reused.is_up()
    },
    |machine, design| {
        let (used, fence) = (Flag::default(), Mutex::new(None));
        model(
            machine,
            |stage, home, block, _| {
                let own = stage.context.per_thread_stream().expect("a stream");
                own.wait_stream(home).expect("a wait");
                stage.write(&own, block);
                if design == Design::Right {
                    *fence.lock().expect("no panic") = Some(own.record_event().expect("one"));
                }
                used.raise(machine);
            },
            |stage, next, block, _| {
                used.wait(machine);
                stage.take_back(next, block);
                let fence = fence.lock().expect("no panic").take().unwrap_or_else(|| {
                    let own = stage.context.per_thread_stream().expect("a stream");
                    own.record_event().expect("an event")
                });
                next.wait_event(&fence).expect("a wait");
                lend_and_write(stage, next, block);
            },
        )
    },
);
