use std::mem;
use std::task::Waker;
use std::time::Duration;

use super::began::Began;
use super::progress::Refuser;
use super::{Parts, priority};
use crate::breaker::{Open, Owner, Ticket};
use crate::bulkhead::{self, Bulkhead, Newcomer, Turn};
use crate::policy::StopReason;
use crate::quota::{Ask, Demand, Entry, Place, Quota, Reserved};
use crate::time::nanos;

/// The answer of a target to an attempt that wants to begin.
pub(crate) enum Admit {
    /// The attempt may begin.
    Go,
    /// The attempt may begin with the admission of the attempt around its call.
    Moved,
    /// The cooldown holds the attempt for this time. The attempt must then ask again. It is new if the hold has
    /// not made it wait before.
    Hold { delay: Duration, is_new: bool },
    /// The attempt waits in the bulkhead's queue, `until` at the latest. It asks again when the
    /// queue wakes it.
    Queued { until: u64, is_new: bool },
    /// The attempt waits in the quota's queue. It asks again at `asks_at` or when the queue wakes
    /// it. Its cost cannot fit before `earliest`.
    InLine { asks_at: u64, earliest: u64, is_new: bool },
    /// A part of the upstream refuses the attempt.
    Refused { by: Refuser, reason: StopReason, retry_after: Option<Duration> },
}

impl Admit {
    const fn full(by: Refuser) -> Self {
        Self::Refused { by, reason: StopReason::Full, retry_after: None }
    }

    pub(super) const fn refused_by(open: Open) -> Self {
        let (by, reason) = (Refuser::Breaker, StopReason::Open);
        Self::Refused { by, reason, retry_after: open.retry_after() }
    }
}

/// The things that one attempt holds at an upstream.
#[derive(Clone, Copy, Debug, Default)]
pub enum Held {
    #[default]
    Nothing,
    /// A ticket in the bulkhead's queue, and the time of its start.
    Queued { ticket: u64, since: u64 },
    /// A permit of the bulkhead if the upstream has one.
    Entered,
    /// The permit and a place in the quota's queue.
    InLine(Place),
    /// The start of the attempt, the breaker's ticket, the reservation of the quota and the permit.
    Admitted { began: Began, ticket: Ticket, reserved: Reserved },
}

