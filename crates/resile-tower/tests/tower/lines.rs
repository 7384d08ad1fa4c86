//! The end of a call on a `RetryChannel` by `{:#}`, beside the line of the log.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use resile_tower::BoxError;
use resile_tower::resile::{Breaker, Budget, Never, RetryPolicy, Upstream, retry};
use resile_tower::resile_clients::Idempotency::{self, Idempotent, NotIdempotent};
use resile_tower::tonic_0_14::{RetryChannel, gave_up};
use tokio_util::sync::CancellationToken;
use tonic::ConnectError;
use tonic::body::Body;
use tower::{ServiceExt, service_fn};

use super::retries::AT_ONCE;
use super::statuses::Ends;

const SECOND: Duration = Duration::from_secs(1);

fn request() -> Request<Body> {
    Request::post("/shop.Shop/Price").body(Body::new(Full::new(Bytes::from("a pen")))).unwrap()
}

/// What a server or a proxy does with a request, after it has read its body.
#[derive(Clone, Copy)]
enum Does {
    /// Answers with a status of HTTP and these headers.
    Answer(u16, &'static [(&'static str, &'static str)]),
    Refuse,
    Reset,
    Hang,
}

use Does::{Answer, Hang, Refuse, Reset};

async fn done(does: Does, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    request.into_body().collect().await?;
    match does {
        Answer(status, headers) => {
            let answer = Response::builder().status(status);
            let fold = |answer: http::response::Builder, (name, value): &(_, _)| {
                answer.header::<&str, &str>(*name, *value)
            };
            Ok(headers.iter().fold(answer, fold).body(Body::empty())?)
        }
        Refuse => Err(ConnectError(Error::from(ErrorKind::ConnectionRefused).into()).into()),
        Reset => Err(Error::new(ErrorKind::ConnectionReset, "the peer reset").into()),
        Hang => std::future::pending().await,
    }
}

/// Returns the words behind the attempts and the time of a call, or without their brackets those behind
/// the reason for a call that was cut.
fn words(line: &str) -> String {
    let (_, rest) = line.split_once("shop: gave up after ").unwrap();
    let (_, rest) = rest.split_once(" attempt").unwrap();
    let rest = rest.strip_prefix('s').unwrap_or(rest);
    let rest = match rest.strip_prefix(" in ") {
        Some(timed) => timed.find([',', ':', ' ']).map_or("", |at| &timed[at..]),
        None => rest,
    };
    match rest.strip_suffix(')').and_then(|rest| rest.split_once(" (last failure: ")) {
        Some((reason, cut)) => format!("{reason}: {cut}"),
        None => rest.to_owned(),
    }
}

/// Makes a call and returns the words of its end, after a look at the line of the log.
async fn end(
    shop: Upstream,
    policy: RetryPolicy,
    (idempotency, does): (Idempotency, Does),
    token: &CancellationToken,
    limit: usize,
) -> String {
    static ENDS: Ends = Ends::new();
    let shop: &'static Upstream = Box::leak(Box::new(shop.with_observer(&ENDS)));
    let channel = service_fn(move |request| done(does, request));
    let channel = RetryChannel::new(channel, policy, idempotency).on(shop).keeping(limit);
    let status = channel.with_token(token.clone()).oneshot(request()).await.unwrap_err();
    let (_, line) = ENDS.take().pop().unwrap();
    let end = format!("{:#}", gave_up(&status).unwrap());
    assert_eq!(words(&end), words(&line), "\n{end}\n{line}");
    // The log of a call around it names each error once.
    let around = retry(async |_| Err::<(), _>(status.clone()), RetryPolicy::none(), Never);
    let around = format!("{:#}", around.on("shop").await.unwrap_err());
    assert_eq!(around.matches(&end).count(), 1, "{around}");
    words(&end)
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_call_has_the_words_of_its_line() {
    const DOWN: &[(&str, &str)] = &[("grpc-status", "14"), ("grpc-message", "the%20shop restarts")];
    const DOUBT: &str = ", the request may have been executed and must not be sent again";
    let token = CancellationToken::new();
    let shop = || Upstream::new("shop");
    for (idempotency, does, line) in [
        (NotIdempotent, Answer(200, DOWN), &*format!("{DOUBT}: …UNAVAILABLE: the shop restarts")),
        (Idempotent, Answer(200, DOWN), ": …UNAVAILABLE: the shop restarts"),
        (Idempotent, Answer(200, &[("grpc-status", "5")]), ", the error is final: …NOT_FOUND"),
        (NotIdempotent, Answer(200, &[("grpc-status", "99")]), ": …grpc-status 99"),
        (NotIdempotent, Answer(200, &[("grpc-status", "odd")]), ": …no grpc-status"),
        (
            Idempotent,
            Answer(200, &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "-1")]),
            ", the upstream asks for no retry: …UNAVAILABLE",
        ),
        (
            NotIdempotent,
            Answer(200, &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "700")]),
            "the upstream asked for a wait of 700.0ms: …UNAVAILABLE",
        ),
        (
            NotIdempotent,
            Answer(404, &[]),
            ", the error is final, without effect: …no grpc-status: 404 Not Found",
        ),
        (Idempotent, Answer(502, &[]), ": …no grpc-status: 502 Bad Gateway"),
        (
            NotIdempotent,
            Answer(503, &[("retry-after", "7")]),
            "the upstream asked for a wait of 7.0s: …no grpc-status: 503 Service Unavailable",
        ),
        (NotIdempotent, Refuse, ": …UNAVAILABLE: connection refused"),
        (NotIdempotent, Reset, &format!("{DOUBT}: …UNKNOWN: the peer reset")),
    ] {
        let end = end(shop(), AT_ONCE, (idempotency, does), &token, 5).await;
        let (before, after) = line.split_once('…').unwrap();
        let (reason, error) = end.split_once("/shop.Shop/Price: ").unwrap();
        assert!(reason.ends_with(before) && error == after, "{end}");
    }

    // The request cannot be made again, and the reason stands behind each error.
    let why = " (sent once: its body is longer than the 3 bytes that are kept)";
    for (does, error) in [
        (Answer(200, DOWN), "UNAVAILABLE: the shop restarts"),
        (Answer(502, &[]), "no grpc-status: 502 Bad Gateway"),
        (Reset, "UNKNOWN: the peer reset"),
    ] {
        let end = end(shop(), AT_ONCE, (Idempotent, does), &token, 3).await;
        let line = format!(", the request cannot be made again: /shop.Shop/Price: {error}{why}");
        assert_eq!(end, line);
    }

    // A limit ends the call.
    let down = (Idempotent, Answer(200, DOWN));
    let spent = shop().with_budget(Budget::new().with_capacity(0));
    let words = end(spent, AT_ONCE, down, &token, 5).await;
    assert!(words.starts_with(", the retry budget is spent"), "{words}");
    let broken = shop().with_breaker(Breaker::new().with_consecutive(1));
    let words = end(broken, AT_ONCE, down, &token, 5).await;
    assert!(words.contains("the circuit breaker is open"), "{words}");
    let pushed: &[_] = &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "9000")];
    for policy in [AT_ONCE.with_total_timeout(SECOND), AT_ONCE.with_hint_cap(SECOND)] {
        let words = end(shop(), policy, (Idempotent, Answer(200, pushed)), &token, 5).await;
        assert!(words.contains("asks for a wait of 9"), "{words}");
    }
    for policy in [AT_ONCE.with_attempt_timeout(SECOND), AT_ONCE.with_total_timeout(SECOND)] {
        for idempotency in [Idempotent, NotIdempotent] {
            let words = end(shop(), policy, (idempotency, Hang), &token, 5).await;
            assert!(words.contains(": /shop.Shop/Price: did not finish "), "{words}");
        }
    }
    tokio::spawn({
        let token = token.clone();
        async move {
            tokio::time::sleep(SECOND).await;
            token.cancel();
        }
    });
    for during in ["/shop.Shop/Price was dropped", ", cancelled"] {
        let words = end(shop(), AT_ONCE, (NotIdempotent, Hang), &token, 5).await;
        assert!(words.contains(during), "{words}");
    }
}
