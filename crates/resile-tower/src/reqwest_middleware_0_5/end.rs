use std::sync::Arc;

use reqwest::Response;
use reqwest_middleware::Error;
use resile::GaveUp;
use resile::error::Boxed;

use crate::below::{call_below, in_middleware};

/// Returns the end of the call that an outcome of the client came from: why it ended, after how many
/// attempts, and whether the request [may have been executed](GaveUp::is_in_doubt). The outcome may be an
/// answer, such as the last 503 or a 500 of a `POST` in doubt.
///
/// `None` is a success, or an outcome that no [`RetryMiddleware`](super::RetryMiddleware) ended.
///
/// # Examples
///
/// ```
/// use resile_tower::reqwest_middleware_0_5::gave_up;
///
/// # async fn run(http: reqwest_middleware::ClientWithMiddleware) {
/// let outcome = http.post("http://127.0.0.1:8080/orders").send().await;
/// if gave_up(&outcome).is_some_and(|end| end.is_in_doubt()) {
///     println!("the order may have been placed: do not send it again");
/// }
/// # }
/// ```
#[must_use]
pub fn gave_up(outcome: &Result<Response, Error>) -> Option<&GaveUp<Boxed>> {
    match outcome {
        Ok(answer) => answer.extensions().get::<Arc<GaveUp<Boxed>>>().map(Arc::as_ref),
        Err(error) => call_below(in_middleware(error)),
    }
}
