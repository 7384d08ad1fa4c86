use std::cell::{Cell, RefCell};

use super::Parts;
use super::held::Held;
use super::payment::Payment;
use crate::quota::CostKey;

thread_local! {
    /// The innermost attempt on an upstream that this thread polls.
    static INNERMOST: Innermost = const {
        Innermost { upstream: Cell::new(0), offer: Cell::new(Offer::NONE) }
    };
    /// The attempts around the innermost one. The outermost is first.
    static OUTER: RefCell<Vec<(usize, Offer)>> = const { RefCell::new(Vec::new()) };
}

struct Innermost {
    /// The address of the upstream's parts, or 0 if this thread polls no attempt on an upstream.
    upstream: Cell<usize>,
    offer: Cell<Offer>,
}

/// The admission of an attempt that this thread polls, and the payment for the attempt.
#[derive(Clone, Copy)]
struct Offer {
    held: Held,
    payment: Payment,
    cost: CostKey,
    is_changed: bool,
}

impl Offer {
    const NONE: Self = Self {
        held: Held::Nothing,
        payment: Payment::NONE,
        cost: CostKey::NONE,
        is_changed: false,
    };
}

/// A guard that offers the admission of an attempt to the calls within the attempt. It lives while
/// the attempt is polled or dropped.
///
/// A call on the same upstream takes the admission, because it sends the request. It gives the
/// admission back with a good answer, or if it is dropped before it has an answer.
pub(crate) struct Lending<'g> {
    held: &'g mut Held,
    payment: &'g mut Payment,
    is_inner: bool,
}

impl<'g> Lending<'g> {
    #[inline]
    pub(super) fn new(
        parts: &Parts,
        cost: CostKey,
        held: &'g mut Held,
        payment: &'g mut Payment,
    ) -> Option<Self> {
        INNERMOST.with(|innermost| {
            let is_inner = innermost.upstream.get() != 0;
            if is_inner && !push(innermost) {
                return None;
            }
            innermost.offer.set(Offer { held: *held, payment: *payment, cost, is_changed: false });
            innermost.upstream.set(address(parts));
            Some(Self { held, payment, is_inner })
        })
    }
}

impl Drop for Lending<'_> {
    #[inline]
    fn drop(&mut self) {
        INNERMOST.with(|innermost| {
            let offer = innermost.offer.get();
            if offer.is_changed {
                *self.held = offer.held;
                *self.payment = offer.payment;
            }
            innermost.upstream.set(0);
            if self.is_inner {
                pop(innermost);
            }
        });
    }
}

/// Puts the innermost attempt on the stack. Returns false if the thread ends and has no stack.
#[cold]
fn push(innermost: &Innermost) -> bool {
    let attempt = (innermost.upstream.get(), innermost.offer.get());
    OUTER.try_with(|outer| outer.borrow_mut().push(attempt)).is_ok()
}

#[cold]
fn pop(innermost: &Innermost) {
    if let Ok(Some((upstream, offer))) = OUTER.try_with(|outer| outer.borrow_mut().pop()) {
        innermost.offer.set(offer);
        innermost.upstream.set(upstream);
    }
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
    change(parts, |_| Some(())).is_some()
}

/// Applies `change` to the attempts on this upstream, from the innermost one to the outermost one,
/// until it returns a value.
fn change<R>(parts: &Parts, mut change: impl FnMut(&mut Offer) -> Option<R>) -> Option<R> {
    let upstream = address(parts);
    INNERMOST.with(|innermost| {
        if innermost.upstream.get() == upstream {
            let mut offer = innermost.offer.get();
            let changed = change(&mut offer);
            innermost.offer.set(offer);
            if changed.is_some() {
                return changed;
            }
        }
        let find = |outer: &RefCell<Vec<(usize, Offer)>>| {
            let mut outer = outer.borrow_mut();
            let same = outer.iter_mut().rev().filter(|(of, _)| *of == upstream);
            same.map(|(_, offer)| offer).find_map(&mut change)
        };
        OUTER.try_with(find).ok().flatten()
    })
}

/// The admission of the attempt around a call that begins.
pub(super) enum Taken {
    /// The call sends the request for which this admission was given.
    Admission(Held),
    /// The request of this admission has had its good answer, so the call sends another one.
    Answered(Held, Payment),
    /// The call that sent the request of this admission was dropped, so the call sends another one.
    Unanswered(Held),
    /// The call sends a request of another cost, so this admission is given back.
    OtherCost(Held, CostKey),
}

/// Takes the admission of the innermost attempt on this upstream, unless another call has it.
#[cold]
pub(super) fn take(parts: &Parts, cost: CostKey) -> Option<Taken> {
    change(parts, |offer| {
        let Held::Admitted { ticket, reserved } = offer.held else { return Some(None) };
        if reserved.is_lent() {
            return Some(None);
        }
        offer.held = Held::Admitted { ticket, reserved: reserved.lent() };
        offer.is_changed = true;
        let taken = Held::Admitted { ticket, reserved };
        Some(Some(if reserved.is_answered() {
            Taken::Answered(taken, offer.payment)
        } else if reserved.was_lent() {
            Taken::Unanswered(taken)
        } else if offer.cost != cost {
            Taken::OtherCost(taken, offer.cost)
        } else {
            Taken::Admission(taken)
        }))
    })
    .flatten()
}

/// Gives an admission back to the innermost attempt on this upstream that has lent one of this cost.
/// Returns false if there is none. `payment` is that of the request if the answer was good.
#[cold]
pub(super) fn give_back(
    parts: &Parts,
    cost: CostKey,
    held: Held,
    payment: Option<Payment>,
) -> bool {
    let Held::Admitted { ticket, reserved } = held else { return false };
    let give = |offer: &mut Offer| {
        let Held::Admitted { reserved: lent, .. } = offer.held else { return None };
        if !lent.is_lent() || offer.cost != cost {
            return None;
        }
        let answered = payment.is_some() || reserved.is_answered();
        offer.held = Held::Admitted { ticket, reserved: reserved.back(lent, answered) };
        offer.payment = payment.filter(|payment| payment.is_spent()).unwrap_or(offer.payment);
        offer.is_changed = true;
        Some(())
    };
    change(parts, give).is_some()
}
