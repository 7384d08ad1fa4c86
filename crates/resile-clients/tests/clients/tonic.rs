//! Statuses of `tonic`, made by its own constructors, and frames of a real peer in memory.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use resile_clients::Classifier;
use resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_clients::grpc::{self, Pushback};
use resile_clients::resile::classify::Cut;
use resile_clients::resile::error::Boxed;
use resile_clients::resile::time::ManualTimer;
use resile_clients::resile::{
    Attempt, Backoff, Breaker, Classify, GaveUp, Health, Jitter, Never, RetryPolicy, StopReason,
    Upstream, Verdict, retry,
};
use tonic::metadata::MetadataMap;
use tonic::{Code, ConnectError, Request, Status, TimeoutExpired};

use super::rows::{Says, rows, says};

fn seen(status: &Status) -> Option<Says> {
    says(|it| grpc::status(status, it))
}

const FAILING: Health = Health::Failing;

#[test]
fn each_code_has_the_verdict_of_its_row() {
    let mut numbers = 0;
    for row in rows().into_iter().filter(|row| row.family == "grpc") {
        let Ok(number) = row.code.parse::<i32>() else { continue };
        numbers += 1;
        let code = Code::from_i32(number);
        assert_eq!(seen(&Status::new(code, "words")), Some(row.says), "{code:?}");
        // A source that tells nothing.
        let mut status = Status::new(code, "words");
        status.set_source(Arc::new(io::Error::other("words")));
        assert_eq!(seen(&status), Some(row.says), "{code:?}");
    }
    assert_eq!(numbers, 16);
    assert_eq!(seen(&Status::ok("words")), None);
}

#[test]
fn a_classifier_says_what_the_function_says_and_has_an_opinion_on_cuts() {
    for (classifier, idempotency) in
        [(Classifier::idempotent(), Idempotent), (Classifier::non_idempotent(), NotIdempotent)]
    {
        let over = classifier.over(|grpc, (status,): &(Status,)| grpc.verdict(status));
        for number in 0..=17 {
            let status = Status::new(Code::from_i32(number), "words");
            let verdict = grpc::status(&status, idempotency);
            assert_eq!(classifier.classify(&status), verdict, "{number}");
            assert_eq!(over.classify(&(status,)), verdict, "{number}");
        }
        let is_again = idempotency == Idempotent;
        assert_eq!(classifier.is_idempotent(), is_again);
        for cut in [Cut::Deadline, Cut::AttemptTimeout(Duration::from_secs(1))] {
            let verdict = Classify::<Status>::classify_cut(&classifier, cut).unwrap();
            assert_eq!((verdict.is_again(), verdict.health()), (is_again, FAILING));
            assert_eq!(over.classify_cut(cut), Some(verdict));
        }
    }
}

#[test]
fn the_type_of_an_error_is_the_name_of_its_code() {
    // The variants of `tonic` have the names of the specification in another spelling.
    for number in 0..=16 {
        let code = Code::from_i32(number);
        let status = Status::new(code, "words");
        let name = Classifier::idempotent().error_type(&status).unwrap();
        assert!(name.bytes().all(|byte| byte == b'_' || byte.is_ascii_uppercase()));
        assert_eq!(name.replace('_', ""), format!("{code:?}").to_uppercase());
    }
}

/// An idempotent call whose first attempt hangs gets its answer from the second one.
#[tokio::test]
async fn a_cut_request_is_sent_again_only_if_it_is_idempotent() {
    let attempts = |classifier| async move {
        let policy = RetryPolicy::new()
            .with_attempt_timeout(Duration::from_secs(1))
            .with_classifier(classifier);
        let op = |attempt: Attempt| async move {
            if attempt.is_first() {
                std::future::pending::<()>().await;
            }
            Ok::<_, Status>(attempt.number())
        };
        let timer = ManualTimer::new();
        let upstream = Upstream::new("bank").with_timer(timer.clone());
        tokio::join!(retry(op, policy, Never).on(&upstream), async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
                timer.advance(Duration::from_millis(100));
            }
        })
        .0
    };
    assert_eq!(attempts(Classifier::idempotent()).await.unwrap(), 2);
    let gave_up = attempts(Classifier::non_idempotent()).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
}

