use std::cell::{Cell, RefCell};

use super::Parts;
use super::held::Held;
use super::payment::Payment;
use crate::quota::CostKey;

thread_local! {
    /// The innermost attempt on an upstream that this thread polls.
    static INNERMOST: Innermost = const {
        Innermost {
            upstream: Cell::new(0),
            held: Cell::new(Held::Nothing),
            payment: Cell::new(Payment::NONE),
            cost: Cell::new(CostKey::NONE),
            is_changed: Cell::new(false),
        }
    };
    /// The attempts around the innermost one. The outermost is first.
    static OUTER: RefCell<Vec<(usize, Offer)>> = const { RefCell::new(Vec::new()) };
}

/// An [`Offer`] in parts: a poll writes only those that count.
struct Innermost {
    /// The address of the upstream's parts, or 0 if this thread polls no attempt on an upstream.
    upstream: Cell<usize>,
    held: Cell<Held>,
    payment: Cell<Payment>,
    cost: Cell<CostKey>,
    is_changed: Cell<bool>,
}

impl Innermost {
    fn get(&self) -> Offer {
        Offer {
            held: self.held.get(),
            payment: self.payment.get(),
            cost: self.cost.get(),
            is_changed: self.is_changed.get(),
        }
    }

    fn set(&self, offer: Offer) {
        let Offer { held, payment, cost, is_changed } = offer;
        self.held.set(held);
        self.payment.set(payment);
        self.cost.set(cost);
        self.is_changed.set(is_changed);
    }
}

/// The admission of an attempt that this thread polls, and the payment for the attempt.
#[derive(Clone, Copy)]
struct Offer {
    held: Held,
    payment: Payment,
    cost: CostKey,
    is_changed: bool,
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
    /// `cost` is the cost of the attempt if the upstream has a quota.
    #[inline]
    pub(super) fn new(
        parts: &Parts,
        cost: Option<CostKey>,
        held: &'g mut Held,
        payment: &'g mut Payment,
    ) -> Option<Self> {
        INNERMOST.with(|innermost| {
            let is_inner = innermost.upstream.get() != 0;
            if is_inner && !push(innermost) {
                return None;
            }
            innermost.held.set(*held);
            innermost.payment.set(*payment);
            if let Some(cost) = cost {
                innermost.cost.set(cost);
            }
            innermost.upstream.set(address(parts));
            Some(Self { held, payment, is_inner })
        })
    }

    /// Takes back what calls within the attempt have changed, and the attempt around this one.
    #[cold]
    #[inline(never)]
    fn change_back(&mut self, innermost: &Innermost) {
        if innermost.is_changed.take() {
            *self.held = innermost.held.get();
            *self.payment = innermost.payment.get();
        }
        if self.is_inner {
            pop(innermost);
        }
    }
}

impl Drop for Lending<'_> {
    #[inline]
    fn drop(&mut self) {
        INNERMOST.with(|innermost| {
            innermost.upstream.set(0);
            if innermost.is_changed.get() || self.is_inner {
                self.change_back(innermost);
            }
        });
    }
}

/// Puts the innermost attempt on the stack. Returns false if the thread ends and has no stack.
#[cold]
#[inline(never)]
fn push(innermost: &Innermost) -> bool {
    let attempt = (innermost.upstream.get(), innermost.get());
    let is_pushed = OUTER.try_with(|outer| outer.borrow_mut().push(attempt)).is_ok();
    if is_pushed {
        innermost.is_changed.set(false);
    }
    is_pushed
}

fn pop(innermost: &Innermost) {
    if let Ok(Some((upstream, offer))) = OUTER.try_with(|outer| outer.borrow_mut().pop()) {
        innermost.set(offer);
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
            let mut offer = innermost.get();
            let changed = change(&mut offer);
            innermost.set(offer);
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
///
/// `cost` is the cost of the call if the upstream has a quota.
#[cold]
pub(super) fn take(parts: &Parts, cost: Option<CostKey>) -> Option<Taken> {
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
        } else if cost.is_some_and(|cost| offer.cost != cost) {
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
    cost: Option<CostKey>,
    held: Held,
    payment: Option<Payment>,
) -> bool {
    let Held::Admitted { ticket, reserved } = held else { return false };
    let give = |offer: &mut Offer| {
        let Held::Admitted { reserved: lent, .. } = offer.held else { return None };
        if !lent.is_lent() || cost.is_some_and(|cost| offer.cost != cost) {
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
