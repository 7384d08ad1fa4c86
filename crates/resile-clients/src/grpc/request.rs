use std::time::Duration;

use ::tonic::Request;
use resile::Attempt;

/// The time that `tonic` waits longer than the attempt, so that both do not race. It is that of
/// `TimeLeftLayer` of `resile-tower`.
const MARGIN: Duration = Duration::from_millis(50);

/// Makes the request of one attempt. Its metadata tell the server which attempt it is and when this attempt ends, as
/// [`prepare`] writes them.
///
/// The request has no other metadata. To send some of your own, such as a token, make the request yourself and
/// call [`prepare`], or add them to the returned one. `message` may also be the stream of a streaming method.
///
/// # Examples
///
/// ```
/// use resile_clients::grpc;
/// use resile_clients::resile::Attempt;
///
/// // The first retry of a call.
/// let request = grpc::request("pen", Attempt::new(2));
/// assert_eq!(request.metadata().get("grpc-previous-rpc-attempts").unwrap(), "1");
/// assert_eq!(request.into_inner(), "pen");
/// ```
pub fn request<T>(message: T, attempt: Attempt) -> Request<T> {
    let mut request = Request::new(message);
    prepare(&mut request, attempt);
    request
}

/// Tells the server in the metadata of a request which attempt it is and when this attempt ends.
///
/// | metadata | value |
/// |---|---|
/// | `grpc-timeout` | what is [left](Attempt::time_left) for the attempt and 50 ms more: the attempt timeout, or the time until the deadline of the call if that is shorter. Without both it stays as it is. In the `open` of `retry_stream` it is what is left of the limit on the whole stream, because a server ends the stream by it |
/// | `grpc-previous-rpc-attempts` | the number of attempts before a retry (gRPC A6). A first attempt has none |
///
/// Both replace an earlier value. `tonic` itself ends a call at `grpc-timeout`, with the status `CANCELLED`,
/// which nobody can tell from a call that a person has cancelled. So that time is 50 ms after the end of the
/// attempt, and the policy cuts first. A [learned attempt
/// timeout](resile::RetryPolicy::with_learned_attempt_timeout) may cut earlier than the server knows.
///
/// [`request`] makes a new request so. A `RetryChannel` of `resile-tower` does the same for each request.
///
/// # Examples
///
/// ```
/// use resile_clients::grpc;
/// use resile_clients::resile::Attempt;
/// use std::time::Duration;
/// use tonic::Request;
///
/// // The first retry of a call, with one second left.
/// let attempt = Attempt::new(2).with_remaining(Some(Duration::from_secs(1)));
/// let mut request = Request::new("pen");
/// grpc::prepare(&mut request, attempt);
/// assert_eq!(request.metadata().get("grpc-timeout").unwrap(), "1050000u");
/// assert_eq!(request.metadata().get("grpc-previous-rpc-attempts").unwrap(), "1");
/// ```
pub fn prepare<T>(request: &mut Request<T>, attempt: Attempt) {
    if let Some(left) = attempt.time_left() {
        request.set_timeout(left.saturating_add(MARGIN));
    }
    if !attempt.is_first() {
        let before = attempt.number() - 1;
        request.metadata_mut().insert("grpc-previous-rpc-attempts", before.into());
    }
}
