use resile::Attempt;

use super::sealed::{Copies, Replay};

/// The request is cloned for each attempt but the last one allowed.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Cloned;

#[diagnostic::do_not_recommend]
impl<Req: Clone> Replay<Req> for Cloned {
    type Request = Req;
    type Copies = Clones<Req>;

    fn copies(&self, request: Req, attempts: u32) -> Clones<Req> {
        Clones { request: Some(request), attempts }
    }
}

/// The requests of one call.
#[derive(Debug)]
pub struct Clones<Req> {
    request: Option<Req>,
    attempts: u32,
}

impl<Req: Clone> Copies for Clones<Req> {
    type Request = Req;
    type Check = ();

    fn next(&mut self, attempt: Attempt) -> Option<Req> {
        if attempt.number() >= self.attempts { self.request.take() } else { self.request.clone() }
    }

    fn check(&self) {}
}
