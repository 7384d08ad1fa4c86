use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::histogram::Histogram;

/// An estimate of the tokens of the next call, by the usage of recent calls.
///
/// The estimate is a quantile of the usage of the last 256 to 512 calls, at most an eighth above
/// the true quantile plus one token. A call never reserves more output than its own maximum.
///
/// A [`Quota`](super::Quota) has an estimate of its own. Calls of different kinds have no quantile
/// in common, so give each kind an estimate with [`Cost::estimated_by`](super::Cost::estimated_by).
/// A [`Keyed`](crate::Keyed) keeps one for each key.
///
/// # Defaults
///
/// They have no setting.
///
/// | number | value | why |
/// |---|---|---|
/// | quantile | 0.95 | one call in twenty uses more than it reserved, and the rest give back little |
/// | samples | 30 | fewer calls say little about a quantile of 0.95 |
///
/// Until that many calls are known, a call reserves its maximum of output, or without a maximum the
/// largest usage so far. From then on the estimate is computed at each 64th call.
///
/// # Examples
///
/// ```
/// use resile::quota::Estimate;
///
/// static SUMMARIES: Estimate = Estimate::new();
/// for call in 0..30 {
///     SUMMARIES.record(2_000, 100 + call % 3 * 10);
/// }
/// let output = SUMMARIES.output().unwrap();
/// assert!((120..=136).contains(&output));
/// ```
pub struct Estimate {
    input: Side,
    output: Side,
}

/// The usage of one side: input or output.
struct Side {
    /// The number of calls counted.
    count: AtomicU64,
    /// The estimate as last computed. [`IS_KNOWN`] is set once enough calls were counted. Before,
    /// this is the largest usage.
    known: AtomicU64,
    /// Made by the first call that is counted: most upstreams have no quota.
    usage: OnceLock<Box<Histogram>>,
}

/// The share of calls that use no more than the estimate.
const QUANTILE: f64 = 0.95;
/// The number of calls that are needed for an estimate.
const SAMPLES: u32 = 30;
/// The histogram counts nanoseconds in steps of 2^13. A token is one step.
const STEP: u32 = 13;
/// The number of calls after which older ones are forgotten.
const TURN: u64 = 256;
/// The number of calls between two computations.
const PAUSE: u64 = 64;
const IS_KNOWN: u64 = 1 << 63;
/// The largest usage that the histogram counts. The last bucket begins below it.
const LARGEST: u64 = (1 << 32) - 1;

impl Estimate {
    /// Creates an estimate without usage.
    #[must_use]
    pub const fn new() -> Self {
        Self { input: Side::new(), output: Side::new() }
    }

    /// Returns the estimated number of input tokens. `None` while too few calls are known.
    #[must_use]
    pub fn input(&self) -> Option<u64> {
        self.input.known()
    }

    /// Returns the estimated number of output tokens. `None` while too few calls are known.
    #[must_use]
    pub fn output(&self) -> Option<u64> {
        self.output.known()
    }

    /// Counts the tokens of a call. A quota does this for its calls, with the tokens that the
    /// provider charges.
    pub fn record(&self, input: u64, output: u64) {
        self.record_input(input);
        self.record_output(output);
    }

    #[inline]
    pub(super) fn record_input(&self, tokens: u64) {
        self.input.count(tokens);
    }

    #[inline]
    pub(super) fn record_output(&self, tokens: u64) {
        self.output.count(tokens);
    }

    /// Returns the number of input tokens to reserve if the caller does not know it.
    #[inline]
    pub(super) fn input_to_reserve(&self) -> u32 {
        lower(self.input.known.load(Ordering::Relaxed))
    }

    /// Returns the number of output tokens to reserve for a call with a maximum of `most`.
    #[inline]
    pub(super) fn output_to_reserve(&self, most: Option<u32>) -> u32 {
        let known = self.output.known.load(Ordering::Relaxed);
        match most {
            Some(most) if known & IS_KNOWN == 0 => most,
            Some(most) => lower(known).min(most),
            None => lower(known),
        }
    }
}

impl Side {
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), known: AtomicU64::new(0), usage: OnceLock::new() }
    }

    fn known(&self) -> Option<u64> {
        let known = self.known.load(Ordering::Relaxed);
        (known & IS_KNOWN != 0).then_some(known & LARGEST)
    }

    #[inline]
    fn count(&self, tokens: u64) {
        let usage = self.usage.get_or_init(|| Box::new(Histogram::new()));
        let (count, tokens) = (self.count.fetch_add(1, Ordering::Relaxed) + 1, tokens.min(LARGEST));
        usage.turn_to(count, TURN);
        usage.count(tokens << STEP);
        if count <= u64::from(SAMPLES) || count % PAUSE == 0 {
            self.work_out(usage, tokens);
        }
    }

    /// Computes the quantile. Until enough calls are known, keeps the largest usage.
    #[cold]
    fn work_out(&self, usage: &Histogram, tokens: u64) {
        let known = match usage.quantile(QUANTILE, SAMPLES) {
            Some(edge) => IS_KNOWN | (edge >> STEP).min(LARGEST),
            None => self.known.load(Ordering::Relaxed).max(tokens),
        };
        self.known.store(known, Ordering::Relaxed);
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "takes the lower half")]
const fn lower(known: u64) -> u32 {
    known as u32
}

impl Default for Estimate {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Estimate")
            .field("input", &self.input())
            .field("output", &self.output())
            .finish_non_exhaustive()
    }
}
