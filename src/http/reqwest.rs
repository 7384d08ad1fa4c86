use std::borrow::Cow;

use reqwest::{Error, Response};

use super::failure::{Outcome, READ};
use super::{Classifier, Failure, StatusError};
use crate::classify::Classify;
#[cfg(all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))))]
use crate::timeout::Timeout;
use crate::verdict::{Cut, Verdict};

/// Turns an answer of 4xx or 5xx into a [`Failure`], and a redirect of 301, 302, 307 or 308 that the client did
/// not follow. Returns the others unchanged. A 303 is one of them, because the server has executed the
/// request and names the place of its result. Its body is usually empty, so read the status before the body.
///
/// A client follows redirects by default, and the function then sees only the last answer. A client with
/// a `POST` must follow none, because a failure of the target counts as one of the `POST`: see [the table](super).
///
/// The failure keeps the headers and the start of the body. Reading the body stops
/// after 1 KiB or after 500 ms, and the rest is dropped with the connection. The 500 ms limit the whole reading, so a
/// body that comes slowly costs no more time than a silent one. If a body breaks off or is late, the part that arrived
/// counts. A browser hands over whole bodies only, so there the body is read to its end.
///
/// The function runs within the attempt, so the attempt timeout limits it. If less than 500 ms of that are left when
/// the head comes, a slow or silent body lets the attempt be cut, and then the status and the `Retry-After` are lost.
/// So give an attempt 500 ms more than the head of an answer takes. The 500 ms are those of tokio's clock, also on an
/// upstream with another timer. Without the feature `tokio` only the attempt timeout limits a slow body.
///
/// The headers do not reach a quota. For that call [`learn`](super::learn) before this function.
///
/// # Errors
///
/// Returns a [`Failure`] for 4xx, 5xx, 301, 302, 307 and 308.
///
/// # Cancel safety
///
/// Dropping the future drops the answer.
///
/// # Examples
///
/// ```
/// use resile::http::{self, Classifier, Failure};
/// use resile::{Never, RetryPolicy, retry};
///
/// async fn get(client: &reqwest::Client) -> Result<String, Failure> {
///     let answer = client.get("https://api.example/v1").send().await?;
///     Ok(http::error_for_status(answer).await?.text().await?)
/// }
///
/// # async fn run(client: reqwest::Client) -> anyhow::Result<()> {
/// let policy = RetryPolicy::new().with_classifier(Classifier::idempotent());
/// let body = retry(|_| get(&client), policy, Never).await?;
/// # let _ = body;
/// # Ok(())
/// # }
/// ```
pub async fn error_for_status(answer: Response) -> Result<Response, Failure> {
    match StatusError::check_followed(answer.status(), answer.headers()) {
        Ok(()) => Ok(answer),
        Err(refused) => {
            let mut url = answer.url().clone();
            strip(&mut url);
            let headers = answer.headers().clone();
            let body = start_of_body(answer, READ + 1).await;
            Err(Failure::refused(refused, headers, &body).at(url.into()))
        }
    }
}

/// The time for the whole body of an error.
#[cfg(all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))))]
const TIME: std::time::Duration = std::time::Duration::from_millis(500);

/// Reads the body of an error until its end, until `room` bytes have arrived, or for 500 ms. The head has told
/// what matters most, so a body that never ends must not cost the status.
#[doc(hidden)]
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub async fn start_of_body(mut answer: Response, room: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let read = read_into(&mut body, &mut answer, room);
    #[cfg(feature = "tokio")]
    let read = Timeout::new(read, TIME);
    // What has arrived counts, also after an error and at the end of the time.
    let _ = read.await;
    body
}

/// Appends the body to `read` until its end or until there are `room` bytes.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
async fn read_into(read: &mut Vec<u8>, answer: &mut Response, room: usize) -> Result<(), Failure> {
    while read.len() < room {
        let Some(chunk) = answer.chunk().await? else { break };
        read.extend_from_slice(chunk.get(..room - read.len()).unwrap_or(&chunk));
    }
    Ok(())
}

