//! Conversions of `reqwest`'s answers and errors.

use std::error::Error;

use reqwest::Response;

use crate::failure::Failure;
use crate::kind::Kind;
use crate::limits::{learn_limits, learn_used_requests};
use crate::reply::Reply;
use crate::usage::record_usage;
use resile::http::headers::now;
use resile::http::start_of_body;

/// The number of bytes of an error's body after which reading stops.
const READ: usize = 256 * 1024;

/// Returns answers with a good status unchanged and turns the others into a [`Failure`].
///
/// Any status outside 4xx and 5xx is good. Reading an error's body stops after 256 KiB or after 500 ms, however
/// slowly the bytes come. If a body breaks off or is late, the part that arrived is classified. A browser hands over
/// whole bodies only. There an error's body is read to its end, and a body that breaks off is lost.
///
/// Passes the limits in the headers of every answer to the quota of the current attempt, as
/// [`learn_limits`] does.
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
/// use resile_llm::Failure;
///
/// type Answer = Result<String, Failure>;
///
/// async fn complete(client: &reqwest::Client, prompt: String) -> Answer {
///     let request = client.post("https://llm.example/v1/chat").body(prompt);
///     let answer = resile_llm::error_for_status(request.send().await?).await?;
///     Ok(answer.text().await?)
/// }
/// ```
pub async fn error_for_status(answer: Response) -> Result<Response, Failure> {
    let status = answer.status();
    learn_limits(status, answer.headers());
    if !status.is_client_error() && !status.is_server_error() {
        return Ok(answer);
    }
    let headers = answer.headers().clone();
    let body = start_of_body(answer, READ).await;
    let reply = Reply::new(&body).with_status(status.as_u16()).with_headers(&headers);
    let failure = reply.classify(now());
    if failure.is_about_requests() {
        learn_used_requests(status, &headers);
    }
    Err(failure)
}

/// Reads a whole answer and records its usage. Returns the body of a good answer.
///
/// Calls [`error_for_status`] first. Then the whole body is read, and its
/// [usage](crate::usage) is recorded for the quota of the current attempt. The usage of an answer
/// with a bad ending is recorded too, because the provider charges it.
///
/// The body must be in JSON. The function does not limit the size of a good body. For the audio or
/// the image of a model, and for streams, call `error_for_status`. Then call
/// [`record_usage`] for each event of the stream.
///
/// # Errors
///
/// Returns the [`Failure`] that the answer means. An answer with a good status means one if it
/// holds an error, is empty, has a bad ending or breaks off. A bad ending is a content filter or the
/// token limit. See [`Reply::find`].
///
/// # Cancel safety
///
/// Dropping the future drops the answer.
///
/// # Examples
///
/// ```
/// use resile_llm::Failure;
///
/// type Answer = Result<serde_json::Value, Failure>;
///
/// async fn complete(client: &reqwest::Client, prompt: String) -> Answer {
///     let request = client.post("https://llm.example/v1/chat").body(prompt);
///     let body = resile_llm::read_answer(request.send().await?).await?;
///     Ok(serde_json::from_slice(&body)?)
/// }
/// ```
pub async fn read_answer(answer: Response) -> Result<Vec<u8>, Failure> {
    let mut answer = error_for_status(answer).await?;
    let status = answer.status().as_u16();
    let headers = std::mem::take(answer.headers_mut());
    let body = answer.bytes().await?;
    record_usage(&body);
    let reply = Reply::new(&body).with_status(status).with_headers(&headers);
    match reply.find(now()) {
        Some(failure) => Err(failure),
        None => Ok(body.into()),
    }
}

/// Converts like [`from_transport`](Failure::from_transport) and keeps the error as the source. The
/// words of a failed connection have the URL without its query, its fragment and its credentials. Of the
/// source the URL is removed because it may hold a key. An error of `json` about a value of another type is not kept,
/// because its words quote the value.
impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        let told = told(&error);
        let error = error.without_url();
        let mut failure = Self::from_transport(&error);
        failure.0.message = told.or(failure.0.message);
        let fault = error.source().and_then(|it| it.downcast_ref::<serde_json::Error>());
        if let Some(fault) = fault.filter(|fault| fault.is_data()) {
            let (line, column) = (fault.line(), fault.column());
            failure.0.message =
                Some(format!("{error}: another type at line {line} column {column}"));
            return failure;
        }
        failure.with_source(error)
    }
}

/// Returns the kind of a `reqwest` error by its own predicates. Other errors of `reqwest` are
/// classified by their sources and words.
pub(crate) fn known(error: &(dyn Error + 'static)) -> Option<(Kind, &'static str)> {
    let error = error.downcast_ref::<reqwest::Error>()?;
    Some(if error.is_timeout() {
        (Kind::Timeout, "timed out")
    } else if is_connect(error) {
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

/// Returns the words of an error of `reqwest` about a connection that was not made or that broke: the place
/// if it is known, and the innermost cause. The parts of the URL that may hold a key are cut.
pub(crate) fn told(error: &(dyn Error + 'static)) -> Option<String> {
    let error = error.downcast_ref::<reqwest::Error>()?;
    let (words, place) = match known(error)? {
        (Kind::Network, "connect") => ("no connection", "to"),
        (Kind::Timeout, _) => ("no whole answer", "from"),
        (Kind::Network, _) if error.is_body() || error.is_decode() => ("incomplete answer", "from"),
        (Kind::Network, _) => ("no answer", "from"),
        _ => return None,
    };
    let place = error.url().map_or_else(String::new, |url| {
        let mut url = url.clone();
        url.set_query(None);
        url.set_fragment(None);
        // Both fail only for a URL that cannot have credentials.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        format!(" {place} {url}")
    });
    let sources = std::iter::successors(error.source(), |error| (*error).source());
    let root = sources.take(64).last().map(|root| format!(": {root}")).unwrap_or_default();
    Some(format!("{words}{place}{root}"))
}

/// Returns whether this is an error of `reqwest` about a request that surely never left.
pub(crate) fn never_left(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<reqwest::Error>();
    error.is_some_and(|error| is_connect(error) || error.is_builder())
}

/// Returns true if no connection was made. JavaScript does not tell, so the answer is false there.
fn is_connect(error: &reqwest::Error) -> bool {
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
