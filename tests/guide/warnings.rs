//! Every line that the core writes at WARN.

use std::future::{pending, ready};
use std::iter::repeat_n;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use resile::classify::{Always, ClassifyExt, Cut};
use resile::quota::{Cost, Dimension, Learning, Limit, Limits, Rate};
use resile::stream::Resumption;
use resile::upstream::Resource;
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Classify, Cooldown, FallbackPolicy, GaveUp,
    HedgePolicy, Jitter, Never, Quota, RetryPolicy, Throttle, Upstream, Verdict, fallback, hedge,
    retry, retry_stream,
};

use crate::log;

const SECOND: Duration = Duration::from_secs(1);

const TWICE: RetryPolicy = RetryPolicy::new().with_attempts(2);

fn feed() -> Upstream {
    Upstream::new("feed")
}

/// Returns all lines.
pub(crate) fn all() -> Vec<String> {
    log::of(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            Box::pin(ends_of_calls()).await;
            Box::pin(parts()).await;
            limits().await;
        });
    })
}

/// Makes a call that fails under the policy.
async fn fails(policy: RetryPolicy<impl Classify<&'static str>>) {
    retry(|_| ready(Err::<(), _>("down")), policy, Never).on(&feed()).await.unwrap_err();
}

/// Each attempt hangs and is cut after a second.
async fn hangs(policy: RetryPolicy<impl Classify<&'static str>>) {
    let policy = policy.with_attempt_timeout(SECOND);
    let hang = |_| pending::<Result<(), &str>>();
    retry(hang, policy, Never).on(&feed()).await.unwrap_err();
}

/// A token drops an order in flight.
async fn is_dropped<E: std::error::Error + 'static>(classifier: impl Classify<E>) {
    let token = tokio_util::sync::CancellationToken::new();
    let policy = TWICE.with_classifier(classifier);
    let send = async |_| {
        token.cancel();
        pending::<Result<(), E>>().await
    };
    retry(send, policy, &token).on(&feed()).await.unwrap_err();
}

/// The program drops an order in flight.
async fn is_dropped_by_the_program(classifier: impl Classify<std::io::Error>) {
    let feed = feed();
    let send = |_| pending::<std::io::Result<()>>();
    let call = retry(send, TWICE.with_classifier(classifier), Never).on(&feed);
    tokio::time::timeout(SECOND, call).await.unwrap_err();
}

/// A classifier that knows what to do with the first attempt only.
struct FirstOnly(std::cell::Cell<bool>, Option<Verdict>);

impl Classify<&'static str> for FirstOnly {
    fn classify(&self, _: &&'static str) -> Option<Verdict> {
        if self.0.replace(true) { self.1 } else { Some(Verdict::transient()) }
    }
    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        None
    }
}

fn then(verdict: Option<Verdict>) -> FirstOnly {
    FirstOnly(std::cell::Cell::new(false), verdict)
}

/// Returns a classifier that passes the first error on and not the second one.
fn then_ends() -> impl Fn(&&'static str) -> Verdict {
    let seen = std::cell::Cell::new(false);
    move |_| if seen.replace(true) { Verdict::fatal() } else { Verdict::transient() }
}

