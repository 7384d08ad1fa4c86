//! Whole stacks: calls on upstreams and calls around calls, in their recommended form.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::{StreamExt, TryFutureExt, TryStreamExt, stream};
use resile::breaker::State;
use resile::classify::{Always, ClassifyExt, Cut, CutIs};
use resile::observe::{Event, EventKind};
use resile::stream::Part;
use resile::timeout::{ClassifyOperation, Error};
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, GaveUp, HedgePolicy,
    Jitter, Never, ResilienceExt, RetryPolicy, StopReason, StreamResilienceExt, Upstream, Verdict,
    fallback, hedge, retry, retry_stream,
};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Backoff = Backoff::fixed(Duration::from_secs(60)).with_jitter(Jitter::None);

type CallError = Error<&'static str>;
type Classifier = CutIs<ClassifyOperation<fn(&&'static str) -> Verdict>>;

fn classify_text(error: &&'static str) -> Verdict {
    match *error {
        "throttled" => Verdict::throttled().after(SECOND * 20),
        "bad request" => Verdict::fatal(),
        _ => Verdict::transient(),
    }
}

fn classifier() -> Classifier {
    let classify: fn(&&'static str) -> Verdict = classify_text;
    ClassifyOperation(classify).cut_is(Verdict::transient())
}

fn policy() -> RetryPolicy<Classifier> {
    let backoff = Backoff::fixed(SECOND).with_jitter(Jitter::None);
    RetryPolicy::new()
        .with_attempts(4)
        .with_backoff(backoff)
        .with_total_timeout(SECOND * 50)
        .with_classifier(classifier())
}

/// Returns the given answer at once, or stays pending for ever.
async fn ask(answer: Option<Result<u32, &'static str>>) -> Result<u32, CallError> {
    match answer {
        Some(answer) => answer.map_err(Error::Operation),
        None => std::future::pending().await,
    }
}

/// Two nested calls: the inner call goes to one host, and the outer upstream is shared by all
/// hosts. The inner breaker counts timeouts and refuses within the outer call. Its refusal is an
/// error that the outer policy classifies.
#[tokio::test(start_paused = true)]
async fn nested_calls_on_two_upstreams_work_together() {
    let host = Upstream::new("host")
        .with_breaker(Breaker::new().with_consecutive(3).with_open_time(MINUTE));
    let all_hosts = Upstream::new("all hosts").with_budget(Budget::new().with_capacity(10));
    let (state, available) =
        (|| host.breaker().unwrap().state(), || all_hosts.budget().unwrap().available());
    let classify = |gave_up: &GaveUp<CallError>| match gave_up.retry_after() {
        Some(after) if gave_up.reason() == StopReason::Open => {
            Some(Verdict::transient().after(after))
        }
        _ => gave_up.verdict(),
    };
    let (policy, polled) = (policy().with_attempts(5).with_classifier(classify), Cell::new(0));
    let call = |answer| {
        let (host, polled) = (&host, &polled);
        let op = move |_| async move {
            let counted = async {
                polled.set(polled.get() + 1);
                ask(answer).await
            };
            host.call(counted.timeout(SECOND * 5), classifier()).await
        };
        retry(op, &policy, Never).on(&all_hosts)
    };
    assert_eq!(call(Some(Ok(7))).await.unwrap(), 7);
    for _ in 0..5 {
        assert_eq!(call(Some(Err("bad request"))).await.unwrap_err().reason(), StopReason::Fatal);
    }
    assert_eq!((state(), polled.get(), available()), (State::Closed, 6, 10));

    // Three attempts time out after 5 s each, with a second between them. The fourth is refused,
    // and a minute does not fit the deadline.
    let began = Instant::now();
    let gave_up = call(None).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), began.elapsed().as_secs()),
        (StopReason::Deadline, 4, 18)
    );
    assert_eq!(
        gave_up.retry_after().map(|after| after.as_secs()),
        Some(59),
        "the breaker's open time is passed on"
    );
    let inner = gave_up.last().expect("a refusal");
    assert_eq!((inner.reason(), inner.upstream()), (StopReason::Open, Some("host")));
    let flat = gave_up.flatten();
    assert_eq!(
        (flat.reason(), flat.attempts(), flat.upstream()),
        (StopReason::Deadline, 4, Some("all hosts"))
    );
    assert_eq!((polled.get(), available()), (9, 7));

    // After the open time, probes close the breaker. They are first attempts, so they are free.
    sleep(SECOND * 60).await;
    for _ in 0..3 {
        assert_eq!(call(Some(Ok(8))).await.unwrap(), 8);
    }
    assert_eq!((state(), available()), (State::Closed, 7));
}

