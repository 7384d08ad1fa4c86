use std::fmt;
use std::mem::ManuallyDrop;
use std::time::Duration;

use super::{
    Ask, Cost, Demand, Dimension, Entry, Limits, Quota, Reserved, Standing, TooLarge, Usage,
};
use crate::time::nanos;
use crate::verdict::{Health, Verdict};

impl Quota {
    /// Reserves the cost of an attempt without a wait. `now` is a reading of one clock for all
    /// calls on the quota.
    ///
    /// This is the quota by hand, on any clock. An [`Upstream`](crate::Upstream) does it for its
    /// calls, and waits.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the cost does not fit now, or if other calls wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::quota::{Cost, Dimension, Quota, Rate, Usage};
    /// use std::time::Duration;
    ///
    /// let quota = Quota::new().with_tokens(Rate::per_minute(6_000));
    /// let now = Duration::from_secs(1);
    /// let cost = Cost::input(3_000).with_max_output(2_000);
    ///
    /// let mut reservation = quota.try_reserve(cost, now).unwrap();
    /// let refusal = quota.try_reserve(cost, now).unwrap_err();
    /// assert_eq!(refusal.to_string(), "quota used up: try again in 40.0s");
    ///
    /// reservation.sent();
    /// reservation.settle(Usage::new().with_input(3_000).with_output(200), now);
    /// assert_eq!(quota.level_at(Dimension::Tokens, now), Some(2_800));
    /// ```
    #[inline]
    pub fn try_reserve<'a>(
        &'a self,
        cost: Cost<'a>,
        now: Duration,
    ) -> Result<Reservation<'a>, Refusal> {
        let demand = Demand { cost, standing: Standing::default() };
        let now = nanos(now);
        match self.ask(&demand, Entry::AtOnce, now, 0) {
            Ask::Reserved(reserved) => Ok(Reservation { quota: self, cost, reserved }),
            Ask::TooLarge(too_large) => Err(Refusal::TooLarge(too_large)),
            Ask::NotBefore(at) => {
                self.note_refusal(&cost);
                Err(Refusal::NotYet { wait: Duration::from_nanos(at.saturating_sub(now)) })
            }
            Ask::Waiting { .. } | Ask::Full => unreachable!("the attempt does not wait"),
        }
    }

    /// Returns the units left in a dimension at `now`. Negative units are a debt. `None` without a
    /// limit.
    #[must_use]
    pub fn level_at(&self, dimension: Dimension, now: Duration) -> Option<i64> {
        self.level(dimension, nanos(now))
    }
}

/// The reserved cost of one attempt. Made by [`Quota::try_reserve`].
///
/// Dropped before [`sent`](Self::sent), it gives everything back. Dropped after it, the reservation
/// stands: the provider may have charged the request.
#[must_use = "dropping the reservation gives it back"]
pub struct Reservation<'a> {
    quota: &'a Quota,
    cost: Cost<'a>,
    reserved: Reserved,
}

impl Reservation<'_> {
    /// Marks the request as sent.
    #[inline]
    pub const fn sent(&mut self) {
        self.reserved.note_sent();
    }

    /// Charges the usage so far in place of the reservation. The usage of a stream may come in
    /// parts: each number replaces the one before.
    #[inline]
    pub fn record(&mut self, usage: Usage, now: Duration) {
        self.sent();
        self.quota.charge_usage(&self.cost, &mut self.reserved, usage, nanos(now));
    }

    /// Lowers the levels of the quota to the limits that the provider has reported.
    pub fn learn(&mut self, limits: &Limits, now: Duration) {
        self.sent();
        self.quota.learn(&mut self.reserved, limits, nanos(now));
    }

    /// Charges the usage and ends the reservation.
    #[inline]
    pub fn settle(mut self, usage: Usage, now: Duration) {
        self.record(usage, now);
    }

    /// Ends the reservation of a failed attempt.
    ///
    /// A throttling verdict gives the tokens back. The verdict [`Verdict::throttled`] also sets the
    /// levels to 0, unless [`learn`](Self::learn) has set them. After any other verdict the
    /// reservation stands.
    pub fn failed(mut self, verdict: &Verdict, now: Duration) {
        self.sent();
        if verdict.health() == Health::Throttling {
            // Not dropped even if a waker panics: `refuse` has ended the reservation by then.
            let this = ManuallyDrop::new(self);
            this.quota.refuse(&this.cost, this.reserved, verdict.is_own_limit(), nanos(now));
        }
    }
}

impl Drop for Reservation<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.reserved.is_sent() {
            self.quota.end(&self.cost, self.reserved);
        } else {
            self.quota.cancel(&self.cost, self.reserved);
        }
    }
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("cost", &self.cost)
            .field("reserved", &self.reserved)
            .finish_non_exhaustive()
    }
}

/// An error: a cost could not be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The cost does not fit yet.
    #[non_exhaustive]
    NotYet {
        /// The time until the cost fits if no other call comes before it. Zero if the quota waits
        /// for the end of an attempt or has waiters. For a shared upstream this is a guess: the
        /// time if this process had the whole rate.
        wait: Duration,
    },
    /// The cost is larger than the burst, so it never fits.
    TooLarge(TooLarge),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYet { wait } if wait.is_zero() => {
                f.write_str("quota used up: wait for another call to end")
            }
            Self::NotYet { wait } => write!(f, "quota used up: try again in {wait:.1?}"),
            Self::TooLarge(too_large) => {
                write!(f, "{too_large}: send less or set a larger burst")
            }
        }
    }
}

impl std::error::Error for Refusal {}
