//! `resile::AdaptiveTimeout`: what a limit learns.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use resile::timeout::Elapsed;
use resile::{
    AdaptiveTimeout, Always, Backoff, Cut, GaveUp, Never, ResilienceExt, RetryPolicy, Run,
    StopReason, Upstream, retry,
};
use static_assertions::assert_impl_all;

assert_impl_all!(AdaptiveTimeout: Send, Sync, std::panic::UnwindSafe);

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

async fn takes(latency: Duration) -> Result<(), Infallible> {
    tokio::time::sleep(latency).await;
    Ok(())
}

/// No floor, so that what is learned shows.
const fn bare() -> AdaptiveTimeout {
    AdaptiveTimeout::new().with_floor(Duration::ZERO)
}

/// An upstream that learns, and what it has learned.
struct Host(Upstream);

impl std::ops::Deref for Host {
    type Target = AdaptiveTimeout;

    fn deref(&self) -> &AdaptiveTimeout {
        self.0.adaptive_timeout().unwrap()
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl Host {
    const fn new(limit: AdaptiveTimeout) -> Self {
        Self(Upstream::new("host").with_adaptive_timeout(limit))
    }

    /// One attempt, or the limit that cut it.
    async fn call(
        &self,
        future: impl Future<Output = Result<(), Infallible>>,
    ) -> Result<(), Duration> {
        self.0.call(future, Always).await.map_err(|gave_up| cut_at(&gave_up))
    }
}

/// The limit that cut the last attempt.
fn cut_at<E>(gave_up: &GaveUp<E>) -> Duration {
    match gave_up.cut() {
        Some(Cut::AttemptTimeout(limit)) => limit,
        other => panic!("{other:?}"),
    }
}

/// Whether `limit` is `wanted`, or above by no more than the histogram's eighth.
fn near(limit: Duration, wanted: Duration) -> bool {
    limit >= wanted && limit <= wanted + wanted / 8 + MS
}

#[tokio::test(start_paused = true)]
async fn the_ceiling_until_enough_is_known() {
    static LIMIT: Host = Host::new(bare().with_samples(5).with_ceiling(SECOND));
    for known in 0..5 {
        assert_eq!((LIMIT.limit(), LIMIT.latency()), (SECOND, None), "{known}");
        LIMIT.call(takes(100 * MS)).await.unwrap();
    }
    assert!(near(LIMIT.latency().unwrap(), 100 * MS), "{LIMIT:?}");
    assert_eq!(LIMIT.limit(), LIMIT.latency().unwrap() * 2);
}

#[tokio::test(start_paused = true)]
async fn the_limit_cuts_and_says_so() {
    let limit = Host::new(bare().with_samples(1));
    limit.call(takes(100 * MS)).await.unwrap();
    let given = limit.limit();
    let began = tokio::time::Instant::now();
    let gave_up = limit.0.call(pending::<Result<(), Infallible>>(), Always).await.unwrap_err();
    assert_eq!((gave_up.reason(), cut_at(&gave_up)), (StopReason::Attempts, given));
    assert!(
        gave_up.to_string().contains(&format!("last failure: did not finish within {given:?}")),
        "{gave_up}"
    );
    assert!(began.elapsed() >= given && began.elapsed() <= given + MS);
}

#[tokio::test(start_paused = true)]
async fn a_call_keeps_the_limit_that_it_began_with() {
    let limit = Host::new(bare().with_samples(1).with_ceiling(10 * SECOND));
    let slow = limit.call(takes(9 * SECOND));
    tokio::pin!(slow);
    assert!(futures_poll(slow.as_mut()).await.is_pending());
    limit.call(takes(100 * MS)).await.unwrap();
    assert!(limit.limit() < SECOND);
    slow.await.unwrap();
}

async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx))).await
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_at_once_and_what_fails_teach_nothing() {
    let limit = Host::new(bare().with_samples(1));
    for _ in 0..100 {
        limit.call(ready(Ok(()))).await.unwrap();
        let refused = async {
            takes(MS).await?;
            Err::<(), _>(anyhow::anyhow!("refused"))
        };
        let refused = limit.0.call(refused, Always).await.unwrap_err();
        assert_eq!((refused.cut(), refused.last().unwrap().to_string()), (None, "refused".into()));
    }
    assert_eq!(limit.latency(), None);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_teaches_nothing() {
    let limit = Host::new(bare().with_samples(1));
    tokio::time::timeout(SECOND, limit.call(takes(2 * SECOND))).await.unwrap_err();
    assert_eq!(limit.latency(), None);
}

/// A peer that becomes slower than the limit: leaving out the calls that are cut would cut all of them for ever.
#[tokio::test(start_paused = true)]
async fn a_peer_that_slows_down_is_followed() {
    let limit = Host::new(bare().with_ceiling(60 * SECOND));
    for _ in 0..200 {
        limit.call(takes(100 * MS)).await.unwrap();
    }
    let mut cut = 0;
    while limit.call(takes(5 * SECOND)).await.is_err() {
        cut += 1;
        assert!(cut < 200, "never followed: {limit:?}");
    }
    assert!(limit.limit() >= 5 * SECOND);
    // And it comes down again when the peer does.
    for _ in 0..3000 {
        limit.call(takes(100 * MS)).await.unwrap();
    }
    assert!(near(limit.limit(), 200 * MS), "{limit:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cut_call_counts_as_twice_its_limit() {
    let limit =
        Host::new(bare().with_samples(1).with_quantile(1.0).with_factor(1.0).with_ceiling(SECOND));
    limit.call(takes(100 * MS)).await.unwrap();
    for _ in 0..6 {
        let cut_at = limit.call(pending()).await.unwrap_err();
        assert!(
            near(limit.limit(), (cut_at * 2).min(SECOND)) || limit.limit() == SECOND,
            "{cut_at:?} {limit:?}"
        );
    }
    assert_eq!(limit.limit(), SECOND);
}

/// With a factor of 1, counting cut calls as the limit itself could only ever lower it.
#[tokio::test(start_paused = true)]
async fn cut_calls_do_not_ratchet_the_limit_down() {
    let limit = Host::new(bare().with_factor(1.0).with_window(10 * SECOND).with_samples(1));
    // 9 of 10 calls take 100 ms, the tenth 200: the 95th percentile is 200 ms. Rows of quick ones come by chance.
    for _ in 0..20 {
        for _ in 0..200 {
            limit.call(takes(100 * MS)).await.unwrap();
        }
        for call in 0..1000 {
            let _ = limit.call(takes(if call % 10 == 0 { 200 * MS } else { 100 * MS })).await;
        }
        assert!(limit.limit() >= 200 * MS, "{limit:?}");
    }
}

/// Below the share that the quantile leaves out, cut calls move nothing.
#[tokio::test(start_paused = true)]
async fn a_few_hung_calls_do_not_raise_the_limit() {
    let limit = Host::new(bare());
    for call in 0..2000 {
        let latency = if call % 50 == 49 { 3600 * SECOND } else { 100 * MS };
        let _ = limit.call(takes(latency)).await;
        assert!(call < 40 || near(limit.limit(), 200 * MS), "{call}: {limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn old_latencies_fade() {
    let limit = Host::new(bare().with_samples(1).with_window(10 * SECOND).with_ceiling(SECOND));
    limit.call(takes(100 * MS)).await.unwrap();
    tokio::time::advance(20 * SECOND).await;
    // Nothing recent is known: a call that takes longer than what was known is not cut.
    limit.call(takes(900 * MS)).await.unwrap();
    assert!(near(limit.latency().unwrap(), 900 * MS));
}

#[tokio::test(start_paused = true)]
async fn floor_and_ceiling_hold_and_the_ceiling_beats() {
    let limit = Host::new(AdaptiveTimeout::new().with_samples(1));
    limit.call(takes(MS)).await.unwrap();
    assert_eq!(limit.limit(), 250 * MS);
    let limit =
        Host::new(AdaptiveTimeout::new().with_samples(1).with_floor(SECOND).with_ceiling(MS));
    limit.call(takes(Duration::ZERO)).await.ok();
    assert_eq!(limit.limit(), MS);
    let zero = Host::new(AdaptiveTimeout::new().with_ceiling(Duration::ZERO));
    assert_eq!(zero.call(pending()).await.unwrap_err(), Duration::ZERO);
}

#[test]
fn all_threads_count() {
    let limit = Arc::new(bare().with_samples(4000));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| limit.record(SECOND, 100 * MS)));
        }
    });
    limit.record(SECOND, 100 * MS);
    // Worked out at every 16th: 4,000 is one of them.
    assert!(near(limit.latency().unwrap(), 100 * MS));
}

