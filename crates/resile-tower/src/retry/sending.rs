use std::marker::PhantomData;
use std::mem;

use resile::Attempt;
use resile::retry::Operation;
use tower_service::Service;

use crate::attempt::Attempting;
use crate::deadline::Deadline;
use crate::judge::{Known, SealedRule};
use crate::replay::Copies;

/// The attempts of one call: each has a request and a service of its own.
pub(super) struct Sending<S, Q, C, L>
where
    S: Service<Q>,
    C: Copies,
{
    /// The service of the first attempt. The next ones go to clones of it.
    pub(super) service: S,
    /// True if the caller found the service ready.
    pub(super) is_ready: bool,
    pub(super) copies: C,
    pub(super) known: Known<L, C::Check, S::Error>,
    pub(super) request: PhantomData<fn(Q)>,
}

impl<S, C, L> Operation for Sending<S, C::Request, C, L>
where
    S: Service<C::Request> + Clone,
    C: Copies,
    L: SealedRule<S::Response, S::Error> + Clone,
{
    type Attempt = Attempting<S, C::Request, L, C::Check>;

    fn attempt(&mut self, attempt: Attempt) -> Self::Attempt {
        let deadline = attempt.time_left().map(Deadline::after);
        let request = self.copies.next(attempt);
        let known = self.known.clone();
        if mem::take(&mut self.is_ready) {
            return Attempting::call(&mut self.service, request, known, deadline);
        }
        Attempting::new(self.service.clone(), false, request, known, deadline)
    }
}
