use std::cell::{Cell, RefCell};

use super::Parts;
use super::began::Began;
use super::held::Held;
use super::payment::Payment;
use crate::breaker::Ticket;
use crate::quota::{CostKey, Reserved};

thread_local! {
    /// The innermost attempt on an upstream that this thread polls.
    static INNERMOST: Innermost = const {
        Innermost {
            upstream: Cell::new(0),
            began: Cell::new(Began::UNKNOWN),
            ticket: Cell::new(Ticket::NONE),
            reserved: Cell::new(Reserved::NONE),
            payment: Cell::new(Payment::NONE),
            cost: Cell::new(CostKey::NONE),
            is_changed: Cell::new(false),
            is_cut: Cell::new(false),
        }
    };
    /// The attempts around the innermost one. The outermost is first.
    static OUTER: RefCell<Vec<(usize, Offer)>> = const { RefCell::new(Vec::new()) };
}

/// An [`Offer`] in parts: a poll writes only those that count.
struct Innermost {
    /// The address of the upstream's parts, or 0 if this thread polls no attempt on an upstream.
    upstream: Cell<usize>,
    began: Cell<Began>,
    ticket: Cell<Ticket>,
    reserved: Cell<Reserved>,
    payment: Cell<Payment>,
    cost: Cell<CostKey>,
    is_changed: Cell<bool>,
    is_cut: Cell<bool>,
}

impl Innermost {
    #[inline]
    fn offer(
        &self,
        parts: &Parts,
        began: Began,
        ticket: Ticket,
        reserved: Reserved,
        payment: Payment,
    ) {
        self.began.set(began);
        self.ticket.set(ticket);
        self.reserved.set(reserved);
        self.payment.set(payment);
        self.upstream.set(address(parts));
    }

    fn get(&self) -> Offer {
        Offer {
            began: self.began.get(),
            ticket: self.ticket.get(),
            reserved: self.reserved.get(),
            payment: self.payment.get(),
            cost: self.cost.get(),
            is_changed: self.is_changed.get(),
            is_cut: self.is_cut.get(),
        }
    }

    fn set(&self, offer: Offer) {
        let Offer { began, ticket, reserved, payment, cost, is_changed, is_cut } = offer;
        self.began.set(began);
        self.ticket.set(ticket);
        self.reserved.set(reserved);
        self.payment.set(payment);
        self.cost.set(cost);
        self.is_changed.set(is_changed);
        self.is_cut.set(is_cut);
    }
}

/// The admission of an attempt that this thread polls, and the payment for the attempt.
#[derive(Clone, Copy)]
struct Offer {
    began: Began,
    ticket: Ticket,
    reserved: Reserved,
    payment: Payment,
    cost: CostKey,
    is_changed: bool,
    /// True while the attempt is dropped because a limit cut it.
    is_cut: bool,
}

impl Offer {
    const fn held(self) -> Held {
        Held::Admitted { began: self.began, ticket: self.ticket, reserved: self.reserved }
    }
}

/// The place of an attempt among those that this thread polls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Outermost,
    Inner,
    /// The thread ends, so it has no stack any more.
    Nowhere,
}

/// Makes an attempt the innermost one, until [`end`].
///
/// The arguments are words in registers. Copied inline, a wide load of the words that the admission
/// has just written would stall the processor for longer than all of this takes.
#[inline(never)]
pub(super) fn offer(
    parts: &Parts,
    began: Began,
    ticket: Ticket,
    reserved: Reserved,
    payment: Payment,
) -> Place {
    INNERMOST.with(|innermost| {
        if innermost.upstream.get() != 0 {
            return offer_within(parts, began, ticket, reserved, payment);
        }
        innermost.offer(parts, began, ticket, reserved, payment);
        Place::Outermost
    })
}

/// Does the work of [`offer`] for an attempt within another one. The other one goes onto the stack.
#[cold]
#[inline(never)]
fn offer_within(
    parts: &Parts,
    began: Began,
    ticket: Ticket,
    reserved: Reserved,
    payment: Payment,
) -> Place {
    INNERMOST.with(|innermost| {
        let around = (innermost.upstream.get(), innermost.get());
        if OUTER.try_with(|outer| outer.borrow_mut().push(around)).is_err() {
            return Place::Nowhere;
        }
        innermost.is_changed.set(false);
        innermost.is_cut.set(false);
        innermost.offer(parts, began, ticket, reserved, payment);
        Place::Inner
    })
}

/// Adds the cost of the innermost attempt, if its upstream has a quota.
pub(super) fn offer_cost(cost: CostKey) {
    INNERMOST.with(|innermost| innermost.cost.set(cost));
}

/// Ends the offer of the innermost attempt. Returns true if calls within the attempt have changed it.
/// Then [`take_back`] follows.
#[inline]
pub(super) fn end() -> bool {
    INNERMOST.with(|innermost| {
        innermost.upstream.set(0);
        innermost.is_changed.get()
    })
}

/// Takes back what calls within the attempt have changed. If the attempt is an inner one, the attempt
/// around it is the innermost one again.
#[cold]
pub(super) fn take_back(is_inner: bool) -> Option<(Held, Payment)> {
    INNERMOST.with(|innermost| {
        innermost.is_cut.set(false);
        let offer = innermost.get();
        let changed = innermost.is_changed.take().then(|| (offer.held(), offer.payment));
        if is_inner {
            pop(innermost);
        }
        changed
    })
}

