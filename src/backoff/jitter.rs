use std::ops::RangeInclusive;

/// How a delay `d` is spread, so that clients which failed together do not come back together.
///
/// `Full`, `Equal` and `Decorrelated` are those of Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog,
/// 2015), with one mend: where the formula clips at the cap, ours narrows or slides the interval, as clipping lets most
/// delays *be* the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Jitter {
    /// Exactly `d`.
    None,
    /// Uniform in `[0, d]`.
    #[default]
    Full,
    /// Uniform in `[d/2, d]`: never less than half the delay.
    Equal,
    /// Uniform in `[d·(1−f), d·(1+f)]`, for f from 0 to 1 (NaN is 0). Where that would pass the cap, the whole interval
    /// slides down until it ends at the cap, and keeps its width as far as zero lets it.
    Proportional(f64),
    /// Uniform in `[base, 3 × the previous delay]`, where `base` is the curve's first delay: a random walk that
    /// replaces the curve's growth. The upper end is held to the cap and the lower end to a third of the cap.
    Decorrelated,
}

impl Jitter {
    /// Between which a delay is drawn uniformly, all in nanoseconds: `delay` is the curve's, of which `Decorrelated` wants
    /// the first, and `previous` the one before.
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

/// `d × share`, for a share from 0 to 1.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn scale(d: u64, share: f64) -> u64 {
    (d as f64 * share) as u64
}