/// A cut attempt has no error that names its method, so the classifier does.
#[tokio::test]
async fn what_contains_a_classifier_knows_the_place_of_its_request() {
    const READ: Classifier = Classifier::idempotent().with_place("/shop.Shop/Price");
    fn place<E>(classifier: &dyn Classify<E>) -> Option<String> {
        classifier.place().map(Cow::into_owned)
    }
    let known = Some("/shop.Shop/Price".to_owned());
    assert_eq!(place::<Status>(&Classifier::idempotent()), None);
    assert_ne!(READ, Classifier::idempotent());
    assert_eq!(place::<Status>(&READ), known);
    let over = READ.over(|clients, (status,): &(Status,)| clients.verdict(status));
    assert_eq!(place::<(Status,)>(&over), known);
    assert_eq!(place::<Status>(&(|_: &Status| None::<Verdict>, READ)), known);

    let timer = ManualTimer::new();
    let shop = Upstream::new("shop").with_timer(timer.clone());
    let policy = RetryPolicy::none().with_attempt_timeout(Duration::from_millis(500));
    let call = retry(
        |_| std::future::pending::<Result<(), Status>>(),
        policy.with_classifier(READ),
        Never,
    );
    let (ended, ()) = tokio::join!(call.on(&shop), async {
        for _ in 0..10 {
            tokio::task::yield_now().await;
            timer.advance(Duration::from_millis(100));
        }
    });
    let end = "(last failure: /shop.Shop/Price: did not finish within 500ms)";
    let gave_up = ended.unwrap_err();
    assert!(gave_up.to_string().ends_with(end), "{gave_up}");
}

fn with_pushback(code: Code, value: &str) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(Pushback::NAME, value.parse().unwrap());
    Status::with_metadata(code, "words", metadata)
}

/// The pair on the page: a late answer is final, unless a classifier before says otherwise.
#[test]
fn a_read_may_come_again_after_a_deadline_if_a_classifier_says_so() {
    fn late(status: &Status) -> Option<Verdict> {
        let is_late = matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled);
        is_late.then(Verdict::transient)
    }
    let alone = Classifier::idempotent();
    let pair = (late, alone);
    for status in [Status::deadline_exceeded("late"), Status::cancelled("Timeout expired")] {
        assert!(!alone.classify(&status).unwrap().is_again());
        assert!(pair.classify(&status).unwrap().is_again());
    }
    let missing = Status::not_found("no such city");
    assert_eq!(pair.classify(&missing), alone.classify(&missing));
    let cut = Classify::<Status>::classify_cut(&pair, Cut::Deadline);
    assert!(cut.unwrap().is_again());
}

/// The server wants no retry of it. A read may come again later all the same, so nobody must find out
/// whether it was executed.
#[tokio::test]
async fn a_negative_pushback_leaves_a_doubt_only_about_an_order() {
    for code in [Code::Unavailable, Code::ResourceExhausted, Code::DeadlineExceeded] {
        for (classifier, in_doubt, words) in [
            (Classifier::idempotent(), false, "the upstream asks for no retry"),
            (
                Classifier::non_idempotent(),
                true,
                "the request may have been executed and must not be sent again, \
                 the upstream asks for no retry",
            ),
        ] {
            let policy = RetryPolicy::new().with_classifier(classifier);
            let op = |_| std::future::ready(Err::<(), _>(with_pushback(code, "-1")));
            let upstream = Upstream::new("bank").with_timer(ManualTimer::new());
            let gave_up = retry(op, policy, Never).on(&upstream).await.unwrap_err();
            assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
            assert_eq!(gave_up.is_in_doubt(), in_doubt, "{code:?}: {gave_up}");
            assert_eq!(gave_up.to_string(), format!("bank: gave up after 1 attempt, {words}"));
            assert_eq!(gave_up.verdict().unwrap().health(), Health::Throttling);
        }
    }
}

