use std::borrow::Cow;
use std::fmt;

use http::Request;
use http::request::Parts;
use http_body::Body;
use resile::Attempt;

use super::shared::{Keeps, Shared};
use super::{KeptBody, previous};
use crate::BoxError;
use crate::replay::{Check, Copies, SealedReplay};

/// The body of a request is kept while it is sent. Made by
/// [`RetryLayer::keeping`](crate::RetryLayer::keeping).
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    limit: usize,
}

impl Kept {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit }
    }
}

impl<B> SealedReplay<Request<B>> for Kept
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    type Request = Request<KeptBody<B>>;
    type Copies = Keeping<B>;

    fn copies(&self, request: Request<B>, attempts: u32) -> Keeping<B> {
        let (head, body) = request.into_parts();
        Keeping { head, shared: Shared::new(body, self.limit, attempts) }
    }
}

/// The requests of one call.
pub struct Keeping<B> {
    head: Parts,
    shared: Shared<B>,
}

impl<B> fmt::Debug for Keeping<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeping").finish_non_exhaustive()
    }
}

impl<B> Copies for Keeping<B> {
    type Request = Request<KeptBody<B>>;
    type Check = Shared<B>;

    fn next(&mut self, attempt: Attempt) -> Option<Self::Request> {
        let reader = self.shared.begin()?;
        let mut head = self.head.clone();
        previous::write(&mut head.headers, attempt);
        Some(Request::from_parts(head, KeptBody::new(self.shared.clone(), reader)))
    }

    fn check(&self) -> Shared<B> {
        self.shared.clone()
    }
}

/// The call has ended. The last attempt may still read.
impl<B> Drop for Keeping<B> {
    fn drop(&mut self) {
        self.shared.finish();
    }
}

impl<B> Check for Shared<B> {
    fn once(&self) -> Option<Cow<'static, str>> {
        match self.keeps() {
            Keeps::Yes | Keeps::Over => None,
            Keeps::TooLong(limit) => {
                let why = format!("its body is longer than the {limit} bytes that are kept");
                Some(Cow::Owned(why))
            }
            Keeps::Broken => Some(Cow::Borrowed("its body ended with an error")),
        }
    }
}
