use super::machine::Probe;

/// An admission, held by a call until it is settled or forgotten. Two words travel in registers.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// `generation << 32 | probe`, with 0 for no probe.
    pub(super) stamp: u64,
    /// The start of the attempt in nanoseconds plus 1, or 0 if unknown.
    began: u64,
}

impl Ticket {
    /// The ticket of a call without a breaker.
    pub(crate) const NONE: Self = Self { stamp: 0, began: 0 };

    /// Returns the ticket with `now` as the start of the attempt.
    #[inline]
    pub(crate) const fn starting_at(self, now: u64) -> Self {
        Self { began: now.saturating_add(1), ..self }
    }

    /// Returns the start of the attempt, if known.
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

    /// Creates the ticket of a call to a closed breaker.
    #[inline]
    pub(super) const fn of_closed(generation: u64) -> Self {
        Self { stamp: generation << 32, began: 0 }
    }

    #[inline(never)] // keeps the clock out of the code of breakers without a slow-call rate
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
#[expect(clippy::cast_possible_truncation, reason = "takes the lower half")]
pub(super) const fn lower(word: u64) -> u32 {
    word as u32
}

#[inline]
pub(super) const fn upper(word: u64) -> u32 {
    lower(word >> 32)
}
