//! Reads from PTX text what the simulator needs: its version, its entries, their parameters.

/// A module's text, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ptx {
    /// `10 * major + minor` of the `.version` line.
    pub(crate) version: u32,
    pub(crate) entries: Vec<Entry>,
}

/// One kernel: its name and the size of each parameter, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) parameters: Vec<usize>,
}

/// The text's entries; `None` when it is not PTX.
pub(crate) fn parse(text: &str) -> Option<Ptx> {
    let text = without_comments(text);
    let version = text.split(".version").nth(1)?.split_whitespace().next()?;
    let (major, minor) = version.split_once('.')?;
    let version = major.parse::<u32>().ok()? * 10 + minor.parse::<u32>().ok()?;
    let entries = text.split(".entry").skip(1).map(entry).collect::<Option<Vec<_>>>()?;
    Some(Ptx { version, entries })
}

/// The newest PTX version that a driver reads.
pub(crate) fn newest_for(driver_version: u32) -> u32 {
    let minor = driver_version % 1000 / 10;
    match driver_version / 1000 {
        0..=10 => 65,
        11 => 70 + minor.min(8),
        12 => match minor {
            0..=5 => 80 + minor,
            6 => 85,
            _ => 79 + minor,
        },
        major => major * 10 - 40 + minor.min(9),
    }
}

/// What follows `.entry`: a name, and perhaps parameters in parentheses.
fn entry(text: &str) -> Option<Entry> {
    let text = text.trim_start();
    let end =
        text.find(|c: char| !(c.is_alphanumeric() || "_$%".contains(c))).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let parameters = match rest.trim_start().strip_prefix('(') {
        None => Vec::new(),
        Some(list) => {
            let list = list.split(')').next()?;
            let each = list.split(',').filter(|parameter| parameter.contains(".param"));
            each.map(parameter_bytes).collect::<Option<Vec<_>>>()?
        }
    };
    (!name.is_empty()).then(|| Entry { name: name.to_owned(), parameters })
}

/// The bytes of `.param .u64 name` or `.param .align 8 .b8 name[24]`.
fn parameter_bytes(text: &str) -> Option<usize> {
    let element = text.split_whitespace().find_map(|word| match word {
        ".b8" | ".u8" | ".s8" => Some(1),
        ".b16" | ".u16" | ".s16" | ".f16" => Some(2),
        ".b32" | ".u32" | ".s32" | ".f32" => Some(4),
        ".b64" | ".u64" | ".s64" | ".f64" => Some(8),
        _ => None,
    })?;
    match text.split_once('[') {
        None => Some(element),
        Some((_, count)) => Some(element * count.split(']').next()?.trim().parse::<usize>().ok()?),
    }
}

fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        kept.push_str(rest.get(..start).unwrap_or(""));
        let tail = rest.get(start..).unwrap_or("");
        rest = tail.find("*/").and_then(|end| tail.get(end + 2..)).unwrap_or("");
    }
    kept.push_str(rest);
    kept.lines().flat_map(|line| [line.split("//").next().unwrap_or(""), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_parameter_sizes_are_read() {
        let text = "// made by hand\n.version 9.0\n.target sm_75\n.address_size 64\n\
            .visible .entry nop()\n{ ret; }\n\
            .visible .entry fill(\n .param .u64 .ptr .align 1 fill_param_0,\n\
            .param .u32 fill_param_1,\n\
            .param .align 8 .b8 fill_param_2[24]\n)\n{ ret; }";
        let ptx = parse(text).unwrap();
        assert_eq!(ptx.version, 90);
        assert_eq!(ptx.entries[0], Entry { name: "nop".into(), parameters: vec![] });
        assert_eq!(ptx.entries[1], Entry { name: "fill".into(), parameters: vec![8, 4, 24] });
        assert_eq!(parse("not a module"), None);
    }

    #[test]
    fn a_driver_reads_ptx_up_to_its_own_version() {
        let cases = [(11_080, 78), (12_000, 80), (12_050, 85), (12_060, 85), (12_080, 87)];
        for (driver, ptx) in cases.into_iter().chain([(12_090, 88), (13_000, 90), (13_020, 92)]) {
            assert_eq!(newest_for(driver), ptx, "{driver}");
        }
    }
}
