//! Two settings that contradict each other. From a configuration they are an error that names both.
//! In code each pair has the effect that its documentation states.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use proptest::prelude::*;
use resile::classify::Always;
use resile::quota::{Charge, Cost, Dimension, Rate};
use resile::time::ManualTimer;
use resile::{
    AdaptiveTimeout, Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy,
    HedgePolicy, Never, Quota, ResilienceExt, RetryPolicy, StopReason, Upstream, Verdict, fallback,
    hedge, retry,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Reads a document as a type.
type Read = fn(Value) -> Result<(), String>;

fn read<T: DeserializeOwned>(document: Value) -> Result<(), String> {
    from_value::<T>(document).map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_contradiction_is_an_error_that_names_both_settings_and_both_values() {
    let table: [(Read, Value, &str); 14] = [
        (
            read::<RetryPolicy>,
            json!({ "attempt_timeout": "20s", "total_timeout": "10s" }),
            "`attempt_timeout` is 20s and `total_timeout` is 10s, expected `attempt_timeout` to be at most `total_timeout`, at which the call ends",
        ),
        (
            read::<RetryPolicy>,
            json!({ "learned_attempt_timeout": true, "attempt_timeout": "2ns", "total_timeout": "1ns" }),
            "`attempt_timeout` is 2ns and `total_timeout` is 1ns, expected `attempt_timeout` to be at most `total_timeout`, at which the call ends",
        ),
        (
            read::<RetryPolicy>,
            json!({ "backoff": { "base": "1m", "cap": "10s" } }),
            "`base` of `backoff` is 1m and `cap` of `backoff` is 10s, expected `base` to be at most `cap`, the longest delay",
        ),
        (
            read::<RetryPolicy>,
            json!({ "throttled_backoff": { "curve": "fixed", "base": "1m", "cap": "10s" } }),
            "`base` of `throttled_backoff` is 1m and `cap` of `throttled_backoff` is 10s, expected `base` to be at most `cap`, the longest delay",
        ),
        (
            read::<RetryPolicy>,
            json!({ "backoff": { "curve": "fixed", "base": "5s" }, "total_timeout": "5s" }),
            "`backoff` is 5s or longer and `total_timeout` is 5s, expected the first delay to be below `total_timeout`, or no retry begins",
        ),
        (
            read::<RetryPolicy>,
            json!({ "healthy_backoff": { "curve": "fixed", "base": "4s" }, "total_timeout": "4s" }),
            "`healthy_backoff` is 4s or longer and `total_timeout` is 4s, expected the first delay to be below `total_timeout`, or no retry begins",
        ),
        (
            read::<RetryPolicy>,
            json!({ "throttled_backoff": { "base": "9s", "jitter": "equal" }, "total_timeout": "4s" }),
            "`throttled_backoff` is 4s 500ms or longer and `total_timeout` is 4s, expected the first delay to be below `total_timeout`, or no retry begins",
        ),
        (
            read::<HedgePolicy>,
            json!({ "attempt_timeout": "20s", "total_timeout": "10s" }),
            "`attempt_timeout` is 20s and `total_timeout` is 10s, expected `attempt_timeout` to be at most `total_timeout`, at which the call ends",
        ),
        (
            read::<HedgePolicy>,
            json!({ "delay": "10s", "total_timeout": "10s" }),
            "`delay` is 10s and `total_timeout` is 10s, expected `delay` to be below `total_timeout`, or no hedge starts",
        ),
        (
            read::<HedgePolicy>,
            json!({ "delay": "10s", "attempt_timeout": "9s" }),
            "`delay` is 10s and `attempt_timeout` is 9s, expected `delay` to be below `attempt_timeout`, or no hedge starts",
        ),
        (
            read::<FallbackPolicy>,
            json!({ "attempt_timeout": "20s", "total_timeout": "10s" }),
            "`attempt_timeout` is 20s and `total_timeout` is 10s, expected `attempt_timeout` to be at most `total_timeout`, at which the call ends",
        ),
        (
            read::<Upstream>,
            json!({ "name": "x", "breaker": { "open_time": { "base": "1m", "cap": "10s" } } }),
            "`base` of `open_time` of `breaker` is 1m and `cap` of `open_time` of `breaker` is 10s, expected `base` to be at most `cap`, the longest delay",
        ),
        (
            read::<Bulkhead>,
            json!({ "limit": 2, "queue": 0, "max_wait": "5s" }),
            "`queue` is 0 and `max_wait` is 5s, expected both to be above 0 if calls may wait, or only one of them to be set",
        ),
        (
            read::<Upstream>,
            json!({ "name": "x", "quota": { "charge": { "default_maximum": 9, "maximum_reserved": false } } }),
            "`maximum_reserved` of `charge` of `quota` is false and `default_maximum` of `charge` of `quota` is 9, expected `maximum_reserved` to be true, because only then the number counts",
        ),
    ];
    for (read, document, message) in table {
        let message = format!("contradictory settings: {message}");
        assert_eq!(read(document.clone()), Err(message), "{document}");
    }
    let waits = json!({ "limit": 2, "queue": 3, "max_wait": "0s" });
    assert!(read::<Bulkhead>(waits).is_err(), "nothing waits for no time");
}

/// Asserts that all documents are read. Each has the reason why it has no contradiction.
fn all_are_read(table: impl IntoIterator<Item = (Read, Value, &'static str)>) {
    for (read, document, why) in table {
        assert_eq!(read(document.clone()), Ok(()), "{document}: {why}");
    }
}

/// The other pairs of settings that meet in a policy.
#[test]
fn settings_of_a_policy_without_a_contradiction_are_read() {
    let table: [(Read, Value, &str); 14] = [
        (
            read::<RetryPolicy>,
            json!({ "attempt_timeout": "5s", "total_timeout": "5s" }),
            "one limit said twice",
        ),
        (
            read::<RetryPolicy>,
            json!({ "attempt_timeout": "5s", "total_timeout": "none" }),
            "no limit on the call",
        ),
        (
            read::<RetryPolicy>,
            json!({ "learned_attempt_timeout": true, "attempt_timeout": "none" }),
            "a learned timeout without a limit",
        ),
        (
            read::<RetryPolicy>,
            json!({ "attempts": 1, "backoff": { "curve": "fixed", "base": "5s" }, "total_timeout": "5s" }),
            "retries are turned off",
        ),
        (
            read::<RetryPolicy>,
            json!({ "hint_cap": "1h", "total_timeout": "1s" }),
            "the cap ends a call at once",
        ),
        (
            read::<RetryPolicy>,
            json!({ "backoff": { "base": "10s" }, "total_timeout": "5s" }),
            "full jitter draws shorter delays",
        ),
        (
            read::<RetryPolicy>,
            json!({ "backoff": { "jitter": "none" }, "total_timeout": "400ms" }),
            "the base is a default",
        ),
        (
            read::<RetryPolicy>,
            json!({ "backoff": { "base": "1m" } }),
            "a default cap is at least the base",
        ),
        (read::<RetryPolicy>, json!({ "backoff": { "cap": "100ms" } }), "the base is a default"),
        (
            read::<RetryPolicy>,
            json!({ "backoff": { "curve": "none", "base": "1m", "cap": "10s" } }),
            "the curve uses neither",
        ),
        (
            read::<RetryPolicy>,
            json!({ "backoff": { "curve": "fixed", "factor": 3 } }),
            "the factor stays for another curve",
        ),
        (read::<HedgePolicy>, json!({ "total_timeout": "500ms" }), "the delay is a default"),
        (
            read::<HedgePolicy>,
            json!({ "delay": "5s", "total_timeout": "5s", "hedges": 0 }),
            "hedges are turned off",
        ),
        (
            read::<HedgePolicy>,
            json!({ "delay": "5s", "total_timeout": "5s", "learned_delay": true }),
            "the learned delay is shorter",
        ),
    ];
    all_are_read(table);
}

/// The other pairs of settings that meet in a part of an upstream.
#[test]
fn settings_of_a_part_without_a_contradiction_are_read() {
    let table: [(Read, Value, &str); 9] = [
        (read::<Cooldown>, json!({ "cap": "500ms" }), "the default hold is a default"),
        (read::<AdaptiveTimeout>, json!({ "ceiling": "100ms" }), "the floor is a default"),
        (
            read::<Bulkhead>,
            json!({ "limit": 0, "queue": 5, "max_wait": "0s" }),
            "the bulkhead is closed",
        ),
        (
            read::<Bulkhead>,
            json!({ "limit": 2, "queue": 0, "max_wait": "0s" }),
            "no wait said twice",
        ),
        (
            read::<Bulkhead>,
            json!({ "limit": 2, "queue": 0, "max_wait": "none" }),
            "no limit on no wait",
        ),
        (read::<Budget>, json!({ "capacity": 1, "deposit": 20 }), "a success fills the budget"),
        (
            read::<Breaker>,
            json!({ "failure_rate": "none", "window": "5s" }),
            "the rate is turned off",
        ),
        (
            read::<Quota>,
            json!({ "requests": { "count": 5, "per": "1s", "burst": 9 } }),
            "units that gather in a pause",
        ),
        (
            read::<Quota>,
            json!({ "input": "9000/min", "tokens": "100/min", "charge": { "default_maximum": 200 } }),
            "the provider's own limits",
        ),
    ];
    all_are_read(table);
}

/// `attempt_timeout` without a limit may come after `learned_attempt_timeout`.
#[test]
fn settings_may_come_in_any_order() {
    let learned = r#"{ "learned_attempt_timeout": true, "attempt_timeout": "none" }"#;
    let timeout = r#"{ "attempt_timeout": "none", "learned_attempt_timeout": true }"#;
    for text in [learned, timeout] {
        let policy: RetryPolicy = serde_json::from_str(text).unwrap();
        assert!(policy.learns_attempt_timeout(), "{text}");
    }
}

fn millis() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(0..20_u64)
}

proptest! {
    /// Only settings of the file contradict each other, whatever the defaults are.
    #[test]
    fn a_policy_is_read_unless_two_of_its_settings_contradict_each_other(
        [total, attempt] in [proptest::option::of(1..20_u64), proptest::option::of(1..20_u64)],
        base in millis(), cap in millis(),
        attempts in proptest::option::of(1..5_u32),
    ) {
        let of = |millis: Option<u64>| millis.map(|millis| format!("{millis}ms"));
        let mut document = json!({
            "total_timeout": of(total), "attempt_timeout": of(attempt),
            "backoff": { "base": of(base), "cap": of(cap) },
            "attempts": attempts,
        });
        document.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        document["backoff"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let above = |lower: Option<u64>, upper: Option<u64>| {
            lower.zip(upper).is_some_and(|(lower, upper)| lower > upper)
        };
        let contradicts = above(attempt, total) || above(base, cap);
        match read::<RetryPolicy>(document.clone()) {
            Ok(()) => prop_assert!(!contradicts, "{document}"),
            Err(message) => {
                prop_assert!(contradicts, "{document}: {message}");
                prop_assert!(message.starts_with("contradictory settings: "), "{message}");
            }
        }
    }
}

/// Returns the time that `call` takes on tokio's paused clock, and its error.
async fn timed<T: std::fmt::Debug, E>(call: impl Future<Output = Result<T, E>>) -> (E, Duration)
where
    E: std::fmt::Debug,
{
    let began = Instant::now();
    let error = call.await.unwrap_err();
    (error, began.elapsed())
}

async fn hang(_: Attempt) -> Result<(), &'static str> {
    pending().await
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_total_timeout_before_a_longer_attempt_timeout() {
    let (total, attempt) = (SECOND * 10, SECOND * 20);
    let policy = RetryPolicy::new().with_total_timeout(total).with_attempt_timeout(attempt);
    let (error, took) = timed(async { retry(hang, policy, Never).await }).await;
    assert_eq!((error.reason(), error.attempts(), took), (StopReason::Deadline, 1, total));

    let policy = HedgePolicy::new().with_total_timeout(total).with_attempt_timeout(attempt);
    let (error, took) = timed(async { hedge(hang, policy, Never).await }).await;
    assert_eq!((error.reason(), took), (StopReason::Deadline, total));

    let policy = FallbackPolicy::new().with_total_timeout(total).with_attempt_timeout(attempt);
    let alternative = |_: resile::fallback::Alternative<'_, i32>| pending::<Result<(), &str>>();
    let call = async { fallback(&[1, 2], alternative, policy, Never).await };
    let (error, took) = timed(call).await;
    assert_eq!((error.reason(), error.attempts(), took), (StopReason::Deadline, 1, total));
}

#[tokio::test(start_paused = true)]
async fn no_hedge_starts_with_a_delay_at_or_above_a_timeout() {
    for delay in [SECOND * 5, SECOND * 6] {
        let policy = HedgePolicy::new().with_delay(delay);
        let total = policy.with_total_timeout(SECOND * 5);
        let (error, took) = timed(async { hedge(hang, total, Never).await }).await;
        assert_eq!((error.reason(), error.attempts()), (StopReason::Deadline, 1));
        assert_eq!(took, SECOND * 5);
        let attempt = policy.with_attempt_timeout(SECOND * 5);
        let (error, took) = timed(async { hedge(hang, attempt, Never).await }).await;
        assert_eq!((error.attempts(), took), (1, SECOND * 5));
    }
}

#[tokio::test(start_paused = true)]
async fn no_retry_begins_with_a_delay_at_or_above_the_total_timeout() {
    for (delay, attempts) in [(SECOND * 4, 2), (SECOND * 5, 1), (SECOND * 6, 1)] {
        let policy = RetryPolicy::new().with_total_timeout(SECOND * 5).with_attempts(2);
        let policy = policy.with_backoff(Backoff::fixed(delay));
        let fails = |_| async { Err::<(), _>("busy") };
        let (error, _) = timed(async { retry(fails, policy, Never).await }).await;
        assert_eq!(error.attempts(), attempts, "{delay:?}");
    }
}

#[test]
fn a_base_above_the_cap_counts_as_the_cap() {
    let minute = SECOND * 60;
    for backoff in [
        Backoff::fixed(minute),
        Backoff::linear(minute),
        Backoff::exponential(minute),
        Backoff::fibonacci(minute),
    ] {
        let delays = backoff.with_cap(SECOND).schedule().take(5);
        assert!(delays.eq([SECOND; 5]), "{backoff:?}");
    }
}

/// The number matters only while the provider charges the most output at the start.
#[test]
fn a_default_maximum_has_no_effect_without_a_charge_for_the_most_output() {
    let tokens = |charge: Charge| {
        let quota = Quota::new().with_tokens(Rate::per_minute(100)).with_charge(charge);
        let upstream = Upstream::new("model").with_quota(quota).with_timer(ManualTimer::new());
        upstream.at_cost(Cost::input(1)).try_admit().map(|_| ()).map_err(|error| error.reason())
    };
    let charge = Charge::ACTUAL.with_default_maximum(200);
    assert_eq!(tokens(charge), Ok(()));
    assert_eq!(tokens(charge.with_maximum_reserved(true)), Err(StopReason::TooLarge));
}

#[test]
fn a_ceiling_wins_over_a_higher_floor() {
    let adaptive = AdaptiveTimeout::new().with_ceiling(SECOND / 10);
    (0..30).for_each(|_| adaptive.record(Duration::ZERO, SECOND));
    assert_eq!(adaptive.limit(), SECOND / 10);
}

#[test]
fn a_hold_without_a_hint_is_at_most_the_cap() {
    let cooldown = Cooldown::new().with_cap(SECOND / 2);
    let upstream = Upstream::new("x").with_cooldown(cooldown).with_timer(ManualTimer::new());
    upstream.try_admit().unwrap().settle(&Verdict::throttled());
    assert_eq!(upstream.held(), Some(SECOND / 2));
}

/// A wait needs both a place in the queue and time.
#[tokio::test(start_paused = true)]
async fn a_full_bulkhead_without_a_queue_or_without_a_wait_refuses_at_once() {
    let fifth = SECOND * 5;
    for bulkhead in [
        Bulkhead::new(1).with_queue(0).with_max_wait(fifth),
        Bulkhead::new(1).with_queue(3).with_max_wait(Duration::ZERO),
    ] {
        let upstream = Upstream::new("x").with_bulkhead(bulkhead);
        let _inside = upstream.try_admit().unwrap();
        let call = upstream.call(async { Ok::<_, &str>(()) }, Always);
        let (error, took) = timed(call).await;
        assert_eq!((error.reason(), took), (StopReason::Full, Duration::ZERO));
    }
}

/// A cost above the burst never fits. The call ends with both numbers, and sends nothing.
#[tokio::test(start_paused = true)]
async fn a_cost_above_the_burst_ends_the_call_with_both_numbers() {
    let quota = Quota::new().with_tokens(Rate::per_minute(1_000).with_burst(100));
    let upstream = Upstream::new("model").with_quota(quota);
    let cost = Cost::input(101);
    let requests = Cell::new(0);
    let send = |_| async {
        requests.set(requests.get() + 1);
        Ok::<_, &str>(())
    };
    let call = async { retry(send, RetryPolicy::new(), Never).on(upstream.at_cost(cost)).await };
    let (error, took) = timed(call).await;
    assert_eq!((error.reason(), error.attempts()), (StopReason::TooLarge, 0));
    let large = error.too_large().unwrap();
    assert_eq!((large.dimension, large.cost, large.limit), (Dimension::Tokens, 101, 100));
    assert_eq!((requests.get(), took), (0, Duration::ZERO));
    assert!(
        error.to_string().contains("the cost of 101 tokens is above the quota's burst of 100"),
        "{error}"
    );
    // A cost of the burst fits.
    let fits = async { Ok::<_, &str>(()) }.through(upstream.at_cost(Cost::input(100)), Always);
    assert!(fits.await.is_ok());
}
