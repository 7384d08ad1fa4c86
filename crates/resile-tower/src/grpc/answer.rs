//! An answer of gRPC as an error, for `tonic`.

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};
use resile::GaveUp;
use resile::error::Boxed;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::no_status::NoStatus;
use super::retry_info::details;
use super::status;

/// Makes an answer that is a failure the error of its call, whose last error is then the [`Status`] of the
/// answer. Its words in `{:#}` stay those of the log.
///
/// `tonic` reads the status of an answer from its headers and drops the extensions, so its caller cannot
/// learn whether the request may have been executed. Above a layer of this crate this function and
/// [`to_status`](resile_clients::grpc::to_status) keep it, as the source of the status:
///
/// | end of the call | status |
/// |---|---|
/// | an answer with a status in its headers | code, message, details and metadata of the server |
/// | the same of an order that an earlier attempt may have executed, if the code denies an effect | `UNKNOWN`, as `to_status` explains |
/// | an answer without one, such as the 503 of a proxy | the code that gRPC has for it |
/// | an error | that of `to_status` |
///
/// A good answer stays an answer. So does one whose status comes after its first message, and one whose
/// extensions were cloned on the way.
///
/// # Errors
///
/// The [`GaveUp`] of the call.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// # use std::convert::Infallible;
/// use std::error::Error;
///
/// use http::{Request, Response};
/// use resile_tower::grpc::answer_to_error;
/// use resile_tower::resile::error::Boxed;
/// use resile_tower::resile::{GaveUp, RetryPolicy};
/// use resile_tower::resile_clients::{Idempotency::NotIdempotent, grpc::to_status};
/// use resile_tower::RetryLayer;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # let channel = service_fn(async |_: Request<String>| {
/// #     let answer = Response::builder().header("grpc-status", "14").header("grpc-message", "down");
/// #     Ok::<_, Infallible>(answer.body(()).unwrap())
/// # });
/// let channel = ServiceBuilder::new()
///     .map_err(to_status)
///     .map_result(answer_to_error)
///     .layer(RetryLayer::grpc(RetryPolicy::new(), NotIdempotent))
///     .service(channel); // answers with UNAVAILABLE
/// let order = Request::post("/store.Store/Order").body(String::new()).unwrap();
/// let status = channel.oneshot(order).await.unwrap_err();
/// assert_eq!((status.code(), status.message()), (tonic::Code::Unavailable, "down"));
/// let gave_up = status.source().and_then(|source| source.downcast_ref::<GaveUp<Boxed>>());
/// assert!(gave_up.is_some_and(GaveUp::is_in_doubt));
/// # }
/// ```
pub fn answer_to_error<B>(
    outcome: Result<Response<B>, GaveUp<Boxed>>,
) -> Result<Response<B>, GaveUp<Boxed>> {
    let mut answer = outcome?;
    match answer.extensions_mut().remove().map(Arc::<GaveUp<Boxed>>::try_unwrap) {
        Some(Ok(gave_up)) => {
            let status = status_of(answer.status(), answer.headers());
            Err(gave_up.with_last(status))
        }
        Some(Err(shared)) => {
            answer.extensions_mut().insert(shared);
            Ok(answer)
        }
        None => Ok(answer),
    }
}

/// Returns the status of an answer that is a failure.
fn status_of(status: StatusCode, headers: &HeaderMap) -> Status {
    let Some(read) = headers.get("grpc-status") else {
        let failure = NoStatus(status);
        return Status::new(Code::from_i32(failure.code()), failure.to_string());
    };
    let read = status::Status::read(read, headers);
    let code = read.code.map_or(Code::Unknown, Code::from_i32);
    let details = details(headers).unwrap_or_default();
    let mut metadata = headers.clone();
    for name in ["grpc-status", "grpc-message", "grpc-status-details-bin"] {
        metadata.remove(name);
    }
    let metadata = MetadataMap::from_headers(metadata);
    Status::with_details_and_metadata(code, read.message, details.into(), metadata)
}
