//! The page in a browser: what it computes, how it answers, and that nothing goes wrong.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trace::pytorch::Snapshot;

use crate::browser::Browser;
use crate::made_up::{Step, annotation, report, segment, snapshot, step};
use crate::pictures::recorded;

/// The traces that lie in the repository, and whether frees wait for other streams there.
const TRACES: &[(&str, bool)] = &[
    ("expandable", false),
    ("gnn_train", false),
    ("gpt_train", false),
    ("graphs", false),
    ("oom_frames", false),
    ("side_stream", true),
    ("streams", true),
];

/// What is wrong at any moment, as a list.
pub(crate) const MOMENTS: &str = include_str!("moments.js");
/// Controls that a screen reader could not name, as a list.
const UNNAMED: &str = include_str!("unnamed.js");

/// Where pages and screenshots lie, to be looked at.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-pages");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a page to be opened.
pub(crate) fn write(name: &str, html: &str) -> PathBuf {
    let file = folder().join(format!("{name}.html"));
    // Written beside and moved: the browser of another run may be reading it.
    let fresh = file.with_extension(format!("html.{}", std::process::id()));
    std::fs::write(&fresh, html).unwrap();
    std::fs::rename(&fresh, &file).unwrap();
    file
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The middle of an element, and its size.
fn place(browser: &mut Browser, id: &str) -> (f64, f64, f64, f64) {
    let script = "(() => { const it = document.getElementById('ID'); \
        it.scrollIntoView({ block: 'nearest' }); \
        const { left, top, width, height } = it.getBoundingClientRect(); \
        return [left + width / 2, top + height / 2, width, height]; })()";
    let place = browser.drawn(&script.replace("ID", id));
    (number(&place[0]), number(&place[1]), number(&place[2]), number(&place[3]))
}

fn state(browser: &mut Browser, name: &str) -> Value {
    browser.drawn("wellspring.state()")[name].clone()
}

/// How many colors a canvas shows; one that is blank shows at most one.
fn color_count(browser: &mut Browser, id: &str) -> f64 {
    let script = "(() => { const it = document.getElementById('ID'); \
        const { data } = it.getContext('2d').getImageData(0, 0, it.width, it.height); \
        return new Set(new Uint32Array(data.buffer)).size; })()";
    number(&browser.drawn(&script.replace("ID", id)))
}

#[test]
fn every_recorded_trace_opens_and_answers() {
    let Some(mut browser) = Browser::start() else { return };
    for &(name, has_pending) in TRACES {
        let report = recorded(name);
        let file = write(name, &report.html());
        browser.resize(1400, 1100);
        browser.prefer("light");
        browser.open(&file, "");
        let figures = report.figures();
        let peak = browser.evaluate("wellspring.seriesOf('state').peakTotal");
        assert_eq!(peak, json!(figures.peak_active_bytes), "{name}");
        let reserved = browser.evaluate("Math.max(...wellspring.model().reserved.levels)");
        assert_eq!(reserved, json!(figures.peak_reserved_bytes), "{name}");
        let counts = browser.evaluate("wellspring.model().counts");
        assert_eq!(counts["lives"], json!(figures.block_count), "{name}");
        check_moments(&mut browser, name);
        check_views(&mut browser, name, has_pending);
        assert_eq!(browser.evaluate(UNNAMED), json!([]), "{name}");
        let picture = browser.screenshot();
        std::fs::write(folder().join(format!("{name}.png")), picture).unwrap();
        assert!(browser.errors().is_empty(), "{name}: {:?}", browser.errors());
    }
}

/// At any moment levels, live blocks and segments tell the same bytes, no two blocks overlap, and
/// the holes are those that were counted when the report was drawn.
fn check_moments(browser: &mut Browser, name: &str) {
    assert_eq!(browser.evaluate(MOMENTS), json!([]), "{name}");
}

/// Every division and every view draws something.
fn check_views(browser: &mut Browser, name: &str, has_pending: bool) {
    for mode in ["stream", "owner", "pending", "state"] {
        browser.evaluate(&format!("location.hash = '#mode={mode}'"));
        browser.drawn("0");
        let colors = color_count(browser, "timeline");
        assert!(3.0 < colors, "{name}, {mode}: {colors} colors");
    }
    for (view, canvas) in [("flame", "flame"), ("segments", "segments")] {
        browser.evaluate(&format!("location.hash = '#view={view}'"));
        browser.drawn("0");
        assert_eq!(state(browser, "view"), view, "{name}");
        let colors = color_count(browser, canvas);
        assert!(2.0 < colors, "{name}, {view}: {colors} colors");
    }
    for (view, part) in [("holders", "Top holders at the peak"), ("waiting", "does not say which")]
    {
        browser.evaluate(&format!("location.hash = '#view={view}'"));
        let text = browser.drawn(&format!("document.getElementById('view-{view}').textContent"));
        assert!(text.as_str().unwrap().contains(part), "{name}, {view}: {text}");
    }
    let disabled = browser.evaluate("document.querySelector('[data-value=pending]').disabled");
    assert_eq!(disabled, json!(!has_pending), "{name}");
}

#[test]
fn keys_wheel_and_clicks_move_the_view() {
    let Some(mut browser) = Browser::start() else { return };
    let file = write("keys", &recorded("streams").html());
    browser.open(&file, "");
    let peak = number(&state(&mut browser, "t"));
    browser.press("ArrowLeft");
    assert_eq!(number(&state(&mut browser, "t")), peak - 1.0);
    browser.press("Home");
    assert_eq!(number(&state(&mut browser, "t")), 0.0);
    browser.press("p");
    assert_eq!(number(&state(&mut browser, "t")), peak);
    for (key, mode) in [("2", "stream"), ("3", "owner"), ("4", "pending"), ("1", "state")] {
        browser.press(key);
        assert_eq!(state(&mut browser, "mode"), mode);
    }
    let width =
        |browser: &mut Browser| number(&state(browser, "to")) - number(&state(browser, "from"));
    let whole = width(&mut browser);
    browser.press("+");
    assert!(width(&mut browser) < whole * 0.6);
    browser.press("0");
    assert_eq!(width(&mut browser), whole);
    let (x, y, across, _) = place(&mut browser, "timeline");
    browser.wheel(x, y, -400.0);
    assert!(width(&mut browser) < whole * 0.6, "the wheel zooms in");
    let from = number(&state(&mut browser, "from"));
    browser.drag((x, y), (x - across / 5.0, y));
    assert!(from < number(&state(&mut browser, "from")), "a drag moves the view");
    browser.press("0");
    browser.click(x, y);
    let middle = number(&state(&mut browser, "t"));
    assert!(whole * 0.4 < middle && middle < whole * 0.6, "a click at the middle chose {middle}");
    browser.drag((x, y), (x + across / 4.0, y));
    assert!(width(&mut browser) < whole * 0.4, "a drag over the whole chooses a part");
    let hint = "document.getElementById('hint').textContent";
    browser.drag((x, y), (x + 1.0, y));
    assert!(browser.drawn(hint).as_str().unwrap().contains("reserved"), "a readout at the pointer");
    browser.press("/");
    browser.press("x");
    assert_eq!(state(&mut browser, "search"), "x", "what is typed is searched for");
    browser.press("Escape");
    browser.press("?");
    assert_eq!(browser.drawn("document.getElementById('help').open"), true);
    assert!(browser.errors().is_empty(), "{:?}", browser.errors());
}

#[test]
fn a_block_is_found_by_click_and_by_address() {
    let Some(mut browser) = Browser::start() else { return };
    let steps = [
        step("segment_alloc", 1 << 30, 20 << 20),
        Step {
            frames: vec![("/home/me/train.py", 42, "step")],
            noted: "epoch 7",
            ..step("alloc", 1 << 30, 20 << 20)
        },
        step("free_requested", 1 << 30, 20 << 20),
        step("alloc", 7, 512),
        step("free_completed", 1 << 30, 20 << 20),
    ];
    let snapshot = snapshot(vec![segment(1 << 30, 20 << 20, &[])], &steps, vec![]);
    let file = write("block", &report(&snapshot).html());
    browser.open(&file, "#view=segments&t=2");
    let (x, _, _, _) = place(&mut browser, "segments");
    let row = "document.getElementById('segments').getBoundingClientRect().top + 10";
    let y = number(&browser.drawn(row));
    browser.click(x + 150.0, y);
    assert_eq!(state(&mut browser, "block"), "0x40000000");
    assert_eq!(state(&mut browser, "view"), "block");
    let text = browser.drawn("document.getElementById('view-block').textContent");
    for part in [
        "0x40000000",
        "epoch 7",
        "event 2, 10 µs",
        "event 3, 20 µs",
        "event 5, 40 µs",
        "me/train.py:42 step",
    ] {
        assert!(text.as_str().unwrap().contains(part), "no `{part}` in {text}");
    }
    browser.open(&file, "#view=segments&t=2");
    browser.evaluate("document.getElementById('segment-scroll').focus()");
    browser.press("ArrowRight");
    assert_eq!(state(&mut browser, "block"), "0x40000000", "arrows choose a block");
    let label = "document.activeElement.getAttribute('aria-label')";
    let label = browser.drawn(label);
    assert!(label.as_str().unwrap().starts_with("20 MiB at 0x40000000, allocated"), "{label}");
    browser.press("Enter");
    assert_eq!(state(&mut browser, "view"), "block");
    browser.open(&file, "#search=0x40000fff&theme=dark");
    assert_eq!(state(&mut browser, "block"), "0x40000000", "an address inside names the block");
    assert_eq!(state(&mut browser, "theme"), "dark");
    assert!(browser.errors().is_empty(), "{:?}", browser.errors());
}

#[test]
fn a_dark_page_is_dark_and_a_narrow_one_is_not_wider_than_its_window() {
    let Some(mut browser) = Browser::start() else { return };
    let file = write("narrow", &recorded("oom_frames").html());
    for (scheme, width) in [("light", 1400), ("dark", 1400), ("light", 420), ("dark", 420)] {
        browser.resize(width, 1100);
        browser.prefer(scheme);
        browser.open(&file, "");
        let paper = browser.drawn("getComputedStyle(document.body).backgroundColor");
        assert_eq!(paper == "rgb(255, 255, 255)", scheme == "light", "{paper}");
        for view in ["flame", "segments", "holders", "waiting", "block"] {
            browser.evaluate(&format!("location.hash = '#view={view}'"));
            browser.drawn("0");
            let over = browser.drawn("document.documentElement.scrollWidth - innerWidth");
            assert!(number(&over) <= 0.0, "{scheme}, {width}, {view}: {over} pixels too wide");
            let picture = browser.screenshot();
            let name = format!("oom_frames-{scheme}-{width}-{view}.png");
            std::fs::write(folder().join(name), picture).unwrap();
            assert_eq!(state(&mut browser, "view"), view);
            assert!(browser.errors().is_empty(), "{:?}", browser.errors());
        }
    }
}

/// Snapshots that are all but empty, or at the ends of what a reader takes.
fn odd_snapshots() -> Vec<(&'static str, Snapshot)> {
    let blocks =
        [(1 << 20, 1 << 20, "active_allocated"), (2 << 20, 1 << 20, "active_pending_free")];
    let (top, most) = ((1 << 48) - 512, 1 << 48);
    let ends = [
        step("segment_map", top, most),
        step("alloc", top, most),
        step("alloc", 0, most),
        step("segment_unmap", 0, most),
        step("alloc", 512, 0),
        step("free_completed", 77, 5),
        step("oom", 0, most),
    ];
    let name = "</script><img src=x onerror=alert(1)> \u{202e}\u{1f980} \u{0}";
    let marked = [Step { frames: vec![(name, 1, name)], ..step("alloc", 1 << 20, 512) }];
    let begun = |number: i64| annotation(&format!("a{number}"), "START", 10 * (number % 3));
    vec![
        ("segments-alone", snapshot(vec![segment(1 << 20, 4 << 20, &blocks)], &[], vec![])),
        ("one-event", snapshot(vec![], &[step("alloc", 0, 1)], vec![])),
        ("ends", snapshot(vec![segment(top, 4, &[])], &ends, vec![])),
        ("marked", snapshot(vec![], &marked, vec![annotation(name, "START", 5)])),
        ("begun", snapshot(vec![], &marked, (0..1500).map(begun).collect())),
    ]
}

#[test]
fn odd_traces_open_and_every_view_is_drawn() {
    let Some(mut browser) = Browser::start() else { return };
    for (name, snapshot) in odd_snapshots() {
        let file = write(name, &report(&snapshot).html());
        browser.open(&file, "");
        for mode in ["stream", "owner", "pending", "state"] {
            for view in ["flame", "segments", "holders", "waiting", "block"] {
                browser.evaluate(&format!("location.hash = '#mode={mode}&view={view}&t=1'"));
                browser.drawn("0");
            }
        }
        for key in ["+", "-", "0", "p", "o", "End", "ArrowLeft", "PageDown"] {
            browser.press(key);
        }
        assert_eq!(browser.drawn("document.querySelectorAll('img').length"), 0, "{name}");
        assert!(browser.errors().is_empty(), "{name}: {:?}", browser.errors());
    }
}

/// Was: what a log does not say was drawn as nothing, under a line at zero.
#[test]
fn what_was_reserved_is_shown_where_it_was_recorded() {
    let Some(mut browser) = Browser::start() else { return };
    let steps = [step("alloc", 0, 512)];
    for (name, segments) in [("log", vec![]), ("recorded", vec![segment(0, 1 << 21, &[])])] {
        let is_recorded = !segments.is_empty();
        let file = write(name, &report(&snapshot(segments, &steps, vec![])).html());
        browser.open(&file, "");
        for mode in ["stream", "owner", "state"] {
            browser.evaluate(&format!("location.hash = '#mode={mode}'"));
            let legend = browser.drawn("document.getElementById('legend').textContent");
            let is_shown = legend.as_str().unwrap().contains("reserved");
            assert_eq!(is_shown, is_recorded, "{name}, {mode}: {legend}");
        }
        let figures = browser.drawn("document.getElementById('figures').textContent");
        let is_missing = figures.as_str().unwrap().contains("peak reservednot recorded");
        assert_eq!(is_missing, !is_recorded, "{name}: {figures}");
    }
}

/// So many steps of blocks on three streams, of which each is freed some steps later, and complete
/// some steps after that.
fn many_steps(count: usize) -> Vec<Step> {
    let mut steps = Vec::with_capacity(count + 3);
    let at = |number: i64, action: &'static str| Step {
        stream: number % 3,
        ..step(action, (1 << 30) + (number % 512) * (4 << 20), (number * 7919) % (4 << 20) + 1)
    };
    for number in 0.. {
        if count <= steps.len() {
            break;
        }
        steps.push(at(number, "alloc"));
        if 200 <= number {
            steps.push(at(number - 200, "free_requested"));
        }
        if 400 <= number {
            steps.push(at(number - 400, "free_completed"));
        }
    }
    steps
}

