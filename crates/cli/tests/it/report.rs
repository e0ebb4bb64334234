//! `report` on files of either kind, and what it writes.

use std::path::Path;

use trace::stream_trace::Writer;

use crate::command::{Said, trace_file, wellspring};

fn report(file: &Path, more: &[&str]) -> Said {
    let mut arguments = vec!["report", file.to_str().unwrap()];
    arguments.extend(more);
    wellspring(&arguments)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_page_and_pictures_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let [page, svg, png] = ["a.html", "a.svg", "a.png"].map(|name| folder.path().join(name));
    let files = ["-o", text(&page), "--svg", text(&svg), "--png", text(&png)];
    let said = report(&trace_file("side_stream"), &[&files[..], &["--json"]].concat());
    let json = said.json();
    assert_eq!((json["schema"].as_u64(), json["device"].as_u64()), (Some(1), Some(0)));
    assert_eq!(json["peak_reserved_bytes"].as_u64(), Some(11_744 << 20));
    assert_eq!(json["files"].as_array().unwrap().len(), 3);
    let written = std::fs::read_to_string(&page).unwrap();
    assert!(written.contains("<title>side_stream.pickle.zst</title>"));
    assert!(std::fs::read_to_string(&svg).unwrap().ends_with("</svg>\n"));
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    let shown = report(&trace_file("side_stream"), &["-o", "-"]);
    assert_eq!((shown.code, shown.stdout), (0, written), "the same page on the standard output");
}

#[test]
fn pictures_go_to_the_standard_output_as_well_and_to_no_file_named_so() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace_file("graphs");
    let in_folder = |more: &[&str]| {
        let run = std::process::Command::new(env!("CARGO_BIN_EXE_wellspring"));
        let line = ["report", text(&trace), "-o", "a.html", "-q"];
        let mut run = run;
        run.current_dir(folder.path()).args(line).args(more).output().unwrap()
    };
    let svg = in_folder(&["--svg", "-"]);
    assert!(svg.status.success() && svg.stdout.starts_with(b"<svg"), "{svg:?}");
    assert!(svg.stdout.ends_with(b"</svg>\n"), "nothing behind the picture");
    let png = in_folder(&["--png", "-"]);
    assert!(png.status.success() && png.stdout.starts_with(b"\x89PNG"));
    assert!(!folder.path().join("-").exists() && folder.path().join("a.html").exists());
    for two in [&["--svg", "-", "--png", "-"][..], &["--svg", "-", "--json"]] {
        let refused = in_folder(two);
        assert_eq!(refused.status.code(), Some(2), "{two:?}");
        assert!(refused.stdout.is_empty());
    }
}

#[test]
fn an_owner_is_a_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("a.html");
    let count = |more: &[&str]| {
        let files = ["-o", text(&page), "--json"];
        let said = report(&trace_file("oom_frames"), &[&files[..], more].concat());
        said.json()["owners"].as_u64().unwrap()
    };
    let own = count(&[]);
    let every = count(&["--owner", "."]);
    let one = count(&["--owner", "^nothing matches this$"]);
    assert!(own < every, "{own} lines of the program, {every} innermost frames");
    assert_eq!(one, own, "what matches nothing changes nothing");
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("a.html");
    let trace = trace_file("graphs");
    let to_page = ["-o", text(&page)];
    report(&trace, &[&to_page[..], &["--owner", "("]].concat()).check_failure(2, &["--owner ("]);
    report(&trace, &[&to_page[..], &["--device", "9"]].concat()).check_failure(2, &["device"]);
    report(&trace, &["-o", "-", "--json"]).check_failure(2, &["--json"]);
    report(folder.path(), &to_page).check_failure(2, &["folder"]);
    report(Path::new("no/such.pickle"), &to_page).check_failure(2, &["no/such.pickle"]);
    assert!(!page.exists(), "nothing is written for what cannot be read");
    let nowhere = folder.path().join("none/a.html");
    report(&trace, &["-o", text(&nowhere)]).check_failure(1, &["cannot be written"]);
}

#[test]
fn a_stream_trace_is_drawn_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let [trace, page] = ["run.wst", "a.html"].map(|name| folder.path().join(name));
    let writer = Writer::new(Vec::new(), 0).unwrap();
    std::fs::write(&trace, writer.finish().unwrap()).unwrap();
    let json = report(&trace, &["-o", text(&page), "--json"]).json();
    assert_eq!(json["events"].as_u64(), Some(0));
    assert!(std::fs::read_to_string(&page).unwrap().contains("<title>run.wst</title>"));
    for wrong in [["--device", "0"], ["--owner", "x"]] {
        report(&trace, &wrong).check_failure(2, &["stream trace", "leave out"]);
    }
}

/// Was: `-o` with the snapshot's own name put the page in its place.
#[test]
fn what_is_read_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let [file, page] = ["a.pickle.zst", "a.html"].map(|name| folder.path().join(name));
    std::fs::copy(trace_file("graphs"), &file).unwrap();
    let before = std::fs::read(&file).unwrap();
    for to in [
        &["-o", text(&file)][..],
        &["-o", text(&page), "--svg", text(&file)],
        &["-o", text(&page), "--png", text(&file)],
        &["-o", "-", "--svg", text(&file)],
    ] {
        report(&file, to).check_failure(2, &["a.pickle.zst is what is read"]);
    }
    assert!(std::fs::read(&file).unwrap() == before);
    let twice = ["-o", text(&page), "--svg", text(&page)];
    report(&file, &twice).check_failure(2, &["a.html is to be written twice"]);
    assert!(!page.exists());
}