fn pop(innermost: &Innermost) {
    if let Ok(Some((upstream, offer))) = OUTER.try_with(|outer| outer.borrow_mut().pop()) {
        innermost.set(offer);
        innermost.upstream.set(upstream);
    }
}

/// Notes that the innermost attempt is dropped because a limit cut it.
#[cold]
pub(super) fn note_cut() {
    INNERMOST.with(|innermost| {
        innermost.is_cut.set(true);
        innermost.is_changed.set(true);
    });
}

/// Returns the identity of an upstream: the address of its parts. The call that offers an admission
/// keeps the upstream alive.
fn address(parts: &Parts) -> usize {
    std::ptr::from_ref(parts).addr()
}

/// Returns true while this thread polls an attempt on any upstream.
#[inline]
pub(super) fn is_within_any() -> bool {
    INNERMOST.with(|innermost| innermost.upstream.get() != 0)
}

/// Returns true while this thread polls an attempt on this upstream.
#[cold]
pub(super) fn is_within(parts: &Parts) -> bool {
    find(parts, |_| Some(())).is_some()
}

/// Asks the attempts on this upstream, from the innermost one to the outermost one, until `ask`
/// returns a value. `ask` may change the offer of an attempt.
fn find<R>(parts: &Parts, mut ask: impl FnMut(&mut Offer) -> Option<R>) -> Option<R> {
    let upstream = address(parts);
    INNERMOST.with(|innermost| {
        if innermost.upstream.get() == upstream {
            let mut offer = innermost.get();
            let found = ask(&mut offer);
            if found.is_some() {
                innermost.set(offer);
                return found;
            }
        }
        let outer = |outer: &RefCell<Vec<(usize, Offer)>>| {
            let mut outer = outer.borrow_mut();
            let same = outer.iter_mut().rev().filter(|(of, _)| *of == upstream);
            same.map(|(_, offer)| offer).find_map(&mut ask)
        };
        OUTER.try_with(outer).ok().flatten()
    })
}

/// The admission of the attempt around a call that begins.
pub(super) enum Taken {
    /// The call sends the request for which this admission was given.
    Admission(Held),
    /// The request of this admission has had its good answer, so the call sends another one.
    Answered(Held, Payment, CostKey),
    /// The call that sent the request of this admission was dropped, so the call sends another one.
    Unanswered(Held, CostKey),
    /// The call sends a request of another cost, so this admission is given back.
    OtherCost(Held, CostKey),
}

/// Takes the admission of the innermost attempt on this upstream, unless another call has it.
///
/// `cost` is the cost of the call if the upstream has a quota.
#[cold]
pub(super) fn take(parts: &Parts, cost: Option<CostKey>) -> Option<Taken> {
    let take = |offer: &mut Offer| {
        let (held, reserved) = (offer.held(), offer.reserved);
        if reserved.is_lent() {
            return Some(None);
        }
        offer.reserved = reserved.lent();
        offer.is_changed = true;
        Some(Some(if reserved.is_answered() {
            Taken::Answered(held, offer.payment, offer.cost)
        } else if reserved.was_lent() {
            Taken::Unanswered(held, offer.cost)
        } else if cost.is_some_and(|cost| offer.cost != cost) {
            Taken::OtherCost(held, offer.cost)
        } else {
            Taken::Admission(held.map_reserved(Reserved::taken))
        }))
    };
    find(parts, take).flatten()
}

/// Notes that a call waits for an admission of its own while another call has that of the attempt.
/// The admission then does not go back: it would keep the permit for which the call waits.
#[cold]
pub(super) fn contend(parts: &Parts) {
    find(parts, |offer| {
        if !offer.reserved.is_lent() {
            return None;
        }
        offer.reserved = offer.reserved.contended();
        offer.is_changed = true;
        Some(())
    });
}

/// Hands an admission back to the innermost attempt on this upstream that has lent one of this cost.
/// Returns false if there is none. `payment` is that of a request with a good answer.
///
/// Without an answer only the admission of the attempt itself goes back: another request of the
/// attempt may have failed, and is reported already. If the attempt was cut, any admission goes back,
/// so that the cut counts.
#[cold]
pub(super) fn hand_back(
    parts: &Parts,
    cost: Option<CostKey>,
    held: Held,
    payment: Option<Payment>,
) -> bool {
    let Held::Admitted { began, ticket, reserved } = held else { return false };
    let answered = payment.is_some() || reserved.is_answered();
    let give = |offer: &mut Offer| {
        let lent = offer.reserved;
        if !lent.is_lent() || cost.is_some_and(|cost| offer.cost != cost) {
            return None;
        }
        let is_wanted = answered || reserved.is_taken() || reserved.was_lent();
        if !offer.is_cut && (lent.is_contended() || !is_wanted) {
            return Some(false);
        }
        (offer.began, offer.ticket) = (began, ticket);
        offer.reserved = reserved.back(lent, answered);
        offer.payment = payment.filter(|payment| payment.is_spent()).unwrap_or(offer.payment);
        offer.is_changed = true;
        Some(true)
    };
    find(parts, give).unwrap_or(false)
}
