//! Whole stacks: the adapters and the runs around them, as they are meant to be written.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use resile::breaker::State;
use resile::stream::Part;
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, Elapsed, Error, Event, FallbackPolicy, GaveUp, HedgePolicy,
    Jitter, Lift, Never, ResilienceExt, RetryPolicy, Stop, StreamResilienceExt, Verdict, fallback, hedge, retry,
    retry_stream,
};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Backoff = Backoff::fixed(Duration::from_secs(60)).with_jitter(Jitter::None);

type CallError = Error<&'static str>;
type Judge = Lift<fn(&&'static str) -> Verdict>;

fn judge(error: &&'static str) -> Verdict {
    match *error {
        "throttled" => Verdict::throttled(Some(SECOND * 20)),
        "bad request" => Verdict::fail(),
        _ => Verdict::retry(),
    }
}

const JUDGE: Judge = Lift(judge);

fn policy() -> RetryPolicy<Judge> {
    let backoff = Backoff::fixed(SECOND).with_jitter(Jitter::None);
    RetryPolicy::new().with_attempts(4).with_backoff(backoff).with_deadline(SECOND * 50).with_classify(JUDGE)
}

/// Answers as told: an error at once, or nothing at all.
async fn ask(answer: Option<Result<u32, &'static str>>) -> Result<u32, CallError> {
    match answer {
        Some(answer) => answer.map_err(Error::Operation),
        None => std::future::pending().await,
    }
}

/// retry + timeout + breaker + budget, as adapters: the breaker hears of timeouts, refuses within the call, and its refusal is one more
/// error that the policy judges.
#[tokio::test(start_paused = true)]
async fn the_whole_stack_as_adapters() {
    let breaker = Breaker::new().with_consecutive(3).with_open(MINUTE).with_classify(JUDGE).with_observer(());
    let budget = Budget::new().with_capacity(10);
    let (policy, polled) = (policy().with_attempts(5), Cell::new(0));
    let call = |answer| {
        let (breaker, polled) = (&breaker, &polled);
        let op = move |_| async move {
            let counted = async {
                polled.set(polled.get() + 1);
                ask(answer).await
            };
            counted.timeout(SECOND * 5).guarded_by(breaker).await
        };
        retry(op, &policy, Never).with_budget(&budget)
    };
    assert_eq!(call(Some(Ok(7))).await.unwrap(), 7);
    for _ in 0..5 {
        assert_eq!(call(Some(Err("bad request"))).await.unwrap_err().stop(), Stop::Fatal);
    }
    assert_eq!((breaker.state(), polled.get(), budget.available()), (State::Closed, 6, 10));

    // Three time out, 5 s each with a second between; the fourth is refused, and a minute does not fit the deadline.
    let began = Instant::now();
    let gave_up = call(None).await.unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), began.elapsed().as_secs()), (Stop::Deadline, 4, 18));
    assert_eq!(gave_up.retry_after().map(|after| after.as_secs()), Some(59), "the breaker's word is handed on");
    assert!(matches!(gave_up.last(), Some(Error::Open(_))));
    assert_eq!((polled.get(), budget.available()), (9, 7));

    // Once its time is over, probes close it again; they are first attempts, which are free.
    sleep(SECOND * 60).await;
    for _ in 0..3 {
        assert_eq!(call(Some(Ok(8))).await.unwrap(), 8);
    }
    assert_eq!((breaker.state(), budget.available()), (State::Closed, 7));
}

/// The same linked to the run: one verdict for all, a refusal ends the call and is no error of the operation.
#[tokio::test(start_paused = true)]
async fn the_whole_stack_linked() {
    let breaker = Breaker::new().with_consecutive(3).with_open(MINUTE).with_observer(());
    let cooldown = Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO);
    let budget = Budget::new().with_capacity(10);
    let policy = policy();
    let call = |answers: &'static [Option<Result<u32, &'static str>>]| {
        let op = move |attempt: Attempt| ask(answers[attempt.number() as usize - 1]).timeout(SECOND * 5);
        retry(op, &policy, Never).with_budget(&budget).with_breaker(&breaker).with_cooldown(&cooldown)
    };
    // A throttled call holds itself and the one beside it, for 20 s and not twice that, and says nothing of the peer's health.
    let began = Instant::now();
    let later = async {
        sleep(SECOND).await;
        call(&[Some(Ok(2))]).await.map(|value| (value, began.elapsed().as_secs()))
    };
    let (first, beside) = tokio::join!(call(&[Some(Err("throttled")), Some(Ok(1))]), later);
    assert_eq!((first.unwrap(), beside.unwrap(), began.elapsed().as_secs()), (1, (2, 20), 20));
    assert_eq!((breaker.snapshot().streak, budget.available()), (0, 9));

    let began = Instant::now();
    let gave_up = call(&[None, Some(Err("down")), None, Some(Ok(0))]).await.unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), began.elapsed().as_secs()), (Stop::Open, 3, 12));
    assert_eq!(gave_up.retry_after().map(|after| after.as_secs()), Some(60));
    assert!(matches!(gave_up.last(), Some(Error::Elapsed(_))), "the operation's own, not the refusal");
    assert_eq!(budget.available(), 7, "a retry that would be refused takes no token");
}

/// A breaker around a bulkhead takes "full" for the peer's failure where its classifier says so; beneath it, it is not asked.
#[tokio::test(start_paused = true)]
async fn a_breaker_belongs_inside_a_bulkhead() {
    let bulkhead = Bulkhead::new(1).with_queue(0);
    let _place = bulkhead.try_permit().unwrap();
    let [inside, around] = [(); 2].map(|()| Breaker::new().with_consecutive(2).with_classify(JUDGE).with_observer(()));
    for _ in 0..2 {
        let refused = ask(Some(Ok(1))).guarded_by(&inside).limited_by(&bulkhead).await;
        assert!(matches!(refused, Err(Error::Full(_))));
        let refused = ask(Some(Ok(1))).limited_by(&bulkhead).guarded_by(&around).await;
        assert!(matches!(refused, Err(Error::Full(_))));
    }
    assert_eq!((inside.state(), around.state()), (State::Closed, State::Open));
}

