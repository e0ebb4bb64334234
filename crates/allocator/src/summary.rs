//! The figures as a table, for people: what PyTorch calls a memory summary.

use std::fmt;

use crate::bytes::Bytes;
use crate::stats::{Gauge, Stats};

/// How wide the names are.
const NAME_WIDTH: usize = 28;

impl fmt::Display for Stats {
    /// One figure a line: gauges with their peaks first, then how requests were served, then what
    /// was counted. A count that is zero and means trouble is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:NAME_WIDTH$} {:>12} {:>12}", "memory", "now", "peak")?;
        let gauges = [
            ("allocated", self.allocated_bytes),
            ("active", self.active_bytes),
            ("pending", self.pending_bytes),
            ("reserved", self.reserved_bytes),
        ];
        for (name, Gauge { current, peak }) in gauges {
            let (now, peak) = (Bytes(current).to_string(), Bytes(peak).to_string());
            writeln!(f, "{name:NAME_WIDTH$} {now:>12} {peak:>12}")?;
        }
        for (name, bytes) in
            [("requested", self.requested_bytes), ("stranded", self.stranded_bytes)]
        {
            let now = Bytes(bytes).to_string();
            writeln!(f, "{name:NAME_WIDTH$} {now:>12}")?;
        }
        self.write_service(f)?;
        self.write_counts(f)
    }
}

impl Stats {
    fn write_service(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.served_by.total();
        writeln!(f, "{:NAME_WIDTH$} {total:>12} {:>12}", "requests", "share")?;
        let steps = [
            ("by the stream's own cache", self.served_by.own_stream),
            ("by known order", self.served_by.known_order),
            ("by completion", self.served_by.completion),
            ("by a wait on the device", self.served_by.device_wait),
            ("by growth", self.served_by.growth),
            ("by the ladder", self.served_by.ladder),
        ];
        for (name, count) in steps {
            let share = Share { part: count, whole: total }.to_string();
            writeln!(f, "  {name:width$} {count:>12} {share:>12}", width = NAME_WIDTH - 2)?;
        }
        Ok(())
    }

    fn write_counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let always = [
            ("blocks handed out", self.allocation_count),
            ("frees", self.free_total),
            ("frees still in use", self.deferred_free_total),
            ("segments", self.segment_count),
            ("pieces taken", self.num_device_alloc),
            ("pieces given back", self.num_device_free),
        ];
        let trouble = [
            ("retries at the limit", self.num_alloc_retries),
            ("out of memory", self.num_ooms),
            ("host held up at a bound", self.host_throttle_total),
            ("stream held up at a bound", self.device_throttle_total),
            ("bound passed", self.bound_passed_total),
            ("errors in drops", self.drop_errors),
        ];
        let trouble = trouble.into_iter().filter(|(_, count)| 0 < *count);
        let mut lines = always.into_iter().chain(trouble).peekable();
        while let Some((name, count)) = lines.next() {
            write!(f, "{name:NAME_WIDTH$} {count:>12}")?;
            if lines.peek().is_some() {
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

/// A part of a whole, in tenths of a percent.
struct Share {
    part: u64,
    whole: u64,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, whole) = (u128::from(self.part), u128::from(self.whole));
        let tenths = (part * 1000).checked_div(whole).unwrap_or(0);
        write!(f, "{}.{} %", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use crate::stats::{Gauge, ServedBy, Stats};

    fn stats() -> Stats {
        let served_by = ServedBy { own_stream: 3, growth: 1, ..ServedBy::default() };
        Stats {
            allocated_bytes: Gauge { current: 1536, peak: 3 << 20 },
            stranded_bytes: 2 << 20,
            served_by,
            num_ooms: 2,
            ..Stats::default()
        }
    }

    #[test]
    fn every_line_has_its_figure_under_the_heading() {
        let text = stats().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "memory                                now         peak");
        assert_eq!(lines[1], "allocated                         1.5 KiB      3.0 MiB");
        assert_eq!(lines[6], "stranded                          2.0 MiB");
        assert_eq!(lines[8], "  by the stream's own cache             3       75.0 %");
        assert!(lines.iter().all(|line| line.len() <= 54), "{text}");
    }

    #[test]
    fn trouble_is_told_only_where_there_is_any() {
        let text = stats().to_string();
        assert!(text.ends_with("out of memory                           2"), "{text}");
        assert!(!text.contains("errors in drops"), "{text}");
        assert!(!Stats::default().to_string().contains("out of memory"));
    }
}
