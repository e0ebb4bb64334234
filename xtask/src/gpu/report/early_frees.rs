//! The section on early frees: each pattern under each strategy, beside other libraries.

use anyhow::Result;

use super::plot;
use crate::gpu::page::{self, Page, number, words};
use crate::gpu::patterns::{self, OURS, PEER, PLACES, Row};

/// The strategies that ratios are taken to, the default, and how the name of a bound begins.
const FASTEST: &str = "unsynchronized";
const HAND_TUNED: &str = "hand_tuned";
const DEFAULT: &str = "record_stream";
const BOUND: &str = "bound_";
/// The peak of active bytes: the worst round's, and the median one's.
const WORST: &str = "active_peak_bytes";
const MEDIAN: &str = "active_peak_median_bytes";
/// A bound is as good as the best if it is at most so many times as slow.
const AS_GOOD: f64 = 1.02;

/// The lines that the programs of patterns printed.
pub(super) struct EarlyFrees {
    ours: Vec<Row>,
    peers: Vec<Row>,
    places: Vec<Row>,
    /// Why a peer was not measured.
    absent: Vec<String>,
}

impl EarlyFrees {
    pub(super) fn read(text: &str) -> Self {
        let (absent, peers): (Vec<Row>, Vec<Row>) =
            patterns::rows(text, PEER).into_iter().partition(|row| row.contains_key("absent"));
        let absent = absent.iter().map(|row| patterns::word(row, "absent").replace('_', " "));
        Self {
            ours: patterns::rows(text, OURS),
            peers,
            places: patterns::rows(text, PLACES),
            absent: absent.collect(),
        }
    }

    /// The patterns, in the order in which they were measured.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.ours {
            let name = patterns::word(row, "pattern");
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn of<'a>(rows: &'a [Row], pattern: &str) -> Vec<&'a Row> {
        rows.iter().filter(|row| patterns::word(row, "pattern") == pattern).collect()
    }

    /// The name and the text of a plot for each pattern with bounds.
    pub(super) fn plots(&self) -> Result<Vec<(String, String)>> {
        let mut plots = Vec::new();
        for name in self.names() {
            let rows = Self::of(&self.ours, name);
            if rows.iter().any(|row| is_bound(row)) {
                plots.push((plot_name(name), plot::draw(name, &points(&rows))?));
            }
        }
        Ok(plots)
    }

    pub(super) fn section(&self, page: &mut Page) {
        if self.ours.is_empty() {
            return;
        }
        page.heading("## Early frees on several streams");
        page.sentence(
            "A producer writes buffers, consumers on other streams read them, and each is freed as \
             soon as that is queued.",
        );
        page.sentence(
            "Times are on the device, the median of alternating rounds; memory is the worst \
             round's, and the median one's. Depth is how many bursts of work the producer leaves \
             behind what it waits for, in the end.",
        );
        for reason in &self.absent {
            page.sentence(&format!("No other library was measured: {reason}."));
        }
        for name in self.names() {
            self.pattern(page, name);
        }
        self.same_places(page);
    }

    fn pattern(&self, page: &mut Page, name: &str) {
        page.heading(&format!("### {name}"));
        let ours = Self::of(&self.ours, name);
        let peers = Self::of(&self.peers, name);
        let base = Base::of(&ours);
        let shown = ours.iter().filter(|row| !is_bound(row));
        let mut rows: Vec<Vec<String>> =
            shown.map(|row| base.row(row, patterns::word(row, "strategy"))).collect();
        rows.extend(peers.iter().map(|row| {
            let library = patterns::word(row, "library");
            base.row(row, &format!("{library}: {}", patterns::word(row, "strategy")))
        }));
        let columns = [
            words("strategy"),
            number("ms"),
            number("from, to"),
            number("of unsynchronized"),
            number("active peak"),
            number("of hand-tuned"),
            number("median peak"),
            number("of hand-tuned"),
            number("reserved peak"),
            number("depth"),
            number("waits"),
            number("growths"),
            number("driver calls"),
            number("mismatches"),
        ];
        page.table(&columns, &rows);
        if let Some(sentence) = verdict(&ours) {
            page.sentence("");
            page.sentence(&sentence);
            page.sentence(&format!("![{name}: time against memory]({})", plot_name(name)));
        }
    }

    fn same_places(&self, page: &mut Page) {
        if self.places.is_empty() {
            return;
        }
        page.heading("### Same places");
        page.sentence(
            "Each pattern run again and again, in a new allocator each time: how many different \
             sequences of segment and offset its buffers had.",
        );
        let fields = ["pattern", "policy", "runs", "allocations", "distinct"];
        let rows: Vec<Vec<String>> = self
            .places
            .iter()
            .map(|row| fields.map(|field| patterns::word(row, field).to_owned()).to_vec())
            .collect();
        let columns = [
            words("pattern"),
            words("policy"),
            number("runs"),
            number("allocations"),
            number("different"),
        ];
        page.table(&columns, &rows);
    }
}

