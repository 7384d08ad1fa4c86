use std::num::NonZeroU32;

use super::Health;

/// The answers of a verdict but for its wait, and the ground of the verdict, in one word.
///
/// A verdict is thus two words, which stay in registers on their way through a call. Fields of one
/// byte each would go through memory, where a wide load of freshly written bytes stalls. The lowest
/// bit is always set, so an `Option` needs no further word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Answers(NonZeroU32);

/// The ground of a verdict, for composed classifiers. It is not part of the three answers, so equal
/// verdicts may have different grounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// The classifier said this of an error.
    Stated,
    /// The classifier said this of a cut attempt.
    Cut,
    /// Nobody said anything of a cut attempt.
    CutDefault,
}

/// An answer of yes or no.
#[derive(Clone, Copy)]
pub(super) enum Flag {
    /// The request may be sent again.
    Again = 1 << 1,
    /// The classifier chose the wait, and the upstream asked for none.
    OwnWait = 1 << 2,
    /// The caller's own usage limit caused a throttling.
    OwnLimit = 1 << 3,
    /// The wait is the base of a backoff.
    Base = 1 << 8,
    /// A repetition does no harm, so nobody must find out whether the request was executed.
    Idempotent = 1 << 9,
    /// The request was surely never sent.
    NotSent = 1 << 10,
    /// The upstream asked for no retry.
    NotWanted = 1 << 11,
    /// The request might be sent again, but nobody can make it again.
    NotRepeatable = 1 << 12,
    /// The upstream kept nothing of the request.
    NoEffect = 1 << 13,
    /// The upstream has answered, and the answer does not tell the program what happened.
    NotTold = 1 << 14,
    /// Nobody has judged the failure.
    ByDefault = 1 << 15,
    /// The request has an effect, and a key makes a repetition harmless.
    Keyed = 1 << 16,
    /// The upstream ended the request because the time that it was told was over.
    Late = 1 << 17,
    /// Nobody has stated whether the request has a key.
    UnknownKey = 1 << 18,
}

/// The first bit of the health, and that of the ground. Both have two bits.
const HEALTH: u32 = 4;
const GROUND: u32 = 6;
/// The two bits, before they are shifted to their place.
const TWO: u32 = 3;

impl Answers {
    /// Not again, an unknown health, and stated.
    pub(super) const FATAL: Self = Self(NonZeroU32::MIN).with_health(Health::Unknown);

    pub(super) const fn is(self, flag: Flag) -> bool {
        self.0.get() & flag as u32 != 0
    }

    pub(super) const fn with(self, flag: Flag, is_set: bool) -> Self {
        self.replace(flag as u32, if is_set { flag as u32 } else { 0 })
    }

    pub(super) const fn health(self) -> Health {
        match self.0.get() >> HEALTH & TWO {
            0 => Health::Healthy,
            1 => Health::Throttling,
            2 => Health::Failing,
            _ => Health::Unknown,
        }
    }

    pub(super) const fn with_health(self, health: Health) -> Self {
        self.replace(TWO << HEALTH, (health as u32) << HEALTH)
    }

    pub(super) const fn ground(self) -> Ground {
        match self.0.get() >> GROUND & TWO {
            0 => Ground::Stated,
            1 => Ground::Cut,
            _ => Ground::CutDefault,
        }
    }

    pub(super) const fn with_ground(self, ground: Ground) -> Self {
        self.replace(TWO << GROUND, (ground as u32) << GROUND)
    }

    /// Replaces the bits of `mask`, which never has the lowest one.
    const fn replace(self, mask: u32, bits: u32) -> Self {
        match NonZeroU32::new(self.0.get() & !mask | bits) {
            Some(word) => Self(word),
            None => self,
        }
    }
}
