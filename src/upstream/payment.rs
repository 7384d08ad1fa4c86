use crate::budget::Cause;

/// The payment of the budget for the next or the current attempt, packed into one byte.
#[derive(Clone, Copy, Default)]
pub(super) struct Payment(u8);

/// The attempt is a retry after a throttling.
const THROTTLED: u8 = 1;

/// The call holds the cost of an attempt that has not begun.
const HELD: u8 = 1 << 1;

/// The attempt in flight was paid for.
const SPENT: u8 = 1 << 2;

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

    pub(super) const fn held(self) -> Self {
        Self(self.0 & THROTTLED | HELD)
    }

    /// Returns the payment after the start of the attempt.
    pub(super) const fn begun(self) -> Self {
        let spent = if self.is_held() { SPENT } else { 0 };
        Self(self.0 & THROTTLED | spent)
    }

    /// Returns the payment after the held tokens went back.
    pub(super) const fn released(self) -> Self {
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
}
