//! `resile::Adaptive`: what a limit learns.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use resile::{Adaptive, Elapsed, ResilienceExt, TokioTimer};
use static_assertions::assert_impl_all;

assert_impl_all!(Adaptive: Send, Sync, std::panic::UnwindSafe);

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

async fn takes(latency: Duration) -> Result<(), Elapsed> {
    tokio::time::sleep(latency).await;
    Ok(())
}

/// No floor, so that what is learned shows.
const fn bare() -> Adaptive {
    Adaptive::new().with_floor(Duration::ZERO)
}

/// Whether `limit` is `wanted`, or above by no more than the histogram's eighth.
fn near(limit: Duration, wanted: Duration) -> bool {
    limit >= wanted && limit <= wanted + wanted / 8 + MS
}

#[tokio::test(start_paused = true)]
async fn the_ceiling_until_enough_is_known() {
    static LIMIT: Adaptive = bare().with_samples(5).with_ceiling(SECOND);
    for known in 0..5 {
        assert_eq!((LIMIT.limit(), LIMIT.latency()), (SECOND, None), "{known}");
        takes(100 * MS).timeout(&LIMIT).await.unwrap();
    }
    assert!(near(LIMIT.latency().unwrap(), 100 * MS), "{LIMIT:?}");
    assert_eq!(LIMIT.limit(), LIMIT.latency().unwrap() * 2);
}

#[tokio::test(start_paused = true)]
async fn the_limit_cuts_and_says_so() {
    let limit = bare().with_samples(1);
    takes(100 * MS).timeout(&limit).await.unwrap();
    let given = limit.limit();
    let began = tokio::time::Instant::now();
    let elapsed = pending::<Result<(), Elapsed>>().timeout(&limit).await.unwrap_err();
    assert_eq!(elapsed.limit(), given);
    assert!(began.elapsed() >= given && began.elapsed() <= given + MS);
}

#[tokio::test(start_paused = true)]
async fn a_call_keeps_the_limit_that_it_began_with() {
    let limit = bare().with_samples(1).with_ceiling(10 * SECOND);
    let slow = takes(9 * SECOND).timeout(&limit);
    tokio::pin!(slow);
    assert!(futures_poll(slow.as_mut()).await.is_pending());
    takes(100 * MS).timeout(&limit).await.unwrap();
    assert!(limit.limit() < SECOND);
    slow.await.unwrap();
}

