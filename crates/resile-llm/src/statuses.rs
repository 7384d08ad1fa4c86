//! Sets of statuses for rules that apply only to some statuses.

/// A set of status classes. The same words mean different things at a 400 and at a 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statuses(u16);

impl Statuses {
    /// No status or a good one: an error inside a stream or bare text.
    pub(super) const NONE: Self = Self(1);
    /// 400, 405, 415, 422 and every other 4xx without a class of its own.
    pub(super) const BAD: Self = Self(1 << 1);
    /// 401 and 407.
    pub(super) const AUTH: Self = Self(1 << 2);
    /// 402.
    pub(super) const PAY: Self = Self(1 << 3);
    /// 403 and 451.
    pub(super) const DENIED: Self = Self(1 << 4);
    /// 404 and 410.
    pub(super) const MISSING: Self = Self(1 << 5);
    /// 413 and 431.
    pub(super) const LARGE: Self = Self(1 << 6);
    /// 429.
    pub(super) const RATE: Self = Self(1 << 7);
    /// 5xx except `BUSY` and the 4xx with the same meaning: 408, 409, 424, 425 and 499.
    pub(super) const FAULT: Self = Self(1 << 8);
    /// 498, 503 and 529: no capacity. Words about timeouts or broken connections only explain this.
    pub(super) const BUSY: Self = Self(1 << 10);
    /// No status because there was no answer: a transport's error.
    pub(super) const WIRE: Self = Self(1 << 9);

    pub(super) const ALL: Self = Self(u16::MAX);

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn but(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the class of a status. `None` and every status below 400 are `NONE`.
    pub(super) const fn of(status: Option<u16>) -> Self {
        match status {
            Some(401 | 407) => Self::AUTH,
            Some(402) => Self::PAY,
            Some(403 | 451) => Self::DENIED,
            Some(404 | 410) => Self::MISSING,
            Some(413 | 431) => Self::LARGE,
            Some(429) => Self::RATE,
            Some(498 | 503 | 529) => Self::BUSY,
            Some(408 | 409 | 424 | 425 | 499 | 500..) => Self::FAULT,
            Some(400..) => Self::BAD,
            _ => Self::NONE,
        }
    }
}