async fn ends_of_calls() {
    fails(TWICE).await;
    fails(TWICE.with_backoff(Backoff::none())).await;
    fails(TWICE.with_total_timeout(SECOND * 10).with_classifier(waits(30))).await;
    fails(TWICE.with_total_timeout(Duration::ZERO).with_classifier(waits(30))).await;
    fails(TWICE.with_total_timeout(Duration::ZERO).with_backoff(Backoff::none())).await;
    fails(TWICE.with_total_timeout(SECOND).with_backoff(Backoff::fixed(SECOND * 30))).await;
    hangs(TWICE.with_total_timeout(SECOND)).await;
    fails(TWICE.with_classifier(then(Some(Verdict::fatal())))).await;
    fails(TWICE.with_classifier(then(Some(Verdict::transient().not_again().idempotent())))).await;
    fails(TWICE.with_classifier(then(Some(Verdict::fatal().not_wanted())))).await;
    fails(TWICE.with_classifier(|_: &&str| Verdict::transient().not_again())).await;
    fails(TWICE.with_classifier(|_: &&str| Verdict::transient().not_repeatable())).await;
    for lost in [Verdict::transient(), Verdict::transient().not_sent()] {
        fails(TWICE.with_classifier(move |_: &&str| lost.keyed())).await;
    }
    fails(TWICE.with_classifier(|_: &&str| Verdict::fatal().keyed())).await;
    is_dropped(resile::io::Classifier::non_idempotent()).await;
    is_dropped_by_the_program(resile::io::Classifier::non_idempotent()).await;
    let order = resile::http::Classifier::non_idempotent().with_place("POST /orders");
    is_dropped::<resile::http::Failure>(order).await;
    fails(TWICE.with_classifier(then(None))).await;
    fails(TWICE.with_classifier(waits(1))).await;
    fails(TWICE.with_classifier(|_: &&str| Verdict::transient().at_least(SECOND))).await;
    fails(TWICE.with_classifier(waits(3600))).await;
    fails(TWICE.with_classifier(|_: &&str| Verdict::transient().at_least(SECOND * 3600))).await;
    Box::pin(ends_after_the_delay()).await;
    // The second attempt hangs.
    let policy = TWICE.with_attempt_timeout(SECOND).with_classifier(then(None));
    let call = |attempt: Attempt| async move {
        if attempt.is_first() { Err::<(), _>("down") } else { pending().await }
    };
    retry(call, policy.with_attempts(3), Never).on(&feed()).await.unwrap_err();

    let small = feed().with_quota(Quota::new().with_tokens(Rate::per_second(1).with_burst(1)));
    let none = feed().with_quota(Quota::new().with_tokens(Rate::per_second(0)));
    for model in [small, none] {
        let answers = |_| ready(Ok::<(), &str>(()));
        retry(answers, TWICE, Never).on(model.at_cost(Cost::input(2))).await.unwrap_err();
    }

    let down = |_| ready(Err::<(), _>("down"));
    hedge(down, HedgePolicy::new(), Never).on(&feed()).await.unwrap_err();
    let none = |_: resile::fallback::Alternative<'_, u8>| ready(Err::<(), _>("down"));
    fallback(&[1, 2], none, FallbackPolicy::new(), Never).on(&feed()).await.unwrap_err();
    fallback(&[1], none, FallbackPolicy::new(), Never).on(&feed()).await.unwrap_err();
    let shared = feed().with_quota(Quota::new().with_tokens(Rate::per_second(1)));
    let dear = shared.at_cost(Cost::input(2));
    fallback(&[1, 2], none, FallbackPolicy::new(), Never).on(dear).await.unwrap_err();
    let ends = FallbackPolicy::new().with_classifier(then_ends());
    fallback(&[1, 2, 3], none, ends, Never).on(&feed()).await.unwrap_err();

    Box::pin(orders_in_alternatives()).await;

    let open = |_| ready(Ok::<_, &str>(stream::iter([Ok(1), Err("broken")])));
    let call = retry_stream(open, TWICE, Never).on("feed");
    call.try_collect::<Vec<_>>().await.unwrap_err();
    Box::pin(parts_of_answers()).await;

    // Ten retries, and another one after a minute in which the surge goes on.
    let busy = feed();
    for pause in surge() {
        tokio::time::sleep(pause).await;
        retry(down, TWICE.with_backoff(Backoff::none()), Never).on(&busy).await.unwrap_err();
    }
    surge_of_alternatives().await;
    surge_of_final_errors().await;
    let inner = || retry(|_| ready(Ok::<_, &str>(())), TWICE, Never).on("feed");
    retry(|_| inner(), TWICE, Never).on(&feed()).await.unwrap();
}

/// Returns the pauses before the calls of a surge: ten at once, and then so many that it goes on after a minute.
fn surge() -> impl Iterator<Item = Duration> {
    repeat_n(Duration::ZERO, 10).chain(repeat_n(SECOND * 9, 8))
}

/// A lost order, which the default rules of a fallback keep and a classifier of the program sends on.
async fn orders_in_alternatives() {
    let once = Verdict::transient().not_again();
    let once = TWICE.with_classifier((move |_: &&str| once).cut_is(once));
    let order = |_: resile::fallback::Alternative<'_, u8>| {
        retry(|_| ready(Err::<(), _>("lost")), once, Never).on("feed")
    };
    fallback(&[1, 2], order, FallbackPolicy::new(), Never).on(&feed()).await.unwrap_err();
    let sends_on = FallbackPolicy::new().with_classifier(|end: &GaveUp<&str>| end.attempts() > 0);
    let then_refused = |it: resile::fallback::Alternative<'_, u8>| {
        let lost = Verdict::transient().not_again();
        let verdict = if it.is_last() { Verdict::fatal() } else { lost };
        let once = TWICE.with_classifier(move |_: &&str| verdict);
        retry(|_| ready(Err::<(), _>("refused")), once, Never).on("feed")
    };
    fallback(&[1, 2], then_refused, sends_on, Never).on(&feed()).await.unwrap_err();
}

