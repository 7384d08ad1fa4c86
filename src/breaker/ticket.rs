use super::machine::Probe;

/// What an admitted call holds until it is settled or forgotten. Two whole words, so that it travels in registers.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// `generation << 32 | probe`, where 0 is no probe.
    pub(super) stamp: u64,
    /// When it began, in nanoseconds and one more; 0 where that is not known.
    began: u64,
}

impl Ticket {
    /// The ticket of no breaker.
    pub(crate) const NONE: Self = Self { stamp: 0, began: 0 };

    /// The same of an attempt that begins at that reading.
    #[inline]
    pub(crate) const fn starting_at(self, now: u64) -> Self {
        Self { began: now.saturating_add(1), ..self }
    }

    /// Returns when the attempt began, where that is known.
    #[inline]
    pub(crate) const fn began(self) -> Option<u64> {
        self.began.checked_sub(1)
    }

    #[inline]
    pub(super) const fn new(generation: u32, probe: Option<Probe>, began: u64) -> Self {
        let probe = match probe {
            Some(probe) => probe.get(),
            None => 0,
        };
        Self { stamp: (generation as u64) << 32 | probe as u64, began: 0 }.starting_at(began)
    }

    /// The ticket of a call that is admitted while the breaker is closed.
    #[inline]
    pub(super) const fn of_closed(generation: u64) -> Self {
        Self { stamp: generation << 32, began: 0 }
    }

    #[inline(never)] // out of the way of breakers that time nothing
    pub(super) fn timed(self, now: impl FnOnce() -> u64) -> Self {
        self.starting_at(now())
    }

    #[inline]
    pub(super) const fn generation(self) -> u32 {
        upper(self.stamp)
    }

    #[inline]
    pub(super) const fn probe(self) -> Option<Probe> {
        Probe::new(lower(self.stamp))
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that half")]
pub(super) const fn lower(word: u64) -> u32 {
    word as u32
}

#[inline]
pub(super) const fn upper(word: u64) -> u32 {
    lower(word >> 32)
}
