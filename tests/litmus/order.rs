//! What records and waits make known: L4, L5, L16 to L19, L21, L26 and L28.

use cuda_sim::FaultPlan;
use cuda_sys::CUresult;
use streams::Event;

use super::Litmus;
use super::trial::{Design, Trial};
use crate::scenarios::rig::WHOLE;

pub const L4: Litmus = Litmus::alone(
    "L4",
    "an event is recorded when the use is announced, and later work is missed",
    |trial| {
        let allocator = trial.allocator();
        let [home, user] = trial.streams();
        let x = trial.take(&allocator, &home);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        x.check(&user, 1);
        x.block().record_stream(&user);
        home.wait_stream(&user).expect("a wait");
        trial.hold(&user);
        x.check(&user, 1);
        if trial.has_edge() {
            home.wait_stream(&user).expect("a wait");
        }
        let freed = x.free();
        trial.ask(&allocator, &home, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, user]) = (trial.shelf(), trial.streams());
        shelf.used_on(trial, &home, &[]);
        user.wait_stream(&home).expect("a wait");
        shelf.write(&user, 1);
        let announced = user.record_event().expect("an event");
        trial.hold(&user);
        shelf.write(&user, 2);
        shelf.take_back(&home);
        let at_the_free = user.record_event().expect("an event");
        let event = if design == Design::Wrong { announced } else { at_the_free };
        home.wait_event(&event).expect("a wait");
        shelf.lend_and_write(&home);
    },
);

pub const L5: Litmus = Litmus::alone(
    "L5",
    "a block is stamped when it is handed out, and not when it is freed",
    |trial| {
        let allocator = trial.allocator();
        let [home, next] = trial.streams();
        let x = trial.take(&allocator, &home);
        x.fill(&home, 1);
        next.wait_event(&home.record_event().expect("an event")).expect("a wait");
        trial.hold(&home);
        x.check(&home, 1);
        let freed = x.free();
        if trial.has_edge() {
            next.wait_stream(&home).expect("a wait");
        }
        trial.ask(&allocator, &next, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, next]) = (trial.shelf(), trial.streams());
        shelf.lend(&home);
        let handed_out = home.record_event().expect("an event");
        trial.hold(&home);
        shelf.write(&home, 1);
        shelf.take_back(&home);
        let freed = home.record_event().expect("an event");
        let stamp = if design == Design::Wrong { handed_out } else { freed };
        next.wait_event(&stamp).expect("a wait");
        shelf.lend_and_write(&next);
    },
);

pub const L16: Litmus = Litmus::alone(
    "L16",
    "a wait that covers the first use on a stream ends the second as well",
    |trial| {
        let allocator = trial.allocator();
        let [home, user] = trial.streams();
        let x = trial.take(&allocator, &home);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        x.check(&user, 1);
        let _first = x.block().record_use(&user);
        home.wait_stream(&user).expect("a wait");
        trial.hold(&user);
        x.check(&user, 1);
        let _second = x.block().record_use(&user);
        let freed = x.free();
        if trial.has_edge() {
            home.wait_stream(&user).expect("a wait");
        }
        trial.ask(&allocator, &home, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, user]) = (trial.shelf(), trial.streams());
        shelf.used_on(trial, &home, &[]);
        user.wait_stream(&home).expect("a wait");
        shelf.write(&user, 1);
        home.wait_stream(&user).expect("a wait");
        trial.hold(&user);
        shelf.write(&user, 2);
        shelf.take_back(&home);
        // The wrong set of uses is by stream, and the wait has taken the stream out.
        if design == Design::Right {
            home.wait_stream(&user).expect("a wait");
        }
        shelf.lend_and_write(&home);
    },
);

pub const L17: Litmus = Litmus::alone(
    "L17",
    "any event of the user's is taken to cover its use",
    |trial| {
        let allocator = trial.allocator();
        let [home, user] = trial.streams();
        let x = trial.take(&allocator, &home);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        let early = user.record_event().expect("an event");
        trial.hold(&user);
        x.check(&user, 1);
        let _used = x.block().record_use(&user);
        let late = user.record_event().expect("an event");
        home.wait_event(if trial.has_edge() { &late } else { &early }).expect("a wait");
        let freed = x.free();
        trial.ask(&allocator, &home, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, user]) = (trial.shelf(), trial.streams());
        let early = user.record_event().expect("an event");
        shelf.used_on(trial, &home, &[&user]);
        shelf.take_back(&home);
        let late = user.record_event().expect("an event");
        let event = if design == Design::Wrong { early } else { late };
        home.wait_event(&event).expect("a wait");
        shelf.lend_and_write(&home);
    },
);

pub const L18: Litmus = Litmus::alone(
    "L18",
    "a wait joins what the other stream knows now, not what it knew at the record",
    |trial| {
        let allocator = trial.allocator();
        let [a, b, c] = trial.streams();
        let x = trial.take(&allocator, &a);
        trial.hold(&a);
        x.fill(&a, 1);
        let freed = x.free();
        let from_a = a.record_event().expect("an event");
        let early = b.record_event().expect("an event");
        b.wait_event(&from_a).expect("a wait");
        let late = b.record_event().expect("an event");
        c.wait_event(if trial.has_edge() { &late } else { &early }).expect("a wait");
        trial.ask(&allocator, &c, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [a, b, c]) = (trial.shelf(), trial.streams());
        shelf.freed_in_use(trial, &a);
        let early = b.record_event().expect("an event");
        b.wait_stream(&a).expect("a wait");
        let late = b.record_event().expect("an event");
        c.wait_event(if design == Design::Wrong { &early } else { &late }).expect("a wait");
        shelf.lend_and_write(&c);
    },
);

