//! Missing order between streams, and waits that do not cover what they should.

use checker::Kind;
use wellspring::{CaptureMode, Submission};

use super::{Planted, Stage};

macro_rules! planted {
    ($($name:ident $kind:ident)*) => {
        /// The faults of this file.
        pub const ALL: &[Planted] = &[$(
            Planted { name: stringify!($name), kind: Kind::$kind, program: $name },
        )*];
    };
}

planted! {
    a_user_does_not_wait_for_the_allocation UseBeforeAllocation
    a_reader_does_not_wait_for_the_writer UnorderedAccess
    a_writer_does_not_wait_for_the_reader UnorderedAccess
    two_writers_run_side_by_side UnorderedAccess
    the_wrong_one_of_two_waits UnorderedAccess
    a_third_stream_is_forgotten UnorderedAccess
    a_wait_comes_before_the_write UnorderedAccess
    a_host_copy_does_not_wait UnorderedAccess
    parts_of_two_writers_overlap UnorderedAccess
    an_order_is_lost_on_the_way UnorderedAccess
    a_replay_is_not_waited_for UnorderedAccess
    an_event_is_recorded_before_the_write WrongEvent
    an_event_is_never_recorded WrongEvent
    an_event_of_another_stream_is_waited_for UnorderedAccess
    an_event_is_recorded_anew_elsewhere UnorderedAccess
}

fn a_user_does_not_wait_for_the_allocation(stage: &Stage, broken: bool) {
    let [home, user, _] = &stage.streams;
    let mut earlier = stage.buffer(home);
    stage.busy(home);
    stage.write(home, &mut earlier);
    drop(earlier);
    let mut buffer = stage.buffer(home);
    if !broken {
        user.wait_stream(home).expect("a wait");
    }
    stage.write(user, &mut buffer);
}

fn a_reader_does_not_wait_for_the_writer(stage: &Stage, broken: bool) {
    let [writer, reader, _] = &stage.streams;
    let mut buffer = stage.buffer(writer);
    stage.write(writer, &mut buffer);
    if !broken {
        reader.wait_stream(writer).expect("a wait");
    }
    stage.read(reader, &buffer);
}

fn a_writer_does_not_wait_for_the_reader(stage: &Stage, broken: bool) {
    let [writer, reader, _] = &stage.streams;
    let mut buffer = stage.buffer(writer);
    stage.write(writer, &mut buffer);
    reader.wait_stream(writer).expect("a wait");
    stage.read(reader, &buffer);
    if !broken {
        writer.wait_stream(reader).expect("a wait");
    }
    stage.write(writer, &mut buffer);
}

fn two_writers_run_side_by_side(stage: &Stage, broken: bool) {
    let [home, one, other] = &stage.streams;
    let mut buffer = stage.buffer(home);
    one.wait_stream(home).expect("a wait");
    other.wait_stream(home).expect("a wait");
    stage.write(one, &mut buffer);
    if !broken {
        other.wait_stream(one).expect("a wait");
    }
    stage.write(other, &mut buffer);
}

fn the_wrong_one_of_two_waits(stage: &Stage, broken: bool) {
    let [writer, reader, _] = &stage.streams;
    let mut buffer = stage.buffer(writer);
    stage.write(writer, &mut buffer);
    if broken {
        writer.wait_stream(reader).expect("a wait");
    } else {
        reader.wait_stream(writer).expect("a wait");
    }
    stage.read(reader, &buffer);
}

fn a_third_stream_is_forgotten(stage: &Stage, broken: bool) {
    let [first, second, reader] = &stage.streams;
    let mut buffer = stage.buffer(first);
    stage.write(first, &mut buffer);
    second.wait_stream(first).expect("a wait");
    stage.write(second, &mut buffer);
    // The first stream is not after the second.
    reader.wait_stream(if broken { first } else { second }).expect("a wait");
    stage.read(reader, &buffer);
}

fn a_wait_comes_before_the_write(stage: &Stage, broken: bool) {
    let [writer, reader, _] = &stage.streams;
    let mut buffer = stage.buffer(writer);
    stage.busy(writer);
    if broken {
        reader.wait_stream(writer).expect("a wait");
    }
    stage.write(writer, &mut buffer);
    if !broken {
        reader.wait_stream(writer).expect("a wait");
    }
    stage.read(reader, &buffer);
}

