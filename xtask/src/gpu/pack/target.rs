//! Finds what the workspace offers to a pack, and builds one program of it.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::Value;
use xshell::{Shell, cmd};

/// The feature that declares a package's GPU tests, and the one that brings the simulated device.
const FEATURE_GPU: &str = "gpu";
const FEATURE_SIM: &str = "sim";
/// The package of the `wellspring` command, and the binary of it that travels.
const TOOL_PACKAGE: &str = "cli";
const TOOL: &str = "wellspring";
/// The package whose benches measure patterns.
const PATTERN_PACKAGE: &str = "patterns";
/// The package, and the binary of it, that runs random programs; what it is built with: optimized,
/// with its assertions.
const RANDOM: &str = "random-programs";
const RANDOM_BUILD: &str = "build --profile sim";
const RANDOM_FEATURE: &str = "broken";

/// One program to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) usage: Use,
    features: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Test,
    Bench,
    /// A bench that measures patterns, and speaks lines of its own.
    Pattern,
    Example,
    Tool,
    /// The random programs.
    Random,
}

impl Target {
    /// Where it lies in the pack.
    pub(crate) fn file_name(&self) -> String {
        match self.usage {
            Use::Test => format!("tests/{}", self.package),
            Use::Bench | Use::Pattern => format!("benches/{}", self.name),
            Use::Example => format!("examples/{}", self.name),
            Use::Tool | Use::Random => self.name.clone(),
        }
    }

    /// Builds it and returns where cargo left it.
    pub(crate) fn build(&self, shell: &Shell) -> Result<PathBuf> {
        let (command, selector) = match self.usage {
            Use::Test => ("test --no-run --release", "--test"),
            Use::Bench => ("bench --no-run", "--bench"),
            // It measures the device, not our own cycles.
            Use::Pattern => ("build --release", "--bench"),
            Use::Example => ("build --release", "--example"),
            Use::Tool => ("build --release", "--bin"),
            Use::Random => (RANDOM_BUILD, "--bin"),
        };
        let command = command.split(' ');
        let (package, name, features) = (&self.package, &self.name, self.features.join(","));
        let messages = cmd!(
            shell,
            "cargo {command...} -p {package} {selector} {name} --features {features}
             --message-format json-render-diagnostics"
        )
        .read()
        .with_context(|| format!("building {} of {package}", self.name))?;
        executable(&messages, &self.name)
            .with_context(|| format!("cargo named no executable for {name} of {package}"))
    }
}

/// Everything a pack holds, tools last.
pub(crate) fn find(shell: &Shell) -> Result<Vec<Target>> {
    let metadata = cmd!(shell, "cargo metadata --no-deps --format-version 1").quiet().read()?;
    let metadata = serde_json::from_str(&metadata).context("parsing `cargo metadata`")?;
    Ok(targets(&metadata))
}

fn targets(metadata: &Value) -> Vec<Target> {
    let mut found = Vec::new();
    for package in list(metadata, "packages") {
        for target in list(package, "targets") {
            let Some(usage) = usage(package, target) else { continue };
            let mut features = texts(target, "required-features");
            let optional = match usage {
                Use::Test => [FEATURE_GPU, FEATURE_SIM].as_slice(),
                Use::Bench | Use::Pattern | Use::Example => &[FEATURE_SIM],
                Use::Tool => &[],
                Use::Random => &[RANDOM_FEATURE],
            };
            for feature in optional {
                let is_new = !features.iter().any(|known| known == feature);
                if has_feature(package, feature) && is_new {
                    features.push((*feature).to_owned());
                }
            }
            let (package, name) = (text(package, "name"), text(target, "name"));
            found.push(Target { package, name, usage, features });
        }
    }
    found.sort_by_key(|target| target.usage == Use::Tool);
    found
}

fn usage(package: &Value, target: &Value) -> Option<Use> {
    let name = text(target, "name");
    let package_name = text(package, "name");
    match texts(target, "kind").first()?.as_str() {
        "test" if name == FEATURE_GPU && has_feature(package, FEATURE_GPU) => Some(Use::Test),
        "bench" if package_name == PATTERN_PACKAGE => Some(Use::Pattern),
        "bench" => Some(Use::Bench),
        // An example may be a library for other programs to open, which nobody can run.
        "example" if !texts(target, "crate_types").iter().any(|kind| kind == "cdylib") => {
            Some(Use::Example)
        }
        "bin" if package_name == RANDOM && name == RANDOM => Some(Use::Random),
        "bin" if package_name == TOOL_PACKAGE && name == TOOL => Some(Use::Tool),
        _ => None,
    }
}

fn has_feature(package: &Value, feature: &str) -> bool {
    package.get("features").is_some_and(|features| features.get(feature).is_some())
}

/// Builds the xtask that travels, without what only a workspace can use.
pub(crate) fn build_xtask(shell: &Shell) -> Result<PathBuf> {
    let command = "build --release -p xtask --no-default-features".split(' ');
    let messages =
        cmd!(shell, "cargo {command...} --message-format json-render-diagnostics").read()?;
    executable(&messages, "xtask").context("cargo named no executable for xtask")
}

fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut paths = messages
        .filter(|message| message.get("target").is_some_and(|target| text(target, "name") == name))
        .filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from));
    paths.next_back()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    list(value, key).filter_map(Value::as_str).map(String::from).collect()
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Use, executable, targets};

    #[test]
    fn tests_need_the_feature_and_the_name() {
        let metadata = json!({ "packages": [
            { "name": "a", "features": { "gpu": [], "sim": [] }, "targets": [
                { "name": "gpu", "kind": ["test"], "required-features": ["gpu"] },
                { "name": "it", "kind": ["test"] },
            ] },
            { "name": "b", "features": {}, "targets": [{ "name": "gpu", "kind": ["test"] }] },
        ] });
        let found = targets(&metadata);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].file_name().as_str(), found[0].usage), ("tests/a", Use::Test));
        assert_eq!(found[0].features, ["gpu", "sim"]);
    }

    #[test]
    fn examples_and_benches_come_first_and_only_named_binaries_are_tools() {
        let metadata = json!({ "packages": [
            { "name": "cli", "targets": [
                { "name": "wellspring", "kind": ["bin"] },
                { "name": "cargo-wellspring", "kind": ["bin"] },
            ] },
            { "name": "wellspring", "features": { "sim": [] }, "targets": [
                { "name": "wellspring", "kind": ["lib"] },
                { "name": "overlap", "kind": ["example"] },
                { "name": "hot_path", "kind": ["bench"] },
            ] },
        ] });
        let files: Vec<String> = targets(&metadata).iter().map(super::Target::file_name).collect();
        assert_eq!(files, ["examples/overlap", "benches/hot_path", "wellspring"]);
    }

    #[test]
    fn an_example_that_is_a_library_does_not_stop_the_pack() {
        let metadata = json!({ "packages": [{ "name": "cuda-sim", "targets": [
            { "name": "cuda", "kind": ["example"], "crate_types": ["cdylib"] },
        ] }] });
        assert_eq!(targets(&metadata), []);
    }

    #[test]
    fn the_executable_is_the_one_of_the_target() {
        let messages = "{\"target\":{\"name\":\"build-script\"},\"executable\":\"/x/build\"}\n\
                        {\"target\":{\"name\":\"gpu\"},\"executable\":\"/x/gpu-1\"}\n\
                        {\"reason\":\"build-finished\"}\n";
        assert_eq!(executable(messages, "gpu").unwrap().to_str(), Some("/x/gpu-1"));
        assert_eq!(executable(messages, "it"), None);
    }
}
