//! The forecast of a quota after a failure: the time before which the next attempt cannot begin.

use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;
use resile::observe::{Event, EventKind, HeldBy};
use resile::quota::{Cost, Rate};
use resile::{
    Attempt, Backoff, Breaker, Cooldown, GaveUp, Jitter, Never, Quota, RetryPolicy, StopReason,
    Upstream, Verdict, retry,
};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Sixty tokens at once, and one more each second.
const RATE: Rate = Rate::per_minute(60);

fn tokens() -> Upstream {
    let cooldown = Cooldown::new().with_jitter(0.0);
    Upstream::new("tokens").with_quota(Quota::new().with_tokens(RATE)).with_cooldown(cooldown)
}

const THROTTLED: &str = "throttled";
const DOWN: &str = "down";

/// A policy for both errors, with an exact delay of one second.
fn policy() -> RetryPolicy<impl Fn(&&'static str) -> Verdict> {
    RetryPolicy::new()
        .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None))
        .with_classifier(|error: &&'static str| match *error {
            THROTTLED => Verdict::throttled().after(SECOND * 6),
            _ => Verdict::transient(),
        })
}

/// The lines of a call, and its end.
async fn fails(
    upstream: &Upstream,
    cost: u32,
    total: Duration,
    error: &'static str,
) -> (Result<u32, GaveUp<&'static str>>, Vec<String>) {
    let lines = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if !matches!(event.kind, EventKind::Failed { .. } | EventKind::Started { .. }) {
            lines.lock().unwrap().push(event.to_string());
        }
    };
    let op = |attempt: Attempt| async move {
        if attempt.is_first() { Err(error) } else { Ok(attempt.number()) }
    };
    let target = upstream.at_cost(Cost::input(cost.into()));
    let policy = policy().with_total_timeout(total);
    let ended = retry(op, policy, Never).on(target.observed_by(&note)).await;
    (ended, lines.into_inner().unwrap())
}

/// A refusal empties the quota. Nothing is waited for that cannot come.
#[tokio::test(start_paused = true)]
async fn a_retry_that_the_quota_holds_beyond_the_deadline_ends_the_call_at_once() {
    let (upstream, began) = (tokens(), Instant::now());
    let (ended, lines) = fails(&upstream, 40, SECOND * 20, THROTTLED).await;
    assert_eq!(began.elapsed(), Duration::ZERO, "{lines:#?}");
    let gave_up = ended.unwrap_err();
    assert_eq!((gave_up.attempts(), gave_up.reason()), (1, StopReason::Deadline));
    // Nothing refills in the hold of 6 s, and 40 units refill in 40 s.
    assert_eq!(gave_up.retry_after(), Some(SECOND * 46), "{lines:#?}");
    let words = "the quota holds the next attempt for 46.0s, but only 20s are left \
                 (it costs 40 tokens, the limit is 60 per 60s), \
                 the upstream asked for a wait of 6.0s";
    assert_eq!(gave_up.to_string(), format!("tokens: gave up after 1 attempt, {words}"));
    assert!(lines.iter().all(|line| !line.contains("retrying")), "{lines:#?}");
    let emptied = "tokens: quota emptied by a rate limit of the upstream: this attempt is refused, \
                   because it would wait 46.0s, the limit is 60 tokens per 60s, 0 queued, further calls wait or are refused";
    assert!(lines.iter().any(|line| line == emptied), "{lines:#?}");
    assert_eq!(upstream.quota().unwrap().waiting(), 0);
}

/// The announced time is a lower bound that the attempt meets.
#[tokio::test(start_paused = true)]
async fn the_log_promises_no_retry_before_the_quota_has_the_units() {
    let (upstream, began) = (tokens(), Instant::now());
    let (ended, lines) = fails(&upstream, 40, SECOND * 60, THROTTLED).await;
    assert_eq!(ended.unwrap(), 2);
    assert_eq!(began.elapsed(), SECOND * 46, "{lines:#?}");
    let announced = "attempt 1 of 3 failed, retrying in at least 46.0s, held by the quota, \
                     the upstream asked for a wait of 6.0s: throttled";
    assert!(lines.iter().any(|line| line.ends_with(announced)), "{lines:#?}");
    // The hold of the cooldown is over when the attempt waits for the quota.
    let emptied = "tokens: quota emptied by a rate limit of the upstream: it holds this attempt for \
                   40.0s, the limit is 60 tokens per 60s, 1 queued, further calls wait or are refused";
    assert!(lines.iter().any(|line| line == emptied), "{lines:#?}");
}

