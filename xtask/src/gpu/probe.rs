//! Finds out what machine this is: GPUs and driver from `nvidia-smi`, processor from Linux.

use std::collections::BTreeMap;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::Device;

/// What `nvidia-smi` is asked for, in the order of [`Gpu`]'s fields.
const QUERY: &str = "--query-gpu=name,driver_version,memory.total,compute_cap,mig.mode.current";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Probe {
    pub(crate) device: Device,
    pub(crate) gpus: Vec<Gpu>,
    /// Why the asked device is not there, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
    pub(crate) processor: String,
    pub(crate) processor_count: usize,
    /// The commit of the pack that was run; filled in by the run.
    #[serde(default)]
    pub(crate) commit: String,
    /// The commit of each kind of program that ran, where that was another: results of several
    /// packs may come together in one folder.
    #[serde(default)]
    pub(crate) commits: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) packed_at: String,
    /// What the pack held, to compare with what ran.
    #[serde(default)]
    pub(crate) packed: Packed,
    /// What tests measured about the driver: their lines `probe: name=value`.
    #[serde(default)]
    pub(crate) measured: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Packed {
    pub(crate) tests: usize,
    pub(crate) replays: usize,
    pub(crate) benches: usize,
    pub(crate) examples: usize,
    #[serde(default)]
    pub(crate) patterns: usize,
    #[serde(default)]
    pub(crate) random: usize,
    /// Tests to run under the checker of the device's memory.
    #[serde(default)]
    pub(crate) sanitized: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) memory: String,
    pub(crate) compute_capability: String,
    pub(crate) mig_mode: String,
}

pub(crate) fn probe(device: Device) -> Probe {
    let (gpus, missing) = match find_gpus() {
        Ok(gpus) => (gpus, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Probe {
        device,
        gpus,
        missing: missing.filter(|_| device == Device::Cuda),
        processor: processor(&cpuinfo),
        processor_count: std::thread::available_parallelism().map_or(0, usize::from),
        commit: String::new(),
        commits: BTreeMap::new(),
        packed_at: String::new(),
        packed: Packed::default(),
        measured: BTreeMap::new(),
    }
}

fn find_gpus() -> Result<Vec<Gpu>, String> {
    let output = Command::new("nvidia-smi")
        .args([QUERY, "--format=csv,noheader"])
        .output()
        .map_err(|error| format!("nvidia-smi could not be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let first = text.lines().next().unwrap_or_default();
        return Err(format!("nvidia-smi ended with {}: {first}", output.status));
    }
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Gpu>, String> {
    let mut gpus = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [name, driver, memory, compute_capability, mig_mode] = fields[..] else {
            return Err(format!("nvidia-smi answered {line:?}"));
        };
        let [name, driver, memory] = [name, driver, memory].map(String::from);
        let [compute_capability, mig_mode] = [compute_capability, mig_mode].map(String::from);
        gpus.push(Gpu { name, driver, memory, compute_capability, mig_mode });
    }
    if gpus.is_empty() { Err(String::from("nvidia-smi lists no GPU")) } else { Ok(gpus) }
}

fn processor(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let name = model.and_then(|line| line.split_once(": ")).map(|parts| parts.1.trim());
    name.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::{parse, processor};

    #[test]
    fn each_line_is_a_gpu() {
        let text = "NVIDIA H200, 580.95.05, 143771 MiB, 9.0, Disabled\n";
        let gpus = parse(text).unwrap();
        assert_eq!(gpus.len(), 1);
        assert_eq!((gpus[0].name.as_str(), gpus[0].driver.as_str()), ("NVIDIA H200", "580.95.05"));
    }

    #[test]
    fn an_unexpected_answer_is_a_reason() {
        assert_eq!(parse("").unwrap_err(), "nvidia-smi lists no GPU");
        let refusal = parse("No devices were found\n").unwrap_err();
        assert_eq!(refusal, "nvidia-smi answered \"No devices were found\"");
    }

    #[test]
    fn the_processor_is_named() {
        assert_eq!(processor("flags: a\nmodel name\t: Some CPU 9000 \n"), "Some CPU 9000");
        assert_eq!(processor(""), "unknown");
    }
}
