//! From the answers and errors of `reqwest`.

use std::error::Error;

use reqwest::Response;

use super::failure::Failure;
use super::kind::Kind;
use super::reply::Reply;
use crate::http::wall_clock;

/// How much of the body of an error is read.
const READ: usize = 256 * 1024;

/// Lets answers with a good status pass, and reads the others to their end for what they say.
///
/// Reads at most 256 KiB of the body; one that breaks off is judged by what came.
///
/// # Errors
///
/// The [`Failure`] that the answer means.
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
/// async fn complete(client: &reqwest::Client, url: &str, prompt: String) -> Result<String, Failure> {
///     let answer = client.post(url).body(prompt).send().await?;
///     Ok(llm::error_for_status(answer).await?.text().await?)
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

/// As [`from_transport`](Failure::from_transport), with the error as the source; without its URL, which may hold a key.
impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        Self::from_transport(&error).with_source(error)
    }
}

/// What an error of `reqwest` is by what it says of itself. Its other errors are left to their sources and words.
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
        // `json()` fails so on an answer that is not what was expected, and `chunk()` on one that is cut short.
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