/// One upstream has every part. A refusal ends the call and is no error of the operation. The
/// attempt timeout may come from the operation or from the policy.
#[tokio::test(start_paused = true)]
async fn every_part_on_one_upstream_works_together() {
    for own in [true, false] {
        let upstream = Upstream::new("host")
            .with_breaker(Breaker::new().with_consecutive(3).with_open_time(MINUTE))
            .with_cooldown(Cooldown::new().with_jitter(0.0))
            .with_budget(Budget::new().with_capacity(10))
            .with_bulkhead(Bulkhead::new(5));
        let available = || upstream.budget().unwrap().available();
        let policy = if own { policy() } else { policy().with_attempt_timeout(SECOND * 5) };
        let limit = if own { SECOND * 5 } else { Duration::MAX };
        let call = |answers: &'static [Option<Result<u32, &'static str>>]| {
            let op =
                move |attempt: Attempt| ask(answers[attempt.number() as usize - 1]).timeout(limit);
            retry(op, &policy, Never).on(&upstream)
        };
        // A throttled call holds itself and the other call for 20 s, not for 40 s. It changes
        // nothing in the breaker.
        let began = Instant::now();
        let later = async {
            sleep(SECOND).await;
            call(&[Some(Ok(2))]).await.map(|value| (value, began.elapsed().as_secs()))
        };
        let (first, other) = tokio::join!(call(&[Some(Err("throttled")), Some(Ok(1))]), later);
        assert_eq!((first.unwrap(), other.unwrap(), began.elapsed().as_secs()), (1, (2, 20), 20));
        assert_eq!((upstream.snapshot().unwrap().streak, available()), (0, 9));

        let began = Instant::now();
        let gave_up = call(&[None, Some(Err("down")), None, Some(Ok(0))]).await.unwrap_err();
        assert_eq!(
            (gave_up.reason(), gave_up.attempts(), began.elapsed().as_secs()),
            (StopReason::Open, 3, 12)
        );
        assert_eq!(gave_up.retry_after().map(|after| after.as_secs()), Some(60));
        // The last error is the operation's own, and not the refusal.
        match gave_up.last() {
            Some(Error::Elapsed(_)) => assert!(own && gave_up.cut().is_none()),
            last => {
                assert_eq!((own, last), (false, Some(&Error::Operation("down"))));
                assert_eq!(gave_up.cut(), Some(Cut::AttemptTimeout(SECOND * 5)));
            }
        }
        assert_eq!(available(), 7, "a retry that would be refused takes no token");
        assert_eq!(upstream.bulkhead().unwrap().in_flight(), 0);
    }
}

/// A breaker around a bulkhead may count "full" as a failure of the upstream. A breaker inside it,
/// or on the same upstream, is not asked.
#[tokio::test(start_paused = true)]
async fn a_breaker_belongs_inside_a_bulkhead() {
    let bulkhead = || Bulkhead::new(1).with_queue(0);
    let own = Upstream::new("seats").with_bulkhead(bulkhead());
    let _place = own.try_admit().unwrap();
    let breaker = || Breaker::new().with_consecutive(2);
    let [inside, around, lifted] = [(); 3].map(|()| Upstream::new("host").with_breaker(breaker()));
    let both = Upstream::new("host").with_breaker(breaker()).with_bulkhead(bulkhead());
    let _also = both.try_admit().unwrap();
    for _ in 0..2 {
        let guarded = async {
            inside.call(ask(Some(Ok(1))), classifier()).await.map_err(|e| e.into_last().unwrap())
        };
        let refused = guarded.through(&own, Always).await.unwrap_err();
        assert_eq!(refused.reason(), StopReason::Full);
        let limited = || ask(Some(Ok(1))).through(&own, Always);
        let gave_up = limited().through(&around, Always).await.unwrap_err();
        assert_eq!(gave_up.into_last().unwrap().reason(), StopReason::Full);
        // The verdict of the refusal says that the upstream was not called.
        let verdict = |refused: &GaveUp<CallError>| refused.verdict();
        let gave_up = limited().through(&lifted, verdict).await.unwrap_err();
        assert_eq!(gave_up.into_last().unwrap().reason(), StopReason::Full);
        assert_eq!(
            both.call(ask(Some(Ok(1))), Always).await.unwrap_err().reason(),
            StopReason::Full
        );
    }
    let states =
        [&inside, &around, &lifted, &both].map(|upstream| upstream.breaker().unwrap().state());
    assert_eq!(states, [State::Closed, State::Open, State::Closed, State::Closed]);
}