/// Makes a call whose only attempt fails with this status.
async fn call_with(status: Status, classifier: Classifier) -> GaveUp<Status> {
    let policy = RetryPolicy::new().with_classifier(classifier);
    let op = |_| std::future::ready(Err::<(), _>(status.clone()));
    let upstream = Upstream::new("bank").with_timer(ManualTimer::new());
    retry(op, policy.with_attempts(1), Never).on(&upstream).await.unwrap_err()
}

/// A server that ends its handler answers `CANCELLED`, after the handler has worked.
#[tokio::test]
async fn an_order_is_in_doubt_unless_its_code_says_what_happened() {
    let unknown = [
        Code::Cancelled,
        Code::Unknown,
        Code::DeadlineExceeded,
        Code::ResourceExhausted,
        Code::Aborted,
        Code::OutOfRange,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
    ];
    for number in 1..=16 {
        let code = Code::from_i32(number);
        let order = call_with(Status::new(code, "words"), Classifier::non_idempotent()).await;
        assert_eq!(order.is_in_doubt(), unknown.contains(&code), "{order}");
        assert_eq!(order.is_without_effect(), !unknown.contains(&code), "{order}");
        assert_eq!(order.reason(), StopReason::Fatal, "{code:?}");
        let read = call_with(Status::new(code, "words"), Classifier::idempotent()).await;
        assert!(!read.is_in_doubt(), "{read}");
    }
    // `RetryInfo` and the order's own end of the request change nothing.
    let details = Bytes::from(details(7, None));
    let waits = Status::with_details(Code::Cancelled, "words", details);
    assert!(call_with(waits, Classifier::non_idempotent()).await.is_in_doubt());
    let mut own = Status::cancelled("client cancelled");
    own.set_source(Arc::new(h2::Error::from(Reason::CANCEL)));
    assert!(call_with(own, Classifier::non_idempotent()).await.is_in_doubt());
    // The breaker learns nothing.
    let verdict = grpc::status(&Status::cancelled("Timeout expired"), NotIdempotent).unwrap();
    assert_eq!((verdict.is_again(), verdict.health()), (false, Health::Unknown));
}

/// The words of `tonic` for a message above a limit and for an unknown compression. The request may be
/// meant, and the answer too: the server has executed the order then.
#[tokio::test]
async fn an_order_whose_answer_may_be_unreadable_is_in_doubt() {
    let large = |verb| {
        let words = "message length too large: found 9 bytes, the limit is: 8 bytes";
        Status::out_of_range(format!("Error, {verb} {words}"))
    };
    let gzip = "Content is compressed with `gzip` which isn't supported";
    for status in [large("decoded"), large("encoded"), Status::unimplemented(gzip)] {
        let order = call_with(status.clone(), Classifier::non_idempotent()).await;
        assert!(order.is_in_doubt(), "{status}");
        assert_eq!(order.verdict().unwrap().health(), Health::Healthy);
        let read = call_with(status, Classifier::idempotent()).await;
        assert_eq!((read.reason(), read.is_in_doubt()), (StopReason::Fatal, false));
    }
    let no_method = call_with(Status::unimplemented(""), Classifier::non_idempotent()).await;
    assert!(no_method.is_without_effect() && !no_method.is_in_doubt());
}

#[test]
fn a_pushback_is_read_from_the_metadata() {
    let busy = grpc::status(&with_pushback(Code::Unavailable, "250"), Idempotent).unwrap();
    assert_eq!(busy, Verdict::overloaded().after(Duration::from_millis(250)).idempotent());
    let stop = grpc::status(&with_pushback(Code::Unavailable, "-1"), Idempotent).unwrap();
    assert_eq!(stop, Verdict::overloaded().not_again().idempotent());
    let unreadable = grpc::status(&with_pushback(Code::Unavailable, "soon"), Idempotent);
    assert_eq!(unreadable, Some(stop));
}