pub const L19: Litmus = Litmus::alone(
    "L19",
    "an event stands for all its records",
    |trial| {
        let allocator = trial.allocator();
        let [a, b, c] = trial.streams();
        let x = trial.take(&allocator, &a);
        trial.hold(&a);
        x.fill(&a, 1);
        let freed = x.free();
        let event = trial.desk().context().create_event().expect("an event");
        let order = if trial.has_edge() { [&b, &a] } else { [&a, &b] };
        for stream in order {
            stream.record(&event).expect("a record");
        }
        c.wait_event(&event).expect("a wait");
        trial.ask(&allocator, &c, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [a, b, c]) = (trial.shelf(), trial.streams());
        shelf.freed_in_use(trial, &a);
        let event = a.record_event().expect("an event");
        if design == Design::Wrong {
            b.record(&event).expect("a record");
        }
        c.wait_event(&event).expect("a wait");
        shelf.lend_and_write(&c);
    },
);

pub const L21: Litmus = Litmus::alone(
    "L21",
    "a wait is not counted as a submission, so a free after it is stamped with an older mark",
    |trial| {
        let allocator = trial.allocator();
        let [a, s, t] = trial.streams();
        let x = trial.take(&allocator, &a);
        trial.hold(&a);
        x.fill(&a, 1);
        let freed = x.free();
        s.record_event().expect("an event").synchronize().expect("nothing is queued");
        s.wait_stream(&a).expect("a wait");
        let passed_on = trial.take(&allocator, &s);
        assert_eq!(passed_on.address(), freed);
        passed_on.give_back();
        if trial.has_edge() {
            t.wait_stream(&s).expect("a wait");
        }
        trial.ask(&allocator, &t, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [a, s, t]) = (trial.shelf(), trial.streams());
        shelf.freed_in_use(trial, &a);
        let mark = s.record_event().expect("an event");
        s.wait_stream(&a).expect("a wait");
        shelf.lend(&s);
        shelf.take_back(&s);
        // Nothing seems to have been submitted since the mark.
        let stamp = if design == Design::Wrong { mark } else { s.record_event().expect("one") };
        if stamp.query().expect("an answer") {
            shelf.lend_and_write(&t);
        }
    },
);

/// The next call of an entry point does nothing and fails.
fn fail_next(trial: &Trial<'_>, call: &'static str) {
    let code = CUresult::CUDA_ERROR_INVALID_VALUE;
    trial.rig.machine().fail(FaultPlan::next(call, code));
}

pub const L26_WAIT: Litmus = Litmus::alone(
    "L26 (wait)",
    "a wait counts before it has succeeded",
    |trial| {
        let allocator = trial.allocator();
        let [home, next] = trial.streams();
        let x = trial.take(&allocator, &home);
        trial.hold(&home);
        x.fill(&home, 1);
        let freed = x.free();
        let event = home.record_event().expect("an event");
        fail_next(trial, "cuStreamWaitEvent");
        next.wait_event(&event).expect_err("the wait fails");
        if trial.has_edge() {
            next.wait_event(&event).expect("a wait");
        }
        trial.ask(&allocator, &next, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, next]) = (trial.shelf(), trial.streams());
        shelf.freed_in_use(trial, &home);
        fail_next(trial, "cuStreamWaitEvent");
        let waited = next.wait_stream(&home);
        if design == Design::Wrong || waited.is_ok() {
            shelf.lend_and_write(&next);
        }
    },
);

pub const L26_RECORD: Litmus = Litmus::alone(
    "L26 (record)",
    "a record counts before it has succeeded",
    |trial| {
        let allocator = trial.allocator();
        let [home, next] = trial.streams();
        let event: Event = home.record_event().expect("an event");
        let x = trial.take(&allocator, &home);
        trial.hold(&home);
        x.fill(&home, 1);
        let freed = x.free();
        fail_next(trial, "cuEventRecord");
        home.record(&event).expect_err("the record fails");
        if trial.has_edge() {
            home.record(&event).expect("a record");
        }
        next.wait_event(&event).expect("a wait");
        trial.ask(&allocator, &next, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, next]) = (trial.shelf(), trial.streams());
        let event = home.record_event().expect("an event");
        shelf.freed_in_use(trial, &home);
        fail_next(trial, "cuEventRecord");
        let recorded = home.record(&event);
        next.wait_event(&event).expect("a wait");
        if design == Design::Wrong || recorded.is_ok() {
            shelf.lend_and_write(&next);
        }
    },
);

pub const L28: Litmus = Litmus::alone(
    "L28",
    "a synchronous copy that returned is taken for the end of everything",
    |trial| {
        let allocator = trial.allocator();
        let [a, b] = trial.streams();
        let source = trial.take(&allocator, &b);
        source.fill(&b, 7);
        let x = trial.take(&allocator, &a);
        trial.hold(&a);
        x.fill(&a, 1);
        let freed = x.free();
        if trial.has_edge() {
            b.wait_stream(&a).expect("a wait");
            trial.open();
        }
        let mut host = [0; 4];
        let _copied = b.copy_to_host(&mut host, source.block(), 0).expect("a copy");
        assert_eq!(host, 7_u32.to_le_bytes());
        trial.ask(&allocator, &b, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [a, b]) = (trial.shelf(), trial.streams());
        let allocator = trial.allocator();
        let source = allocator.allocate(&b, WHOLE).expect("memory");
        shelf.freed_in_use(trial, &a);
        let mut host = [0; 4];
        let _copied = b.copy_to_host(&mut host, &source, 0).expect("a copy");
        if design == Design::Right {
            trial.end_of(&a);
        }
        shelf.lend_and_write(&b);
    },
);
