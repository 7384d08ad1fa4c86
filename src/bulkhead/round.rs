/// The measurements of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// The attempts that ended.
    pub(super) samples: u32,
    /// Those of them that a limit of their call cut.
    pub(super) cut: u32,
    /// Their mean latency in nanoseconds. Not 0.
    pub(super) mean: u64,
    /// The number of attempts that found the limit reached.
    pub(super) pressed: u64,
    /// The length in nanoseconds.
    pub(super) lasted: u64,
}

impl Round {
    /// Returns the mean number in flight (Little 1961).
    #[expect(clippy::cast_precision_loss, reason = "a mean needs few digits")]
    pub(super) fn used(self) -> f64 {
        self.mean as f64 * f64::from(self.samples) / self.lasted.max(1) as f64
    }

    /// Returns whether most attempts were cut. Their latency is unknown then.
    pub(super) fn is_cut(self) -> bool {
        self.cut > self.samples / 2
    }
}