impl Held {
    #[inline]
    pub(super) const fn is_some(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Returns true for the admission of an attempt within another attempt on the same upstream.
    pub(super) const fn is_nested(&self) -> bool {
        matches!(self, Self::Admitted { reserved, .. } if reserved.is_nested() && !reserved.is_lent())
    }

    /// Applies `map` to the reservation of an admitted attempt.
    pub(super) fn map_reserved(self, map: impl FnOnce(Reserved) -> Reserved) -> Self {
        match self {
            Self::Admitted { began, ticket, reserved } => {
                Self::Admitted { began, ticket, reserved: map(reserved) }
            }
            other => other,
        }
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
    demand: &Demand<'_>,
    waker: Option<&Waker>,
    owner: &impl Owner,
) -> Option<Admit> {
    if let (Held::InLine(_), Some(_)) = (&*held, waker) {
        return None; // the attempt asks the quota again
    }
    let (Held::Queued { ticket, since }, Some(bulkhead), Some(waker)) =
        (&*held, &parts.bulkhead, waker)
    else {
        release(mem::take(held), parts, demand);
        return None;
    };
    let until = since.saturating_add(bulkhead.max_wait());
    let now = owner.now();
    match bulkhead.poll_ticket(*ticket, waker, now) {
        Turn::Comes => {
            *held = Held::Entered;
            return None;
        }
        Turn::Lost => {
            *held = Held::Nothing;
            return Some(Admit::full(Refuser::Bulkhead));
        }
        Turn::Waits => {}
    }
    if bulkhead.max_wait() != u64::MAX && now >= until {
        bulkhead.give_up(*ticket);
        *held = Held::Nothing;
        return Some(Admit::full(Refuser::BulkheadWait));
    }
    Some(Admit::Queued { until, is_new: false })
}

/// Returns the breaker's refusal of an attempt after a wait of `delay` if that refusal is certain.
#[cold]
pub(super) fn refused_within(parts: &Parts, delay: Duration, owner: &impl Owner) -> Option<Admit> {
    let open = parts.breaker.as_ref()?.refusal_within(delay, owner)?;
    Some(Admit::refused_by(open))
}

/// Takes a permit of the bulkhead, or joins its queue. Returns `None` with a permit.
#[inline(never)]
pub(super) fn enter(
    held: &mut Held,
    parts: &Parts,
    demand: &Demand<'_>,
    waker: Option<&Waker>,
    owner: &impl Owner,
    ends_at: u64,
) -> Option<Admit> {
    let bulkhead = parts.bulkhead.as_ref()?;
    if bulkhead.enter() {
        *held = Held::Entered;
        return None;
    }
    // An attempt does not queue only to be refused by the breaker.
    if let Some(refused) = refused_within(parts, Duration::ZERO, owner) {
        return Some(refused);
    }
    let Some(waker) = waker else { return Some(Admit::full(Refuser::Bulkhead)) };
    let (now, priority) = (owner.now(), priority::inherited(demand).standing.priority);
    let until = now.saturating_add(bulkhead.max_wait());
    match bulkhead.enqueue(&Newcomer { waker, priority, now, until: until.min(ends_at) }) {
        bulkhead::Entry::In => {
            *held = Held::Entered;
            None
        }
        bulkhead::Entry::Pending(ticket) => {
            *held = Held::Queued { ticket, since: now };
            Some(Admit::Queued { until, is_new: true })
        }
        bulkhead::Entry::Full => Some(Admit::full(Refuser::Bulkhead)),
        bulkhead::Entry::TooLate(_) if until < ends_at => Some(Admit::full(Refuser::BulkheadWait)),
        bulkhead::Entry::TooLate(wait) => Some(Admit::Refused {
            by: Refuser::Bulkhead,
            reason: StopReason::Deadline,
            retry_after: Some(Duration::from_nanos(wait)),
        }),
    }
}

/// The way in which an attempt asks the quota.
pub(super) struct Asked<'a> {
    /// `None` if the attempt may not wait.
    pub(super) waker: Option<&'a Waker>,
    /// The time if known.
    pub(super) now: Option<u64>,
    /// The end of the call.
    pub(super) ends_at: u64,
}

/// Reserves the cost of the attempt, or joins the quota's queue. Returns whether a quota in shadow mode would have
/// made the attempt wait or refused it.
#[inline(never)]
pub(super) fn reserve(
    held: &mut Held,
    parts: &Parts,
    quota: &Quota,
    demand: &Demand<'_>,
    asked: &Asked<'_>,
    owner: &impl Owner,
) -> Result<(Reserved, bool), Admit> {
    let Asked { waker, now, ends_at } = *asked;
    let now = now.unwrap_or_else(|| owner.now());
    let ask = match (&*held, waker) {
        (Held::InLine(place), Some(waker)) => {
            // Within a queue the quota spreads the calls, so only the hold itself counts.
            let cooldown = parts.cooldown.as_ref().filter(|cooldown| !cooldown.is_free());
            let left = cooldown.and_then(|it| it.remaining(now)).unwrap_or_default();
            quota.ask(demand, Entry::At(*place, waker), now, now.saturating_add(nanos(left)))
        }
        _ => match (quota.ask(demand, Entry::AtOnce, now, 0), waker) {
            (Ask::NotBefore(at), waker) => {
                // An attempt does not queue only to be refused by the breaker.
                if let Some(refused) = refused_within(parts, Duration::ZERO, owner) {
                    release(mem::take(held), parts, demand);
                    return Err(refused);
                }
                if let Some(waker) = waker {
                    quota.ask(
                        &priority::inherited(demand),
                        Entry::Joining { waker, ends_at },
                        now,
                        0,
                    )
                } else {
                    quota.note_refusal(&demand.cost);
                    Ask::NotBefore(at)
                }
            }
            (ask, _) => ask,
        },
    };
    let refused = match ask {
        Ask::Reserved(reserved) => return Ok((reserved, false)),
        Ask::Shadowed(reserved) => return Ok((reserved, true)),
        Ask::Waiting { place, asks_at, earliest, is_new } => {
            *held = Held::InLine(place);
            return Err(Admit::InLine { asks_at, earliest, is_new });
        }
        Ask::NotBefore(at) => Admit::Refused {
            by: Refuser::Quota,
            reason: StopReason::Deadline,
            retry_after: Some(Duration::from_nanos(at.saturating_sub(now))),
        },
        Ask::Full => Admit::full(Refuser::Quota),
        Ask::TooLarge => {
            Admit::Refused { by: Refuser::Quota, reason: StopReason::TooLarge, retry_after: None }
        }
    };
    release(mem::take(held), parts, demand);
    Err(refused)
}

/// Ends the reservation of an attempt that was sent.
#[inline(never)]
pub(super) fn finish(quota: &Quota, demand: &Demand<'_>, reserved: Reserved) {
    quota.end(&demand.cost, reserved);
}

/// Gives back everything in `held`. The attempt does not count.
///
/// The reservation of a request that may have been sent stands. An admission that a call within the
/// attempt has taken is no longer here.
#[cold]
pub(super) fn release(held: Held, parts: &Parts, demand: &Demand<'_>) {
    if matches!(held, Held::Admitted { reserved, .. } if reserved.is_lent()) {
        return;
    }
    if let Some(bulkhead) = &parts.bulkhead {
        match held {
            Held::Queued { ticket, .. } => bulkhead.give_up(ticket),
            Held::Entered | Held::InLine(_) | Held::Admitted { .. } => bulkhead.release(),
            Held::Nothing => {}
        }
    }
    if let Some(quota) = &parts.quota {
        match held {
            Held::InLine(place) => quota.leave(place),
            Held::Admitted { reserved, .. } if reserved.is_sent() => {
                quota.end(&demand.cost, reserved);
            }
            Held::Admitted { reserved, .. } => quota.cancel(&demand.cost, reserved),
            _ => {}
        }
    }
    if let (Held::Admitted { ticket, .. }, Some(breaker)) = (held, &parts.breaker) {
        breaker.forget(ticket);
    }
}
