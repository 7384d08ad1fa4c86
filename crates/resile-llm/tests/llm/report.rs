//! Failures in the errors of other libraries: `find_in_error`, `find_in_text` and the classifier
//! that reads text.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use proptest::prelude::*;
use resile::timeout::Elapsed;
use resile::{ResilienceExt, StopReason, retry};
use resile_llm::{Classifier, Failure, Kind};

fn kind(words: &str) -> Option<Kind> {
    Failure::find_in_text(words).map(|failure| failure.kind())
}

#[test]
fn a_named_status_is_read_and_the_words_behind_it() {
    for (words, want) in [
        ("429 Too Many Requests", Kind::RateLimit),
        (
            "429 Too Many Requests: {\"error\":{\"code\":\"insufficient_quota\"}}",
            Kind::QuotaExhausted,
        ),
        // reqwest, `error_for_status`
        (
            "HTTP status client error (429 Too Many Requests) for url (http://h/v1/daily/limit/reached)",
            Kind::RateLimit,
        ),
        (
            "HTTP status server error (529 <unknown status code>) for url (http://h/)",
            Kind::Overloaded,
        ),
        // async-openai
        (
            "429 Too Many Requests requests: No. (param: x) (code: insufficient_quota)",
            Kind::QuotaExhausted,
        ),
        ("401 Unauthorized invalid_request_error: No. (code: invalid_api_key)", Kind::Auth),
        ("500 Internal Server Error oops", Kind::Server),
        // genai
        (
            "Web call failed for model 'm (OpenAI)'.\nCause: Request failed with status code '429 Too Many Requests'. Response body:\n{\"error\":{\"code\":\"insufficient_quota\"}}",
            Kind::QuotaExhausted,
        ),
        ("HTTP error.\nStatus: 503 Service Unavailable\nBody: no", Kind::Overloaded),
        // rig
        (
            "ProviderResponseError: status 400 Bad Request: {\"error\":{\"code\":\"context_length_exceeded\"}} (request id: r)",
            Kind::ContextLength,
        ),
        (
            "HttpError: Invalid status code 529 <unknown status code> with message: busy",
            Kind::Overloaded,
        ),
        // others
        ("asking the model: HTTP 503", Kind::Overloaded),
        ("upstream answered HTTP/1.1 502 Bad Gateway", Kind::Server),
        ("request failed with status code 503: upstream", Kind::Overloaded),
        ("refused (status=429, retry later)", Kind::RateLimit),
        ("Error code: 429 - {'error': {'code': 'insufficient_quota'}}", Kind::QuotaExhausted),
        // without a status
        (
            "stream failed: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}",
            Kind::Overloaded,
        ),
        (
            "it said {\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}} twice",
            Kind::Overloaded,
        ),
        ("model {m}: {\"error\":{\"code\":\"overloaded_error\"}}", Kind::Overloaded),
        ("it said {\"error\":{\"code\":429,\"message\":\"no\"}}", Kind::RateLimit),
        ("it said {\"error\":{\"type\":\"server_error\",\"message\":\"no\"}}", Kind::Server),
    ] {
        assert_eq!(kind(words), Some(want), "{words}");
    }
}

#[test]
fn other_numbers_and_words_are_no_opinion() {
    for words in [
        "",
        "429",
        "503",
        "rate limit reached",
        "insufficient_quota",
        "Too Many Requests",
        "cannot connect to 127.0.0.1:503",
        "http://localhost:429/",
        "https://h/v1/status/503",
        "line 429 column 500",
        "at line 503: no",
        "500 tokens were read",
        "404 files were not found",
        "read HTTP 500 bytes",
        "status: 4290",
        "status 200 OK",
        "HTTP 204",
        "http 302 Found",
        "exit status: 429",
        "error code: 547, a constraint",
        "error code 503",
        "version 4.29.503",
        "req_429_Too Many Requests",
        "model-503 is gone",
        "1429 Too Many Requests",
        "429 Too Many Requestsx",
        "status 503ms",
        "status 5,031",
        "status 503.5",
        "status 503_1",
        "status 503/2",
        "status 503%",
        "status 503x",
        "invalid args: {\"role\":\"user\",\"content\":\"HTTP 429\"}",
        "cannot parse {\"code\":\"unknown\"}",
        "cannot parse {\"name\":\"rate limit exceeded\"}",
        "TimeoutError: no",
        "500 words {x}",
    ] {
        assert_eq!(kind(words), None, "{words}");
    }
    // Libraries name the status first.
    let late = format!("{} HTTP 429", "x".repeat(512));
    assert_eq!(kind(&late), None);
}

#[test]
fn words_keep_the_wait_and_the_code() {
    let words = "429 Too Many Requests: {\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"Please try again in 644ms.\"}}";
    let failure = Failure::find_in_text(words).unwrap();
    assert_eq!(failure.wait(), Some(Duration::from_millis(644)));
    assert_eq!((failure.status(), failure.code()), (Some(429), Some("rate_limit_exceeded")));
}