/// Around a retry, a breaker counts calls; within it, attempts. A bulkhead around a retry is held through the delays.
#[tokio::test(start_paused = true)]
async fn around_a_retry_calls_are_counted_and_within_it_attempts() {
    let [calls, attempts] = [(); 2].map(|()| Breaker::new().with_observer(()));
    let (whole, one) = (Bulkhead::new(1), Bulkhead::new(1));
    let policy = policy();
    let call = async {
        let op = |_| ask(Some(Err("down"))).guarded_by(&attempts).limited_by(&one);
        retry(op, &policy, Never).await.map_err(|gave_up| gave_up.into_last().unwrap())
    };
    let call = call.limited_by(&whole).guarded_by(&calls);
    let seen = async {
        sleep(SECOND / 2).await;
        (whole.in_flight(), one.in_flight())
    };
    let (outcome, seen) = tokio::join!(call, seen);
    assert_eq!((outcome, seen), (Err(Error::Operation("down")), (1, 0)));
    assert_eq!((calls.snapshot().failures, attempts.snapshot().failures), (1, 4));
}

/// A hedge inside a retry: the retry judges what the hedge came to, and tries again what both lost.
#[tokio::test(start_paused = true)]
async fn retry_of_hedges() {
    static HEDGE: HedgePolicy = HedgePolicy::new().with_delay(SECOND);
    let policy = policy().with_classify(|gave_up: &GaveUp<CallError>| gave_up.stop() != Stop::Fatal);
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
    let observer =
        |event: &Event<'_, GaveUp<CallError>>| nested.set(nested.get() | matches!(event, Event::Nested { .. }));
    let won = retry(op, &policy, Never).with_observer(observer).await.unwrap();
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
    let budget = Budget::new().with_capacity(10);
    let (policy, budget, began) = (&policy, &budget, Instant::now());
    let lane = |lane: Attempt| {
        let op = move |attempt: Attempt| {
            let answer = if lane.is_first() && attempt.is_first() { Err("down") } else { Ok(lane.number()) };
            ask(Some(answer))
        };
        retry(op, policy, Never).with_budget(budget)
    };
    assert_eq!(hedge(lane, &HEDGE, Never).with_budget(budget).await.unwrap(), 2);
    assert_eq!(began.elapsed().as_secs(), 1);
    assert_eq!(budget.available(), 9, "the hedge is paid; the first lane's retry never began, so its token is back");
}

/// Retries of each alternative, then the next one, under one deadline that all share.
#[tokio::test(start_paused = true)]
async fn fallback_over_retries() {
    let outer = FallbackPolicy::new().with_deadline(SECOND * 30);
    let attempts = RefCell::new(vec![]);
    let began = Instant::now();
    let breaker = Breaker::new().with_consecutive(2).with_open(MINUTE).with_observer(());
    let (attempts_of, breaker_of) = (&attempts, &breaker);
    let answer = fallback(
        &["hangs", "fails", "works"],
        |alternative| async move {
            let policy = policy().with_deadline(alternative.share().unwrap());
            let op = |attempt: Attempt| {
                attempts_of.borrow_mut().push((*alternative.value(), attempt.number(), began.elapsed().as_secs()));
                let answer = match *alternative.value() {
                    "hangs" => None,
                    "fails" => Some(Err("down")),
                    _ => Some(Ok(3)),
                };
                ask(answer)
            };
            let call = retry(op, &policy, Never);
            if *alternative.value() == "fails" { call.with_breaker(breaker_of).await } else { call.await }
        },
        &outer,
        Never,
    );
    assert_eq!(answer.await.unwrap(), 3);
    assert_eq!(attempts.into_inner(), [("hangs", 1, 0), ("fails", 1, 10), ("fails", 2, 11), ("works", 1, 11)]);
}

/// A stream that is opened under adapters and read under limits: all that goes wrong is one type, judged by one policy.
#[tokio::test(start_paused = true)]
async fn retry_stream_with_limits() {
    let breaker = Breaker::new().with_consecutive(5).with_classify(JUDGE).with_observer(());
    let bulkhead = Bulkhead::new(1);
    let policy = policy().with_attempts(5);
    let (seen, budget, began) = (RefCell::new(vec![]), Budget::new().with_capacity(10), Instant::now());
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
        .guarded_by(&breaker)
    };
    let observer = |event: &Event<'_, CallError>| {
        if let Event::Failed { error, .. } = event {
            seen.borrow_mut().push(**error);
        }
    };
    let call = retry_stream(open, &policy, Never).with_budget(&budget).with_observer(observer);
    let call = call.with_parts(|item| if *item == 0 { Part::Preamble } else { Part::Content });
    assert_eq!(call.try_collect::<Vec<_>>().await.unwrap(), [0, 1, 2]);
    let limits = |seen: &CallError| match seen {
        Error::Elapsed(elapsed) => Elapsed::limit(elapsed).as_secs(),
        _ => 0,
    };
    assert_eq!(seen.borrow().iter().map(limits).collect::<Vec<_>>(), [5, 3, 0, 0]);
    assert_eq!(began.elapsed().as_secs(), 5 + 1 + 3 + 1 + 1 + 1);
    assert_eq!((budget.available(), bulkhead.in_flight()), (6, 0));
    assert_eq!(breaker.snapshot().streak, 0, "opening is what the breaker hears of, and the last one opened");
}
