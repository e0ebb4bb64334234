//! Memory used after its free, handed to somebody else, or used without a word to the allocator.

use checker::Kind;

use super::{Planted, Stage, raw};

macro_rules! planted {
    ($($name:ident $kind:ident)*) => {
        /// The faults of this file.
        pub const ALL: &[Planted] = &[$(
            Planted { name: stringify!($name), kind: Kind::$kind, program: $name },
        )*];
    };
}

planted! {
    a_span_is_written_after_the_free UseAfterFree
    a_span_is_read_on_another_stream_after_the_free UseAfterFree
    a_graph_of_raw_memory_runs_after_the_free UseAfterFree
    a_launch_on_a_span_is_not_told UntoldUse
    a_copy_from_a_span_is_not_told UntoldUse
    a_use_is_recorded_before_the_last_launch UntoldUse
    the_home_waited_for_an_early_event WrongEvent
    a_stale_span_is_read StaleRead
    a_stale_span_is_read_on_another_stream StaleRead
}

fn a_span_is_written_after_the_free(stage: &Stage, broken: bool) {
    let [home, _, _] = &stage.streams;
    let buffer = stage.buffer(home);
    let mut span = raw(&buffer);
    let kept = if broken {
        drop(buffer);
        None
    } else {
        Some(buffer)
    };
    stage.write_raw(home, &mut span);
    drop(kept);
}

fn a_span_is_read_on_another_stream_after_the_free(stage: &Stage, broken: bool) {
    let [home, reader, _] = &stage.streams;
    let mut buffer = stage.buffer(home);
    stage.write(home, &mut buffer);
    reader.wait_stream(home).expect("a wait");
    buffer.record_stream(reader);
    let span = raw(&buffer);
    let kept = if broken {
        drop(buffer);
        None
    } else {
        Some(buffer)
    };
    stage.read_raw(reader, &span);
    drop(kept);
}

fn a_graph_of_raw_memory_runs_after_the_free(stage: &Stage, broken: bool) {
    let [home, _, _] = &stage.streams;
    let buffer = stage.buffer(home);
    let mut span = raw(&buffer);
    let capture = home.begin_capture(wellspring::CaptureMode::ThreadLocal).expect("a capture");
    stage.write_raw(home, &mut span);
    if !broken {
        capture.hold(Box::new(buffer.hold()));
    }
    let graph = capture.end().expect("a graph").instantiate().expect("an executable");
    drop(buffer);
    let _replay = graph.launch(home).expect("a replay");
}

fn a_launch_on_a_span_is_not_told(stage: &Stage, broken: bool) {
    let [home, user, _] = &stage.streams;
    let buffer = stage.buffer(home);
    user.wait_stream(home).expect("a wait");
    stage.busy(user);
    stage.write_raw(user, &mut raw(&buffer));
    if !broken {
        buffer.record_stream(user);
    }
    buffer.free().expect("a free");
}

fn a_copy_from_a_span_is_not_told(stage: &Stage, broken: bool) {
    let [home, user, _] = &stage.streams;
    let mut buffer = stage.buffer(home);
    stage.write(home, &mut buffer);
    user.wait_stream(home).expect("a wait");
    let target = stage.buffer(user);
    let bytes = buffer.bytes();
    let copied = user.copy_on_device(&target, 0, &raw(&buffer), 0, bytes);
    let _queued = copied.expect("a copy");
    if !broken {
        // Order instead of a word: the home comes after the copy.
        home.wait_stream(user).expect("a wait");
    }
    buffer.free().expect("a free");
}

fn a_use_is_recorded_before_the_last_launch(stage: &Stage, broken: bool) {
    let [home, user, _] = &stage.streams;
    let buffer = stage.buffer(home);
    user.wait_stream(home).expect("a wait");
    stage.write_raw(user, &mut raw(&buffer));
    let _first = buffer.record_use(user);
    stage.write_raw(user, &mut raw(&buffer));
    if !broken {
        let _second = buffer.record_use(user);
    }
    buffer.free().expect("a free");
}

fn the_home_waited_for_an_early_event(stage: &Stage, broken: bool) {
    let [home, user, _] = &stage.streams;
    let buffer = stage.buffer(home);
    user.wait_stream(home).expect("a wait");
    stage.busy(user);
    let event = user.record_event().expect("an event");
    stage.write_raw(user, &mut raw(&buffer));
    if !broken {
        user.record(&event).expect("a record");
    }
    home.wait_event(&event).expect("a wait");
    buffer.free().expect("a free");
}

fn a_stale_span_is_read(stage: &Stage, broken: bool) {
    let [home, _, _] = &stage.streams;
    let mut first = stage.buffer(home);
    stage.write(home, &mut first);
    let span = raw(&first);
    let kept = (!broken).then_some(first);
    let second = stage.buffer(home);
    assert_eq!(second.address() == span.span().address, broken, "its memory is handed out again");
    stage.read_raw(home, &span);
    drop(kept);
}

fn a_stale_span_is_read_on_another_stream(stage: &Stage, broken: bool) {
    let [home, reader, _] = &stage.streams;
    let mut first = stage.buffer(home);
    stage.write(home, &mut first);
    let span = raw(&first);
    let kept = (!broken).then_some(first);
    let second = stage.buffer(home);
    reader.wait_stream(home).expect("a wait");
    stage.read_raw(reader, &span);
    for buffer in kept.iter().chain([&second]) {
        buffer.record_stream(reader);
    }
}
