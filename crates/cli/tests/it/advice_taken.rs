//! The example is recorded, advised on, and run with the advice: it does what was predicted. Its
//! recording says the same after a way through CSV and a Chrome trace.

use replay::advise::{Advice, Verdict};
use wellspring::Builder;

use crate::command::wellspring;

#[path = "../../../../examples/three_streams/pattern.rs"]
#[expect(dead_code, reason = "the example uses all of it")]
mod pattern;

use pattern::{Outcome, Way, run};

/// Whether `found` is within 5 % of `predicted`.
fn is_close(predicted: u64, found: u64) -> bool {
    predicted.abs_diff(found) * 20 <= predicted
}

fn nanoseconds(outcome: &Outcome) -> u64 {
    u64::try_from(outcome.time.as_nanos()).unwrap()
}

/// Records the example and has the command advise on it.
fn recorded(builder: &Builder) -> (Outcome, Advice) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.wst");
    let runtime = builder.clone().record_to(&file).simulated().unwrap();
    let outcome = run(&runtime, Way::RecordStream).unwrap();
    runtime.finish_recording().unwrap();
    let said = wellspring(&["advise", file.to_str().unwrap(), "--json"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    (outcome, serde_json::from_str(&said.stdout).unwrap())
}

#[test]
fn advice_taken_hits_its_prediction() {
    let (outcome, advice) = recorded(&Builder::new());
    assert!(outcome.sums_are_right);
    let [group] = &advice.groups[..] else { panic!("one pattern: {advice:?}") };
    assert_eq!(group.verdict, Verdict::Wait, "{group:?}");
    assert_eq!(group.blocks, usize::from(pattern::STEPS));
    assert_eq!(group.uses.len(), 2);
    for used in &group.uses {
        assert_eq!(used.announced_by, "record_stream");
        assert_eq!(used.last_operation.as_deref(), Some("scale_add"));
    }
    for place in [&group.allocated_at, &group.freed_at, &group.wait_before] {
        assert!(place.as_ref().unwrap().contains("three_streams/pattern.rs:"), "{place:?}");
    }
    // On paper the recorded run takes what it took.
    let as_recorded = advice.as_recorded.unwrap();
    let measured = advice.recorded.unwrap();
    assert!(is_close(as_recorded.time_ns, measured.time_ns.unwrap()), "{advice:?}");
    assert!(is_close(as_recorded.time_ns, nanoseconds(&outcome)), "{advice:?} {outcome:?}");

    // The same loop with the waits, not recorded, on a machine of its own.
    let take = |lag| run(&Builder::new().simulated().unwrap(), Way::WaitLater(lag)).unwrap();
    let taken = take(group.lag.unwrap());
    let advised = advice.advised.unwrap();
    let told = format!("predicted {advised:?}, found {taken:?}");
    assert!(taken.sums_are_right);
    assert!(is_close(advised.time_ns, nanoseconds(&taken)), "{told}");
    assert!(is_close(advised.peak_bytes, taken.peak_active_bytes), "{told}");
    // And one step earlier and later.
    assert_eq!(group.around.len(), 3);
    for tried in &group.around {
        let found = take(tried.lag);
        let told = format!("{tried:?}, found {found:?}");
        assert!(is_close(tried.predicted.time_ns, nanoseconds(&found)), "{told}");
        assert!(is_close(tried.predicted.peak_bytes, found.peak_active_bytes), "{told}");
    }
    // It was worth it: the earlier wait is slower, and without any the memory is many times that.
    let [earlier, there, _] = group.around[..] else { panic!("{group:?}") };
    assert!(there.predicted.time_ns * 11 < earlier.predicted.time_ns * 10, "{group:?}");
    assert!(advised.peak_bytes * 4 < group.never.unwrap().peak_bytes, "{group:?}");
}

#[test]
fn a_policy_that_only_grows_gets_the_same_advice() {
    let (_, by_default) = recorded(&Builder::new());
    let (outcome, growing) = recorded(&Builder::new().policy(wellspring::Policy::PyTorch));
    assert_eq!(growing.groups[0].lag, by_default.groups[0].lag);
    assert!(growing.advised.unwrap().peak_bytes * 4 < outcome.peak_active_bytes, "{growing:?}");
}

#[test]
fn a_recorded_program_comes_back_from_csv_and_from_a_chrome_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let runtime = Builder::new().record_to(path("run.wst")).simulated().unwrap();
    run(&runtime, Way::WaitLater(2)).unwrap();
    runtime.finish_recording().unwrap();
    let convert = |from: &str, to: &str| {
        let said = wellspring(&["convert", &path(from), "-o", &path(to)]);
        assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (0, "", ""));
        std::fs::read(path(to)).unwrap()
    };
    // Texts that nothing names any more are not in CSV, so numbers of texts may differ there.
    let table = convert("run.wst", "run.csv");
    convert("run.csv", "back.wst");
    assert!(convert("back.wst", "again.csv") == table);
    convert("run.wst", "run.json");
    assert!(convert("run.json", "back.wst") == convert("run.wst", "once_more.wst"));
    for ending in ["csv", "json"] {
        for command in ["summary", "advise"] {
            let told = |file: &str| {
                let mut json = wellspring(&[command, &path(file), "--json"]).json();
                json["trace"] = serde_json::Value::Null;
                json
            };
            assert_eq!(told(&format!("run.{ending}")), told("run.wst"), "{command}");
        }
    }
}