#[test]
fn a_request_without_a_connection_was_never_sent() {
    let of = |error: Box<dyn Error + Send + Sync>| {
        let status = Status::from_error(ConnectError(error).into());
        for idempotency in [Idempotent, NotIdempotent] {
            assert!(grpc::status(&status, idempotency).unwrap().is_not_sent(), "{status:?}");
        }
        seen(&status).unwrap()
    };
    let io = |kind: io::ErrorKind| of(io::Error::from(kind).into());
    assert_eq!(io(io::ErrorKind::ConnectionRefused), (true, true, FAILING, false));
    assert_eq!(io(io::ErrorKind::TimedOut), (true, true, FAILING, false));
    assert_eq!(io(io::ErrorKind::UnexpectedEof), (true, true, FAILING, false));
    assert_eq!(of("words".into()), (true, true, FAILING, false));
    // A wrong certificate stays wrong, and a name that does not exist does too.
    assert_eq!(io(io::ErrorKind::InvalidData), (false, false, Health::Unknown, false));
    let name = "failed to lookup address information: Name or service not known";
    assert_eq!(of(io::Error::other(name).into()), (false, false, Health::Unknown, false));
}

#[test]
fn an_own_timeout_may_follow_the_request() {
    let status = Status::from_error(Box::new(TimeoutExpired(())));
    assert_eq!(status.code(), Code::Cancelled);
    assert_eq!(seen(&status), Some((true, false, FAILING, false)));
    assert_eq!(seen(&Status::cancelled("Timeout expired")).unwrap().2, Health::Unknown);
}

/// An error of `hyper`, whose kind only `Debug` tells to a crate without it.
struct Closed(&'static str);

impl fmt::Debug for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hyper::Error({}, \"connection closed\")", self.0)
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("operation was canceled")
    }
}

impl Error for Closed {}

/// A test in `lab/tonic` provokes it on a real connection.
#[test]
fn a_connection_that_closed_before_the_request_began_took_nothing() {
    let cancelled = |kind| {
        let mut status = Status::cancelled("operation was canceled");
        status.set_source(Arc::new(Closed(kind)));
        status
    };
    let row = rows().into_iter().find(|row| (row.family, row.code) == ("hyper", "canceled"));
    assert_eq!(seen(&cancelled("Canceled")), Some(row.unwrap().says));
    let verdict = grpc::status(&cancelled("Canceled"), NotIdempotent).unwrap();
    assert!(verdict.is_again());
    assert_eq!(seen(&cancelled("User(DispatchGone)")), seen(&Status::cancelled("words")));
}

#[test]
fn a_refused_connection_in_the_chain_counts_for_codes_that_pass() {
    let refused = || Arc::new(io::Error::from(io::ErrorKind::ConnectionRefused));
    let mut status = Status::unavailable("words");
    status.set_source(refused());
    assert_eq!(seen(&status), Some((true, true, FAILING, false)));
    let mut status = Status::not_found("words");
    status.set_source(refused());
    assert_eq!(seen(&status), Some((false, false, Health::Healthy, false)));
}

/// Makes the details of a status: `RetryInfo` behind another message.
pub(crate) fn details(seconds: u8, nanos: Option<u8>) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let length = u8::try_from(bytes.len()).unwrap();
        assert!(length < 128);
        [&[number << 3 | 2, length], bytes].concat()
    };
    let mut delay = vec![1 << 3, seconds];
    delay.extend(nanos.into_iter().flat_map(|nanos| [2 << 3, nanos]));
    let any = |name: &str, value: &[u8]| {
        let name = format!("type.googleapis.com/google.rpc.{name}");
        [field(1, name.as_bytes()), field(2, value)].concat()
    };
    let code = [1 << 3, 8].to_vec();
    let other = field(3, &any("Help", b"\x0a\x02hi"));
    let info = field(3, &any("RetryInfo", &field(1, &delay)));
    [code, field(2, b"slow down"), other, info].concat()
}

