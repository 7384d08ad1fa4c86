use std::fmt;
use std::time::Duration;

/// A time with one digit behind the point, or with as many as the precision asks for. It is rounded before
/// the unit is chosen: 999.97 ms is "1.0s" like one second, and not "1000.0ms".
pub(crate) struct Rounded(pub(crate) Duration);

impl Rounded {
    /// Returns whether both times are printed alike.
    pub(crate) fn reads_like(&self, other: Duration) -> bool {
        self.0 == other || self.to_string() == Self(other).to_string()
    }
}

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        // Half of the last digit, in the next smaller unit.
        let half = |unit: u64| {
            10_u64.checked_pow(u32::try_from(digits).ok()?)?.checked_mul(2000).map(|it| unit / it)
        };
        let fits = |unit: &u64| {
            let whole = Duration::from_nanos(*unit);
            let least = whole.saturating_sub(Duration::from_nanos(half(*unit).unwrap_or(0)));
            self.0 >= least && self.0 < whole
        };
        let unit = [1_000_000_000, 1_000_000].into_iter().find(fits);
        let time = unit.map_or(self.0, Duration::from_nanos);
        write!(f, "{time:.digits$?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rounded_before_its_unit_is_chosen() {
        for (nanos, words) in [
            (0, "0.0ns"),
            (999, "999.0ns"),
            (1_000, "1.0µs"),
            (999_949, "999.9µs"),
            (999_950, "1.0ms"),
            (999_999, "1.0ms"),
            (1_000_000, "1.0ms"),
            (999_949_999, "999.9ms"),
            (999_950_000, "1.0s"),
            (999_999_999, "1.0s"),
            (1_000_000_000, "1.0s"),
            (59_999_999_999, "60.0s"),
        ] {
            assert_eq!(Rounded(Duration::from_nanos(nanos)).to_string(), words);
        }
        assert_eq!(Rounded(Duration::MAX).to_string(), "18446744073709551616.0s");
    }

    #[test]
    fn the_precision_is_the_number_of_digits() {
        let time = Rounded(Duration::from_nanos(999_994_999));
        for (digits, words) in [
            (0, "1s"),
            (1, "1.0s"),
            (2, "999.99ms"),
            (3, "999.995ms"),
            (6, "999.994999ms"),
            (9, "999.994999000ms"),
        ] {
            assert_eq!(format!("{time:.digits$}"), words);
        }
        assert!(format!("{time:.99}").starts_with("999.994999000"));
    }
}