#[test]
fn a_waiting_timeout_over_a_duration_stays_small() {
    let fixed = size_of_val(&pending::<Result<(), Elapsed>>().timeout(SECOND).on("host"));
    assert!(fixed <= size_of::<tokio::time::Sleep>() + 40, "{fixed}");
}

/// The attempts of a retry and of a run have what is learned as their limit where the policy says so, and no more than its
/// own.
#[tokio::test(start_paused = true)]
async fn each_attempt_has_what_is_learned() {
    let limit = Host::new(bare().with_samples(1).with_ceiling(SECOND));
    let plain = RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none());
    let policy = plain.with_learned_attempt_timeout();
    retry(|_| takes(100 * MS), policy, Never).on(&limit.0).await.unwrap();
    let given = limit.limit();
    assert!(near(limit.latency().unwrap(), 100 * MS), "{limit:?}");

    let began = tokio::time::Instant::now();
    let gave_up = retry(|_| takes(3600 * SECOND), policy, Never).on(&limit.0).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Attempts, 2));
    // The first cut counts as twice its limit, so the second attempt had twice as long.
    assert!(
        near(cut_at(&gave_up), given * 2 * 2) && began.elapsed() >= given * 5,
        "{gave_up}, {limit:?}"
    );

    let capped = policy.with_attempt_timeout(50 * MS);
    let gave_up = retry(|_| takes(3600 * SECOND), capped, Never).on(&limit.0).await.unwrap_err();
    assert_eq!(cut_at(&gave_up), 50 * MS);

    let mut run = Run::new(policy, Never).on(&limit.0);
    let now = limit.limit();
    assert_eq!(run.attempt(takes(3600 * SECOND)).await.unwrap(), None);
    let gave_up = run.attempt(takes(3600 * SECOND)).await.unwrap_err();
    assert!(cut_at(&gave_up) >= now, "{gave_up}");

    // Without a word in the policy nothing is cut, and nothing learned.
    let known = limit.latency();
    retry(|_| takes(100 * SECOND), plain, Never).on(&limit.0).await.unwrap();
    assert_eq!(limit.latency(), known);
    // On an upstream that learns nothing, it changes nothing.
    retry(|_| takes(100 * SECOND), policy, Never).on("host").await.unwrap();
}

proptest! {
    #[test]
    fn nothing_panics(
        quantile: f64, factor: f64, floor: Duration, ceiling: Duration, window: Duration, samples in 0_u32..5,
        all in prop::collection::vec(any::<(Duration, Duration)>(), 0..20),
    ) {
        let limit = AdaptiveTimeout::new().with_quantile(quantile).with_factor(factor).with_floor(floor)
            .with_ceiling(ceiling).with_window(window).with_samples(samples);
        for (now, latency) in all {
            limit.record(now, latency);
            prop_assert!(limit.limit() <= ceiling);
            prop_assert!(limit.limit() >= floor.min(ceiling));
        }
    }
}
