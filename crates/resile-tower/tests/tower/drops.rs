//! A call may be dropped at any await: it leaks no permit, no claim and no attempt.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resile_tower::resile::classify::Always;
use resile_tower::resile::{Backoff, Breaker, Budget, Bulkhead, Jitter, RetryPolicy, Upstream};
use resile_tower::{RetryLayer, UpstreamLayer};
use tower::{Layer, ServiceExt};

use super::script::{Script, Step};

const SECOND: Duration = Duration::from_secs(1);

const SCRIPTS: &[&[Step]] = &[
    &[Step::Answer(200)],
    &[Step::Fail],
    &[Step::Hang],
    &[Step::After(SECOND)],
    &[Step::ReadyLater, Step::Fail, Step::ReadyLater, Step::Answer(200)],
    &[Step::Fail, Step::NotReady, Step::After(SECOND)],
    &[Step::NotReady, Step::NotReady, Step::ReadyLater, Step::After(SECOND), Step::Answer(200)],
    &[Step::Fail, Step::Fail, Step::Hang],
];

/// Returns an upstream with everything that an attempt may hold.
fn upstream() -> Arc<Upstream> {
    let budget = Budget::new().with_capacity(50);
    let breaker = Breaker::new().without_failure_rate().without_consecutive();
    let bulkhead = Bulkhead::new(2).with_queue(0);
    Arc::new(
        Upstream::named("store").with_budget(budget).with_breaker(breaker).with_bulkhead(bulkhead),
    )
}

/// Polls the call of each script n times and drops it, for every n until the call ends.
async fn drop_at_every_await<F>(call: impl Fn(Script, Arc<Upstream>) -> F)
where
    F: Future<Output = bool>,
{
    for steps in SCRIPTS {
        let mut longest = 0;
        for polls in 0..60 {
            let (script, upstream) = (Script::new(steps), upstream());
            let mut call = Box::pin(call(script.watch(), Arc::clone(&upstream)));
            let mut is_done = false;
            for _ in 0..polls {
                let mut cx = Context::from_waker(Waker::noop());
                is_done = matches!(call.as_mut().poll(&mut cx), Poll::Ready(_));
                if is_done {
                    break;
                }
                tokio::time::advance(SECOND / 2).await;
            }
            drop(call);
            let at = format!("{steps:?} after {polls} polls");
            assert_eq!(script.seen().alive, 0, "{at}");
            let both = [upstream.try_admit(), upstream.try_admit()];
            assert!(both.iter().all(Result::is_ok), "a permit is lost: {at}");
            longest = polls;
            if is_done {
                break;
            }
        }
        assert!(longest < 59, "{steps:?} ends");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_leaks_nothing() {
    let policy = RetryPolicy::new()
        .with_attempts(5)
        .with_total_timeout(SECOND * 9)
        .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));
    drop_at_every_await(|script, upstream| {
        let service = RetryLayer::new(policy).on(upstream).layer(script);
        async { service.oneshot(7).await.is_ok() }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_on_an_upstream_leaks_nothing() {
    drop_at_every_await(|script, upstream| {
        let layer = UpstreamLayer::new(upstream, Always).with_total_timeout(SECOND * 9);
        let service = layer.layer(script);
        async { service.oneshot(7).await.is_ok() }
    })
    .await;
}

/// The inner layer takes the admission of the attempt around it, because both name one upstream.
#[tokio::test(start_paused = true)]
async fn layers_within_layers_leak_nothing() {
    let policy = RetryPolicy::new()
        .with_attempts(3)
        .with_total_timeout(SECOND * 9)
        .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));
    drop_at_every_await(|script, upstream| {
        let below = UpstreamLayer::new(Arc::clone(&upstream), Always).layer(script);
        let service = RetryLayer::new(policy).on(upstream).layer(below);
        async { service.oneshot(7).await.is_ok() }
    })
    .await;
}
