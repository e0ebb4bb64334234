//! What the checker for users says of the reported programs, where nobody was told of a use.

use checker::{Kind, Report};
use cuda_sim::Machine;
use streams::StreamOptions;
use wellspring::Builder;

use super::{built, schedules};
use crate::planted_faults::{Stage, raw};

/// The reports on a program under every schedule.
fn reports_on(program: impl Fn(&Stage), check: impl Fn(&Stage, Vec<Report>)) {
    for schedule in schedules() {
        let machine = built(Machine::builder().schedule(schedule));
        let runtime = Builder::new().checked().open_machine(&machine).expect("a runtime");
        let stage = Stage::new(runtime);
        program(&stage);
        let reports = stage.runtime.checker().expect("it is on").reports();
        stage.runtime.synchronize().expect("all ends");
        check(&stage, reports);
    }
}

/// Whether a report names two streams, by their places on the stage.
fn names(stage: &Stage, report: &Report, streams: [usize; 2]) -> bool {
    let ids = streams.map(|at| stage.streams[at].id());
    let mut named = vec![report.later.stream.id];
    named.extend(report.earlier.as_ref().map(|deed| deed.stream.id));
    ids.iter().all(|id| named.contains(id))
}

/// From meta-pytorch/torchrec PR #4231: the buffer, both streams and the place of the early free
/// are named.
#[test]
fn an_early_free_under_a_side_stream_is_named() {
    reports_on(
        |stage| {
            let [main, side, _] = &stage.streams;
            let mut x = stage.buffer(main);
            stage.write(main, &mut x);
            side.wait_stream(main).expect("a wait");
            stage.busy(side);
            stage.read_raw(side, &raw(&x));
            x.free().expect("a free");
        },
        |stage, reports| {
            let [report] = &*reports else { panic!("one fault, not {reports:#?}") };
            assert_eq!(report.kind, Kind::UntoldUse, "{report}");
            assert!(names(stage, report, [0, 1]), "{report}");
            let freed = report.later.line.0.expect("a line of this program");
            assert!(freed.file().ends_with("checked.rs"), "{report}");
            let buffer = report.buffer.expect("the buffer");
            assert_eq!(buffer.home.id, stage.streams[0].id(), "{report}");
        },
    );
}

/// From deepspeedai/DeepSpeed PR #7965: the first of four iterations is found, not only the one
/// that happens to go bad.
#[test]
fn the_first_untold_use_of_a_loop_is_found() {
    reports_on(
        |stage| {
            let [computing, reducing, _] = &stage.streams;
            for turn in 1..=4 {
                let mut b = stage.buffer(computing);
                stage.write(computing, &mut b);
                reducing.wait_stream(computing).expect("a wait");
                stage.busy(reducing);
                stage.read_raw(reducing, &raw(&b));
                b.free().expect("a free");
                let reports = stage.runtime.checker().expect("it is on").reports();
                assert_eq!(reports.first().map(|first| first.kind), Some(Kind::UntoldUse));
                assert!(1 < turn || reports.len() == 1, "{reports:#?}");
            }
        },
        |stage, reports| assert!(names(stage, &reports[0], [0, 1]), "{}", reports[0]),
    );
}

/// From deepspeedai/DeepSpeed #8061 and PR #7898: of two writers, the one that the reader did not
/// wait for is named; with a wait for all users, nobody is.
#[test]
fn the_writer_that_nobody_waited_for_is_named() {
    for waits_for_all in [false, true] {
        reports_on(
            |stage| {
                let [first, second, reducing] = &stage.streams;
                let mut x = stage.buffer(first);
                stage.write(first, &mut x);
                second.wait_stream(first).expect("a wait");
                stage.busy(second);
                stage.write(second, &mut x);
                if waits_for_all {
                    x.wait_all_users(reducing).expect("a wait");
                } else {
                    reducing.wait_stream(first).expect("a wait");
                }
                stage.read(reducing, &x);
            },
            |stage, reports| {
                assert_eq!(reports.is_empty(), waits_for_all, "{reports:#?}");
                assert!(reports.iter().all(|report| names(stage, report, [1, 2])), "{reports:#?}");
            },
        );
    }
}

/// From JeffreyXiang/CuMesh PR #29: work on the legacy stream on memory of a non-blocking stream.
/// A blocking one is ordered with it.
#[test]
fn a_missing_wait_of_the_legacy_stream_is_named() {
    for non_blocking in [true, false] {
        reports_on(
            |stage| {
                let options = StreamOptions { non_blocking, ..StreamOptions::default() };
                let home = stage.runtime.create_stream_with(options).expect("a stream");
                let legacy = stage.runtime.context().legacy_stream().expect("the legacy stream");
                let mut x = stage.buffer(&home);
                stage.busy(&home);
                stage.write(&home, &mut x);
                x.block().record_stream(&legacy);
                stage.read(&legacy, &x);
            },
            |_, reports| assert_eq!(reports.is_empty(), !non_blocking, "{reports:#?}"),
        );
    }
}
