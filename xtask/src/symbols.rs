//! Reads `crates/cuda-sys/symbols.txt`: the driver entry points that `cuda-sys` binds.

use anyhow::{Context as _, Result, bail, ensure};

/// One entry point, as `symbols.txt` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// The name `cuGetProcAddress` is asked for.
    pub(crate) base: String,
    /// The CUDA version that brought this signature, as `1000 * major + 10 * minor`.
    pub(crate) version: u32,
    /// Whether loading fails without it.
    pub(crate) required: bool,
    /// The declaration in the header that gives the signature.
    pub(crate) declared: String,
    /// The exported symbol for drivers without `cuGetProcAddress`.
    pub(crate) exported: String,
}

impl Symbol {
    /// The field of the table: `cuMemcpyHtoDAsync` is `memcpy_htod_async`.
    pub(crate) fn field(&self) -> String {
        let bare = self.base.trim_start_matches("cu");
        let bare = bare.replace("HtoD", "Htod").replace("DtoH", "Dtoh").replace("DtoD", "Dtod");
        let bare = bare.replace("PCIBus", "PciBus");
        let mut snake = String::new();
        for (index, letter) in bare.char_indices() {
            if letter.is_ascii_uppercase() && 0 < index {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
        }
        snake
    }
}

/// Parses the whole list; every malformed line is refused with its number.
pub(crate) fn parse(text: &str) -> Result<Vec<Symbol>> {
    let mut symbols: Vec<Symbol> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let symbol = parse_line(line).with_context(|| format!("symbols.txt:{}", index + 1))?;
        ensure!(
            symbols.iter().all(|known| known.base != symbol.base),
            "symbols.txt:{}: {} is listed twice",
            index + 1,
            symbol.base
        );
        symbols.push(symbol);
    }
    ensure!(!symbols.is_empty(), "symbols.txt lists no entry point");
    Ok(symbols)
}

fn parse_line(line: &str) -> Result<Symbol> {
    let mut words = line.split_whitespace();
    let base = words.next().context("no name")?.to_owned();
    let version = words.next().context("no version")?.parse().context("version")?;
    let required = match words.next() {
        Some("required") => true,
        Some("optional") => false,
        other => bail!("expected `required` or `optional`, found {other:?}"),
    };
    let (mut declared, mut exported) = (None, None);
    for word in words {
        match word.split_once('=') {
            Some(("declared", name)) => declared = Some(name.to_owned()),
            Some(("symbol", name)) => exported = Some(name.to_owned()),
            _ => bail!("unknown word {word:?}"),
        }
    }
    let declared = declared.unwrap_or_else(|| base.clone());
    let exported = exported.unwrap_or_else(|| declared.clone());
    Ok(Symbol { base, version, required, declared, exported })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_line_gives_every_name_and_the_field() {
        let list = parse("cuMemcpyHtoDAsync 3020 required declared=cuMemcpyHtoDAsync_v2").unwrap();
        assert_eq!(list[0].field(), "memcpy_htod_async");
        assert_eq!(list[0].exported, "cuMemcpyHtoDAsync_v2");
        assert!(list[0].required);
    }

    #[test]
    fn a_line_without_need_is_refused_with_its_number() {
        let refusal = parse("# head\ncuInit 2000").unwrap_err();
        assert!(format!("{refusal:#}").starts_with("symbols.txt:2"), "{refusal:#}");
    }
}
