/// The start of an attempt on the timer, if known. One word, so a slot is no larger with it.
#[derive(Clone, Copy, Debug)]
pub struct Began(
    /// The nanoseconds plus 1, or 0 if unknown.
    u64,
);

impl Began {
    pub(super) const UNKNOWN: Self = Self(0);

    #[inline]
    pub(super) const fn at(now: u64) -> Self {
        Self(now.saturating_add(1))
    }

    /// Returns the start in nanoseconds.
    #[inline]
    pub(super) const fn known(self) -> Option<u64> {
        self.0.checked_sub(1)
    }
}

impl From<Option<u64>> for Began {
    #[inline]
    fn from(now: Option<u64>) -> Self {
        now.map_or(Self::UNKNOWN, Self::at)
    }
}
