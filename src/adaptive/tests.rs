use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use crate::classify::{Always, Cut};
use crate::policy::Attempt;
use crate::timeout::Elapsed;
use crate::{
    AdaptiveTimeout, Backoff, GaveUp, HedgePolicy, Never, ResilienceExt, RetryPolicy, Run,
    StopReason, Upstream, hedge, retry,
};
use proptest::prelude::*;
use static_assertions::assert_impl_all;

assert_impl_all!(AdaptiveTimeout: Send, Sync, std::panic::UnwindSafe);

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

async fn takes(latency: Duration) -> Result<(), Infallible> {
    tokio::time::sleep(latency).await;
    Ok(())
}

/// Creates an adaptive timeout without a floor, so that the learned value is visible.
const fn bare() -> AdaptiveTimeout {
    AdaptiveTimeout::new().with_floor(Duration::ZERO)
}

/// An upstream with an adaptive timeout.
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

    /// Makes one attempt. The error is the timeout that cut it.
    async fn call(
        &self,
        future: impl Future<Output = Result<(), Infallible>>,
    ) -> Result<(), Duration> {
        self.0.call(future, Always).await.map_err(|gave_up| cut_at(&gave_up))
    }
}

/// Returns the timeout that cut the last attempt.
fn cut_at<E>(gave_up: &GaveUp<E>) -> Duration {
    match gave_up.cut() {
        Some(Cut::AttemptTimeout(limit)) => limit,
        other => panic!("{other:?}"),
    }
}

/// Returns whether `limit` is at least `wanted` and above it by at most an eighth, the width of a
/// histogram bucket.
fn near(limit: Duration, wanted: Duration) -> bool {
    limit >= wanted && limit <= wanted + wanted / 8 + MS
}

