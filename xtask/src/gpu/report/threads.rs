//! The tables of what threads cost each other.

use crate::gpu::page::{Page, number, words};
use crate::gpu::patterns::{self, Row};

/// Fields of a line about throughput and of one about latency, with their columns.
const THROUGHPUT: [(&str, &str); 9] = [
    ("program", "program"),
    ("way", "way"),
    ("threads", "threads"),
    ("pairs_per_second", "pairs a second"),
    ("of_one", "of one thread"),
    ("processor_ns_per_pair", "processor ns a pair"),
    ("processor_of_one", "of one thread"),
    ("goal", "goal"),
    ("kept", "kept"),
];
const LATENCY: [(&str, &str); 10] = [
    ("program", "program"),
    ("way", "way"),
    ("threads", "threads"),
    ("pairs_per_second", "pairs a second"),
    ("p50_ns", "median ns"),
    ("p99_ns", "99 %"),
    ("p999_ns", "99.9 %"),
    ("max_ns", "worst"),
    ("goal_ns", "goal of 99.9 %"),
    ("kept", "kept"),
];
/// What only a line about latency has.
const IS_LATENCY: &str = "p50_ns";

pub(super) fn section(page: &mut Page, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    page.heading("## Many threads");
    page.sentence(
        "A pair is an allocation and a free of what is cached; each thread has its own stream.",
    );
    page.sentence(
        "What a thread makes beside others, or a processor where there are more threads, is \
         compared with one thread alone: by the clock, and by the time on a processor.",
    );
    page.sentence(
        "The goal is met by either, as others may use the machine; medians of alternating turns.",
    );
    let (latency, throughput): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.contains_key(IS_LATENCY));
    table(page, &throughput, &THROUGHPUT);
    page.sentence("");
    page.sentence(
        "How long one call takes at 200,000 pairs a second (`tail`), while other threads create \
         and destroy events; and one of pinned memory, which is not cached (`pinned`).",
    );
    table(page, &latency, &LATENCY);
}

fn table(page: &mut Page, rows: &[&Row], fields: &[(&str, &'static str)]) {
    let cell = |row: &Row, field| match patterns::word(row, field) {
        "" => String::from("-"),
        word => word.to_owned(),
    };
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| fields.iter().map(|(field, _)| cell(row, field)).collect()).collect();
    let columns: Vec<_> = fields
        .iter()
        .enumerate()
        .map(|(place, (_, title))| if place < 2 { words(title) } else { number(title) })
        .collect();
    page.table(&columns, &cells);
}

#[cfg(test)]
mod tests {
    use super::{Page, section};
    use crate::gpu::benches::THREADS;
    use crate::gpu::patterns::rows;

    #[test]
    fn a_line_stands_in_the_table_of_its_kind() {
        let text = "threads: program=own_streams way=wellspring threads=2 pairs_per_second=9 \
                    of_one=0.99 processor_ns_per_pair=50.1 processor_of_one=1.00 goal=0.80 \
                    kept=true\n\
                    threads: program=tail way=events_under_lock threads=32 pairs_per_second=8 \
                    p50_ns=60 p99_ns=700 p999_ns=1600 max_ns=9000\nnoise: way=none\n";
        let mut page = Page::default();
        section(&mut page, &rows(text, THREADS));
        let page = page.into_text();
        let throughput = "| own_streams | wellspring | 2 | 9 | 0.99 | 50.1 | 1.00 | 0.80 | true |";
        let latency = "| tail | events_under_lock | 32 | 8 | 60 | 700 | 1600 | 9000 | - | - |";
        assert!(page.contains(throughput), "{page}");
        assert!(page.contains(latency), "{page}");
        assert!(!page.contains("none"), "{page}");
    }

    #[test]
    fn without_lines_there_is_no_section() {
        let mut page = Page::default();
        section(&mut page, &[]);
        assert_eq!(page.into_text().trim(), "");
    }
}
