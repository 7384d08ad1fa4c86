//! Conversions of `reqwest`'s answers and errors.

use std::error::Error;

use reqwest::Response;

use super::failure::Failure;
use super::kind::Kind;
use super::reply::Reply;
use crate::http::wall_clock;

/// The number of bytes of an error's body after which reading stops.
const READ: usize = 256 * 1024;

/// Returns answers with a good status unchanged and turns the others into a [`Failure`].
///
/// Any status outside 4xx and 5xx is good. Reading an error's body stops after 256 KiB. If a body
/// breaks off, the part that arrived is classified.
///
/// # Errors
///
/// Returns the [`Failure`] that the answer means.
///
/// # Cancel safety
///
/// Dropping the future drops the answer.
///
/// # Examples
///
/// ```
/// use resile::llm::{self, Failure};
///
/// type Answer = Result<String, Failure>;
///
/// async fn complete(client: &reqwest::Client, prompt: String) -> Answer {
///     let request = client.post("https://llm.example/v1/chat").body(prompt);
///     let answer = llm::error_for_status(request.send().await?).await?;
///     Ok(answer.text().await?)
/// }
/// ```
pub async fn error_for_status(mut answer: Response) -> Result<Response, Failure> {
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return Ok(answer);
    }
    let mut body = Vec::new();
    while body.len() < READ {
        match answer.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    let reply = Reply::new(&body).with_status(status.as_u16()).with_headers(answer.headers());
    Err(reply.classify(wall_clock()))
}

/// Converts like [`from_transport`](Failure::from_transport) and keeps the error as the source. The
/// URL is removed because it may hold a key.
impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        Self::from_transport(&error).with_source(error)
    }
}

/// Returns the kind of a `reqwest` error by its own predicates. Other errors of `reqwest` are
/// classified by their sources and words.
pub(super) fn known(error: &(dyn Error + 'static)) -> Option<(Kind, &'static str)> {
    let error = error.downcast_ref::<reqwest::Error>()?;
    Some(if error.is_timeout() {
        (Kind::Timeout, "timed out")
    } else if error.is_connect() {
        (Kind::Network, "connect")
    } else if error.is_builder() {
        (Kind::InvalidRequest, "request cannot be built")
    } else if error.is_body() || error.is_request() {
        (Kind::Network, "request or answer cut short")
    } else if error.is_decode() {
        // `json()` fails like this on an unexpected answer, and `chunk()` on a truncated answer.
        let cut = error.source().is_some_and(|source| !source.is::<serde_json::Error>());
        if cut {
            (Kind::Network, "answer cut short")
        } else {
            (Kind::InvalidOutput, "answer not as expected")
        }
    } else {
        return None;
    })
}