#[tokio::test(start_paused = true)]
async fn the_timeout_is_the_ceiling_until_there_are_enough_samples() {
    static LIMIT: Host = Host::new(bare().with_samples(5).with_ceiling(SECOND));
    for known in 0..5 {
        assert_eq!((LIMIT.limit(), LIMIT.latency()), (SECOND, None), "{known}");
        LIMIT.call(takes(100 * MS)).await.unwrap();
    }
    assert!(near(LIMIT.latency().unwrap(), 100 * MS), "{LIMIT:?}");
    assert_eq!(LIMIT.limit(), LIMIT.latency().unwrap() * 2);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_cuts_an_attempt_and_the_error_names_it() {
    let limit = Host::new(bare().with_samples(1));
    limit.call(takes(100 * MS)).await.unwrap();
    let given = limit.limit();
    let began = tokio::time::Instant::now();
    let gave_up = limit.0.call(pending::<Result<(), Infallible>>(), Always).await.unwrap_err();
    assert_eq!((gave_up.reason(), cut_at(&gave_up)), (StopReason::Attempts, given));
    let end = format!("last failure: did not finish within {})", crate::time::Limit(given));
    assert!(gave_up.to_string().ends_with(&end), "{gave_up}");
    assert!(began.elapsed() >= given && began.elapsed() <= given + MS);
}

#[tokio::test(start_paused = true)]
async fn a_call_keeps_the_timeout_from_its_start() {
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
async fn instant_results_and_failures_are_no_samples() {
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
async fn a_dropped_call_is_no_sample() {
    let limit = Host::new(bare().with_samples(1));
    tokio::time::timeout(SECOND, limit.call(takes(2 * SECOND))).await.unwrap_err();
    assert_eq!(limit.latency(), None);
}

/// The upstream becomes slower than the timeout. Without counting the cut calls, every call would
/// be cut for ever.
#[tokio::test(start_paused = true)]
async fn the_timeout_follows_an_upstream_that_slows_down() {
    let limit = Host::new(bare().with_ceiling(60 * SECOND));
    for _ in 0..200 {
        limit.call(takes(100 * MS)).await.unwrap();
    }
    let mut cut = 0;
    while limit.call(takes(5 * SECOND)).await.is_err() {
        cut += 1;
        assert!(cut < 200, "the timeout did not follow: {limit:?}");
    }
    assert!(limit.limit() >= 5 * SECOND);
    // The timeout falls again when the upstream is fast again.
    for _ in 0..3000 {
        limit.call(takes(100 * MS)).await.unwrap();
    }
    assert!(near(limit.limit(), 200 * MS), "{limit:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cut_call_counts_as_twice_its_timeout() {
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

/// With a factor of 1, cut calls that count as the timeout itself could only lower it.
#[tokio::test(start_paused = true)]
async fn cut_calls_do_not_lower_the_timeout() {
    let limit = Host::new(bare().with_factor(1.0).with_window(10 * SECOND).with_samples(1));
    // 9 of 10 calls take 100 ms and the tenth takes 200 ms, so the 95th percentile is 200 ms. Runs
    // of fast calls occur.
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

/// While fewer calls hang than the quantile leaves out, cut calls do not raise the timeout.
#[tokio::test(start_paused = true)]
async fn a_few_hanging_calls_do_not_raise_the_timeout() {
    let limit = Host::new(bare());
    for call in 0..2000 {
        let latency = if call % 50 == 49 { 3600 * SECOND } else { 100 * MS };
        let _ = limit.call(takes(latency)).await;
        assert!(call < 40 || near(limit.limit(), 200 * MS), "{call}: {limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn old_samples_expire() {
    let limit = Host::new(bare().with_samples(1).with_window(10 * SECOND).with_ceiling(SECOND));
    limit.call(takes(100 * MS)).await.unwrap();
    tokio::time::advance(20 * SECOND).await;
    // No recent sample is left, so a call slower than the old samples is not cut.
    limit.call(takes(900 * MS)).await.unwrap();
    assert!(near(limit.latency().unwrap(), 900 * MS));
}

#[tokio::test(start_paused = true)]
async fn the_floor_and_the_ceiling_hold_and_the_ceiling_wins() {
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
fn samples_of_all_threads_count() {
    let limit = Arc::new(bare().with_samples(4000));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| limit.record(SECOND, 100 * MS)));
        }
    });
    limit.record(SECOND, 100 * MS);
    // The timeout is computed at every 16th sample, and 4,000 is a multiple of 16.
    assert!(near(limit.latency().unwrap(), 100 * MS));
}

#[test]
fn a_waiting_timeout_over_a_duration_stays_small() {
    let fixed = size_of_val(&pending::<Result<(), Elapsed>>().timeout(SECOND).on("host"));
    assert!(fixed <= size_of::<tokio::time::Sleep>() + 40, "{fixed}");
}

/// With a learned attempt timeout, each attempt of a retry and of a run gets the learned value. The
/// policy's own attempt timeout caps it.
#[tokio::test(start_paused = true)]
async fn each_attempt_gets_the_learned_timeout() {
    let limit = Host::new(bare().with_samples(1).with_ceiling(SECOND));
    let plain = RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none());
    let policy = plain.with_learned_attempt_timeout();
    retry(|_| takes(100 * MS), policy, Never).on(&limit.0).await.unwrap();
    let given = limit.limit();
    assert!(near(limit.latency().unwrap(), 100 * MS), "{limit:?}");

    let began = tokio::time::Instant::now();
    let gave_up = retry(|_| takes(3600 * SECOND), policy, Never).on(&limit.0).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Attempts, 2));
    // The first cut counts as twice its timeout, so the second attempt had twice as long.
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

    // Without the setting in the policy, attempts are neither cut nor measured.
    let known = limit.latency();
    retry(|_| takes(100 * SECOND), plain, Never).on(&limit.0).await.unwrap();
    assert_eq!(limit.latency(), known);
    // Without an adaptive timeout on the upstream, the setting changes nothing.
    retry(|_| takes(100 * SECOND), policy, Never).on("host").await.unwrap();
}

proptest! {
    #[test]
    fn no_setting_or_sample_panics(
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

/// The latencies of losers must count. Otherwise each winning hedge would make the next hedge
/// earlier.
#[tokio::test(start_paused = true)]
async fn hedging_does_not_make_hedges_earlier() {
    let adaptive = AdaptiveTimeout::new().with_samples(10).with_window(3600 * SECOND);
    let search = Upstream::new("search").with_adaptive_timeout(adaptive);
    let usual = search.adaptive_timeout().unwrap();
    let learned = HedgePolicy::new().with_learned_delay();
    let first = |_: Attempt| takes(100 * MS);
    for _ in 0..100 {
        hedge(first, learned.with_delay(SECOND), Never).on(&search).await.unwrap();
    }
    let before = usual.latency().unwrap();
    // Every first attempt now hangs and a fast hedge overtakes it. Nearly all successes take 20 ms.
    let policy = learned.with_delay(300 * MS);
    for _ in 0..4000 {
        let began = tokio::time::Instant::now();
        let op = |attempt: Attempt| takes(if attempt.is_first() { 3600 * SECOND } else { 20 * MS });
        hedge(op, policy, Never).on(&search).await.unwrap();
        assert!(usual.latency().unwrap() >= before, "{usual:?}");
        // The delay does not grow without end either, although the true quantile is an hour.
        assert!(began.elapsed() <= 321 * MS);
    }
}
