//! Builds a Markdown page: headings, sentences and tables with aligned numbers.

/// A page under construction.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
}

/// A column: its heading, and whether it holds numbers (which are set to the right).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    is_number: bool,
}

pub(crate) const fn words(heading: &'static str) -> Column {
    Column { heading, is_number: false }
}

pub(crate) const fn number(heading: &'static str) -> Column {
    Column { heading, is_number: true }
}

impl Page {
    pub(crate) fn heading(&mut self, text: &str) {
        let blank = if self.text.is_empty() { "" } else { "\n" };
        self.text += &format!("{blank}{text}\n\n");
    }

    /// One sentence, on a line of its own.
    pub(crate) fn sentence(&mut self, text: &str) {
        self.text += text;
        self.text.push('\n');
    }

    /// A table after a blank line; a bar inside a cell cannot break it.
    pub(crate) fn table(&mut self, columns: &[Column], rows: &[Vec<String>]) {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        self.row(columns.iter().map(|column| column.heading.to_owned()));
        self.row(columns.iter().map(|column| {
            let rule = if column.is_number { "---:" } else { "---" };
            rule.to_owned()
        }));
        for row in rows {
            self.row(row.iter().map(|cell| cell.replace('|', "\\|")));
        }
    }

    /// Lines set as they are, after a blank line.
    pub(crate) fn code<'a>(&mut self, lines: impl Iterator<Item = &'a str>) {
        self.text += "\n```text\n";
        lines.for_each(|line| self.sentence(line));
        self.text += "```\n";
    }

    fn row(&mut self, cells: impl Iterator<Item = String>) {
        let cells: Vec<String> = cells.collect();
        self.text += &format!("| {} |\n", cells.join(" | "));
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// Bytes in the largest unit that leaves a readable number.
#[expect(clippy::cast_precision_loss, reason = "a page shows three digits of a size")]
pub(crate) fn bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..0x400 => return format!("{bytes} B"),
        0x400..0x10_0000 => (1_u64 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        0x4000_0000.. => (1 << 30, "GiB"),
    };
    format!("{:.2} {name}", bytes as f64 / unit as f64)
}

/// How much less `ours` is than `theirs`; negative if it is more.
#[expect(clippy::cast_precision_loss, reason = "a page shows one digit of a percentage")]
pub(crate) fn saving(ours: u64, theirs: u64) -> String {
    if theirs == 0 {
        return String::from("-");
    }
    format!("{:.1} %", 100.0 * (1.0 - ours as f64 / theirs as f64))
}

/// A count with its thousands set apart.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if 0 < index && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Page, bytes, count, number, saving, words};

    #[test]
    fn a_page_is_markdown() {
        let mut page = Page::default();
        page.heading("# Title");
        page.sentence("One.");
        page.table(&[words("name"), number("n")], &[vec![String::from("a|b"), String::from("1")]]);
        let expected = "# Title\n\nOne.\n\n| name | n |\n| --- | ---: |\n| a\\|b | 1 |\n";
        assert_eq!(page.into_text(), expected);
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 1_000, 999_999].map(count), ["0", "1,000", "999,999"]);
        assert_eq!(
            [12, 1536, 3 << 20, 5 << 29].map(bytes),
            ["12 B", "1.50 KiB", "3.00 MiB", "2.50 GiB"]
        );
        assert_eq!([saving(3, 4), saving(5, 4), saving(1, 0)], ["25.0 %", "-25.0 %", "-"]);
    }
}
