use std::fmt;

use resile::Attempt;

use super::sealed::{Copies, Replay};

/// A function makes the request of each attempt, the first one included. Made by
/// [`RetryLayer::replaying`](crate::RetryLayer::replaying).
#[derive(Clone, Copy)]
pub struct By<F>(pub(crate) F);

impl<F> fmt::Debug for By<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("By").finish_non_exhaustive()
    }
}

impl<Req, Q, F: Fn(&Req, Attempt) -> Q + Clone> Replay<Req> for By<F> {
    type Request = Q;
    type Copies = Made<Req, F>;

    fn copies(&self, request: Req, _: u32) -> Made<Req, F> {
        Made { request, make: self.0.clone() }
    }
}

/// The requests of one call.
pub struct Made<Req, F> {
    request: Req,
    make: F,
}

impl<Req, F> fmt::Debug for Made<Req, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").finish_non_exhaustive()
    }
}

impl<Req, Q, F: Fn(&Req, Attempt) -> Q> Copies for Made<Req, F> {
    type Request = Q;
    type Check = ();

    fn next(&mut self, attempt: Attempt) -> Option<Q> {
        Some((self.make)(&self.request, attempt))
    }

    fn check(&self) {}
}