/// Ten calls that give up in an alternative of a fallback, and another one after a minute.
async fn surge_of_alternatives() {
    let busy = feed();
    for pause in surge() {
        tokio::time::sleep(pause).await;
        let down = |_| ready(Err::<(), _>("down"));
        let one = |_: resile::fallback::Alternative<'_, u8>| retry(down, TWICE, Never).on(&busy);
        fallback(&[1, 2], one, FallbackPolicy::new(), Never).on("feed").await.unwrap_err();
    }
}

/// Ten calls that end at their first attempt, and another one after a minute.
async fn surge_of_final_errors() {
    let busy = feed();
    for pause in surge() {
        tokio::time::sleep(pause).await;
        let refuse = |_| ready(Err::<(), _>("password authentication failed"));
        let policy = TWICE.with_classifier(|_: &&str| Verdict::fatal());
        retry(refuse, policy, Never).on(&busy).await.unwrap_err();
    }
}

/// Streams that break after their first content.
async fn parts_of_answers() {
    let open = |_| ready(Ok::<_, &str>(stream::iter([Ok(1), Err("broken")])));
    let ends = [then(Some(Verdict::transient())), then(Some(Verdict::fatal()))];
    for classifier in ends {
        let call = retry_stream(open, TWICE.with_classifier(classifier), Never)
            .with_resumption(|_| Resumption::Restart(0))
            .on("feed");
        call.try_collect::<Vec<_>>().await.unwrap_err();
    }
    let refused = TWICE.with_classifier(|_: &&str| Verdict::fatal());
    let call = retry_stream(open, refused, Never).with_resumption(|_| Resumption::Restart(0));
    call.on("feed").try_collect::<Vec<_>>().await.unwrap_err();
    // The fallback cuts the stream.
    let ask = async |_: resile::fallback::Alternative<'_, u8>| {
        let open = |_| ready(Ok::<_, &str>(stream::iter([Ok(1)]).chain(stream::pending())));
        retry_stream(open, TWICE, Never).try_collect::<Vec<_>>().await
    };
    let ask_broken = async |_: resile::fallback::Alternative<'_, u8>| {
        retry_stream(open, TWICE, Never).try_collect::<Vec<_>>().await
    };
    fallback(&[1, 2], ask_broken, FallbackPolicy::new(), Never).on(&feed()).await.unwrap_err();
    let hurried = FallbackPolicy::new().with_total_timeout(SECOND);
    fallback(&[1, 2], ask, hurried, Never).on(&feed()).await.unwrap_err();
}

/// The first attempt fails, and no time is left when the second one is due.
async fn ends_after_the_delay() {
    let backoff = Backoff::fixed(SECOND).with_jitter(Jitter::None);
    let policy = TWICE.with_backoff(backoff).with_total_timeout(SECOND * 3);
    let down = |_| ready(Err::<(), _>("down"));
    let plain = feed();
    let (late, ()) = tokio::join!(
        retry(down, policy, Never).on(&plain),
        tokio::time::advance(SECOND * 9), // nobody polls the call meanwhile
    );
    late.unwrap_err();

    // The third attempt would start at the deadline.
    let exact = policy.with_attempts(3).with_total_timeout(SECOND * 2);
    retry(down, exact, Never).on(&plain).await.unwrap_err();

    let cooled = feed().with_cooldown(Cooldown::new());
    let hold = |_| {
        cooled.hold(SECOND * 60);
        ready(Err::<(), _>("down"))
    };
    retry(hold, policy, Never).on(&cooled).await.unwrap_err();

    // The second call begins after a long wait and is cut. The third one has no time for its retry.
    let slow =
        feed().with_quota(Quota::new().with_requests(Rate::new(1, SECOND * 10).with_burst(1)));
    let fifteen = policy.with_total_timeout(SECOND * 15);
    retry(|_| ready(Ok::<_, &str>(())), fifteen, Never).on(&slow).await.unwrap();
    retry(|_| pending::<Result<(), &str>>(), fifteen, Never).on(&slow).await.unwrap_err();
    tokio::time::sleep(SECOND * 10).await;
    retry(down, fifteen, Never).on(&slow).await.unwrap_err();

    let full = feed().with_bulkhead(Bulkhead::new(1));
    let taken = async {
        tokio::time::sleep(SECOND / 2).await;
        let _place = full.try_admit().unwrap();
        tokio::time::sleep(SECOND * 9).await;
    };
    let (queued, ()) = tokio::join!(retry(down, policy, Never).on(&full), taken);
    queued.unwrap_err();
}

/// The upstream asks for a wait of so many seconds.
fn waits(seconds: u64) -> impl Classify<&'static str> {
    let wait = Duration::from_secs(seconds);
    (move |_: &&str| Verdict::transient().after(wait)).cut_is(Verdict::transient())
}