/// What the ratios of a pattern's table are taken to.
struct Base {
    nanoseconds: Option<f64>,
    active_bytes: Option<f64>,
    median_bytes: Option<f64>,
}

impl Base {
    fn of(rows: &[&Row]) -> Self {
        let find = |name| rows.iter().find(|row| patterns::word(row, "strategy") == name);
        Self {
            nanoseconds: find(FASTEST).and_then(|row| float(row, "ns")),
            active_bytes: find(HAND_TUNED).and_then(|row| float(row, WORST)),
            median_bytes: find(HAND_TUNED).and_then(|row| float(row, MEDIAN)),
        }
    }

    fn row(&self, row: &Row, name: &str) -> Vec<String> {
        let milliseconds =
            |name| float(row, name).map_or_else(dash, |ns| format!("{:.1}", ns / 1e6));
        let bytes = |name| patterns::number(row, name).map_or_else(dash, page::bytes);
        let count = |name| patterns::number(row, name).map_or_else(dash, page::count);
        let ratio = |name, base: Option<f64>, digits: usize| {
            let ratio = float(row, name).zip(base).map(|(own, base)| own / base);
            ratio.map_or_else(dash, |ratio| format!("{ratio:.digits$}"))
        };
        vec![
            name.to_owned(),
            milliseconds("ns"),
            format!("{} to {}", milliseconds("ns_min"), milliseconds("ns_max")),
            ratio("ns", self.nanoseconds, 3),
            bytes(WORST),
            ratio(WORST, self.active_bytes, 2),
            bytes(MEDIAN),
            ratio(MEDIAN, self.median_bytes, 2),
            bytes("reserved_peak_bytes"),
            count("wait_depth"),
            count("waits"),
            count("growths"),
            count("driver_calls"),
            count("mismatches"),
        ]
    }
}

fn dash() -> String {
    String::from("-")
}

#[expect(clippy::cast_precision_loss, reason = "a page shows a few digits")]
fn float(row: &Row, name: &str) -> Option<f64> {
    patterns::number(row, name).map(|value| value as f64)
}

fn is_bound(row: &Row) -> bool {
    patterns::word(row, "strategy").starts_with(BOUND)
}

fn plot_name(pattern: &str) -> String {
    format!("benchmarks-{pattern}.svg")
}

/// Every row as a point of the plot.
fn points(rows: &[&Row]) -> Vec<plot::Point> {
    let point = |row: &&Row| {
        let nanoseconds = float(row, "ns")?;
        let bytes = float(row, WORST)?;
        let strategy = patterns::word(row, "strategy");
        Some(plot::Point {
            mebibytes: bytes / f64::from(1 << 20),
            milliseconds: nanoseconds / 1e6,
            name: (!is_bound(row)).then(|| strategy.to_owned()),
            is_default: strategy == DEFAULT,
        })
    };
    rows.iter().filter_map(point).collect()
}

/// How the default compares with the best that a bound alone can do.
fn verdict(rows: &[&Row]) -> Option<String> {
    let bounds: Vec<(f64, f64)> = rows
        .iter()
        .filter(|row| is_bound(row))
        .filter_map(|row| float(row, "ns").zip(float(row, WORST)))
        .collect();
    let best = bounds.iter().map(|bound| bound.0).reduce(f64::min)?;
    let good = bounds.iter().filter(|bound| bound.0 <= best * AS_GOOD);
    let smallest = good.map(|bound| bound.1).reduce(f64::min)?;
    let default = rows.iter().find(|row| patterns::word(row, "strategy") == DEFAULT)?;
    let (time, memory) = float(default, "ns").zip(float(default, WORST))?;
    Some(format!(
        "Default: {:.3} times the best of all bounds, and {:.2} times the memory of the smallest \
         bound that is within 2 % of the best.",
        time / best,
        memory / smallest
    ))
}