fn a_host_copy_does_not_wait(stage: &Stage, broken: bool) {
    let [writer, reader, _] = &stage.streams;
    let mut buffer = stage.buffer(writer);
    stage.write(writer, &mut buffer);
    if !broken {
        reader.wait_stream(writer).expect("a wait");
    }
    let _words = buffer.to_vec(reader).expect("a copy");
}

fn parts_of_two_writers_overlap(stage: &Stage, broken: bool) {
    let [home, one, other] = &stage.streams;
    let buffer = stage.buffer(home);
    one.wait_stream(home).expect("a wait");
    other.wait_stream(home).expect("a wait");
    let half = buffer.bytes() / 2;
    let start = if broken { half - 4 } else { half };
    let first = one.fill_bytes(&buffer, 0, half, 1);
    let second = other.fill_bytes(&buffer, start, half, 2);
    let _queued: [Submission; 2] = [first, second].map(|queued| queued.expect("a fill"));
}

fn an_order_is_lost_on_the_way(stage: &Stage, broken: bool) {
    let [writer, between, reader] = &stage.streams;
    let mut buffer = stage.buffer(writer);
    stage.write(writer, &mut buffer);
    let passed_on = |stage: &Stage| {
        between.wait_stream(writer).expect("a wait");
        stage.busy(between);
    };
    stage.busy(between);
    if !broken {
        passed_on(stage);
    }
    reader.wait_stream(between).expect("a wait");
    if broken {
        // Too late for the reader, which waited before.
        passed_on(stage);
    }
    stage.read(reader, &buffer);
}

fn a_replay_is_not_waited_for(stage: &Stage, broken: bool) {
    let [home, runner, reader] = &stage.streams;
    let mut buffer = stage.buffer(home);
    stage.write(home, &mut buffer);
    let capture = runner.begin_capture(CaptureMode::ThreadLocal).expect("a capture");
    stage.write(runner, &mut buffer);
    let graph = capture.end().expect("a graph").instantiate().expect("an executable");
    runner.wait_stream(home).expect("a wait");
    let _replay = graph.launch(runner).expect("a replay");
    reader.wait_stream(if broken { home } else { runner }).expect("a wait");
    stage.read(reader, &buffer);
}

fn an_event_is_recorded_before_the_write(stage: &Stage, broken: bool) {
    let [writer, reader, _] = &stage.streams;
    let mut buffer = stage.buffer(writer);
    let event = stage.runtime.context().create_event().expect("an event");
    stage.busy(writer);
    writer.record(&event).expect("a record");
    stage.write(writer, &mut buffer);
    if !broken {
        writer.record(&event).expect("a record");
    }
    reader.wait_event(&event).expect("a wait");
    stage.read(reader, &buffer);
}

fn an_event_is_never_recorded(stage: &Stage, broken: bool) {
    let [writer, reader, _] = &stage.streams;
    let mut buffer = stage.buffer(writer);
    let event = stage.runtime.context().create_event().expect("an event");
    stage.write(writer, &mut buffer);
    if !broken {
        writer.record(&event).expect("a record");
    }
    // A program that does not look at the outcome goes on without order.
    let _unseen = reader.wait_event(&event);
    stage.read(reader, &buffer);
}

fn an_event_of_another_stream_is_waited_for(stage: &Stage, broken: bool) {
    let [writer, other, reader] = &stage.streams;
    let mut buffer = stage.buffer(writer);
    stage.write(writer, &mut buffer);
    stage.busy(other);
    let recorded = if broken { other } else { writer };
    let event = recorded.record_event().expect("an event");
    reader.wait_event(&event).expect("a wait");
    stage.read(reader, &buffer);
}

fn an_event_is_recorded_anew_elsewhere(stage: &Stage, broken: bool) {
    let [writer, other, reader] = &stage.streams;
    let mut buffer = stage.buffer(writer);
    stage.write(writer, &mut buffer);
    stage.busy(other);
    let event = writer.record_event().expect("an event");
    if broken {
        other.record(&event).expect("a record");
    }
    reader.wait_event(&event).expect("a wait");
    stage.read(reader, &buffer);
}
