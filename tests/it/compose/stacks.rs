//! Whole stacks: calls on upstreams, and calls around calls, as they are meant to be written.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use resile::breaker::State;
use resile::observe::{Event, EventKind};
use resile::stream::Part;
use resile::{
    Always, Attempt, Backoff, Breaker, Budget, Bulkhead, ClassifyOperation, Cooldown, Cut, Error,
    FallbackPolicy, GaveUp, HedgePolicy, Jitter, Never, ResilienceExt, RetryPolicy, StopReason,
    StreamResilienceExt, Upstream, Verdict, fallback, hedge, retry, retry_stream,
};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Backoff = Backoff::fixed(Duration::from_secs(60)).with_jitter(Jitter::None);

type CallError = Error<&'static str>;
type Judge = ClassifyOperation<fn(&&'static str) -> Verdict>;

fn judge(error: &&'static str) -> Verdict {
    match *error {
        "throttled" => Verdict::throttled().after(SECOND * 20),
        "bad request" => Verdict::fatal(),
        _ => Verdict::transient(),
    }
}

const JUDGE: Judge = ClassifyOperation(judge);

fn policy() -> RetryPolicy<Judge> {
    let backoff = Backoff::fixed(SECOND).with_jitter(Jitter::None);
    RetryPolicy::new()
        .with_attempts(4)
        .with_backoff(backoff)
        .with_total_timeout(SECOND * 50)
        .with_classifier(JUDGE)
}

/// Answers as told: an error at once, or nothing at all.
async fn ask(answer: Option<Result<u32, &'static str>>) -> Result<u32, CallError> {
    match answer {
        Some(answer) => answer.map_err(Error::Operation),
        None => std::future::pending().await,
    }
}

/// The host that a call goes to, and what all hosts share, as one call within the other: the inner breaker hears of
/// timeouts and refuses within the outer call, and its refusal is one more error that the policy classifies.
#[tokio::test(start_paused = true)]
async fn the_whole_stack_as_calls_within_calls() {
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
            host.call(counted.timeout(SECOND * 5), JUDGE).await
        };
        retry(op, &policy, Never).on(&all_hosts)
    };
    assert_eq!(call(Some(Ok(7))).await.unwrap(), 7);
    for _ in 0..5 {
        assert_eq!(call(Some(Err("bad request"))).await.unwrap_err().reason(), StopReason::Fatal);
    }
    assert_eq!((state(), polled.get(), available()), (State::Closed, 6, 10));

    // Three time out, 5 s each with a second between; the fourth is refused, and a minute does not fit the deadline.
    let began = Instant::now();
    let gave_up = call(None).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), began.elapsed().as_secs()),
        (StopReason::Deadline, 4, 18)
    );
    assert_eq!(
        gave_up.retry_after().map(|after| after.as_secs()),
        Some(59),
        "the breaker's word is handed on"
    );
    let inner = gave_up.last().expect("a refusal");
    assert_eq!((inner.reason(), inner.upstream()), (StopReason::Open, Some("host")));
    let flat = gave_up.flatten();
    assert_eq!(
        (flat.reason(), flat.attempts(), flat.upstream()),
        (StopReason::Deadline, 4, Some("all hosts"))
    );
    assert_eq!((polled.get(), available()), (9, 7));

    // Once its time is over, probes close it again; they are first attempts, which are free.
    sleep(SECOND * 60).await;
    for _ in 0..3 {
        assert_eq!(call(Some(Ok(8))).await.unwrap(), 8);
    }
    assert_eq!((state(), available()), (State::Closed, 7));
}