/// Reads the body, and keeps `room` bytes of it. There `reqwest` has no chunks.
#[doc(hidden)]
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub async fn start_of_body(answer: Response, room: usize) -> Vec<u8> {
    let body = answer.bytes().await.unwrap_or_default();
    body.iter().copied().take(room).collect()
}

/// Removes the parts of a URL that may hold a key.
fn strip(url: &mut reqwest::Url) {
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only for a URL that cannot have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

/// Converts an error of `send()` or of reading a body, so `?` works on both. A body that `json()`
/// cannot read is an answer that the program does not [understand](Failure::not_understood), unless
/// the body broke off. The URL of the error loses its query, its fragment and its credentials, because
/// they may hold a key.
///
/// An error made by `Response::error_for_status` keeps its status, but it has no `Retry-After`. Use
/// [`error_for_status`] instead. For 429 and 5xx the words of the failure say so.
impl From<Error> for Failure {
    fn from(mut error: Error) -> Self {
        let url = error.url_mut().map(|url| {
            strip(url);
            url.to_string()
        });
        Self::caused(outcome(&error), error.into()).at(url.unwrap_or_default())
    }
}

/// Classifies an error of `reqwest`, by its status if `Response::error_for_status` made the error.
///
/// The error does not hold the headers, so a `Retry-After` is lost. To keep it, use
/// [`error_for_status`] of this module.
///
/// A request whose redirects `reqwest` does not follow to their end, such as a circle, is final
/// and the server is healthy. A request that is not idempotent may have been executed before the redirect,
/// so the call is in doubt.
impl Classify<Error> for Classifier {
    fn classify(&self, error: &Error) -> Option<Verdict> {
        Some(self.judge(outcome(error)))
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered())
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.known_place()
    }

    /// Returns the status, such as "503", or `connect`, `timeout`, `decode`, `request`, `redirect`,
    /// `incomplete_answer` or `no_answer`.
    fn error_type<'e>(&self, error: &'e Error) -> Option<Cow<'e, str>> {
        Some(outcome(error).error_type())
    }
}

/// Returns how far the request came.
fn outcome(error: &Error) -> Outcome {
    match error.status() {
        Some(status) => Outcome::Refused(StatusError::of(status)),
        None if error.is_builder() => Outcome::NotBuilt,
        None if error.is_redirect() => Outcome::Redirected,
        None if is_connect(error) => Outcome::NotSent,
        None if error.is_timeout() && is_answered(error) => Outcome::CutBody,
        None if error.is_timeout() => Outcome::Cut,
        None if is_not_understood(error) => Outcome::NotUnderstood,
        None if is_answered(error) => Outcome::Incomplete,
        None => Outcome::Unanswered,
    }
}

/// Returns whether the head of an answer has come, because the error is that of its body. A body of the
/// request that fails, or a connection that closes before the head is whole, is an error of the request.
fn is_answered(error: &Error) -> bool {
    error.is_body() || error.is_decode()
}

/// Returns true if no connection was made. JavaScript does not tell, so the answer is false there.
fn is_connect(error: &Error) -> bool {
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    {
        let _ = error;
        false
    }
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    {
        error.is_connect()
    }
}

/// Returns true if the whole body arrived and `json()` cannot read it. A body that broke off has an
/// error of the client or of the connection as its cause. JavaScript does not tell, so the answer is
/// false there.
fn is_not_understood(error: &Error) -> bool {
    use std::error::Error as _;

    if cfg!(all(target_family = "wasm", target_os = "unknown")) || !error.is_decode() {
        return false;
    }
    // The cause of a broken connection has a cause of its own, and an error of JSON does not.
    error.source().is_some_and(|cause| {
        cause.source().is_none() && !cause.is::<std::io::Error>() && !cause.is::<Error>()
    })
}
