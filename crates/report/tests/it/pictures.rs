//! The pictures that need no browser.

use std::path::{Path, PathBuf};

use report::{Options, Report};
use trace::pytorch::{ReadOptions, read_file};

use crate::made_up::{report, segment, snapshot, step};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{name}.pickle.zst"))
}

/// The report of a trace of the project.
pub(crate) fn recorded(name: &str) -> Report {
    let snapshot = read_file(&file(name), &ReadOptions::default(), None).unwrap();
    Report::of(&snapshot, &Options { title: name, ..Options::default() }).unwrap()
}

#[test]
fn a_picture_says_what_the_figures_say() {
    let report = recorded("side_stream");
    let figures = report.figures();
    assert_eq!(figures.peak_reserved_bytes, 11_744 << 20);
    let svg = report.svg();
    assert!(svg.len() < 150_000, "{} bytes", svg.len());
    for words in ["side_stream", "peak active 10.9 GiB, peak reserved 11.5 GiB", "pending free"] {
        assert!(svg.contains(words), "no `{words}`");
    }
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
}

#[test]
fn peaks_are_those_of_the_summary() {
    for name in ["expandable", "gnn_train", "gpt_train", "graphs", "oom_frames", "streams"] {
        let snapshot = read_file(&file(name), &ReadOptions::default(), None).unwrap();
        let trace = snapshot.trace(None).unwrap();
        let summary = trace.summary(&trace.operations());
        let figures = report(&snapshot).figures();
        assert_eq!(figures.peak_reserved_bytes, summary.recorded_peak_reserved_bytes, "{name}");
        // Of blocks that are alive at the end the true size is known, which may be a little more
        // than the request rounded up.
        let active = summary.peaks.active_bytes;
        let most = active + active / 50;
        assert!((active..=most).contains(&figures.peak_active_bytes), "{name}: {figures:?}");
    }
}

#[test]
fn what_is_not_there_is_not_in_the_legend() {
    let steps = [step("alloc", 0, 512), step("free", 0, 512)];
    let svg = report(&snapshot(vec![segment(0, 1 << 21, &[])], &steps, vec![])).svg();
    assert!(svg.contains("allocated") && !svg.contains("pending free"), "{svg}");
}

#[test]
fn what_was_reserved_is_drawn_where_it_was_recorded() {
    let steps = [step("alloc", 0, 512)];
    let drawn = |segments| report(&snapshot(segments, &steps, vec![])).svg();
    let (log, recorded) = (drawn(vec![]), drawn(vec![segment(0, 1 << 21, &[])]));
    assert!(log.contains("peak reserved not recorded") && !log.contains(">reserved<"), "{log}");
    assert!(recorded.contains(">reserved<") && recorded.contains(">cached<"), "{recorded}");
}

#[cfg(feature = "png")]
#[test]
fn a_png_has_pixels_of_every_state_and_letters() {
    let png = recorded("side_stream").png().unwrap();
    let pixmap = tiny_skia::Pixmap::decode_png(&png).unwrap();
    assert_eq!((pixmap.width(), pixmap.height()), (2400, 920));
    let count = |red: u8, green: u8, blue: u8| {
        let is = |pixel: &&tiny_skia::PremultipliedColorU8| {
            (pixel.red(), pixel.green(), pixel.blue()) == (red, green, blue)
        };
        pixmap.pixels().iter().filter(is).count()
    };
    assert!(100_000 < count(230, 159, 0), "most of this trace is pending");
    assert!(10_000 < count(0, 114, 178), "allocated");
    assert!(10_000 < count(195, 203, 212), "cached");
    assert!(200 < count(27, 31, 36), "letters of the title and the line");
}
