//! Looks for a better line: one key at a time, every value of it, from the best line so far, until
//! no key changes anything or enough was tried.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::case::Case;
use super::crew::{self, Runs};
use super::row::{Row, Setting};
use super::settings::{SEARCH_TRIES_MAX, SEARCHED, with};

/// Counts the runs that are done.
pub(super) struct Count<'a> {
    runs: Runs<'a>,
    done: AtomicUsize,
    all: AtomicUsize,
}

impl<'a> Count<'a> {
    pub(super) fn new(runs: Runs<'a>, all: usize) -> Self {
        Self { runs, done: AtomicUsize::new(0), all: AtomicUsize::new(all) }
    }

    pub(super) fn one_done(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (self.runs)(done, self.all.load(Ordering::Relaxed));
    }

    fn expect(&self, more: usize) {
        self.all.fetch_add(more, Ordering::Relaxed);
    }
}

/// Adds the rows of the lines that were tried; how many they are.
pub(super) fn search(
    case: &Case,
    capacity: Option<u64>,
    rows: &mut Vec<Row>,
    count: &Count<'_>,
) -> usize {
    let mut tried = 0;
    let Some(mut best) = rows.iter().min_by(|one, other| one.order(other)).cloned() else {
        return tried;
    };
    loop {
        let before = best.clone();
        for (key, values) in SEARCHED {
            let lines = values.iter().filter_map(|value| with(&best.setting, key, *value));
            let is_new = |line: &Setting| rows.iter().all(|row| !is_same(&row.setting, line));
            let mut lines: Vec<Setting> = lines.filter(is_new).collect();
            lines.truncate(SEARCH_TRIES_MAX - tried);
            tried += lines.len();
            count.expect(lines.len());
            let serve = |line: &Setting| Row::of_setting(case, line, capacity);
            let found = crew::each(&lines, serve, || count.one_done());
            if let Some(better) = found.iter().min_by(|one, other| one.order(other))
                && better.order(&best).is_lt()
            {
                best = better.clone();
            }
            rows.extend(found);
        }
        if best == before || SEARCH_TRIES_MAX <= tried {
            return tried;
        }
    }
}

fn is_same(line: &str, setting: &Setting) -> bool {
    pytorch_model::Settings::parse(line).is_ok_and(|settings| settings == setting.settings)
}
