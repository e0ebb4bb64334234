//! `cargo xtask observers`: what observers cost a program that has none, in instructions.
//!
//! Builds the bench `hot_path` twice, as it is and with the observers left out by
//! `--cfg wellspring_unobserved`, and has callgrind count both while they go the same ways. Fails
//! if the usual build needs over one percent more on any of them. Needs valgrind, on a processor
//! that it knows, and some minutes for the second build. Next: `--write` puts the table into
//! `docs/checker.md`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use xshell::{Shell, cmd};

/// The ways of the bench, each with what it is called in the table.
const WAYS: [(&str, &str); 5] = [
    ("raw", "a cached pair in numbers"),
    ("block", "a cached pair with a `Block`"),
    ("raw-recorded", "the same in numbers, with `record_stream`"),
    ("block-recorded", "the same with a `Block`, with `record_stream`"),
    ("mix", "64 sizes over 1,000 live blocks, in numbers"),
];
/// How often a way is gone in a short run and in a long one; what both do besides is the same.
const SHORT: u64 = 10_000;
const LONG: u64 = 30_000;
/// So many percent more are allowed.
const PERCENT_MAX: f64 = 1.0;
/// The page with the table, and the lines between which it stands.
const PAGE: &str = "docs/checker.md";
const BEGIN: &str = "<!-- written by `cargo xtask observers --write` -->\n";
const END: &str = "<!-- end of what it wrote -->\n";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Puts the table into `docs/checker.md`.
    #[arg(long)]
    write: bool,
}

/// Instructions that one way takes, once.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counted {
    way: &'static str,
    usual: f64,
    unobserved: f64,
}

impl Counted {
    fn percent_more(&self) -> f64 {
        100.0 * (self.usual / self.unobserved - 1.0)
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let shell = Shell::new()?;
    shell.change_dir(crate::workspace_root());
    cmd!(shell, "valgrind --version").quiet().read().context("is valgrind installed?")?;
    let usual = build(&shell)?;
    let unobserved = {
        // Apart, as other flags build everything anew.
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        let _flags = shell.push_env("RUSTFLAGS", format!("{flags} --cfg wellspring_unobserved"));
        let _folder = shell.push_env("CARGO_TARGET_DIR", target_apart());
        build(&shell)?
    };
    ensure!(is_told(&shell, &usual)?, "the usual build tells no observer anything");
    ensure!(!is_told(&shell, &unobserved)?, "the build without observers tells one something");
    let mut counted = Vec::new();
    for (word, way) in WAYS {
        let usual = instructions(&shell, &usual, word)?;
        let unobserved = instructions(&shell, &unobserved, word)?;
        counted.push(Counted { way, usual, unobserved });
    }
    let table = table(&counted, &cmd!(shell, "rustc --version").read()?);
    println!("{table}");
    if options.write {
        let page = shell.read_file(PAGE)?;
        shell.write_file(PAGE, replaced(&page, &table)?)?;
        println!("next: git diff {PAGE}");
    }
    judge(&counted)
}

/// Where the second build goes: beside the first one.
fn target_apart() -> PathBuf {
    let usual = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    usual.join("unobserved")
}

/// Builds the bench, and says where it is.
fn build(shell: &Shell) -> Result<PathBuf> {
    let build = cmd!(shell, "cargo bench --no-run --package wellspring --bench hot_path");
    let messages = build.args(["--message-format", "json-render-diagnostics"]).read()?;
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executables.next_back().context("cargo built no bench hot_path")
}

/// Whether an observer in this build is told anything.
fn is_told(shell: &Shell, program: &Path) -> Result<bool> {
    Ok(cmd!(shell, "{program} --go raw 1").quiet().read()?.contains("observers are told: true"))
}

/// Instructions of one way, gone once.
fn instructions(shell: &Shell, program: &Path, way: &str) -> Result<f64> {
    let (short, long) =
        (collected(shell, program, way, SHORT)?, collected(shell, program, way, LONG)?);
    ensure!(short < long, "{way}: {short} instructions in a short run and {long} in a long one");
    Ok(ratio(long - short, LONG - SHORT))
}

fn collected(shell: &Shell, program: &Path, way: &str, count: u64) -> Result<u64> {
    let count = count.to_string();
    let nowhere: &OsStr = "--callgrind-out-file=/dev/null".as_ref();
    let counting = cmd!(shell, "valgrind --tool=callgrind {nowhere} {program} --go {way} {count}");
    let said = counting.quiet().read_stderr()?;
    collected_of(&said).with_context(|| format!("callgrind said no count:\n{said}"))
}

/// The figure in callgrind's line `==1== Collected : 123`.
fn collected_of(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

/// Exact for what callgrind counts here.
fn ratio(instructions: u64, times: u64) -> f64 {
    let exact = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    exact(instructions) / exact(times)
}

fn table(counted: &[Counted], compiler: &str) -> String {
    let mut table = String::from("| way | instructions | without observers | more |\n");
    table += "| --- | ---: | ---: | ---: |\n";
    for each in counted {
        let Counted { way, usual, unobserved } = each;
        let more = each.percent_more();
        table += &format!("| {way} | {usual:.1} | {unobserved:.1} | {more:.2} % |\n");
    }
    let machine = std::env::consts::ARCH;
    table + &format!("\nCounted by callgrind on {machine}, built by {compiler} as benches are.\n")
}

/// The page with the table where the last one stood.
fn replaced(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("the page has no place for the table")?;
    let (_, after) = rest.split_once(END).context("the page's table does not end")?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

fn judge(counted: &[Counted]) -> Result<()> {
    let over = counted.iter().filter(|each| PERCENT_MAX < each.percent_more());
    let over: Vec<&str> = over.map(|each| each.way).collect();
    ensure!(over.is_empty(), "observers cost over {PERCENT_MAX} % of {}", over.join("; "));
    println!("observers cost at most {PERCENT_MAX} % of the instructions of each way");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, Counted, END, collected_of, judge, replaced, table};

    fn counted(usual: f64) -> [Counted; 2] {
        let way = |way, usual| Counted { way, usual, unobserved: 300.0 };
        [way("cheap", 300.0), way("dear", usual)]
    }

    #[test]
    fn more_than_one_percent_is_refused_by_name() {
        judge(&counted(302.9)).unwrap();
        let refusal = judge(&counted(303.1)).unwrap_err().to_string();
        assert_eq!(refusal, "observers cost over 1 % of dear");
    }

    #[test]
    fn the_table_takes_the_place_of_the_last_one() {
        let table = table(&counted(301.5), "rustc 1.2.3");
        assert!(table.contains("| dear | 301.5 | 300.0 | 0.50 % |\n"), "{table}");
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        let new = replaced(&page, &table).unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\n{table}\n{END}after\n"));
        assert_eq!(replaced(&new, &table).unwrap(), new);
        assert!(replaced("no place\n", &table).is_err());
    }

    #[test]
    fn the_page_has_a_place_for_the_table() {
        let page = crate::workspace_root().join(super::PAGE);
        replaced(&std::fs::read_to_string(page).unwrap(), "").unwrap();
    }

    #[test]
    fn the_count_is_found_in_what_callgrind_says() {
        let said = "==7== Events    : Ir\n==7== Collected : 38654521\n==7== \n";
        assert_eq!(collected_of(said), Some(38_654_521));
        assert_eq!(collected_of("==7== Events    : Ir\n"), None);
    }
}