#[test]
fn retry_info_is_read_from_the_details() {
    let wait = Duration::new(7, 9);
    let bytes = Bytes::from(details(7, Some(9)));
    assert_eq!(grpc::retry_info(&bytes), Some(wait));
    assert_eq!(grpc::retry_info(&details(7, None)), Some(Duration::from_secs(7)));
    let status = Status::with_details(Code::ResourceExhausted, "words", bytes);
    let verdict = grpc::status(&status, NotIdempotent).unwrap();
    assert_eq!(verdict, Verdict::throttled().after(wait));
    // No prefix of the message has another wait, and no change of a byte panics.
    let whole = details(7, Some(9));
    for length in 0..whole.len() {
        let part = grpc::retry_info(&whole[..length]);
        assert_eq!(part, None, "{length}");
    }
    for at in 0..whole.len() {
        for byte in [0, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] = byte;
            let _ = grpc::retry_info(&changed);
        }
    }
}

/// The way in which the peer ends the stream.
#[derive(Clone, Copy)]
enum Peer {
    Resets(Reason),
    /// It leaves without the stream.
    GoesAway(Reason),
    /// It takes the stream and leaves.
    TakesAndGoesAway,
}

/// Sends a request to a peer over memory and returns the error as `tonic` would wrap it.
async fn frame(peer: Peer) -> Status {
    let (near, far) = tokio::io::duplex(1 << 16);
    let server = tokio::spawn(async move {
        let mut connection = h2::server::handshake(far).await.unwrap();
        if let Peer::GoesAway(reason) = peer {
            connection.abrupt_shutdown(reason);
        }
        while let Some(stream) = connection.accept().await {
            let Ok((_, mut respond)) = stream else { break };
            match peer {
                Peer::Resets(reason) => respond.send_reset(reason),
                Peer::GoesAway(_) => {}
                Peer::TakesAndGoesAway => connection.abrupt_shutdown(Reason::NO_ERROR),
            }
        }
    });
    let (mut client, connection) = h2::client::handshake(near).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = http::Request::post("http://peer/call").body(()).unwrap();
    let error = match client.send_request(request, true) {
        Ok((answer, _)) => answer.await.unwrap_err(),
        Err(error) => error,
    };
    driver.abort();
    server.abort();
    assert_eq!(error.is_remote(), !matches!(peer, Peer::TakesAndGoesAway), "{error:?}");
    let mut status = Status::internal("words");
    status.set_source(Arc::new(error));
    status
}

#[tokio::test]
async fn a_frame_of_the_peer_says_whether_it_processed_the_stream() {
    let row = |family: &str, code: &str| {
        let rows = rows();
        let row = rows.iter().find(|row| row.family == family && row.code == code);
        Some(row.unwrap_or_else(|| panic!("{family} {code}")).says)
    };
    for reason in [
        Reason::REFUSED_STREAM,
        Reason::CANCEL,
        Reason::INTERNAL_ERROR,
        Reason::ENHANCE_YOUR_CALM,
        Reason::HTTP_1_1_REQUIRED,
    ] {
        let code = u32::from(reason).to_string();
        assert_eq!(seen(&frame(Peer::Resets(reason)).await), row("http2", &code), "{reason:?}");
    }
    let closed = frame(Peer::GoesAway(Reason::NO_ERROR)).await;
    assert_eq!(seen(&closed), row("http2-goaway", "0+unprocessed"));
    let closed = frame(Peer::TakesAndGoesAway).await;
    assert_eq!(seen(&closed), row("http2-goaway", "0"));
    let closed = frame(Peer::GoesAway(Reason::ENHANCE_YOUR_CALM)).await;
    assert_eq!(seen(&closed), row("http2-goaway", "11"));
    let closed = frame(Peer::GoesAway(Reason::INTERNAL_ERROR)).await;
    assert_eq!(seen(&closed), row("http2-goaway", "2"));
}

