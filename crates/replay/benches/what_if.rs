//! Question: how long does one setting take for a trace of 1.3 million entries?
//! Method: a made-up log of random sizes, of which some 400 blocks live at once, is served under
//! the usual settings on all processors; each setting's own time counts.
//! Not measured: reading the log, and making it ready.
//! Premise, asserted: every entry is in the trace, and every request finds room.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench that cannot be set up has nothing to measure, and prints what it measured"
)]

use std::fmt::Write as _;

use replay::what_if::{Case, Question, what_if};

const ENTRY_COUNT: usize = 1_300_000;
const LIVE_COUNT: usize = 400;
const GOAL_MS: u64 = 2_000;

fn main() {
    let snapshot = trace::rmm::read(log().as_bytes(), 1 << 30).unwrap();
    let trace = snapshot.trace(None).unwrap();
    assert_eq!(trace.entries().len(), ENTRY_COUNT);
    let case = Case::new(&trace);
    let question = Question { trace: "made up".into(), ..Question::default() };
    let answer = what_if(&case, &question, Vec::new(), |_| "all".into(), &|_, _| {}).unwrap();
    for row in &answer.rows {
        assert!(row.fits, "without a limit every request finds room");
        let (setting, ms) = (&row.setting, row.milliseconds);
        let kept = ms <= GOAL_MS;
        println!("figures: name=what_if setting={setting} ms={ms} goal_ms={GOAL_MS} kept={kept}");
    }
}

/// Allocations into random places of a table, each of which frees what was there.
fn log() -> String {
    let mut text = String::from("Thread,Time,Action,Pointer,Size,Stream\n");
    let mut table: Vec<Option<(u64, u64)>> = vec![None; LIVE_COUNT];
    let mut state = 1_u64;
    for number in 0..u64::try_from(ENTRY_COUNT).unwrap() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let place = usize::try_from(state >> 33).unwrap() % LIVE_COUNT;
        let (action, (pointer, bytes)) = match table[place].take() {
            Some(block) => ("free", block),
            None => {
                let bytes = 1 + (state >> 20) % (1 << (9 + (state >> 50) % 16));
                table[place] = Some(((1 << 40) + (number << 26), bytes));
                ("allocate", ((1 << 40) + (number << 26), bytes))
            }
        };
        writeln!(text, "1,10:00:00:000000,{action},{pointer:#x},{bytes},0x0").unwrap();
    }
    text
}
