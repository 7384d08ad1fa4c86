//! The standard mode of the AWS SDKs, version 2.1: its published numbers, its laws and the traps of
//! its first implementations.

use std::cell::RefCell;
use std::time::Duration;

use proptest::prelude::*;
use resile::policy::Decision;
use resile::quota::Rate;
use resile::time::{Seeded, Timer, TokioTimer};
use resile::{
    Attempt, Backoff, Budget, Never, Quota, RetryPolicy, Run, StopReason, Upstream, Verdict, retry,
};
use tokio::time::Instant;

use super::backoff::seeded;

const SECOND: Duration = Duration::from_secs(1);

/// A clock that draws the longest delay of each range: the `exponential_base` 1 of the published
/// cases.
struct Longest(TokioTimer);

impl Timer for Longest {
    type Sleep = <TokioTimer as Timer>::Sleep;

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        self.0.sleep(delay)
    }

    fn draw(&self) -> u64 {
        u64::MAX
    }
}

fn on(budget: Budget) -> Upstream<Longest> {
    Upstream::new("aws").with_budget(budget).with_timer(Longest(TokioTimer::new()))
}

/// An error that is its own verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Refused(Verdict);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Refused {}

fn aws() -> RetryPolicy<fn(&Refused) -> Verdict> {
    RetryPolicy::aws().with_classifier(|refused: &Refused| refused.0)
}

/// The answer to one request, and what must follow: the tokens left and the delay in milliseconds, or
/// the end of the call.
enum Step {
    Retry(Verdict, u32, u64),
    Stop(Verdict, u32, StopReason),
    Success(u32),
}
use Step::{Retry, Stop, Success};

const DOWN: Verdict = Verdict::transient();
const BUSY: Verdict = Verdict::throttled();