/// An error that the own side made shows nothing, so the code decides.
#[test]
fn an_own_reset_is_no_frame_of_the_peer() {
    let mut status = Status::internal("words");
    status.set_source(Arc::new(h2::Error::from(Reason::REFUSED_STREAM)));
    assert_eq!(seen(&status), seen(&Status::internal("words")));
}

/// A status prints its source in the form of the source code. The error of a call has each fact once.
#[tokio::test]
async fn the_words_of_a_refused_connection_are_short() {
    let refused = || {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        Status::from_error(ConnectError(refused.into()).into())
    };
    let policy = RetryPolicy::none().with_classifier(Classifier::idempotent());
    let upstream = Upstream::new("bank").with_timer(ManualTimer::new());
    let call = retry(|_| std::future::ready(Err::<(), _>(refused())), policy, Never).on(&upstream);
    // A newer tonic ends a status with the `Debug` of its source.
    let line = format!("{:#}", call.await.unwrap_err());
    assert!(line.starts_with("bank: gave up after 1 attempt: "), "{line}");
    assert_eq!(line.matches("connection refused").count(), 1, "{line}");
    assert!(!line.contains("ConnectError"), "{line}");
}

/// Each end of a call as the status that a caller of gRPC gets.
#[tokio::test]
async fn the_end_of_a_call_is_a_status() {
    let policy = RetryPolicy::new()
        .with_classifier(Classifier::idempotent())
        .with_attempts(1)
        .with_attempt_timeout(Duration::from_secs(1));
    let ended = async |policy: RetryPolicy<Classifier>, status: Option<Status>| {
        let attempt = |_: Attempt| {
            let status = status.clone();
            async move {
                match status {
                    Some(status) => Err::<(), _>(status),
                    None => std::future::pending().await,
                }
            }
        };
        let timer = ManualTimer::new();
        let upstream = Upstream::new("bank").with_timer(timer.clone());
        let (ended, ()) = tokio::join!(retry(attempt, policy, Never).on(&upstream), async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
                timer.advance(Duration::from_millis(100));
            }
        });
        grpc::to_status(ended.unwrap_err())
    };
    let gone = ended(policy, Some(Status::not_found("no such city"))).await;
    assert_eq!((gone.code(), gone.message()), (Code::NotFound, "no such city"));
    let down = ended(policy, Some(Status::unavailable("down"))).await;
    assert_eq!((down.code(), down.message()), (Code::Unavailable, "down"));
    let cut = ended(policy, None).await;
    assert_eq!(cut.code(), Code::DeadlineExceeded);
    assert!(cut.message().contains("gave up after 1 attempt"), "{cut}");
    assert!(cut.source().unwrap().is::<GaveUp<Status>>());
    let late = policy.with_total_timeout(Duration::from_millis(10));
    assert_eq!(ended(late, None).await.code(), Code::DeadlineExceeded);
}

/// The message has the name, the attempts and each cause once, since no server has said anything.
#[tokio::test]
async fn the_status_of_a_call_without_an_answer_has_all_words() {
    let refused = || {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let refused = io::Error::other(refused);
        Status::from_error(ConnectError(refused.into()).into())
    };
    let reset = || {
        let mut status = Status::unknown("h2 protocol error: error reading a body");
        status.set_source(Arc::new(io::Error::from(io::ErrorKind::ConnectionReset)));
        status
    };
    let orders = Classifier::non_idempotent().with_place("/bank.Bank/Pay");
    let policy = RetryPolicy::none().with_classifier(orders);
    let upstream = Upstream::new("bank").with_timer(ManualTimer::new());
    let ended = async |status: Status| {
        let call = retry(|_| std::future::ready(Err::<(), _>(status.clone())), policy, Never);
        call.on(&upstream).await.unwrap_err()
    };
    let status = grpc::to_status(ended(refused()).await);
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(
        status.message(),
        "bank: gave up after 1 attempt, without effect: /bank.Bank/Pay: UNAVAILABLE: connection refused"
    );
    let status = grpc::to_status(ended(reset()).await);
    assert_eq!(status.code(), Code::Unknown);
    assert_eq!(
        status.message(),
        "bank: gave up after 1 attempt, the request may have been executed and must not be sent \
         again: /bank.Bank/Pay: UNKNOWN: h2 protocol error: error reading a body: connection reset",
    );
    let gave_up = status.source().unwrap().downcast_ref::<GaveUp<Status>>().unwrap();
    assert!(gave_up.is_in_doubt());
    // As from a layer, whose errors have no type.
    let boxed = ended(Status::not_found("no such city")).await.into_boxed();
    let status = grpc::to_status(boxed);
    assert_eq!((status.code(), status.message()), (Code::NotFound, "no such city"));
    assert!(status.source().unwrap().is::<GaveUp<Boxed>>());
}

