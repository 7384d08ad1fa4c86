use crate::budget::Cause;
use crate::verdict::Cut;

/// The payment of the budget for the next or the current attempt, packed into one byte.
#[derive(Clone, Copy, Default)]
pub(super) struct Payment(u8);

/// The attempt is a retry after a throttling.
const THROTTLED: u8 = 1;

/// The call holds the cost of an attempt that has not begun.
const HELD: u8 = 1 << 1;

/// The attempt in flight was paid for.
const SPENT: u8 = 1 << 2;

/// The budget could not pay, and the call pauses before it asks again.
const OWED: u8 = 1 << 3;

/// The attempt before the pause exceeded its timeout.
const TIMED_OUT: u8 = 1 << 4;

/// The stream before the pause ended without its last item.
const TRUNCATED: u8 = 1 << 5;

/// The end of the attempt before a pause.
#[derive(Clone, Copy)]
pub(crate) enum Paused {
    Error,
    TimedOut,
    Truncated,
}

impl Payment {
    /// The payment of a first attempt, which is free.
    pub(super) const NONE: Self = Self(0);

    /// Creates the payment for a retry with this cause, which is not paid for yet.
    pub(super) const fn due(cause: Cause) -> Self {
        match cause {
            Cause::Failed => Self(0),
            Cause::Throttled => Self(THROTTLED),
        }
    }

    /// Returns the payment during a pause after an attempt that ended with `cut` or with an error.
    pub(super) const fn owed(self, cut: Option<Cut>) -> Self {
        let cut = match cut {
            Some(Cut::AttemptTimeout(_) | Cut::Deadline) => TIMED_OUT,
            Some(Cut::Stream) => TRUNCATED,
            None => 0,
        };
        Self(self.0 & THROTTLED | OWED | cut)
    }

    pub(super) const fn held(self) -> Self {
        Self(self.0 & THROTTLED | HELD)
    }

    /// Returns the payment after the start of the attempt. An attempt may begin in a pause only if the
    /// caller makes it without asking.
    pub(super) const fn begun(self) -> Self {
        let spent = if self.is_held() { SPENT } else { 0 };
        Self(self.0 & (THROTTLED | OWED) | spent)
    }

    /// Returns the payment after the held tokens went back.
    pub(super) const fn given_back(self) -> Self {
        Self(self.0 & THROTTLED)
    }

    pub(super) const fn cause(self) -> Cause {
        if self.0 & THROTTLED == 0 { Cause::Failed } else { Cause::Throttled }
    }

    pub(super) const fn is_held(self) -> bool {
        self.0 & HELD != 0
    }

    pub(super) const fn is_spent(self) -> bool {
        self.0 & SPENT != 0
    }

    pub(super) const fn paused(self) -> Option<Paused> {
        if self.0 & OWED == 0 {
            None
        } else if self.0 & TIMED_OUT != 0 {
            Some(Paused::TimedOut)
        } else if self.0 & TRUNCATED != 0 {
            Some(Paused::Truncated)
        } else {
            Some(Paused::Error)
        }
    }
}