#[test]
fn a_million_events_are_there_within_three_seconds() {
    let Some(mut browser) = Browser::start() else { return };
    let segments = vec![segment(1 << 30, 512 * (4 << 20), &[])];
    let snapshot = snapshot(segments, &many_steps(1_000_000), vec![]);
    let report = report(&snapshot);
    assert!(1_000_000 <= report.figures().event_count);
    let file = write("million", &report.html());
    // Other work on the machine makes a browser slow; one quiet moment of several is enough.
    let mut took = Vec::new();
    let is_quick = (0..6).any(|_| {
        took.push(browser.open(&file, ""));
        took.last().is_some_and(|milliseconds| *milliseconds < 3000.0)
    });
    assert!(is_quick, "milliseconds until the page was drawn: {took:?}");
    let move_cursor = "(async () => { const times = []; for (let step = 0; step < 12; step += 1) { \
        const begun = performance.now(); wellspring.obey(`#t=${step * 80000 + 5}`); \
        await new Promise(requestAnimationFrame); times.push(performance.now() - begun); } \
        return Math.min(...times); })()";
    let milliseconds = number(&browser.evaluate(move_cursor));
    assert!(milliseconds < 250.0, "a move of the cursor is drawn after {milliseconds} ms");
    assert!(browser.errors().is_empty(), "{:?}", browser.errors());
}

#[test]
fn a_page_that_fails_is_seen_to_fail() {
    let Some(mut browser) = Browser::start() else { return };
    let steps = [step("alloc", 0, 512)];
    let html = report(&snapshot(vec![], &steps, vec![])).html();
    let marked = "document.documentElement.dataset.ready";
    for (name, fault) in [
        ("thrown", "setTimeout(() => { throw new Error('on purpose'); }, 0);"),
        ("said", "console.error('on purpose');"),
        ("asked", "fetch('http://localhost:9/').catch(() => {});"),
    ] {
        let broken = html.replacen(marked, &format!("{fault} {marked}"), 1);
        assert_ne!(broken, html);
        let file = write(name, &broken);
        browser.open(&file, "");
        browser.drawn("0");
        assert!(!browser.errors().is_empty(), "{name} went unseen");
    }
}
