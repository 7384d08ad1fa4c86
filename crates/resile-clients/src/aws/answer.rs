//! The verdict on an attempt without an answer, and on an answer that failed.

use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use resile::Verdict;

use super::code;
use crate::Idempotency;
use crate::rule::State::{Failing, Overload, OwnLimit};
use crate::rule::{always, if_idempotent};

/// Returns the verdict on an attempt without an answer, by the chain of its sources.
pub(super) fn unanswered(error: &ConnectorError, idempotency: Idempotency) -> Verdict {
    let classifier = idempotency.io();
    classifier.verdict(error).unwrap_or(classifier.unanswered())
}

/// Returns the verdict on an answer that failed: by the code, and then by the status. `known` is the code
/// that the SDK has read.
pub(super) fn answered(
    known: Option<&str>,
    response: &HttpResponse,
    idempotency: Idempotency,
) -> Option<Verdict> {
    let by_code = known.or_else(|| error_code(response)).and_then(|it| code(it, idempotency));
    let verdict = by_code.or_else(|| {
        let rule = match response.status().as_u16() {
            429 => always(OwnLimit),
            500 | 502 | 504 => if_idempotent(Failing),
            503 => if_idempotent(Overload),
            _ => return None,
        };
        Some(rule.verdict(idempotency))
    })?;
    Some(hint(response).map_or(verdict, |hint| verdict.after(hint)))
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
