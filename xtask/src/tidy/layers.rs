//! The layers: which workspace crate may name which other one.
//!
//! A crate names crates of lower layers only, in `[dependencies]` and `[build-dependencies]`.
//! A crate beside the road names even fewer. Test tools may be a dev-dependency of any crate.

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use super::Finding;

struct Layer {
    package: &'static str,
    number: u32,
    /// If present, the only workspace crates it may name.
    only: Option<&'static [&'static str]>,
}

const fn layer(package: &'static str, number: u32) -> Layer {
    Layer { package, number, only: None }
}

const fn beside(package: &'static str, number: u32, only: &'static [&'static str]) -> Layer {
    Layer { package, number, only: Some(only) }
}

const LAYERS: &[Layer] = &[
    layer("cuda-sys", 0),
    layer("cuda-sim", 1),
    layer("conformance", 1),
    layer("streams", 2),
    layer("allocator", 3),
    beside("kernels", 3, &["cuda-sim", "streams"]),
    beside("checker", 4, &["allocator", "streams"]),
    beside(
        "random-programs",
        5,
        &["cuda-sys", "cuda-sim", "streams", "kernels", "allocator", "checker"],
    ),
    layer("wellspring", 5),
    beside("trace", 1, &[]),
    beside("trace-fuzz", 2, &["trace"]),
    beside("pytorch-model", 2, &["trace"]),
    beside("replay", 6, &["trace", "allocator", "pytorch-model"]),
    beside("report", 2, &["trace"]),
    layer("cli", 7),
    beside("patterns", 6, &["wellspring"]),
    beside("cudarc-adapter", 6, &["cuda-sys", "wellspring"]),
    beside("xtask", 0, &[]),
];

/// Crates that any crate may use in its tests.
const TEST_TOOLS: &[&str] = &["cuda-sim", "kernels", "conformance", "random-programs"];

/// Checks the text of one `Cargo.toml` against the layers.
pub(crate) fn check(path: &str, manifest: &str) -> Result<Vec<Finding>> {
    let table: Table = manifest.parse().with_context(|| format!("parsing {path}"))?;
    let Some(package) = table.get("package").and_then(|package| package.get("name")) else {
        return Ok(Vec::new());
    };
    let package = package.as_str().with_context(|| format!("{path}: the name is no string"))?;
    let Some(own) = find(package) else {
        let complaint = format!("crate `{package}` has no layer: name one in {}", file!());
        return Ok(vec![Finding::failure(path, 1, complaint)]);
    };
    let mut findings = Vec::new();
    for (section, name) in workspace_dependencies(&table) {
        // A crate may name itself in its own tests, to turn a feature on.
        let is_test_tool = TEST_TOOLS.contains(&name.as_str()) || name == package;
        if section == "dev-dependencies" && is_test_tool {
            continue;
        }
        let allowed = find(&name).is_some_and(|other| may_name(own, other));
        if !allowed {
            let complaint = format!("`{package}` may not name `{name}` in [{section}]");
            findings.push(Finding::failure(path, line_of(manifest, &name), complaint));
        }
    }
    Ok(findings)
}

fn find(package: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.package == package)
}

fn may_name(own: &Layer, other: &Layer) -> bool {
    other.number < own.number && own.only.is_none_or(|only| only.contains(&other.package))
}

/// Section and package of each dependency that is one of ours: by table, by path, or inherited.
fn workspace_dependencies(manifest: &Table) -> Vec<(&'static str, String)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(targets) {
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let Some(entries) = table.get(section).and_then(Value::as_table) else { continue };
            for (key, value) in entries {
                let renamed = value.get("package").and_then(Value::as_str);
                let name = renamed.unwrap_or(key);
                let is_ours = find(name).is_some() || value.get("path").is_some();
                if is_ours {
                    found.push((section, name.to_owned()));
                }
            }
        }
    }
    found
}

fn line_of(manifest: &str, name: &str) -> usize {
    let position = manifest.lines().position(|line| {
        let key = line.split(['=', '.']).next().unwrap_or_default();
        key.trim() == name || line.contains(&format!("\"{name}\""))
    });
    position.map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::check;

    fn complaints(manifest: &str) -> Vec<String> {
        let findings = check("Cargo.toml", manifest).unwrap();
        findings
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.message))
            .collect()
    }

    #[test]
    fn naming_lower_layers_is_silent() {
        let manifest = "[package]\nname = \"allocator\"\n[dependencies]\nstreams.workspace = true\n\
                        smallvec = \"1\"\n[dev-dependencies]\ncuda-sim.workspace = true\n";
        assert_eq!(complaints(manifest), [""; 0]);
    }

    #[test]
    fn naming_a_higher_layer_is_found_with_its_line() {
        let manifest =
            "[package]\nname = \"streams\"\n[dependencies]\nallocator.workspace = true\n";
        assert_eq!(
            complaints(manifest),
            ["4: `streams` may not name `allocator` in [dependencies]"]
        );
    }

    #[test]
    fn the_same_layer_is_not_lower() {
        let manifest =
            "[package]\nname = \"conformance\"\n[dependencies]\ncuda-sim.workspace = true\n";
        assert_eq!(complaints(manifest).len(), 1);
    }

    #[test]
    fn a_renamed_or_target_dependency_hides_nothing() {
        let renamed = "[package]\nname = \"trace\"\n[dependencies]\n\
                       quiet = { package = \"streams\", path = \"../streams\" }\n";
        assert_eq!(complaints(renamed), ["4: `trace` may not name `streams` in [dependencies]"]);
        let target = "[package]\nname = \"streams\"\n[target.'cfg(unix)'.dependencies]\n\
                      allocator.workspace = true\n";
        assert_eq!(complaints(target).len(), 1);
    }

    #[test]
    fn only_test_tools_may_come_from_above_in_dev_dependencies() {
        let manifest = "[package]\nname = \"cuda-sys\"\n[dev-dependencies]\n\
                        cuda-sim.workspace = true\nallocator.workspace = true\n";
        let expected = ["5: `cuda-sys` may not name `allocator` in [dev-dependencies]"];
        assert_eq!(complaints(manifest), expected);
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        let found = complaints("[package]\nname = \"stranger\"\n");
        assert!(found[0].contains("`stranger` has no layer"), "{found:?}");
    }

    /// Was: the fuzz targets of a crate were taken for a crate that nobody had thought of.
    #[test]
    fn fuzz_targets_name_the_crate_that_they_feed() {
        let targets = |name: &str| {
            complaints(&format!(
                "[package]\nname = \"trace-fuzz\"\n[dependencies]\nlibfuzzer-sys = \"0.4\"\n\
                 {name} = {{ path = \"..\" }}\n"
            ))
        };
        assert_eq!(targets("trace"), [""; 0]);
        assert_eq!(
            targets("streams"),
            ["5: `trace-fuzz` may not name `streams` in [dependencies]"]
        );
    }

    #[test]
    fn replay_and_xtask_name_only_what_they_are_for() {
        let replay = "[package]\nname = \"replay\"\n[dependencies]\nstreams.workspace = true\n";
        assert_eq!(complaints(replay).len(), 1);
        let xtask = "[package]\nname = \"xtask\"\n[dependencies]\ncuda-sys.workspace = true\n";
        assert_eq!(complaints(xtask).len(), 1);
    }
}