/// The status of the server stays whole, so the next service in a chain learns when to come back.
#[tokio::test]
async fn a_refusal_whose_wait_is_too_long_keeps_its_status() {
    let limited = || {
        let mut metadata = MetadataMap::new();
        metadata.insert("x-limit", "orders".parse().unwrap());
        let (code, details) = (Code::ResourceExhausted, Bytes::from(details(8, None)));
        Status::with_details_and_metadata(code, "slow down", details, metadata)
    };
    let policy = RetryPolicy::new().with_total_timeout(Duration::from_secs(3));
    let ended = async |upstream: &Upstream<ManualTimer>, classifier, status: Status| {
        let attempt = |_| std::future::ready(Err::<(), _>(status.clone()));
        let call = retry(attempt, policy.with_classifier(classifier), Never);
        call.on(upstream).await.unwrap_err()
    };
    let of = |status: Status| {
        let gave_up = status.source().unwrap().downcast_ref::<GaveUp<Status>>().unwrap();
        (gave_up.reason(), status.code(), status.message().to_owned())
    };
    let bank = Upstream::new("bank").with_timer(ManualTimer::new());
    let orders = Classifier::non_idempotent();
    let status = grpc::to_status(ended(&bank, orders, limited()).await);
    assert_eq!((status.details(), status.metadata().len()), (limited().details(), 1));
    assert_eq!(status.metadata().get("x-limit").unwrap(), "orders");
    let words = "slow down".to_owned();
    assert_eq!(of(status), (StopReason::Deadline, Code::ResourceExhausted, words));
    let mut pushed = Status::unavailable("down");
    pushed.metadata_mut().insert(Pushback::NAME, 8000.into());
    let status = grpc::to_status(ended(&bank, Classifier::idempotent(), pushed).await);
    assert_eq!(status.metadata().get(Pushback::NAME).unwrap(), "8000");
    assert_eq!(of(status), (StopReason::Deadline, Code::Unavailable, "down".to_owned()));
    // A breaker ends the call, after the server has answered.
    let breaker = Breaker::new().with_consecutive(1);
    let broken = Upstream::new("bank").with_timer(ManualTimer::new()).with_breaker(breaker);
    let status = Status::internal("no disk");
    let status = grpc::to_status(ended(&broken, Classifier::idempotent(), status).await);
    assert_eq!(of(status), (StopReason::Open, Code::Internal, "no disk".to_owned()));
    let status = Status::internal("no disk");
    let status = grpc::to_status(ended(&broken, Classifier::idempotent(), status).await);
    assert_eq!(status.code(), Code::Unavailable, "no attempt was made: {status}");
    // No answer, and no time for the next attempt.
    let slow = RetryPolicy::new()
        .with_classifier(orders)
        .with_backoff(Backoff::fixed(Duration::from_secs(8)).with_jitter(Jitter::None))
        .with_total_timeout(Duration::from_secs(3));
    let refused = || {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        Status::from_error(ConnectError(refused.into()).into())
    };
    let call = retry(|_| std::future::ready(Err::<(), _>(refused())), slow, Never).on(&bank);
    let status = grpc::to_status(call.await.unwrap_err());
    assert!(status.message().ends_with(": connection refused"), "{status}");
    let (reason, code, _) = of(status);
    assert_eq!((reason, code), (StopReason::Deadline, Code::Unavailable));
}