/// Once other calls have used what refilled, the quota is used up by them.
#[tokio::test(start_paused = true)]
async fn a_quota_is_called_emptied_only_while_nothing_was_taken_since() {
    let limiting = async |upstream: &Upstream, cost: u64| {
        let lines = Mutex::new(vec![]);
        let note = |event: &Event<'_>| {
            if let EventKind::Limiting { by: HeldBy::Quota, .. } = event.kind {
                lines.lock().unwrap().push(event.to_string());
            }
        };
        let target = upstream.at_cost(Cost::input(cost));
        let policy = policy().with_total_timeout(SECOND);
        let call = retry(|_| async { Ok(()) }, policy, Never).on(target.observed_by(&note));
        let _: Result<(), GaveUp<&str>> = call.await;
        lines.into_inner().unwrap()
    };
    for (taken, words) in [(0, "quota emptied by"), (5, "quota used up: this attempt")] {
        let upstream = Upstream::new("tokens").with_quota(Quota::new().with_tokens(RATE));
        upstream.try_admit().unwrap().settle(&Verdict::throttled());
        tokio::time::sleep(SECOND * 20).await;
        assert_eq!(limiting(&upstream, taken).await, [""; 0]);
        let lines = limiting(&upstream, 50).await;
        assert!(lines.len() == 1 && lines[0].contains(words), "{taken}: {lines:#?}");
    }
    // Without a refusal.
    let upstream = tokens();
    assert_eq!(limiting(&upstream, 40).await, [""; 0]);
    assert!(limiting(&upstream, 40).await[0].contains("quota used up: this attempt"));
}

/// An attempt in flight keeps the level low by its maximum, so the provider counts less than the quota.
#[tokio::test(start_paused = true)]
async fn the_line_of_a_quota_names_the_output_that_attempts_in_flight_reserve() {
    let model =
        Upstream::new("model").with_quota(Quota::new().with_tokens(Rate::per_minute(8_000)));
    let lines = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::Limiting { by: HeldBy::Quota, .. } = event.kind {
            lines.lock().unwrap().push(event.to_string());
        }
    };
    let model = model.at_cost(Cost::input(100).with_max_output(6_000));
    let ask = || {
        let answer = async |_| {
            tokio::time::sleep(SECOND).await;
            Ok::<_, &str>(())
        };
        retry(answer, policy().with_total_timeout(SECOND * 60), Never).on(model.observed_by(&note))
    };
    let (first, second) = tokio::join!(ask(), ask());
    assert!(first.is_ok() && second.is_ok());
    let line = "model: quota used up: the limit is 8000 tokens per 60s, 6000 output tokens are reserved \
                by attempts in flight, 1 queued, further calls wait or are refused";
    assert_eq!(lines.into_inner().unwrap(), [line]);
}

/// The line names the limit that holds the attempt, and tokens that are reserved only if they do. Without a lack of units
/// it is the number of attempts in flight.
#[tokio::test(start_paused = true)]
async fn the_line_of_a_quota_names_the_limit_that_holds_the_attempt() {
    const RESERVED: &str = "6000 output tokens are reserved by attempts in flight, ";
    let both = |requests, tokens| {
        let quota = Quota::new().with_requests(Rate::per_minute(requests));
        quota.with_tokens(Rate::per_minute(tokens))
    };
    let requests = "the limit is 1 request per 60s, ".to_owned();
    let tokens = format!("the limit is 8000 tokens per 60s, {RESERVED}");
    let in_flight = "the limit is 1 attempt in flight, ".to_owned();
    for (quota, cause) in [
        (both(1, 20_000), requests),
        (both(10, 8_000), tokens),
        (both(10, 20_000).with_concurrency(1), in_flight),
    ] {
        let model = Upstream::new("model").with_quota(quota);
        let lines = Mutex::new(vec![]);
        let note = |event: &Event<'_>| {
            if let EventKind::Limiting { by: HeldBy::Quota, .. } = event.kind {
                lines.lock().unwrap().push(event.to_string());
            }
        };
        let model = model.at_cost(Cost::input(100).with_max_output(6_000));
        let ask = || {
            let answer = async |_| {
                tokio::time::sleep(SECOND).await;
                Ok::<_, &str>(())
            };
            retry(answer, policy().with_total_timeout(SECOND * 90), Never)
                .on(model.observed_by(&note))
        };
        let (first, second) = tokio::join!(ask(), ask());
        assert!(first.is_ok() && second.is_ok());
        let lines = lines.into_inner().unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let end = format!("{cause}1 queued, further calls wait or are refused");
        assert!(
            lines[0].ends_with(&end) && lines[0].contains(RESERVED) == cause.contains(RESERVED),
            "{lines:?}"
        );
    }
}

