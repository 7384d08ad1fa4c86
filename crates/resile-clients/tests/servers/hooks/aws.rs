//! The classifier of retries for the AWS SDKs: an operation of their runtime against a server.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::HttpStatusCodeClassifier;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::interceptors::context::{
    Error as OperationError, Input, InterceptorContext,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::retry::{ErrorKind, RetryConfig};
use aws_smithy_types::timeout::TimeoutConfig;
use http_body_util::Full;
use hyper::body::Bytes;
use resile_clients::Idempotency::{self, Idempotent, NotIdempotent};
use resile_clients::aws::RetryClassifier;
use tokio::net::TcpStream;

use crate::answering::{BoxError, Server, answer, send};
use crate::row::within;

/// Makes a connection for each request, and counts the attempts.
#[derive(Clone, Debug)]
struct Connector {
    port: u16,
    attempts: Arc<AtomicUsize>,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        let port = self.port;
        HttpConnectorFuture::new(async move {
            exchange(port, request).await.map_err(ConnectorError::io)
        })
    }
}

async fn exchange(port: u16, request: HttpRequest) -> Result<HttpResponse, BoxError> {
    let request = request.try_into_http1x()?.map(|_| Full::<Bytes>::default());
    Ok(send(port, request).await?.map(SdkBody::from).try_into()?)
}

/// The operation failed.
#[derive(Debug)]
struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failed")
    }
}

impl Error for Failed {}

/// Calls an operation with the classifiers of the SDK, and with that of the hook. Returns whether it
/// succeeded, and the number of attempts.
async fn call(port: u16, hook: Option<Idempotency>) -> (bool, usize) {
    let connector = Connector { port, attempts: Arc::default() };
    let attempts = Arc::clone(&connector.attempts);
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    let mut operation = Operation::builder()
        .service_name("store")
        .operation_name("put")
        .http_client(http_client_fn(move |_, _| SharedHttpConnector::new(connector.clone())))
        .endpoint_url(&format!("http://127.0.0.1:{port}"))
        .no_auth()
        .standard_retry(&retries)
        .timeout_config(TimeoutConfig::disabled())
        .sleep_impl(TokioSleep::new())
        .retry_classifier(HttpStatusCodeClassifier::default());
    if let Some(idempotency) = hook {
        operation = operation.retry_classifier(RetryClassifier::new(idempotency));
    }
    let operation = operation
        .serializer(|()| Ok(HttpRequest::new(SdkBody::empty())))
        .deserializer::<(), Failed>(|response| {
            if response.status().is_success() {
                Ok(())
            } else {
                Err(OrchestratorError::operation(Failed))
            }
        })
        .build();
    let is_ok = operation.invoke(()).await.is_ok();
    (is_ok, attempts.load(Ordering::SeqCst))
}

/// Starts a server that answers so first, and then 200.
async fn first(status: u16, body: &'static str) -> Server {
    Server::start(move |_, before| {
        Some(if before == 0 { answer(status, body) } else { answer(200, "") })
    })
    .await
}

/// The SDK repeats a 503 of any operation. The first attempt may have been executed.
#[tokio::test]
async fn an_operation_that_is_not_idempotent_is_not_repeated_in_doubt() {
    within(async {
        for (hook, wanted) in
            [(None, (true, 2)), (Some(Idempotent), (true, 2)), (Some(NotIdempotent), (false, 1))]
        {
            let server = first(503, "").await;
            assert_eq!(call(server.port(), hook).await, wanted, "{hook:?}");
        }
        let slow_down = "<Error><Code>SlowDown</Code></Error>";
        let server = first(503, slow_down).await;
        assert_eq!(call(server.port(), Some(NotIdempotent)).await, (true, 2));
    })
    .await;
}