/// The words of `tonic` tell neither the method nor the name of the code.
#[tokio::test]
async fn a_stated_place_is_before_the_words_of_a_status() {
    let shop = Upstream::new("shop").with_timer(ManualTimer::new());
    let place = Classifier::non_idempotent().with_place("/shop.Shop/Order");
    let policy = RetryPolicy::new().with_classifier(place);
    let call = retry(async |_| Err::<(), _>(Status::unavailable("down")), policy, Never);
    let gave_up = call.on(&shop).await.unwrap_err();
    let words = format!("{gave_up:#}");
    let (_, last) = words.split_once("sent again: ").unwrap();
    let placed = format!("/shop.Shop/Order: {}", Status::unavailable("down"));
    assert!(last.starts_with(&placed), "{words}"); // older versions of `tonic` have other words
    assert_eq!(last.matches("/shop.Shop/Order").count(), 1, "{words}");
}

/// Returns the timeout and the number of attempts before it that a server reads of an attempt.
fn told(attempt: Attempt) -> (Option<String>, Option<String>) {
    let request = grpc::request((), attempt);
    let text = |name| Some(request.metadata().get(name)?.to_str().unwrap().to_owned());
    (text("grpc-timeout"), text("grpc-previous-rpc-attempts"))
}

/// `tonic` ends a call at the time of the header, so that time is after the end of the attempt.
#[test]
fn a_request_tells_when_its_attempt_ends_and_which_one_it_is() {
    let second = Attempt::new(1).with_remaining(Some(Duration::from_secs(1)));
    assert_eq!(told(second), (Some("1050000u".to_owned()), None));
    for number in [2, 3, u32::MAX] {
        let before = (number - 1).to_string();
        assert_eq!(told(Attempt::new(number)), (None, Some(before)));
    }
    let over = Attempt::new(1).with_remaining(Some(Duration::ZERO));
    assert_eq!(told(over), (Some("50000000n".to_owned()), None));
    let endless = Attempt::new(1).with_remaining(Some(Duration::MAX));
    assert!(told(endless).0.is_some_and(|timeout| timeout.len() <= 9));
}

/// What the program has written stays, apart from these two.
#[test]
fn a_prepared_request_keeps_its_metadata_and_a_made_one_has_no_more() {
    let attempt = Attempt::new(2).with_remaining(Some(Duration::from_secs(1)));
    let mut own = Request::new(7);
    own.metadata_mut().insert("x-user", "a".parse().unwrap());
    own.metadata_mut().insert("grpc-timeout", "1S".parse().unwrap());
    grpc::prepare(&mut own, attempt);
    let made = grpc::request(7, attempt);
    assert_eq!(own.metadata_mut().remove("x-user").unwrap(), "a");
    assert_eq!(own.into_parts().0.into_headers(), made.metadata().clone().into_headers());
    assert_eq!(made.into_inner(), 7);
}

/// The shorter one of the two timeouts counts.
#[tokio::test]
async fn a_prepared_request_has_the_time_of_its_attempt() {
    for (attempt, total) in [(1, 5), (5, 1)] {
        let policy = RetryPolicy::none()
            .with_attempt_timeout(Duration::from_secs(attempt))
            .with_total_timeout(Duration::from_secs(total))
            .with_classifier(Classifier::idempotent());
        let store = Upstream::new("store").with_timer(ManualTimer::new());
        let call = retry(async |attempt| Ok::<_, Status>(told(attempt)), policy, Never);
        assert_eq!(call.on(&store).await.unwrap(), (Some("1050000u".to_owned()), None));
    }
}