/// The quota has units left after a failure that is no refusal, but not enough of them.
#[tokio::test(start_paused = true)]
async fn a_failure_that_is_no_refusal_has_the_same_forecast() {
    for (cost, total, ends_after, announced) in [
        (30, 20, None, "retrying in 1.0s: down"),
        (40, 30, None, "retrying in at least 20.0s, held by the quota: down"),
        (40, 20, Some(20), ""),
    ] {
        let (upstream, began) = (tokens(), Instant::now());
        let (ended, lines) = fails(&upstream, cost, SECOND * total, DOWN).await;
        match ends_after {
            None => assert_eq!(ended.unwrap(), 2, "{lines:#?}"),
            Some(wait) => {
                assert_eq!(ended.unwrap_err().retry_after(), Some(SECOND * wait));
                assert_eq!(began.elapsed(), Duration::ZERO);
            }
        }
        assert!(announced.is_empty() || lines.iter().any(|line| line.ends_with(announced)));
    }
}

/// A call does not wait for the quota only to be refused by the breaker, so the breaker ends it.
#[tokio::test(start_paused = true)]
async fn an_open_breaker_ends_the_call_before_the_quota_does() {
    let breaker = Breaker::new().with_consecutive(1).with_open_time(Backoff::fixed(SECOND * 120));
    let upstream = tokens().with_breaker(breaker);
    let (ended, lines) = fails(&upstream, 40, SECOND * 20, DOWN).await;
    assert_eq!(ended.unwrap_err().reason(), StopReason::Open, "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains("quota used up")), "{lines:#?}");
}

/// Without a deadline the call waits, and the announced time is still true.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_deadline_waits_for_its_units() {
    let (upstream, began) = (tokens(), Instant::now());
    let lines = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::Waiting { held, .. } = event.kind {
            lines.lock().unwrap().push((event.to_string(), held));
        }
    };
    let op =
        |attempt: Attempt| async move { if attempt.is_first() { Err(THROTTLED) } else { Ok(()) } };
    let target = upstream.at_cost(Cost::input(10));
    let policy = policy().without_total_timeout();
    retry(op, policy, Never).on(target.observed_by(&note)).await.unwrap();
    assert_eq!(began.elapsed(), SECOND * 16);
    let (words, held) = &lines.into_inner().unwrap()[0];
    assert!(words.contains("retrying in at least 16.0s"));
    assert_eq!(*held, Some(SECOND * 16));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A lone call never sleeps if no attempt can begin before its deadline: it ends at once, or its
    /// next attempt begins.
    #[test]
    fn a_call_sleeps_only_for_an_attempt_that_begins(
        cost in 1_u32..=60,
        total in 1_u32..=90,
        is_throttled: bool,
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
            let (upstream, began, total) = (tokens(), Instant::now(), SECOND * total);
            let error = if is_throttled { THROTTLED } else { DOWN };
            let (ended, lines) = fails(&upstream, cost, total, error).await;
            match ended {
                Ok(attempt) => assert_eq!(attempt, 2),
                Err(gave_up) => {
                    assert_eq!(gave_up.reason(), StopReason::Deadline);
                    assert_eq!(began.elapsed(), Duration::ZERO, "{lines:#?}");
                    assert!(gave_up.retry_after().is_none_or(|after| after >= total));
                }
            }
        });
    }
}

/// Two calls of a higher priority wait, so the retry would stand behind them.
#[tokio::test(start_paused = true)]
async fn the_forecast_of_a_retry_counts_the_waiters_ahead() {
    let (upstream, began) = (tokens(), Instant::now());
    let ahead = async || {
        let target = upstream.at_cost(Cost::input(30)).with_priority(1);
        retry(async |_| Ok::<_, &str>(()), policy(), Never).on(target).await.unwrap();
        began.elapsed()
    };
    let behind = async {
        let fails = async |_| {
            tokio::time::sleep(SECOND).await;
            Err::<(), _>(DOWN)
        };
        let target = upstream.at_cost(Cost::input(60));
        let policy = policy().with_total_timeout(SECOND * 100);
        let gave_up = retry(fails, policy, Never).on(target).await.unwrap_err();
        // 119 units refill in as many seconds.
        assert_eq!(gave_up.retry_after(), Some(SECOND * 119), "{gave_up}");
        assert_eq!(gave_up.reason(), StopReason::Deadline);
        began.elapsed()
    };
    let ends = tokio::join!(behind, ahead(), ahead());
    assert_eq!(ends, (SECOND, SECOND * 30, SECOND * 60));
}