/// An error with an own text and a source.
#[derive(Debug)]
struct Layer(&'static str, Option<Box<dyn Error + Send + Sync>>);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Layer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|source| source as _)
    }
}

fn layer(source: impl Into<Box<dyn Error + Send + Sync>>) -> Layer {
    Layer("HTTP 401", Some(source.into()))
}

#[test]
fn the_first_known_type_of_a_chain_counts_and_no_words() {
    let busy = Failure::from_text(529, "");
    let found = |error: &Layer| Failure::find_in_error(error).map(|failure| failure.kind());
    assert_eq!(found(&layer(busy.clone())), Some(Kind::Overloaded));
    assert_eq!(found(&layer(resile::timeout::Error::Operation(busy))), Some(Kind::Overloaded));
    assert_eq!(found(&layer(io::Error::from(io::ErrorKind::TimedOut))), Some(Kind::Timeout));
    assert_eq!(found(&Layer("HTTP 401", None)), None);
    assert_eq!(found(&layer("HTTP 429")), None);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_in_a_chain_is_found() {
    let never = std::future::pending::<Result<(), Failure>>();
    let error = never.timeout(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    let never = std::future::pending::<Result<(), resile::timeout::Error<Failure>>>();
    let error = never.timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, resile::timeout::Error::Elapsed(Elapsed { .. })));
    let found = Failure::find_in_error(&error).unwrap();
    assert_eq!(found.kind(), Kind::Timeout);
    assert_eq!(Failure::find_in_error(&layer(error)).unwrap().kind(), Kind::Timeout);
}

#[test]
fn the_classifier_reads_words_only_if_it_was_told_to() {
    let (silent, reads) = (Classifier::new(), Classifier::new().with_text());
    let busy = layer("HTTP 429");
    assert_eq!(silent.classify_dyn(&busy), None);
    // The first words of the chain with an opinion decide.
    assert!(!reads.classify_dyn(&busy).unwrap().is_again());
    let inner = Layer("no", Some("HTTP 529".into()));
    let verdict = reads.classify_dyn(&inner).unwrap();
    assert_eq!((verdict.hint(), verdict.wait()), (None, reads.overload_floor()));
    // A known type counts before any words.
    let known = layer(Failure::from_text(500, ""));
    assert!(reads.classify_dyn(&known).unwrap().is_again());
    assert_eq!(reads.classify_dyn(&Layer("no", None)), None);
}

#[tokio::test]
async fn words_without_knowledge_leave_a_call_unclassified() {
    type Boxed = Box<dyn Error + Send + Sync>;
    let classify = |error: &Boxed| Classifier::new().with_text().classify_dyn(&**error);
    let policy = resile_llm::interactive().with_classifier(classify);
    let op = |_| async { Err::<(), Boxed>("no such prompt at line 429".into()) };
    let gave_up = retry(op, &policy, resile::Never).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Unclassified, 1));
}

/// An endless text.
#[derive(Debug)]
struct Endless;

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        loop {
            f.write_str("status … ")?;
        }
    }
}

impl Error for Endless {}

#[test]
fn long_words_are_cut() {
    assert_eq!(Classifier::new().with_text().classify_dyn(&Endless), None);
}

proptest! {
    /// Any words have an opinion or none, and only with a status or an error object.
    #[test]
    fn words_without_a_status_and_without_an_object_are_no_opinion(
        words in "[a-zA-Z :'=().,-]{0,60}",
        number in any::<u16>(),
    ) {
        prop_assert_eq!(kind(&words), None);
        prop_assert_eq!(kind(&format!("{words} {number}0000")), None);
        prop_assert_eq!(kind(&format!("host.example:{number} {words}")), None);
    }

    /// Words of any kind around a named status do not hide it, and it counts only if it is one of a
    /// refusal.
    #[test]
    fn a_named_status_counts_in_any_words(
        before in "[a-z ]{0,60}",
        status in 100_u16..700,
        after in "([.:,]? [a-z ]{0,60})?",
    ) {
        let units = ["byte", "char", "item", "kb", "kib", "line", "ms", "second", "token"];
        prop_assume!(!units.iter().any(|unit| after.trim_start().starts_with(unit)));
        let named = Failure::find_in_text(&format!("{before} status code {status}{after}"));
        prop_assert_eq!(named.is_some(), (400..600).contains(&status));
    }

    /// No words panic.
    #[test]
    fn any_words_are_read(words in "\\PC{0,200}", status in 100_u16..1000) {
        let _ = kind(&words);
        let _ = kind(&format!("HTTP {status}{words}"));
        let _ = kind(&format!("{status} {words}{{"));
    }
}
