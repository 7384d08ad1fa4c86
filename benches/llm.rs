//! The cost of classifying a failure of an LLM provider. `cargo bench --bench llm`.

#![allow(missing_docs)] // `criterion_group!` writes a function without them.

use std::hint::black_box;
use std::time::{Duration, SystemTime};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::{HeaderMap, HeaderValue};
use resile_llm::Reply;

const BY_CODE: &str = r#"{"error":{"message":"Rate limit reached for m-large in organization org-XXXXXXXX on tokens per min (TPM): Limit 40000, Used 39500, Requested 900. Please try again in 644ms. Visit https://example.com/account/rate-limits to learn more about your account's limits.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#;
const BY_WORDS: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits. If you have any questions about this, contact the support with the request's identifier."},"request_id":"req_XXXXXXXXXXXXXXXXXXXXXXXX"}"#;
const BY_STATUS: &str = r#"{"error":{"message":"The temperature has to be a number between zero and two, and what was given is not. Consult the reference of the interface for what each of the parameters may be, for each of the models, and try it without this one.","type":"invalid_request_error","param":"temperature","code":null}}"#;
const DETAILS: &str = r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 41.9s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"requests","quotaId":"GenerateRequestsPerMinutePerProject","quotaValue":"5"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"41s"}]}}"#;
const PRINTED: &str = r#"litellm.RateLimitError: AnthropicException - Error code: 429 - {'type': 'error', 'error': {'type': 'rate_limit_error', 'message': "This request would exceed your organization's limit of 40,000 input tokens per minute. Please reduce the prompt.", 'details': None, 'retry': True}, 'request_id': 'req_XXXXXXXX'}"#;
const CUT: &str = r#"{"error":{"message":"Rate limit reached for m-large in organization org-XXXXXXXX on tokens per min (TPM): Limit 40000, Used 39500, Requested 900. Please try again in 644ms. Visit https://example.com/account/rate-limits to learn more.","type":"tokens","param":null,"code":"rate_limit_exc"#;
const UNESCAPED: &str = r#"{"error":{"message":"upstream said {"type":"error","error":{"type":"rate_limit_error","message":"Number of requests has exceeded your per-minute limit, please try again later or contact the sales team"}} and there is nothing more to read behind it","code":502,"type":"upstream_error","param":null}}"#;
const NESTED: &str = r#"{"error":{"message":"{\"error\":{\"message\":\"Provider returned error: {\\\"type\\\":\\\"error\\\",\\\"error\\\":{\\\"type\\\":\\\"overloaded_error\\\",\\\"message\\\":\\\"Overloaded, please try again in a few moments\\\"}}\",\"code\":502,\"metadata\":{\"provider_name\":\"example\"}}}","code":400,"type":"upstream_error"}}"#;

fn classifying(c: &mut Criterion) {
    let page = format!(
        "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>{}</body></html>",
        "<p>sorry</p>".repeat(95_000)
    );
    let json = format!(
        r#"{{"error":{{"message":"{}","type":"server_error"}}}}"#,
        "rate limit ".repeat(95_000)
    );
    let text = "try again in 5 s, or later. ".repeat(37_500);
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_static("2"));
    headers.insert("x-ratelimit-remaining-tokens", HeaderValue::from_static("0"));
    headers.insert("x-ratelimit-reset-tokens", HeaderValue::from_static("6m0s"));
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_760_000_000);

    let mut group = c.benchmark_group("classify");
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for (name, status, body) in [
        ("300 bytes, by code", 429, BY_CODE),
        ("300 bytes, by words", 400, BY_WORDS),
        ("300 bytes, by status", 400, BY_STATUS),
        ("300 bytes, printed by Python", 500, PRINTED),
        ("300 bytes, cut off", 429, CUT),
        ("300 bytes, quotes not escaped", 502, UNESCAPED),
        ("300 bytes, JSON in JSON", 400, NESTED),
        ("Google's details", 429, DETAILS),
        ("1 MB of HTML", 502, page.as_str()),
        ("1 MB of JSON", 500, json.as_str()),
        ("1 MB of text", 500, text.as_str()),
        ("nothing", 503, ""),
    ] {
        group.throughput(Throughput::Bytes(body.len() as u64));
        let reply = Reply::new(body.as_bytes()).with_status(status).with_headers(&headers);
        group.bench_function(name, |b| b.iter(|| black_box(&reply).classify(black_box(now))));
    }
}

criterion_group!(benches, classifying);
criterion_main!(benches);