/// Around a retry, a breaker counts calls. Within a retry, it counts attempts. A bulkhead around a
/// retry holds its permit during the delays.
#[tokio::test(start_paused = true)]
async fn an_upstream_around_a_retry_counts_calls_and_within_it_attempts() {
    let upstream =
        || Upstream::new("host").with_breaker(Breaker::new()).with_bulkhead(Bulkhead::new(1));
    let (calls, attempts) = (upstream(), upstream());
    let policy = policy();
    let call = retry(|_| ask(Some(Err("down"))), &policy, Never).on(&attempts);
    let call = calls.call(call, |gave_up: &GaveUp<CallError>| gave_up.verdict());
    let seen = async {
        sleep(SECOND / 2).await;
        [&calls, &attempts].map(|upstream| upstream.bulkhead().unwrap().in_flight())
    };
    let (outcome, seen) = tokio::join!(call, seen);
    let gave_up = outcome.unwrap_err().flatten();
    assert_eq!(
        (gave_up.last(), gave_up.reason()),
        (Some(&Error::Operation("down")), StopReason::Attempts)
    );
    assert_eq!(seen, [1, 0]);
    assert_eq!([calls, attempts].map(|upstream| upstream.snapshot().unwrap().failures), [1, 4]);
}

/// A hedge inside a retry: the retry classifies the error of the hedge and tries again.
#[tokio::test(start_paused = true)]
async fn a_retry_repeats_a_hedge_that_lost() {
    static HEDGE: HedgePolicy = HedgePolicy::new().with_delay(SECOND);
    let policy = policy()
        .with_classifier(|gave_up: &GaveUp<CallError>| gave_up.reason() != StopReason::Fatal);
    let (starts, nested) = (RefCell::new(vec![]), Cell::new(false));
    let began = Instant::now();
    let op = |outer: Attempt| {
        let (starts, outer) = (&starts, outer.number());
        let op = move |attempt: Attempt| async move {
            starts.borrow_mut().push((outer, attempt.number(), began.elapsed().as_secs()));
            let answer = if outer == 1 { None } else { Some(Ok(outer)) };
            ask(answer).timeout(SECOND * 5).await
        };
        hedge(op, &HEDGE, Never)
    };
    let observer = |event: &Event<'_>| {
        nested.set(nested.get() | matches!(event.kind, EventKind::Nested { .. }));
    };
    let host = Upstream::new("host");
    let won = retry(op, &policy, Never).on(host.observed_by(&observer)).await.unwrap();
    // The first attempt is cut after 5 s and its hedge after 6 s. A second later the next attempt
    // answers.
    assert_eq!((won, began.elapsed().as_secs()), (2, 7));
    assert_eq!(starts.into_inner(), [(1, 1, 0), (1, 2, 1), (2, 1, 7)]);
    assert!(!nested.get(), "a hedge is not reported as a nested retry");
}

/// A retry inside a hedge: a retry that waits for its backoff is slow, so a hedge joins. The
/// retries of the loser end with it.
#[tokio::test(start_paused = true)]
async fn a_hedge_joins_a_retry_that_waits() {
    static HEDGE: HedgePolicy = HedgePolicy::new().with_delay(SECOND);
    let policy = policy().with_backoff(Backoff::fixed(SECOND * 10).with_jitter(Jitter::None));
    let host = Upstream::new("host").with_budget(Budget::new().with_capacity(10));
    let (policy, host, began) = (&policy, &host, Instant::now());
    let lane = |lane: Attempt| {
        let op = move |attempt: Attempt| {
            let answer =
                if lane.is_first() && attempt.is_first() { Err("down") } else { Ok(lane.number()) };
            ask(Some(answer))
        };
        retry(op, policy, Never).on(host)
    };
    assert_eq!(hedge(lane, &HEDGE, Never).on(host).await.unwrap(), 2);
    assert_eq!(began.elapsed().as_secs(), 1);
    let available = host.budget().unwrap().available();
    assert_eq!(
        available, 9,
        "the hedge spent a token, and the token of the retry that never began returned"
    );
}

