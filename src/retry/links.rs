use crate::breaker::{Gate, Open, Ticket};
use crate::classify::Verdict;

/// What a run is linked to beside its budget. Nobody needs to implement it.
pub trait Links: sealed::Sealed {}

impl<L: sealed::Sealed> Links for L {}

/// Linked to nothing, at no cost.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unlinked;

/// Linked to a breaker.
pub struct Linked<'a> {
    breaker: Option<&'a dyn Gate>,
    /// The breaker's permit for the attempt in flight.
    ticket: Option<Ticket>,
}

mod sealed {
    use super::{Linked, Open, Unlinked, Verdict};

    /// The steps of a run that concern what it is linked to.
    pub trait Sealed {
        const LINKED: bool;

        /// Asks to begin an attempt.
        fn admit(&mut self) -> Result<(), Open>;

        /// Tells how the attempt ended; no verdict is success.
        fn settle(&mut self, verdict: Option<Verdict>);

        /// The attempt was cut short: that says nothing.
        fn forget(&mut self);
    }

    impl Sealed for Unlinked {
        const LINKED: bool = false;

        #[inline]
        fn admit(&mut self) -> Result<(), Open> {
            Ok(())
        }

        #[inline]
        fn settle(&mut self, _: Option<Verdict>) {}

        #[inline]
        fn forget(&mut self) {}
    }

    impl Sealed for Linked<'_> {
        const LINKED: bool = true;

        #[inline]
        fn admit(&mut self) -> Result<(), Open> {
            if let Some(breaker) = self.breaker {
                self.ticket = Some(breaker.admit()?);
            }
            Ok(())
        }

        #[inline]
        fn settle(&mut self, verdict: Option<Verdict>) {
            if let (Some(breaker), Some(ticket)) = (self.breaker, self.ticket.take()) {
                breaker.settle(ticket, verdict);
            }
        }

        #[inline]
        fn forget(&mut self) {
            if let (Some(breaker), Some(ticket)) = (self.breaker, self.ticket.take()) {
                breaker.forget(ticket);
            }
        }
    }
}

pub(super) use sealed::Sealed as Steps;

/// What may be linked to one more thing: all that [`Links`] are. Nobody needs to implement it.
pub trait Link<'a>: Links {
    #[doc(hidden)]
    fn linked(self) -> Linked<'a>;
}

impl<'a> Link<'a> for Unlinked {
    fn linked(self) -> Linked<'a> {
        Linked { breaker: None, ticket: None }
    }
}

impl<'a> Link<'a> for Linked<'a> {
    fn linked(self) -> Linked<'a> {
        self
    }
}

impl<'a> Linked<'a> {
    pub(super) fn set_breaker(&mut self, breaker: &'a dyn Gate) {
        self.forget();
        self.breaker = Some(breaker);
    }
}

impl Drop for Linked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.forget();
    }
}

impl std::fmt::Debug for Linked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Linked").field("breaker", &self.breaker.is_some()).finish_non_exhaustive()
    }
}
