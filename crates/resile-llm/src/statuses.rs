//! Sets of statuses for rules that apply only to some statuses.

/// A set of status classes. The same words mean different things at a 400 and at a 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statuses(u16);

impl Statuses {
    /// No status or a good one: an error inside a stream or bare text.
    pub(crate) const NONE: Self = Self(1);
    /// 400, 405, 415, 422 and every other 4xx without a class of its own.
    pub(crate) const BAD: Self = Self(1 << 1);
    /// 401 and 407.
    pub(crate) const AUTH: Self = Self(1 << 2);
    /// 402.
    pub(crate) const PAY: Self = Self(1 << 3);
    /// 403 and 451.
    pub(crate) const DENIED: Self = Self(1 << 4);
    /// 404 and 410.
    pub(crate) const MISSING: Self = Self(1 << 5);
    /// 413 and 431.
    pub(crate) const LARGE: Self = Self(1 << 6);
    /// 429.
    pub(crate) const RATE: Self = Self(1 << 7);
    /// 5xx except `BUSY` and the 4xx with the same meaning: 408, 409, 424, 425 and 499.
    pub(crate) const FAULT: Self = Self(1 << 8);
    /// 498, 503 and 529: no capacity. Words about timeouts or broken connections only explain this.
    pub(crate) const BUSY: Self = Self(1 << 10);
    /// No status because there was no answer: a transport's error.
    pub(crate) const WIRE: Self = Self(1 << 9);

    pub(crate) const ALL: Self = Self(u16::MAX);

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn but(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the class of a status. `None` and every status below 400 are `NONE`.
    pub(crate) const fn of(status: Option<u16>) -> Self {
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