async fn parts() {
    for capacity in [0, 1] {
        let upstream = feed().with_budget(Budget::new().with_capacity(capacity));
        for _ in 0..3 {
            retry(|_| ready(Err::<(), _>("down")), TWICE, Never).on(&upstream).await.unwrap_err();
            tokio::time::sleep(SECOND * 61).await;
        }
    }
    let upstream = feed().with_budget(Budget::new());
    let member = upstream.share().unwrap();
    member.adjust(Resource::Budget, i64::MIN);
    retry(|_| ready(Err::<(), _>("down")), TWICE, Never).on(&upstream).await.unwrap_err();

    let breaker = || Breaker::new().without_consecutive().without_failure_rate();
    let breakers = [breaker().with_consecutive(1), breaker().with_failure_rate(0.5, 1)];
    for breaker in breakers {
        let upstream = feed().with_breaker(breaker);
        upstream.call(ready(Err::<(), _>("down")), Always).await.unwrap_err();
        tokio::time::sleep(SECOND * 60).await;
        for _ in 0..5 {
            let _ = upstream.call(ready(Err::<(), _>("down")), Always).await;
        }
    }
    let upstream = feed().with_breaker(breaker().with_slow_rate(SECOND, 0.5, 1));
    let slow = async {
        tokio::time::sleep(SECOND * 2).await;
        Ok::<_, &str>(())
    };
    upstream.call(slow, Always).await.unwrap();
    drop(feed().with_breaker(Breaker::new()).isolate());

    let upstream = feed().with_cooldown(Cooldown::new());
    upstream.try_admit().unwrap().settle(&Verdict::throttled().after(SECOND * 60));
    tokio::time::sleep(SECOND * 61).await;
    drop(upstream.admit(Never).await); // during the release
    upstream.hold(SECOND);

    let upstream = feed().with_throttle(Throttle::new()).with_seed(1);
    while let Ok(admission) = upstream.try_admit() {
        admission.settle(&Verdict::throttled());
    }
    tokio::time::sleep(SECOND * 61).await;
    while let Ok(admission) = upstream.try_admit() {
        admission.settle(&Verdict::throttled());
    }

    let upstream = feed().with_bulkhead(Bulkhead::new(1));
    let _first = upstream.try_admit().unwrap();
    assert!(upstream.admit(Never).now_or_never().is_none());

    assert!(feed().with_bulkhead(Bulkhead::new(0)).admit(Never).await.is_err());

    let upstream = feed().with_bulkhead(Bulkhead::new(1).with_queue(1));
    let _first = upstream.try_admit().unwrap();
    let mut second = Box::pin(upstream.admit(Never));
    assert!((&mut second).now_or_never().is_none());
    assert!(upstream.admit(Never).await.is_err(), "the queue is full");
    tokio::time::sleep(SECOND * 61).await;
    assert!(upstream.admit(Never).await.is_err(), "it is still full");

    for is_shadow in [false, true] {
        let quota = Quota::new().with_requests(Rate::new(1, SECOND * 3_600).with_burst(1));
        let upstream = feed().with_quota(quota.with_shadow(is_shadow));
        for number in 0..3 {
            tokio::time::sleep(SECOND * 61 * (number / 2)).await;
            let call = upstream.call(ready(Ok::<_, &str>(())), Always);
            let _ = call.with_total_timeout(SECOND).await;
        }
    }

    let upstream = feed().with_quota(Quota::new().with_requests(Rate::per_minute(60)));
    upstream.try_admit().unwrap().settle(&Verdict::throttled());
    let call = upstream.call(ready(Ok::<_, &str>(())), Always);
    call.with_total_timeout(SECOND).await.unwrap_err();
}

async fn limits() {
    for learning in [Learning::Off, Learning::Lower] {
        let quota = Quota::new().with_tokens(Rate::per_minute(600)).with_learning(learning);
        let upstream = feed().with_quota(quota);
        // Without its window the limit is told at INFO.
        for window in [None, Some(SECOND * 60)] {
            let limits = Limits::new().with(Dimension::Tokens, Limit::of(300, window));
            upstream.try_admit().unwrap().learn(limits);
        }
    }
    // The upstream refuses half of what the quota allows.
    let upstream = feed().with_quota(Quota::new().with_requests(Rate::per_second(100)));
    for call in 0.. {
        if upstream.quota_rate(Dimension::Requests).unwrap().count() < 50 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        let Ok(admitted) = upstream.try_admit() else { continue };
        if call % 2 == 0 {
            admitted.settle(&Verdict::throttled());
        } else {
            admitted.succeeded();
        }
    }
}
