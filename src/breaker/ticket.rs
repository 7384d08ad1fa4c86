use super::machine::Probe;

/// An admission, held by a call until it is settled or forgotten: `generation << 32 | probe`, with 0
/// for no probe.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u64);

impl Ticket {
    /// The ticket of a call without a breaker.
    pub(crate) const NONE: Self = Self(0);

    #[inline]
    pub(super) const fn new(generation: u32, probe: Option<Probe>) -> Self {
        let probe = match probe {
            Some(probe) => probe.get(),
            None => 0,
        };
        Self((generation as u64) << 32 | probe as u64)
    }

    /// Creates the ticket of a call to a closed breaker.
    #[inline]
    pub(super) const fn of_closed(generation: u64) -> Self {
        Self(generation << 32)
    }

    #[inline]
    pub(super) const fn generation(self) -> u32 {
        upper(self.0)
    }

    #[inline]
    pub(super) const fn probe(self) -> Option<Probe> {
        Probe::new(lower(self.0))
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
