use std::mem;
use std::task::Waker;
use std::time::Duration;

use super::Parts;
use crate::breaker::{Owner, Ticket};
use crate::bulkhead::{Bulkhead, Entry};
use crate::policy::StopReason;

/// The answer of a target to an attempt that wants to begin.
pub(crate) enum Admit {
    /// The attempt may begin.
    Go,
    /// The cooldown holds the attempt for this time. The attempt must then ask again.
    Hold(Duration),
    /// The attempt waits in the bulkhead's queue, `until` at the latest. It asks again when the
    /// queue wakes it.
    Queued { until: u64, is_new: bool },
    /// The breaker or the bulkhead refuses the attempt.
    Refused { reason: StopReason, retry_after: Option<Duration> },
}

/// The things that one attempt holds at an upstream.
#[derive(Clone, Copy, Debug, Default)]
pub enum Held {
    #[default]
    Nothing,
    /// A ticket in the bulkhead's queue. `since` is its start, or 0 if waits have no limit.
    Queued { ticket: u64, since: u64 },
    /// A permit of the bulkhead if the upstream has one.
    Entered,
    /// The permit and the breaker's ticket. `began` is the start of the attempt if known.
    Admitted(Ticket),
}

impl Held {
    #[inline]
    pub(super) const fn is_some(&self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

/// A permit that is released after the breaker has counted the attempt or has panicked. If this
/// attempt trips the breaker, the next waiter then finds the breaker open.
pub(super) struct HeldPermit<'a>(pub(super) &'a Bulkhead);

impl Drop for HeldPermit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Continues an attempt that already holds something. The attempt waits in the queue, or foreign
/// code panicked after its admission. On `None` the attempt asks the other parts.
#[cold]
#[inline(never)]
pub(super) fn resume(
    held: &mut Held,
    parts: &Parts,
    waker: Option<&Waker>,
    owner: &impl Owner,
) -> Option<Admit> {
    let (Held::Queued { ticket, since }, Some(bulkhead), Some(waker)) =
        (&*held, &parts.bulkhead, waker)
    else {
        give_back(mem::take(held), parts);
        return None;
    };
    let until = since.saturating_add(bulkhead.max_wait());
    if bulkhead.poll_ticket(*ticket, waker).is_ready() {
        *held = Held::Entered;
        return None;
    }
    if bulkhead.max_wait() != u64::MAX && owner.now() >= until {
        bulkhead.give_up(*ticket);
        *held = Held::Nothing;
        return Some(Admit::Refused { reason: StopReason::Full, retry_after: None });
    }
    Some(Admit::Queued { until, is_new: false })
}

/// Takes a permit of the bulkhead, or joins its queue. Returns `None` with a permit.
#[inline(never)]
pub(super) fn enter(
    held: &mut Held,
    parts: &Parts,
    waker: Option<&Waker>,
    owner: &impl Owner,
) -> Option<Admit> {
    let bulkhead = parts.bulkhead.as_ref()?;
    if bulkhead.enter().is_ok() {
        *held = Held::Entered;
        return None;
    }
    // An attempt does not queue only to be refused by the breaker.
    if let Some(open) =
        parts.breaker.as_ref().and_then(|breaker| breaker.refusal_within(Duration::ZERO, owner))
    {
        return Some(Admit::Refused { reason: StopReason::Open, retry_after: open.retry_after() });
    }
    match waker.map(|waker| bulkhead.enqueue(waker)) {
        Some(Ok(Entry::In)) => {
            *held = Held::Entered;
            None
        }
        Some(Ok(Entry::Pending(ticket))) => {
            let since = if bulkhead.max_wait() == u64::MAX { 0 } else { owner.now() };
            *held = Held::Queued { ticket, since };
            Some(Admit::Queued { until: since.saturating_add(bulkhead.max_wait()), is_new: true })
        }
        Some(Err(_)) | None => Some(Admit::Refused { reason: StopReason::Full, retry_after: None }),
    }
}

/// Gives back everything in `held`. The attempt does not count.
#[cold]
pub(super) fn give_back(held: Held, parts: &Parts) {
    match (held, &parts.bulkhead) {
        (Held::Queued { ticket, .. }, Some(bulkhead)) => bulkhead.give_up(ticket),
        (Held::Entered | Held::Admitted(_), Some(bulkhead)) => bulkhead.release(),
        _ => {}
    }
    if let (Held::Admitted(ticket), Some(breaker)) = (held, &parts.breaker) {
        breaker.forget(ticket);
    }
}
