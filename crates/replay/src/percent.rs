//! Shares and differences in per cent, with one digit behind the point.

/// A share, 1 being all.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// By how many per cent `other` differs from `base`, with its sign, cut off and not rounded.
pub(crate) fn percent_from(base: u64, other: u64) -> String {
    let tenths = (i128::from(other) - i128::from(base)) * 1000 / i128::from(base.max(1));
    let sign = if tenths < 0 { '-' } else { '+' };
    let tenths = tenths.unsigned_abs();
    format!("{sign}{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{percent, percent_from};

    #[test]
    fn a_difference_has_its_sign() {
        assert_eq!(percent_from(1000, 1003), "+0.3 %");
        assert_eq!(percent_from(1000, 990), "-1.0 %");
        assert_eq!(percent_from(0, 0), "+0.0 %");
        assert_eq!(percent(0.987), "98.7 %");
    }
}
