use std::fmt;
use std::time::Duration;

use super::ticket::Ticket;
use super::{Breaker, Open};
use crate::classify::Verdict;
use crate::observe::Observe;
use crate::time::{Asked, Timer};

/// A breaker as a run sees it: with its own clock and observer, and without its type.
pub(crate) trait Guard: Sync {
    fn admit(&self) -> Result<Ticket, Open>;
    fn refusal_within(&self, delay: Duration) -> Option<Open>;
    /// `at` is when the attempt ended (a success: when its one turn began), in nanoseconds on tokio's clock, where the
    /// run knows it.
    fn settle(&self, ticket: Ticket, verdict: Option<&Verdict>, at: Option<u64>);
    fn forget(&self, ticket: Ticket);
}

impl<C, O, M> Guard for Breaker<C, O, M>
where
    C: Sync,
    O: Observe<super::Event> + Sync,
    M: Timer + Sync,
{
    fn admit(&self) -> Result<Ticket, Open> {
        self.core.admit(self)
    }

    fn refusal_within(&self, delay: Duration) -> Option<Open> {
        self.core.refusal_within(delay, self)
    }

    fn settle(&self, ticket: Ticket, verdict: Option<&Verdict>, at: Option<u64>) {
        self.core.settle(ticket, verdict, at.filter(|_| self.timer.is_tokio(Asked)), self);
    }

    fn forget(&self, ticket: Ticket) {
        self.core.forget(ticket);
    }
}

/// A call that a [`Breaker`] let through. Tell it how the call ended; dropped, it says nothing.
#[must_use = "a permit that is dropped tells the breaker nothing"]
pub struct Permit<'a, C, O, M>
where
    O: Observe<super::Event>,
    M: Timer,
{
    breaker: &'a Breaker<C, O, M>,
    ticket: Ticket,
}

impl<'a, C, O, M> Permit<'a, C, O, M>
where
    O: Observe<super::Event>,
    M: Timer,
{
    pub(super) const fn new(breaker: &'a Breaker<C, O, M>, ticket: Ticket) -> Self {
        Self { breaker, ticket }
    }

    /// The call succeeded.
    #[inline]
    pub fn success(self) {
        self.settle(None);
    }

    /// The call failed, and this is what the failure means: `Fail` is neutral.
    #[inline]
    pub fn failure(self, verdict: Verdict) {
        self.settle(Some(&verdict));
    }

    #[inline]
    fn settle(self, verdict: Option<&Verdict>) {
        let (breaker, ticket) = (self.breaker, self.ticket);
        std::mem::forget(self); // not dropped: it has an end to tell
        breaker.core.settle(ticket, verdict, None, breaker);
    }
}

impl<C, O, M> Drop for Permit<'_, C, O, M>
where
    O: Observe<super::Event>,
    M: Timer,
{
    #[inline]
    fn drop(&mut self) {
        self.breaker.core.forget(self.ticket);
    }
}

impl<C, O, M> fmt::Debug for Permit<'_, C, O, M>
where
    O: Observe<super::Event>,
    M: Timer,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

/// Keeps a [`Breaker`] open for as long as it is held. Made by [`Breaker::isolate`].
#[must_use = "the breaker is isolated only while this is held"]
pub struct Isolation<'a, C, O, M>
where
    O: Observe<super::Event>,
    M: Timer,
{
    pub(super) breaker: &'a Breaker<C, O, M>,
}

impl<C, O, M> Drop for Isolation<'_, C, O, M>
where
    O: Observe<super::Event>,
    M: Timer,
{
    fn drop(&mut self) {
        self.breaker.core.release(self.breaker);
    }
}

impl<C, O, M> fmt::Debug for Isolation<'_, C, O, M>
where
    O: Observe<super::Event>,
    M: Timer,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Isolation").finish_non_exhaustive()
    }
}