async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx))).await
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_at_once_and_what_fails_teach_nothing() {
    let limit = bare().with_samples(1);
    for _ in 0..100 {
        ready(Ok::<_, Elapsed>(())).timeout(&limit).await.unwrap();
        let refused = async {
            takes(MS).await?;
            Err::<(), _>(anyhow::anyhow!("refused"))
        };
        let _: anyhow::Error = refused.timeout(&limit).await.unwrap_err();
    }
    assert_eq!(limit.latency(), None);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_teaches_nothing() {
    let limit = bare().with_samples(1);
    tokio::time::timeout(SECOND, takes(2 * SECOND).timeout(&limit)).await.unwrap_err();
    assert_eq!(limit.latency(), None);
}

/// A peer that becomes slower than the limit: leaving out the calls that are cut would cut all of them for ever.
#[tokio::test(start_paused = true)]
async fn a_peer_that_slows_down_is_followed() {
    let limit = bare().with_ceiling(60 * SECOND);
    for _ in 0..200 {
        takes(100 * MS).timeout(&limit).await.unwrap();
    }
    let mut cut = 0;
    while takes(5 * SECOND).timeout(&limit).await.is_err() {
        cut += 1;
        assert!(cut < 200, "never followed: {limit:?}");
    }
    assert!(limit.limit() >= 5 * SECOND);
    // And it comes down again when the peer does.
    for _ in 0..3000 {
        takes(100 * MS).timeout(&limit).await.unwrap();
    }
    assert!(near(limit.limit(), 200 * MS), "{limit:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cut_call_counts_as_twice_its_limit() {
    let limit = bare().with_samples(1).with_quantile(1.0).with_factor(1.0).with_ceiling(SECOND);
    takes(100 * MS).timeout(&limit).await.unwrap();
    for _ in 0..6 {
        let cut_at = pending::<Result<(), Elapsed>>().timeout(&limit).await.unwrap_err().limit();
        assert!(near(limit.limit(), (cut_at * 2).min(SECOND)) || limit.limit() == SECOND, "{cut_at:?} {limit:?}");
    }
    assert_eq!(limit.limit(), SECOND);
}

/// With a factor of 1, counting cut calls as the limit itself could only ever lower it.
#[tokio::test(start_paused = true)]
async fn cut_calls_do_not_ratchet_the_limit_down() {
    let limit = bare().with_factor(1.0).with_window(10 * SECOND).with_samples(1);
    // 9 of 10 calls take 100 ms, the tenth 200: the 95th percentile is 200 ms. Rows of quick ones come by chance.
    for _ in 0..20 {
        for _ in 0..200 {
            takes(100 * MS).timeout(&limit).await.unwrap();
        }
        for call in 0..1000 {
            let _ = takes(if call % 10 == 0 { 200 * MS } else { 100 * MS }).timeout(&limit).await;
        }
        assert!(limit.limit() >= 200 * MS, "{limit:?}");
    }
}

/// Below the share that the quantile leaves out, cut calls move nothing.
#[tokio::test(start_paused = true)]
async fn a_few_hung_calls_do_not_raise_the_limit() {
    let limit = bare();
    for call in 0..2000 {
        let latency = if call % 50 == 49 { 3600 * SECOND } else { 100 * MS };
        let _ = takes(latency).timeout(&limit).await;
        assert!(call < 40 || near(limit.limit(), 200 * MS), "{call}: {limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn old_latencies_fade() {
    let limit = bare().with_samples(1).with_window(10 * SECOND).with_ceiling(SECOND);
    takes(100 * MS).timeout(&limit).await.unwrap();
    tokio::time::advance(20 * SECOND).await;
    // Nothing recent is known: a call that takes longer than what was known is not cut.
    takes(900 * MS).timeout(&limit).await.unwrap();
    assert!(near(limit.latency().unwrap(), 900 * MS));
}

#[tokio::test(start_paused = true)]
async fn floor_and_ceiling_hold_and_the_ceiling_beats() {
    let limit = Adaptive::new().with_samples(1);
    takes(MS).timeout(&limit).await.unwrap();
    assert_eq!(limit.limit(), 250 * MS);
    let limit = Adaptive::new().with_samples(1).with_floor(SECOND).with_ceiling(MS);
    takes(Duration::ZERO).timeout(&limit).await.ok();
    assert_eq!(limit.limit(), MS);
    let zero = Adaptive::new().with_ceiling(Duration::ZERO);
    assert_eq!(pending::<Result<(), Elapsed>>().timeout(&zero).await.unwrap_err().limit(), Duration::ZERO);
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
    let fixed = size_of_val(&pending::<Result<(), Elapsed>>().timeout(SECOND).with_timer(TokioTimer::new()));
    assert!(fixed <= size_of::<tokio::time::Sleep>() + 40, "{fixed}");
}

proptest! {
    #[test]
    fn nothing_panics(
        quantile: f64, factor: f64, floor: Duration, ceiling: Duration, window: Duration, samples in 0_u32..5,
        all in prop::collection::vec(any::<(Duration, Duration)>(), 0..20),
    ) {
        let limit = Adaptive::new().with_quantile(quantile).with_factor(factor).with_floor(floor)
            .with_ceiling(ceiling).with_window(window).with_samples(samples);
        for (now, latency) in all {
            limit.record(now, latency);
            prop_assert!(limit.limit() <= ceiling);
            prop_assert!(limit.limit() >= floor.min(ceiling));
        }
    }
}