/// A published case: its name, the tokens at the start, the policy and the answers.
type Case = (&'static str, u32, RetryPolicy<fn(&Refused) -> Verdict>, Vec<Step>);

/// Source: the cases of "Retry Behavior 2.1" as the tests of the SDKs for JavaScript and Kotlin state
/// them (2026).
fn published() -> Vec<Case> {
    let (attempts, quota) = (StopReason::Attempts, StopReason::Budget);
    let dynamo = Backoff::exponential(Duration::from_millis(25)).with_cap(SECOND * 20);
    let [three, four, five] = [3, 4, 5].map(|attempts| aws().with_attempts(attempts));
    let capped = five.with_backoff(RetryPolicy::aws().backoff().with_cap(SECOND / 5));
    vec![
        (
            "a retry succeeds",
            500,
            three,
            vec![Retry(DOWN, 486, 50), Retry(DOWN, 472, 100), Success(486)],
        ),
        (
            "the attempts end",
            500,
            three,
            vec![Retry(DOWN, 486, 50), Retry(DOWN, 472, 100), Stop(DOWN, 472, attempts)],
        ),
        ("tokens for one retry", 14, three, vec![Retry(DOWN, 0, 50), Stop(DOWN, 0, quota)]),
        ("no tokens", 0, three, vec![Stop(DOWN, 0, quota)]),
        (
            "the delay doubles",
            500,
            five,
            vec![
                Retry(DOWN, 486, 50),
                Retry(DOWN, 472, 100),
                Retry(DOWN, 458, 200),
                Retry(DOWN, 444, 400),
                Stop(DOWN, 444, attempts),
            ],
        ),
        (
            "the delay has a cap",
            500,
            capped,
            vec![
                Retry(DOWN, 486, 50),
                Retry(DOWN, 472, 100),
                Retry(DOWN, 458, 200),
                Retry(DOWN, 444, 200),
                Stop(DOWN, 444, attempts),
            ],
        ),
        ("too few tokens", 20, five, vec![Retry(DOWN, 6, 50), Stop(DOWN, 6, quota)]),
        (
            "successes refill the budget",
            30,
            five,
            vec![
                Retry(DOWN, 16, 50),
                Retry(DOWN, 2, 100),
                Success(16),
                Retry(DOWN, 2, 50),
                Success(16),
            ],
        ),
        ("a throttling", 500, three, vec![Retry(BUSY, 495, 1_000), Success(500)]),
        (
            "DynamoDB",
            500,
            four.with_backoff(dynamo),
            vec![
                Retry(DOWN, 486, 25),
                Retry(DOWN, 472, 50),
                Retry(DOWN, 458, 100),
                Stop(DOWN, 458, attempts),
            ],
        ),
        (
            "a hint",
            500,
            three,
            vec![Retry(DOWN.after(Duration::from_millis(1_500)), 486, 1_500), Success(500)],
        ),
        (
            "a hint below the delay",
            500,
            three,
            vec![Retry(DOWN.after(Duration::from_millis(10)), 486, 50), Success(500)],
        ),
        ("a long hint", 500, three, vec![Retry(DOWN.after(SECOND * 10), 486, 5_050), Success(500)]),
    ]
}

#[tokio::test(start_paused = true)]
async fn the_published_cases_hold() {
    for (name, tokens, policy, steps) in published() {
        let upstream = on(Budget::aws().with_capacity(tokens));
        let left = || upstream.budget().unwrap().available();
        // The tokens and the time at the start of each request.
        let starts = RefCell::new(Vec::new());
        let mut script = steps.iter();
        while script.len() > 0 {
            let ask = |_| {
                starts.borrow_mut().push((left(), Instant::now()));
                let answer = match script.next().expect("one more request than the case has") {
                    Retry(verdict, ..) | Stop(verdict, ..) => Err(Refused(*verdict)),
                    Success(_) => Ok(()),
                };
                std::future::ready(answer)
            };
            let outcome = retry(ask, &policy, Never).on(&upstream).await;
            let last = &steps[steps.len() - script.len() - 1];
            match (outcome, last) {
                (Ok(()), Success(tokens)) => assert_eq!(left(), *tokens, "{name}"),
                (Err(gave_up), Stop(_, tokens, reason)) => {
                    assert_eq!((left(), gave_up.reason()), (*tokens, *reason), "{name}");
                }
                (outcome, _) => panic!("{name}: {outcome:?}"),
            }
        }
        let starts = starts.into_inner();
        assert_eq!(starts.len(), steps.len(), "{name}");
        for (n, step) in steps.iter().enumerate() {
            if let Retry(_, tokens, millis) = step {
                let took = starts[n + 1].1 - starts[n].1;
                // Paused time advances in whole milliseconds.
                assert_eq!(
                    (starts[n + 1].0, took.as_millis()),
                    (*tokens, (*millis).into()),
                    "{name}"
                );
            }
        }
    }
}

proptest! {
    /// t = U(0, 1) · min(20 s, base · 2^i), and a hint is clamped to [t, t + 5 s].
    #[test]
    fn delays_follow_the_published_formula(
        number in 1_u32..80, throttled in any::<bool>(), hint in prop::option::of(1_u64..100_000), seed in any::<u64>()
    ) {
        let policy = RetryPolicy::aws().with_attempts(100);
        let delay = |verdict| match policy.decide(Attempt::new(number), Some(verdict), seeded(seed)) {
            Decision::Retry(delay) => delay,
            stop => panic!("{stop:?}"),
        };
        let verdict = if throttled { BUSY } else { DOWN };
        let (t, base) = (delay(verdict), if throttled { 1_000 } else { 50 });
        let most = (base * 2_u128.pow(number - 1)).min(20_000);
        prop_assert!(t.as_millis() <= most, "{t:?} above {most} ms");
        if let Some(hint) = hint.map(Duration::from_millis) {
            prop_assert_eq!(delay(verdict.after(hint)), hint.clamp(t, t + SECOND * 5));
        }
    }
}

/// With three attempts a call, the budget is drained if more than about 22 % of all attempts fail, or
/// if more than about 32 % are throttled.
#[tokio::test(start_paused = true)]
async fn the_budget_is_drained_at_the_published_rates() {
    for (verdict, percent, is_drained) in
        [(DOWN, 19, false), (DOWN, 26, true), (BUSY, 28, false), (BUSY, 37, true)]
    {
        let timer = Seeded::new(TokioTimer::new(), 7);
        let upstream = Upstream::new("aws").with_budget(Budget::aws()).with_timer(&timer);
        let mut least = 500;
        for _ in 0..6_000 {
            let ask = |_| {
                let failed = timer.draw_within(0..=99) < percent;
                std::future::ready(if failed { Err(Refused(verdict)) } else { Ok(()) })
            };
            drop(retry(ask, aws(), Never).on(&upstream).await);
            least = least.min(upstream.budget().unwrap().available());
        }
        assert_eq!(least < 14, is_drained, "{percent} % {verdict:?}: at least {least} tokens");
    }
}

/// Neither a spent budget nor a used-up quota shortens a hint. In one SDK an empty limiter turned a
/// hint of 5 s into its own delay of 2 s.
#[tokio::test(start_paused = true)]
async fn an_empty_limiter_never_shortens_a_hint() {
    let down = |_| std::future::ready(Err::<(), _>(Refused(DOWN.after(SECOND * 5))));
    let spent = on(Budget::aws().with_capacity(0));
    let gave_up = retry(down, aws(), Never).on(&spent).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.elapsed()), (StopReason::Budget, Duration::ZERO));
    assert_eq!(gave_up.retry_after(), Some(SECOND * 5));

    // The quota has its next unit after 2 s, or only after 8 s.
    for (refill, retries_after) in [(SECOND * 2, SECOND * 5), (SECOND * 8, SECOND * 8)] {
        let quota = Quota::new().with_requests(Rate::new(1, refill).with_burst(1));
        let limited = on(Budget::aws()).with_quota(quota);
        let (began, starts) = (Instant::now(), RefCell::new(Vec::new()));
        let ask = |_| {
            starts.borrow_mut().push(began.elapsed());
            std::future::ready(if starts.borrow().len() > 1 {
                Ok(())
            } else {
                Err(Refused(DOWN.after(SECOND * 5)))
            })
        };
        retry(ask, aws(), Never).on(&limited).await.unwrap();
        assert_eq!(starts.into_inner(), [Duration::ZERO, retries_after]);
    }
}

/// Nothing is known about an attempt that its caller dropped, so the next one has the full price.
#[tokio::test(start_paused = true)]
async fn a_retry_after_a_dropped_attempt_has_the_price_of_a_failure() {
    let upstream = Upstream::new("busy").with_budget(Budget::aws());
    let left = || upstream.budget().unwrap().available();
    let policy = aws().with_attempts(9).with_backoff(Backoff::none());
    let mut run = Run::new(policy.with_throttled_backoff(Backoff::none()), Never).on(&upstream);
    run.next().await.unwrap();
    run.failed(Refused(BUSY)).unwrap();
    run.next().await.unwrap();
    assert_eq!(left(), 495);
    // The caller drops the second attempt and asks for a third one.
    run.next().await.unwrap();
    assert_eq!(left(), 481);
}