/// Each alternative is retried before the next one starts, and all share one deadline.
#[tokio::test(start_paused = true)]
async fn a_fallback_shares_one_deadline_among_retried_alternatives() {
    let outer = FallbackPolicy::new().with_total_timeout(SECOND * 30);
    let attempts = RefCell::new(vec![]);
    let began = Instant::now();
    let guarded = Upstream::new("fails")
        .with_breaker(Breaker::new().with_consecutive(2).with_open_time(MINUTE));
    let (attempts_of, guarded) = (&attempts, &guarded);
    let answer = fallback(
        &["hangs", "fails", "works"],
        |alternative| async move {
            let policy = policy().with_total_timeout(alternative.share());
            let op = |attempt: Attempt| {
                attempts_of.borrow_mut().push((
                    *alternative.value(),
                    attempt.number(),
                    began.elapsed().as_secs(),
                ));
                let answer = match *alternative.value() {
                    "hangs" => None,
                    "fails" => Some(Err("down")),
                    _ => Some(Ok(3)),
                };
                ask(answer)
            };
            let call = retry(op, &policy, Never);
            if *alternative.value() == "fails" { call.on(guarded).await } else { call.await }
        },
        &outer,
        Never,
    );
    assert_eq!(answer.await.unwrap(), 3);
    assert_eq!(
        attempts.into_inner(),
        [("hangs", 1, 0), ("fails", 1, 10), ("fails", 2, 11), ("works", 1, 11)]
    );
}

/// A stream is opened under adapters and read under limits. Every failure has one type, and one
/// policy classifies it.
#[tokio::test(start_paused = true)]
async fn a_stream_under_limits_is_retried() {
    let upstream = Upstream::new("host")
        .with_breaker(Breaker::new().with_consecutive(5))
        .with_budget(Budget::new().with_capacity(10));
    let seats = Upstream::new("seats").with_bulkhead(Bulkhead::new(1));
    let policy = policy().with_attempts(5);
    let (seen, began) = (RefCell::new(vec![]), Instant::now());
    let open = |attempt: Attempt| {
        async move {
            let rows: &[Result<u32, CallError>] = match attempt.number() {
                1 => return ask(None).await.map(|_| stream::empty().boxed()),
                2 => &[Ok(0)],                             // a preamble, then silence
                3 => &[Ok(0), Err(Error::Operation("x"))], // a preamble, then an error
                4 => return Err(Error::Operation("down")),
                _ => &[Ok(0), Ok(1), Ok(2)],
            };
            let rows = stream::iter(rows.iter().copied());
            let whole = attempt.number() == 5;
            let rows = if whole { rows.boxed() } else { rows.chain(stream::pending()).boxed() };
            Ok(rows.idle_timeout(SECOND * 3).boxed())
        }
        .timeout(SECOND * 5)
        .through(&seats, classifier())
        .map_err(|gave_up| gave_up.into_last().unwrap())
    };
    let observer = |event: &Event<'_>| {
        if let EventKind::Failed { failure, .. } = event.kind {
            seen.borrow_mut().push(failure.to_string());
        }
    };
    let call = retry_stream(open, &policy, Never).on(upstream.observed_by(&observer));
    let call = call.with_parts(|item| if *item == 0 { Part::Preamble } else { Part::Content });
    assert_eq!(call.try_collect::<Vec<_>>().await.unwrap(), [0, 1, 2]);
    assert_eq!(
        seen.take(),
        ["did not finish within 5s", "no item within 3s (`idle_timeout`)", "x", "down"]
    );
    assert_eq!(began.elapsed().as_secs(), 5 + 1 + 3 + 1 + 1 + 1);
    let in_flight = seats.bulkhead().unwrap().in_flight();
    assert_eq!((upstream.budget().unwrap().available(), in_flight), (6, 0));
    // Failures during the stream count like failures to open it. The complete stream ends the
    // streak.
    let snapshot = upstream.snapshot().unwrap();
    assert_eq!((snapshot.calls, snapshot.failures, snapshot.streak), (5, 4, 0));
}