/// All of it on one upstream: one verdict for all, a refusal ends the call and is no error of the operation. The limit on
/// each attempt may be the operation's own or the policy's.
#[tokio::test(start_paused = true)]
async fn the_whole_stack_on_an_upstream() {
    for own in [true, false] {
        let upstream = Upstream::new("host")
            .with_breaker(Breaker::new().with_consecutive(3).with_open_time(MINUTE))
            .with_cooldown(Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO))
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
        // A throttled call holds itself and the one beside it, for 20 s and not twice that, and says nothing of the
        // upstream's health.
        let began = Instant::now();
        let later = async {
            sleep(SECOND).await;
            call(&[Some(Ok(2))]).await.map(|value| (value, began.elapsed().as_secs()))
        };
        let (first, beside) = tokio::join!(call(&[Some(Err("throttled")), Some(Ok(1))]), later);
        assert_eq!((first.unwrap(), beside.unwrap(), began.elapsed().as_secs()), (1, (2, 20), 20));
        assert_eq!((upstream.snapshot().unwrap().streak, available()), (0, 9));

        let began = Instant::now();
        let gave_up = call(&[None, Some(Err("down")), None, Some(Ok(0))]).await.unwrap_err();
        assert_eq!(
            (gave_up.reason(), gave_up.attempts(), began.elapsed().as_secs()),
            (StopReason::Open, 3, 12)
        );
        assert_eq!(gave_up.retry_after().map(|after| after.as_secs()), Some(60));
        // The operation's own, not the refusal.
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

/// A breaker around a bulkhead takes "full" for the upstream's failure where its classifier says so; beneath it, and on one
/// upstream with it, it is not asked.
#[tokio::test(start_paused = true)]
async fn a_breaker_belongs_inside_a_bulkhead() {
    let bulkhead = || Bulkhead::new(1).with_queue(0);
    let own = bulkhead();
    let _place = own.try_acquire().unwrap();
    let breaker = || Breaker::new().with_consecutive(2);
    let [inside, around, lifted] = [(); 3].map(|()| Upstream::new("host").with_breaker(breaker()));
    let both = Upstream::new("host").with_breaker(breaker()).with_bulkhead(bulkhead());
    let _also = both.bulkhead().unwrap().try_acquire().unwrap();
    for _ in 0..2 {
        let guarded = async {
            inside.call(ask(Some(Ok(1))), JUDGE).await.map_err(|e| e.into_last().unwrap())
        };
        assert!(matches!(guarded.limited_by(&own).await, Err(Error::Full(_))));
        let limited = || ask(Some(Ok(1))).limited_by(&own);
        assert!(matches!(
            around.call(limited(), Always).await.unwrap_err().last(),
            Some(Error::Full(_))
        ));
        // The ready-made classifier knows that the upstream was not asked.
        assert!(matches!(
            lifted.call(limited(), JUDGE).await.unwrap_err().last(),
            Some(Error::Full(_))
        ));
        assert_eq!(
            both.call(ask(Some(Ok(1))), Always).await.unwrap_err().reason(),
            StopReason::Full
        );
    }
    let states =
        [&inside, &around, &lifted, &both].map(|upstream| upstream.breaker().unwrap().state());
    assert_eq!(states, [State::Closed, State::Open, State::Closed, State::Closed]);
}

/// Around a retry, a breaker counts calls; within it, attempts. A bulkhead around a retry is held through the delays.
#[tokio::test(start_paused = true)]
async fn around_a_retry_calls_are_counted_and_within_it_attempts() {
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

/// A hedge inside a retry: the retry classifies what the hedge came to, and tries again what both lost.
#[tokio::test(start_paused = true)]
async fn retry_of_hedges() {
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
        nested.set(nested.get() | matches!(event.kind, EventKind::Nested { .. }))
    };
    let host = Upstream::new("host");
    let won = retry(op, &policy, Never).on(host.observed_by(&observer)).await.unwrap();
    // The first is cut after 5 s, its hedge after 6 s; a second later the next one answers.
    assert_eq!((won, began.elapsed().as_secs()), (2, 7));
    assert_eq!(starts.into_inner(), [(1, 1, 0), (1, 2, 1), (2, 1, 7)]);
    assert!(!nested.get(), "a hedge is no nested retry");
}

/// A retry inside a hedge: a lane that waits out its backoff is slow, so another joins; the loser's retries end with it.
#[tokio::test(start_paused = true)]
async fn hedge_of_retries() {
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
        "the hedge is paid; the first lane's retry never began, so its token is back"
    );
}

/// Retries of each alternative, then the next one, under one deadline that all share.
#[tokio::test(start_paused = true)]
async fn fallback_over_retries() {
    let outer = FallbackPolicy::new().with_total_timeout(SECOND * 30);
    let attempts = RefCell::new(vec![]);
    let began = Instant::now();
    let guarded = Upstream::new("fails")
        .with_breaker(Breaker::new().with_consecutive(2).with_open_time(MINUTE));
    let (attempts_of, guarded) = (&attempts, &guarded);
    let answer = fallback(
        &["hangs", "fails", "works"],
        |alternative| async move {
            let policy = policy().with_total_timeout(alternative.share().unwrap());
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

/// A stream that is opened under adapters and read under limits: all that goes wrong is one type, classified by one policy.
#[tokio::test(start_paused = true)]
async fn retry_stream_with_limits() {
    let upstream = Upstream::new("host")
        .with_breaker(Breaker::new().with_consecutive(5))
        .with_budget(Budget::new().with_capacity(10));
    let bulkhead = Bulkhead::new(1);
    let policy = policy().with_attempts(5);
    let (seen, began) = (RefCell::new(vec![]), Instant::now());
    let open = |attempt: Attempt| {
        async move {
            let rows: &[Result<u32, CallError>] = match attempt.number() {
                1 => return ask(None).await.map(|_| stream::empty().boxed()),
                2 => &[Ok(0)],                             // a greeting, then silence
                3 => &[Ok(0), Err(Error::Operation("x"))], // a greeting, then an error
                4 => return Err(Error::Operation("down")),
                _ => &[Ok(0), Ok(1), Ok(2)],
            };
            let rows = stream::iter(rows.iter().copied());
            let whole = attempt.number() == 5;
            let rows = if whole { rows.boxed() } else { rows.chain(stream::pending()).boxed() };
            Ok(rows.idle_timeout(SECOND * 3).boxed())
        }
        .timeout(SECOND * 5)
        .limited_by(&bulkhead)
    };
    let observer = |event: &Event<'_>| {
        if let EventKind::Failed { failure, .. } = event.kind {
            seen.borrow_mut().push(failure.to_string());
        }
    };
    let call = retry_stream(open, &policy, Never).on(upstream.observed_by(&observer));
    let call = call.with_parts(|item| if *item == 0 { Part::Preamble } else { Part::Content });
    assert_eq!(call.try_collect::<Vec<_>>().await.unwrap(), [0, 1, 2]);
    assert_eq!(seen.take(), ["not finished within 5s", "no item within 3s", "x", "down"]);
    assert_eq!(began.elapsed().as_secs(), 5 + 1 + 3 + 1 + 1 + 1);
    assert_eq!((upstream.budget().unwrap().available(), bulkhead.in_flight()), (6, 0));
    // What goes wrong in mid-stream counts like what goes wrong in opening; the whole one ends the row.
    let snapshot = upstream.snapshot().unwrap();
    assert_eq!((snapshot.calls, snapshot.failures, snapshot.streak), (5, 4, 0));
}
