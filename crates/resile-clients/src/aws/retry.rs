use std::time::Duration;

use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::retries::classifiers::{
    ClassifyRetry, RetryAction, RetryClassifierPriority,
};
use aws_smithy_types::retry::ErrorKind;
use resile::{Health, Verdict};

use super::code;
use crate::Idempotency;
use crate::rule::State::{Failing, Overload, OwnLimit};
use crate::rule::{always, if_idempotent};

/// A classifier of retries for the AWS SDKs, and for every client of Smithy.
///
/// The SDKs repeat a 500 of any operation. This classifier knows what is idempotent: under
/// `NotIdempotent` an attempt that may have been executed is never repeated, also if a classifier of
/// the SDK wants it. It also knows a bare 429, which other stores with the protocol of S3 send, and
/// it passes on the hint of the headers `x-amz-retry-after` (milliseconds) and `retry-after` (seconds).
///
/// The evidence counts in this order: the code of the error in the header or in the body, the status,
/// and for an attempt without an answer the chain of its sources. What it does not know is left to
/// the SDK. It runs after the classifiers of the SDK. Attempts and delays are those of the SDK.
///
/// # Examples
///
/// ```
/// use aws_smithy_runtime_api::client::retries::classifiers::SharedRetryClassifier;
/// use resile_clients::Idempotency::NotIdempotent;
/// use resile_clients::aws::RetryClassifier;
///
/// // Of an operation: `.customize().config_override(Config::builder().retry_classifier(…))`.
/// let classifier = SharedRetryClassifier::new(RetryClassifier::new(NotIdempotent));
/// # let _ = classifier;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a classifier does nothing until a client has it"]
pub struct RetryClassifier {
    idempotency: Idempotency,
}

impl RetryClassifier {
    /// Creates a classifier of operations that are idempotent, or that are not.
    pub const fn new(idempotency: Idempotency) -> Self {
        Self { idempotency }
    }

    /// Returns the verdict on the attempt. `None` without an error and for one that is not known.
    fn verdict(self, context: &InterceptorContext) -> Option<Verdict> {
        let error = context.output_or_error()?.err()?;
        if let Some(error) = error.as_connector_error() {
            return self.unanswered(error);
        }
        if error.is_timeout_error() {
            return Some(if_idempotent(Failing).verdict(self.idempotency));
        }
        let response = context.response()?;
        let verdict = self.answered(response)?;
        Some(hint(response).map_or(verdict, |hint| verdict.after(hint)))
    }

    fn unanswered(self, error: &ConnectorError) -> Option<Verdict> {
        if error.is_user() {
            return None;
        }
        let classifier = self.idempotency.io();
        Some(classifier.verdict(error).unwrap_or(classifier.unanswered()))
    }

    fn answered(self, response: &HttpResponse) -> Option<Verdict> {
        let verdict = error_code(response).and_then(|it| code(it, self.idempotency));
        verdict.or_else(|| {
            let rule = match response.status().as_u16() {
                429 => always(OwnLimit),
                500 | 502 | 504 => if_idempotent(Failing),
                503 => if_idempotent(Overload),
                _ => return None,
            };
            Some(rule.verdict(self.idempotency))
        })
    }
}

impl ClassifyRetry for RetryClassifier {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let Some(verdict) = self.verdict(context) else {
            return RetryAction::NoActionIndicated;
        };
        if !verdict.is_again() {
            return RetryAction::RetryForbidden;
        }
        let kind = match verdict.health() {
            Health::Throttling => ErrorKind::ThrottlingError,
            _ => ErrorKind::TransientError,
        };
        match verdict.hint() {
            Some(hint) => RetryAction::retryable_error_with_explicit_delay(kind, hint),
            None => RetryAction::retryable_error(kind),
        }
    }

    fn name(&self) -> &'static str {
        "resile"
    }

    /// After all classifiers of the SDK, so that the hint counts.
    fn priority(&self) -> RetryClassifierPriority {
        RetryClassifierPriority::run_after(RetryClassifierPriority::transient_error_classifier())
    }
}

/// Returns the code of an error: of the header `x-amzn-errortype`, or of a body in JSON or XML. The body
/// is there after the SDK has read it.
fn error_code(response: &HttpResponse) -> Option<&str> {
    let header = response.headers().get("x-amzn-errortype");
    let body = || std::str::from_utf8(response.body().bytes()?).ok();
    let code = header.or_else(|| body().and_then(|body| xml(body).or_else(|| json(body))))?;
    // `namespace#Code:address`
    let code = code.split(':').next()?;
    Some(code.rsplit('#').next().unwrap_or(code).trim())
}

fn xml(body: &str) -> Option<&str> {
    Some(body.split_once("<Code>")?.1.split_once("</Code>")?.0)
}

fn json(body: &str) -> Option<&str> {
    let value = body.split_once("\"__type\"")?.1.trim_start().strip_prefix(':')?;
    Some(value.trim_start().strip_prefix('"')?.split_once('"')?.0)
}

/// Returns the wait that the server asks for.
fn hint(response: &HttpResponse) -> Option<Duration> {
    let number = |name| response.headers().get(name)?.trim().parse().ok();
    let precise = number("x-amz-retry-after").map(Duration::from_millis);
    precise.or_else(|| number("retry-after").map(Duration::from_secs))
}
