//! `record`, `completions`, `man`, and the exit codes that docs/cli.md lists.

use std::path::Path;

use crate::command::{replay, trace_file, wellspring};

#[test]
fn every_documented_exit_code_occurs() {
    let graphs = trace_file("graphs");
    let graphs = graphs.to_str().unwrap();
    let occurring = [
        (0, wellspring(&["summary", graphs]).code),
        (1, replay("graphs", &["--capacity", "8MiB", "-q"]).code),
        (2, wellspring(&["summary", "/no/such/file"]).code),
        (3, wellspring(&["replay", graphs, "--device", "cuda:99"]).code),
    ];
    for (expected, code) in occurring {
        assert_eq!(expected, code);
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("## Exit codes").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let codes: Vec<&str> = rows.take(4).map(|line| &line[2..5]).collect();
    assert_eq!(codes, ["`0`", "`1`", "`2`", "`3`"], "{table}");
}

#[test]
fn every_shell_has_completions_that_name_every_subcommand() {
    let help = wellspring(&["--help"]).stdout;
    let listed = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names: Vec<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(8 <= names.len(), "{names:?}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let said = wellspring(&["completions", shell]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{shell}");
        for name in &names {
            assert!(said.stdout.contains(name), "{shell} lacks {name}");
        }
    }
    wellspring(&["completions", "dos"]).check_failure(2, &["possible values"]);
}

#[test]
fn there_is_a_page_of_the_manual_for_the_command_and_each_subcommand() {
    let said = wellspring(&["man"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(said.stdout.contains(".TH wellspring 1"), "{}", said.stdout);
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    assert_eq!(wellspring(&["man", "--dir", pages.to_str().unwrap()]).code, 0, "it is made");
    for name in ["wellspring.1", "wellspring-convert.1", "wellspring-replay.1"] {
        assert!(pages.join(name).exists(), "{name}");
    }
    let in_a_file = pages.join("wellspring.1/below");
    let in_a_file = in_a_file.to_str().unwrap();
    wellspring(&["man", "--dir", in_a_file]).check_failure(1, &["cannot be written to"]);
}

#[test]
fn a_program_is_run_with_the_variable_and_its_trace_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.wst");
    let name = file.to_str().unwrap();
    let script = "printf '\\211WST\\r\\n\\032\\n' > \"$WELLSPRING_RECORD\"; exit \"$0\"";
    let said = wellspring(&["record", "-o", name, "--", "sh", "-c", script, "0"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{said:?}");
    assert!(said.stderr.contains("run.wst (8 B)"), "{said:?}");
    let said = wellspring(&["record", "-q", "-o", name, "--", "sh", "-c", script, "7"]);
    said.check_failure(1, &["sh ended with", "7"]);
    wellspring(&["record", "-o", name, "--", "true"]).check_failure(1, &["recorded nothing"]);
    wellspring(&["record", "--", "/no/such/program"]).check_failure(2, &["/no/such/program"]);
    let nowhere = ["record", "-o", "/no/such/folder/run.wst", "--", "true"];
    wellspring(&nowhere).check_failure(2, &["no folder"]);
    wellspring(&["record"]).check_failure(2, &["<COMMAND>"]);
}

/// Was: any bytes that a program left counted as a recording.
#[test]
fn what_a_program_left_that_is_no_stream_trace_is_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.wst");
    for script in ["printf trace > \"$WELLSPRING_RECORD\"", ": > \"$WELLSPRING_RECORD\""] {
        let line = ["record", "-o", file.to_str().unwrap(), "--", "sh", "-c", script];
        wellspring(&line).check_failure(1, &["run.wst, which is no stream trace"]);
        std::fs::remove_file(&file).unwrap();
    }
}
