//! Serves one packed trace with the `wellspring` command, and reads the line it prints.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;

use super::manifest::Entry;
use super::process::{self, Ended};
use super::results::ReplayRun;

/// The fields of `wellspring replay --json` that the page shows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ReplayLine {
    pub(crate) policy: String,
    pub(crate) source: String,
    pub(crate) operations: u64,
    pub(crate) deferred_frees: u64,
    pub(crate) peak_pending_bytes: u64,
    pub(crate) peak_reserved_bytes: u64,
    pub(crate) recorded_peak_reserved_bytes: Option<u64>,
    pub(crate) utilization: f64,
    pub(crate) segments: u64,
    pub(crate) driver_calls: u64,
    pub(crate) ns_per_operation: f64,
    pub(crate) stamps_checked: u64,
    pub(crate) stamp_errors: u64,
    pub(crate) out_of_memory: u64,
}

pub(crate) fn run(entry: &Entry, command: &mut Command, scratch: &Path) -> Result<ReplayRun> {
    let ended = process::run(command, Duration::from_secs(entry.seconds_max), scratch)?;
    Ok(judge(&entry.name, &ended))
}

fn judge(name: &str, ended: &Ended) -> ReplayRun {
    let value: Option<serde_json::Value> = serde_json::from_str(ended.stdout.trim()).ok();
    let line = value.clone().and_then(|value| serde_json::from_value::<ReplayLine>(value).ok());
    let (passed, how) = match line {
        None if ended.succeeded() => (false, String::from("exit 0 without the expected line")),
        None => (false, ended.describe()),
        Some(line) => (ended.succeeded() && is_clean(&line), ended.describe()),
    };
    let stderr = ended.stderr.trim().to_owned();
    ReplayRun { name: name.to_owned(), passed, how, seconds: ended.seconds, line: value, stderr }
}

/// Every stamp was found as it was written, some were looked at, nothing was refused, and no more
/// was reserved than when the trace was recorded.
fn is_clean(line: &ReplayLine) -> bool {
    let recorded = line.recorded_peak_reserved_bytes;
    line.stamp_errors == 0
        && 0 < line.stamps_checked
        && line.out_of_memory == 0
        && recorded.is_none_or(|recorded| line.peak_reserved_bytes <= recorded)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::judge;
    use crate::gpu::process::{Ended, How};

    fn line() -> Value {
        json!({
            "schema": 1, "trace": "a.pickle", "policy": "default", "source": "vmm",
            "operations": 10, "deferred_frees": 0, "peak_pending_bytes": 0,
            "peak_reserved_bytes": 2, "recorded_peak_reserved_bytes": 4, "utilization": 0.5,
            "segments": 1, "driver_calls": 3, "ns_per_operation": 80.5, "stamps_checked": 20,
            "stamp_errors": 0, "out_of_memory": 0,
        })
    }

    fn passes(how: How, line: &Value) -> bool {
        let stdout = format!("{line}\n");
        let ended = Ended { how, seconds: 0.1, stdout, stderr: String::new() };
        judge("a", &ended).passed
    }

    #[test]
    fn a_clean_line_passes() {
        assert!(passes(How::Exit(0), &line()));
    }

    #[test]
    fn each_fault_fails() {
        assert!(!passes(How::Exit(1), &line()));
        let faults = [
            ("stamp_errors", 1),
            ("stamps_checked", 0),
            ("out_of_memory", 1),
            ("peak_reserved_bytes", 5),
        ];
        for (field, value) in faults {
            let mut line = line();
            line[field] = json!(value);
            assert!(!passes(How::Exit(0), &line), "{field}");
        }
        assert!(!passes(How::Exit(0), &json!({ "schema": 1 })));
    }
}
