use std::time::Duration;

use super::machine::Probe;
use crate::time::nanos;

/// What an admitted call holds until it is settled or forgotten. Two whole words, so that it travels in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// `generation << 32 | probe`, where 0 is no probe.
    pub(super) stamp: u64,
    /// When it was admitted, in nanoseconds, where calls are timed.
    pub(super) began: u64,
}

impl Ticket {
    #[inline]
    pub(super) const fn new(generation: u32, probe: Option<Probe>, began: u64) -> Self {
        let probe = match probe {
            Some(probe) => probe.get(),
            None => 0,
        };
        Self { stamp: (generation as u64) << 32 | probe as u64, began }
    }

    #[inline(never)] // out of the way of breakers that time nothing
    pub(super) fn timed(self, now: impl FnOnce() -> Duration) -> Self {
        Self { began: nanos(now()), ..self }
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
