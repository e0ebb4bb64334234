//! Files that can be read only once, such as what a shell puts in for `<(zstd -dc FILE)`.

use std::process::{Command, Stdio};

use crate::command::{Said, trace_file, wellspring};

/// Runs the command with a pipe on its standard input that holds `content`.
fn piped(arguments: &[&str], content: &[u8]) -> Said {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wellspring"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let content = content.to_vec();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &content));
    let said = child.wait_with_output().unwrap().into();
    // Who refuses a file does not read on.
    let _ = writer.join().unwrap();
    said
}

/// Was: the file was opened twice, and a pipe had lost its beginning or waited forever.
#[test]
fn a_pipe_is_read_once() {
    let content = std::fs::read(trace_file("streams")).unwrap();
    let expected = wellspring(&["summary", trace_file("streams").to_str().unwrap(), "--json"]);
    let said = piped(&["summary", "/dev/stdin", "--json"], &content);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.json()["recorded"], expected.json()["recorded"]);
    assert!(said.json()["recorded"]["entries"].as_u64().is_some_and(|entries| 1_000 < entries));
    let folder = tempfile::tempdir().unwrap();
    let stream_trace = folder.path().join("a.wst");
    let to = ["-o", stream_trace.to_str().unwrap()];
    let said = piped(&[&["convert", "/dev/stdin"], &to[..]].concat(), &content);
    assert_eq!(said.code, 0, "{said:?}");
    let content = std::fs::read(&stream_trace).unwrap();
    let said = piped(&["summary", "/dev/stdin"], &content);
    assert_eq!(said.code, 0, "{said:?}");
    let log = b"Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.000001,allocate,0x700,512,0x0\n";
    assert_eq!(piped(&["summary", "/dev/stdin"], log).code, 0);
    piped(&["summary", "/dev/stdin"], b"hello").check_failure(2, &["/dev/stdin is not a"]);
    piped(&["summary", "/dev/stdin"], b"").check_failure(2, &["is empty"]);
    piped(&["summary", "/dev/stdin"], &[0x1f, 0x8b, 8]).check_failure(2, &["truncated"]);
}

/// Was: `-` was taken for the name of a file.
#[test]
fn a_dash_is_the_standard_input_for_every_command_that_reads() {
    let content = std::fs::read(trace_file("streams")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (page, table) = (path("r.html"), path("t.csv"));
    let file = trace_file("streams");
    for arguments in [
        &["summary", "-"][..],
        &["advise", "-"],
        &["what-if", "-", "--setting", "default"],
        &["what-if", "--check", "-"],
        &["replay", "-", "--device", "sim"],
        &["report", "-", "-o", &page],
        &["convert", "-", "-o", &table],
        &["diff", file.to_str().unwrap(), "-"],
    ] {
        let said = piped(arguments, &content);
        assert_eq!((said.code, said.stderr.contains("error")), (0, false), "{said:?}");
    }
    let title = std::fs::read_to_string(page).unwrap();
    assert!(title.contains("<title>standard input"), "{title}");
    let said = piped(&["summary", "-"], &content);
    assert!(said.stdout.starts_with("standard input: PyTorch memory snapshot"), "{said:?}");
    piped(&["summary", "-"], b"hello").check_failure(2, &["standard input is not a PyTorch"]);
    for twice in [["diff", "-", "-"], ["what-if", "-", "-"]] {
        piped(&twice, &content).check_failure(2, &["`-` is there 2 times", "only once"]);
    }
    let said = piped(&["summary", "-"], b"PK\x03\x04 and more of it");
    said.check_failure(2, &["zip archive, which is read by the name of its own file alone"]);
    assert!(!piped(&["summary", "-"], &content[..content.len() / 2]).stderr.is_empty());
}

/// Was: the redirected file was written over while it was read.
#[test]
fn a_file_on_the_standard_input_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csv");
    std::fs::write(&file, "index,time_us,device,action,\n").unwrap();
    let said: Said = Command::new(env!("CARGO_BIN_EXE_wellspring"))
        .args(["convert", "-", "-o", file.to_str().unwrap()])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap()
        .into();
    said.check_failure(2, &["a.csv is what is read: write elsewhere"]);
}
