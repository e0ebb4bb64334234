//! The section on the stress: how many requests each step served, and what was lost.

use crate::gpu::page::{self, Page, number, words};
use crate::gpu::patterns::{self, Row};
use crate::gpu::results::TestRun;

/// The steps of service, as the lines name them, and their headings.
const STEPS: [&str; 7] = [
    "own_stream",
    "known_order",
    "completion",
    "device_wait",
    "growth",
    "ladder",
    "cross_stream_merges",
];

/// One row for each line that a test printed.
pub(super) fn section(page: &mut Page, runs: &[TestRun]) {
    let mut rows = Vec::new();
    for run in runs {
        for line in &run.stress {
            rows.push(table_row(run, &patterns::pairs(line)));
        }
    }
    if rows.is_empty() {
        return;
    }
    page.heading("## Stress");
    page.sentence(
        "Eight streams hand blocks to each other; each word that a user finds changed is a \
         mismatch.",
    );
    page.sentence("The controls leave one check out and must lose words.");
    let columns = [
        words("test"),
        words("left out"),
        number("allocations"),
        number("own stream"),
        number("known order"),
        number("completion"),
        number("device wait"),
        number("growth"),
        number("ladder"),
        number("merges of streams"),
        number("mismatches"),
        number("seconds"),
    ];
    page.table(&columns, &rows);
}

fn table_row(run: &TestRun, row: &Row) -> Vec<String> {
    let all = patterns::number(row, "allocations").unwrap_or(0);
    let count = |name| patterns::number(row, name);
    let mut cells = vec![
        format!("{}::{}", run.binary, run.test),
        patterns::word(row, "test").to_owned(),
        page::count(all),
    ];
    cells.extend(STEPS.map(|step| count(step).map_or_else(dash, |part| share(part, all))));
    cells.push(count("mismatches").map_or_else(dash, page::count));
    cells.push(patterns::word(row, "seconds").to_owned());
    cells
}

fn dash() -> String {
    String::from("-")
}

#[expect(clippy::cast_precision_loss, reason = "a page shows two digits of a percentage")]
fn share(part: u64, all: u64) -> String {
    if all == 0 { dash() } else { format!("{:.2} %", 100.0 * part as f64 / all as f64) }
}
