use std::fmt;
use std::time::Duration;

use super::Rounded;

/// A limit as it was set. One that was computed from the time of another call has more digits than a reader
/// needs, so it is printed with one digit like any other time.
pub(crate) struct Limit(pub(crate) Duration);

impl Limit {
    /// Returns whether the limit has more digits than a person sets: 6.66 s, but not 1.25 s.
    pub(crate) fn is_computed(&self) -> bool {
        let text = format!("{:?}", self.0);
        let (_, fraction) = text.split_once('.').unwrap_or_default();
        let digits = fraction.trim_end_matches(|c: char| !c.is_ascii_digit()).as_bytes();
        !matches!(digits, [] | [_] | [_, b'5'])
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_computed() { Rounded(self.0).fmt(f) } else { write!(f, "{:?}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computed_limit_has_one_digit() {
        for (nanos, words) in [
            (5_000_000_000, "5s"),
            (7_200_000_000_000, "7200s"),
            (2_500_000_000, "2.5s"),
            (1_250_000_000, "1.25s"),
            (125_000_000, "125ms"),
            (1_500, "1.5µs"),
            (0, "0ns"),
            (19_999_877_656, "20.0s"),
            (999_987_656, "1.0s"),
            (5_313_000_000, "5.3s"),
            (6_660_000_000, "6.7s"),
            (755_400_000, "755.4ms"),
            (19_910_536, "19.9ms"),
            (20_004_000, "20.0ms"),
        ] {
            assert_eq!(Limit(Duration::from_nanos(nanos)).to_string(), words);
        }
        assert_eq!(Limit(Duration::MAX).to_string(), "18446744073709551616.0s");
    }
}
