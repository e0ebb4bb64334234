//! The table in `docs/litmus.md`: written anew when asked, and compared with the litmus tests.
#![expect(clippy::print_stdout, reason = "a test says how many schedules it covered")]

use std::path::PathBuf;

use super::{ALL, Litmus, Outcome};

/// The table begins after this line of the page.
const RULE: &str = "|---|---:|---|---:|---|\n";

/// Says what the runs of one litmus covered.
pub fn tell(litmus: &Litmus, outcome: &Outcome) {
    let Outcome { schedules, is_exhaustive, found_after } = outcome;
    let all = if *is_exhaustive { "all of" } else { "so many seeds:" };
    println!("{}: {all} {schedules} schedules; hole found in schedule {found_after}", litmus.id);
}

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/litmus.md")
}

fn read() -> String {
    std::fs::read_to_string(page()).expect("docs/litmus.md")
}

fn row(litmus: &Litmus, outcome: &Outcome) -> String {
    let Outcome { schedules, is_exhaustive, found_after } = outcome;
    let (id, design) = (litmus.id, litmus.design);
    let all = if *is_exhaustive { "yes" } else { "no" };
    format!("| {id} | {schedules} | {all} | {found_after} | {design} |\n")
}

/// A row without its counts.
fn without_counts(row: &str) -> Vec<&str> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    [1, 3, 5].map(|cell| cells[cell]).to_vec()
}

/// The page lists every litmus with its design, and says truly which runs were exhaustive.
#[test]
fn the_page_is_of_these_litmus_tests() {
    if std::env::var_os("WELLSPRING_LITMUS_TABLE").is_some() {
        let rows = ALL.iter().map(|litmus| {
            let outcome = litmus.check();
            tell(litmus, &outcome);
            row(litmus, &outcome)
        });
        let text = read();
        let (head, _) = text.split_once(RULE).expect("the page has a table");
        let text = head.to_owned() + RULE + &rows.collect::<String>();
        std::fs::write(page(), text).expect("the page can be written");
    }
    let text = read();
    let (_, rows) = text.split_once(RULE).expect("the page has a table");
    let told: Vec<_> = rows.lines().map(without_counts).collect();
    let here: Vec<_> = ALL.iter().map(|litmus| litmus.cells()).collect();
    assert_eq!(told, here, "write the page anew");
}

/// The litmus tests are L1 to L29, none left out.
#[test]
fn no_litmus_is_left_out() {
    let number = |litmus: &Litmus| {
        let digits = litmus.id.trim_start_matches('L').split(' ').next().expect("a first word");
        digits.parse::<u32>().expect("a number")
    };
    let mut numbers: Vec<u32> = ALL.iter().map(number).collect();
    numbers.dedup();
    assert_eq!(numbers, (1..=29).collect::<Vec<_>>());
}
