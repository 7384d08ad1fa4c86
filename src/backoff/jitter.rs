use std::ops::RangeInclusive;

/// The random spread of a delay `d`. Clients that failed together must not come back together.
///
/// `Full`, `Equal` and `Decorrelated` follow Brooker, "Exponential Backoff And Jitter" (AWS
/// Architecture Blog, 2015), except at the cap. The published formula clips there, so many delays
/// *are* the cap. This crate narrows or slides the interval instead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Jitter {
    /// Exactly `d`.
    None,
    /// Uniform in `[0, d]`.
    #[default]
    Full,
    /// Uniform in `[d/2, d]`, so never less than half the delay.
    Equal,
    /// Uniform in `[d·(1−f), d·(1+f)]`, with f from 0 to 1 (NaN is 0). An interval beyond the cap
    /// slides down until it ends at the cap and keeps its width as far as zero allows.
    Proportional(f64),
    /// Uniform in `[base, 3 × the previous delay]`, where `base` is the first delay of the curve.
    /// This random walk replaces the growth of the curve. The upper end is at most the cap, and the
    /// lower end at most a third of the cap.
    Decorrelated,
}

impl Jitter {
    /// Returns the range of a uniform draw in nanoseconds. `delay` is the delay of the curve. For
    /// `Decorrelated` it is the first delay of the curve. `previous` is the last drawn delay.
    pub(super) fn spread(self, delay: u64, previous: u64, cap: u64) -> RangeInclusive<u64> {
        match self {
            Self::None => delay..=delay,
            Self::Full => 0..=delay,
            Self::Equal => delay / 2..=delay,
            Self::Proportional(share) => {
                let reach = scale(delay, if share > 0.0 { share.min(1.0) } else { 0.0 });
                let high = delay.saturating_add(reach).min(cap);
                high.saturating_sub(reach.saturating_mul(2))..=high
            }
            Self::Decorrelated => {
                let high = previous.max(delay).saturating_mul(3).min(cap);
                delay.min(cap / 3)..=high
            }
        }
    }
}

/// Returns `d × share`, for a share from 0 to 1.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn scale(d: u64, share: f64) -> u64 {
    (d as f64 * share) as u64
}
