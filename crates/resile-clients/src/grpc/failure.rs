use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::iter;
use std::ops::Deref;
use std::sync::Arc;

use ::tonic::Status;
use resile::Verdict;
use resile::timeout::Elapsed;

use super::{name, status};
use crate::Idempotency;
use crate::chain::links;
use crate::classifier::classifies;

/// A status of `tonic` in the words of gRPC: `UNAVAILABLE: the server restarts`.
///
/// `tonic` itself writes a sentence in place of the code: `code: 'The service is currently unavailable',
/// message: "the server restarts"`. With this error type of the operation the log and the `{:#}` of a
/// [`GaveUp`](resile::GaveUp) have the words of a layer of `resile-tower`. `?` converts a status, so a call changes
/// in its type alone: `GaveUp<grpc::Failure>` in place of `GaveUp<Status>`. The `{:#}` of an error of the transport
/// leaves out its bare "transport error" and has its causes: `UNKNOWN: connection error: connection reset`.
///
/// A failure derefs to its status, and `Status::from` returns it. [`Classifier`](crate::Classifier) and
/// [`to_status`](super::to_status) treat it as that status. Its [source](Error::source) is the one of the
/// status, so a search of a chain for a `Status` does not find it, such as that of `Status::from_error`.
///
/// # Examples
///
/// ```
/// use resile_clients::resile::{GaveUp, Never, RetryPolicy, Upstream, retry};
/// use resile_clients::{Classifier, grpc};
/// use tonic::{Code, Status};
///
/// # use resile_clients::resile::time::ManualTimer;
/// # async fn stock() -> Result<u32, Status> { Err(Status::not_found("no such item")) }
/// async fn pens() -> Result<u32, GaveUp<grpc::Failure>> {
///     let store = Upstream::new("store");
///     # let store = store.with_timer(ManualTimer::new());
///     let policy = RetryPolicy::new().with_classifier(Classifier::idempotent());
///     retry(async |_| Ok(stock().await?), policy, Never).on(&store).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let end = pens().await.unwrap_err();
/// assert!(format!("{end:#}").ends_with(": NOT_FOUND: no such item"));
/// assert_eq!(end.last().unwrap().code(), Code::NotFound);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Failure(Status);

/// The words of each error of the transport of `tonic`. They say nothing, but its sources do.
pub(super) const TRANSPORT: &str = "transport error";

impl Failure {
    /// Returns the words of the causes of an error of the transport. Any other failure has none.
    fn causes(&self) -> Vec<String> {
        let is_bare = |source: &&(dyn Error + 'static)| {
            self.message() == TRANSPORT || source.to_string() == TRANSPORT
        };
        let transport = self.source().filter(is_bare);
        let words = transport.into_iter().flat_map(links).map(ToString::to_string);
        words.skip_while(|words| words == TRANSPORT).collect()
    }
}

/// The alternate form has the causes of an error of the transport too, without its own words.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(i32::from(self.code())).unwrap_or("UNKNOWN"))?;
        let causes = if f.alternate() { self.causes() } else { Vec::new() };
        let is_bare = self.message() == TRANSPORT && !causes.is_empty();
        let message = if is_bare { "" } else { self.message() };
        let mut line = String::new();
        for words in iter::once(message).chain(causes.iter().map(String::as_str)) {
            if !line.contains(words) {
                line.push_str(": ");
                line.push_str(words);
            }
        }
        f.write_str(&line)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl Deref for Failure {
    type Target = Status;

    fn deref(&self) -> &Status {
        &self.0
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

/// Converts into `DEADLINE_EXCEEDED` with the limit as its source, so a stream of failures can have an
/// `idle_timeout` and a call a [`timeout`](resile::ResilienceExt::timeout). The verdict is that on a cut attempt and
/// not that on the code of a server: a read is sent again, and an order is in doubt.
impl From<Elapsed> for Failure {
    fn from(elapsed: Elapsed) -> Self {
        let mut status = Status::deadline_exceeded(elapsed.to_string());
        status.set_source(Arc::new(elapsed));
        Self(status)
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

classifies!(Failure => verdict, word);

fn verdict(failure: &Failure, idempotency: Idempotency) -> Option<Verdict> {
    status(failure, idempotency)
}

fn word(failure: &Failure) -> Option<Cow<'_, str>> {
    super::status::word(failure)
}