#[tokio::test]
async fn a_limit_without_a_code_is_a_limit() {
    within(async {
        for (hook, wanted) in [(None, (false, 1)), (Some(NotIdempotent), (true, 2))] {
            let server = first(429, "").await;
            assert_eq!(call(server.port(), hook).await, wanted, "{hook:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_was_refused_is_tried_again() {
    within(async {
        let server = Server::start(|_, _| None).await; // it reads the request and closes
        assert_eq!(call(server.port(), Some(NotIdempotent)).await, (false, 1));
        assert_eq!(call(server.port(), Some(Idempotent)).await, (false, 3));
        let port = server.port();
        drop(server);
        while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(call(port, Some(NotIdempotent)).await, (false, 3));
    })
    .await;
}

/// Returns the action after an answer that failed.
fn action(response: http::Response<&'static str>, idempotency: Idempotency) -> RetryAction {
    let mut context = InterceptorContext::new(Input::erase(()));
    let response = response.map(SdkBody::from);
    context.set_response(response.try_into().unwrap());
    let failed = OrchestratorError::operation(OperationError::erase(Failed));
    context.set_output_or_error(Err(failed));
    RetryClassifier::new(idempotency).classify_retry(&context)
}

fn with(status: u16, header: (&'static str, &'static str), body: &'static str) -> RetryAction {
    let response = http::Response::builder().status(status).header(header.0, header.1);
    action(response.body(body).unwrap(), Idempotent)
}

#[test]
fn the_server_says_when() {
    let throttled = ErrorKind::ThrottlingError;
    let after =
        |ms| RetryAction::retryable_error_with_explicit_delay(throttled, Duration::from_millis(ms));
    assert_eq!(with(429, ("x-amz-retry-after", "1500"), ""), after(1500));
    assert_eq!(with(503, ("retry-after", "2"), ""), after(2000));
    for unreadable in ["soon", "-1", "", "Wed, 21 Oct 2026 07:28:00 GMT", "99999999999999999999"] {
        let action = with(429, ("retry-after", unreadable), "");
        assert_eq!(action, RetryAction::retryable_error(throttled), "{unreadable:?}");
    }
}

#[test]
fn the_code_counts_before_the_status() {
    let again = RetryAction::transient_error();
    let kind = "x-amzn-errortype";
    assert_eq!(with(400, (kind, "RequestTimeout"), ""), again);
    assert_eq!(with(400, (kind, "ns#RequestTimeout:http://address"), ""), again);
    let json = r#"{ "__type" : "com.amazon#RequestTimeoutException", "message": "late" }"#;
    assert_eq!(with(400, ("a", "b"), json), again);
    let xml = "<?xml?><Error><Code>RequestTimeout</Code><Message>late</Message></Error>";
    assert_eq!(with(400, ("a", "b"), xml), again);
    assert_eq!(with(500, (kind, "NoSuchKey"), ""), RetryAction::RetryForbidden);
    assert_eq!(with(500, (kind, "Unheard"), ""), again);
}

#[test]
fn what_is_not_known_is_left_to_the_sdk() {
    for body in
        ["", "<Error><Code>", "<Code></Code>", "{\"__type\"", "{\"__type\": 1}", "{\"__type\": \""]
    {
        assert_eq!(with(400, ("a", "b"), body), RetryAction::NoActionIndicated, "{body}");
    }
    let nothing = InterceptorContext::new(Input::erase(()));
    let action = RetryClassifier::new(Idempotent).classify_retry(&nothing);
    assert_eq!(action, RetryAction::NoActionIndicated);
}

#[test]
fn an_attempt_without_an_answer_may_have_been_executed() {
    let of = |error, idempotency| {
        let mut context = InterceptorContext::new(Input::erase(()));
        context.set_output_or_error(Err(error));
        RetryClassifier::new(idempotency).classify_retry(&context)
    };
    let again = RetryAction::transient_error();
    let timeout = || OrchestratorError::connector(ConnectorError::timeout("late".into()));
    assert_eq!(of(timeout(), Idempotent), again);
    assert_eq!(of(timeout(), NotIdempotent), RetryAction::RetryForbidden);
    let timeout = || OrchestratorError::timeout("late".into());
    assert_eq!(of(timeout(), Idempotent), again);
    assert_eq!(of(timeout(), NotIdempotent), RetryAction::RetryForbidden);
    let user = OrchestratorError::connector(ConnectorError::user("wrong".into()));
    assert_eq!(of(user, NotIdempotent), RetryAction::NoActionIndicated);
}
