//! Retry policies as configuration: a written policy is read back unchanged, and errors explain
//! what is accepted.

use std::time::Duration;

use proptest::prelude::*;
use rand::RngExt;
use resile::{Backoff, Jitter, RetryPolicy};
use serde_json::{Value, from_str, from_value, json, to_string, to_value};

fn policy(text: &str) -> RetryPolicy {
    from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Returns the error without its position in the text.
fn wrong(text: &str) -> String {
    let error = from_str::<RetryPolicy>(text).expect_err(text).to_string();
    let (message, _) = error.rsplit_once(" at line ").expect("serde_json adds the position");
    message.into()
}

fn wrong_backoff(setting: &str) -> String {
    wrong(&format!(r#"{{ "backoff": {{ {setting} }} }}"#))
}

#[test]
fn a_whole_policy_is_read() {
    let read = policy(
        r#"{
            "attempts": 5,
            "total_timeout": "2m", "attempt_timeout": "20s", "hint_cap": "1h",
            "throttled_backoff": { "base": "2s", "cap": "20s" },
            "healthy_backoff": { "base": "5ms", "cap": "200ms" },
            "backoff": {
                "curve": "exponential", "base": "250ms", "factor": 1.5, "cap": "10s", "jitter": { "proportional": 0.25 }
            }
        }"#,
    );
    let backoff = Backoff::exponential(Duration::from_millis(250))
        .with_factor(1.5)
        .with_cap(Duration::from_secs(10))
        .with_jitter(Jitter::Proportional(0.25));
    let meant = RetryPolicy::new()
        .with_attempts(5)
        .with_total_timeout(Duration::from_secs(120))
        .with_attempt_timeout(Duration::from_secs(20))
        .with_hint_cap(Duration::from_secs(3600))
        .with_backoff(backoff)
        .with_throttled_backoff(
            Backoff::exponential(Duration::from_secs(2)).with_cap(Duration::from_secs(20)),
        )
        .with_healthy_backoff(
            Backoff::exponential(Duration::from_millis(5)).with_cap(Duration::from_millis(200)),
        );
    assert_eq!(read, meant);
}

#[test]
fn missing_settings_have_the_values_of_new() {
    let new = RetryPolicy::new();
    assert_eq!(policy("{}"), new);
    assert_eq!(policy(r#"{ "backoff": {} }"#), new);
    assert_eq!(policy(r#"{ "attempts": 7 }"#), new.with_attempts(7));

    let second = Duration::from_secs(1);
    assert_eq!(
        policy(r#"{ "backoff": { "base": "1s" } }"#),
        new.with_backoff(Backoff::exponential(second))
    );
    // A missing cap is the default cap of the curve's constructor.
    let minute = Duration::from_secs(60);
    assert_eq!(
        policy(r#"{ "backoff": { "base": "1m" } }"#),
        new.with_backoff(Backoff::exponential(minute))
    );
    let fixed = policy(r#"{ "backoff": { "curve": "fixed", "base": "1m" } }"#);
    assert_eq!(fixed, new.with_backoff(Backoff::fixed(minute)));
}

#[test]
fn none_and_null_mean_no_limit() {
    let unlimited = RetryPolicy::new()
        .with_hint_cap(Duration::MAX)
        .with_backoff(RetryPolicy::new().backoff().with_cap(Duration::MAX));
    for nothing in ["null", r#""none""#] {
        let text = format!(
            r#"{{ "total_timeout": {nothing}, "attempt_timeout": {nothing}, "hint_cap": {nothing}, "backoff": {{ "cap": {nothing} }} }}"#
        );
        assert_eq!(policy(&text), unlimited, "{text}");
    }
}

#[test]
fn an_attempt_timeout_may_be_learned() {
    let learned = policy(r#"{ "learned_attempt_timeout": true }"#);
    assert_eq!(learned, RetryPolicy::new().with_learned_attempt_timeout());
    assert!(learned.learns_attempt_timeout() && !policy("{}").learns_attempt_timeout());
}

#[test]
fn durations_are_read_in_common_forms() {
    let forms = [
        ("1.5s", 1_500),
        ("500ms", 500),
        ("2m 30s", 150_000),
        ("2m30s", 150_000),
        ("2 minutes, 30 seconds", 150_000),
        ("1h", 3_600_000),
    ];
    for (text, millis) in forms {
        let read = policy(&json!({ "total_timeout": text, "attempt_timeout": text }).to_string());
        let limit = Some(Duration::from_millis(millis));
        assert_eq!((read.total_timeout(), read.attempt_timeout()), (limit, limit), "{text}");
    }
    assert_eq!(policy(r#"{ "hint_cap": "0s" }"#).hint_cap(), Duration::ZERO);
}

#[test]
fn policies_are_written_in_the_documented_form() {
    let text =
        to_string(&RetryPolicy::new().with_total_timeout(Duration::from_millis(90_500))).unwrap();
    assert_eq!(
        text,
        r#"{"attempts":3,"total_timeout":"1m 30s 500ms","attempt_timeout":null,"hint_cap":"2m","backoff":{"curve":"exponential","base":"500ms","factor":2.0,"cap":"30s"}}"#
    );
    let fixed = Backoff::fixed(Duration::from_secs(1)).with_jitter(Jitter::Proportional(0.5));
    assert_eq!(
        to_string(&fixed).unwrap(),
        r#"{"curve":"fixed","base":"1s","jitter":{"proportional":0.5}}"#
    );
    // A jitter that was not set is not written. The default of the curve says more than the kind.
    assert_eq!(to_string(&Backoff::none()).unwrap(), r#"{"curve":"none"}"#);
    let full = Backoff::linear(Duration::from_secs(1)).with_jitter(Jitter::Full);
    assert_eq!(
        to_string(&full).unwrap(),
        r#"{"curve":"linear","base":"1s","cap":"30s","jitter":"full"}"#
    );
    assert_eq!(to_value(RetryPolicy::new()).unwrap()["total_timeout"], Value::Null);
    let limited = RetryPolicy::new().with_attempt_timeout(Duration::from_secs(90));
    assert_eq!(to_value(limited).unwrap()["attempt_timeout"], "1m 30s");
    let learned = RetryPolicy::new().with_learned_attempt_timeout();
    assert_eq!(to_value(learned).unwrap()["learned_attempt_timeout"], true);
}

#[test]
fn the_classifier_stays_in_code() {
    let classify = |e: &&str| *e == "busy";
    let classified = RetryPolicy::patient().with_classifier(classify);
    let read = from_value::<RetryPolicy>(to_value(classified).unwrap()).unwrap();
    assert_eq!(read, RetryPolicy::patient());
    assert_eq!(read.with_classifier(classify).attempts(), 10);
}

#[test]
fn values_without_a_text_form_are_written_as_their_effect() {
    let written =
        |share: f64| to_value(Jitter::Proportional(share)).unwrap()["proportional"].as_f64();
    assert_eq!(written(f64::NAN), Some(0.0));
    assert_eq!(written(-1.0), Some(0.0));
    assert_eq!(written(7.0), Some(1.0));

    let steepest = Backoff::exponential(Duration::from_nanos(1)).with_factor(f64::INFINITY);
    let read: Backoff = from_value(to_value(steepest).unwrap()).unwrap();
    assert!(steepest.schedule().take(100).eq(read.schedule().take(100)));
}

#[test]
fn unknown_and_duplicate_settings_are_errors() {
    assert_eq!(
        wrong(r#"{ "tries": 5 }"#),
        "unknown field `tries`, expected one of `attempts`, `total_timeout`, `attempt_timeout`, `learned_attempt_timeout`, `hint_cap`, `backoff`, `throttled_backoff`, `healthy_backoff`"
    );
    assert_eq!(
        wrong_backoff(r#""max": "1s""#),
        "unknown field `max` of `backoff`, expected one of `curve`, `base`, `factor`, `cap`, `jitter`"
    );
    assert_eq!(
        wrong_backoff(r#""jitter": { "share": 0.5 }"#),
        "unknown field `share` of `jitter` of `backoff`, expected `proportional`"
    );
    assert_eq!(
        wrong_backoff(r#""jitter": {}"#),
        "missing field `proportional` of `jitter` of `backoff`"
    );
    assert_eq!(wrong(r#"{ "attempts": 5, "attempts": 6 }"#), "duplicate field `attempts`");
}

#[test]
fn bad_attempts_are_errors() {
    let right =
        "expected `attempts` (the first included) to be a whole number from 1 to 4294967295";
    let of = |value: &str| wrong(&format!(r#"{{ "attempts": {value} }}"#));
    assert_eq!(of("0"), format!("invalid value: integer `0`, {right}"));
    assert_eq!(of("-3"), format!("invalid value: integer `-3`, {right}"));
    assert_eq!(of("4294967296"), format!("invalid value: integer `4294967296`, {right}"));
    assert_eq!(of("1.5"), format!("invalid type: floating point `1.5`, {right}"));
    assert_eq!(of(r#""5""#), format!("invalid type: string \"5\", {right}"));
    assert_eq!(of("null"), format!("invalid type: null, {right}"));
}

#[test]
fn bad_durations_are_errors() {
    let right = r#"to be a duration of 0 or more in h, m, s, ms, us or ns, such as "1.5s", "500ms" or "2m 30s""#;
    let above = right.replace("of 0 or more", "above 0");
    let bad = [
        "5 parsecs",
        "-5s",
        "-0.5s",
        "5s ago",
        "5",
        "",
        "s",
        "1d",
        "forever",
        "99999999999999999999h",
    ];
    for value in bad {
        for (limit, right) in
            [("total_timeout", &*above), ("attempt_timeout", &above), ("hint_cap", right)]
        {
            assert_eq!(
                wrong(&json!({ limit: value }).to_string()),
                format!("invalid value: string {value:?}, expected `{limit}` {right}, or \"none\"")
            );
        }
        assert_eq!(
            wrong_backoff(&format!(r#""cap": {value:?}"#)),
            format!(
                "invalid value: string {value:?}, expected `cap` of `backoff` {right}, or \"none\""
            )
        );
        assert_eq!(
            wrong_backoff(&format!(r#""base": {value:?}"#)),
            format!("invalid value: string {value:?}, expected `base` of `backoff` {right}")
        );
    }
    assert_eq!(
        wrong(r#"{ "total_timeout": 120 }"#),
        format!("invalid type: integer `120`, expected `total_timeout` {above}, or \"none\"")
    );
    assert_eq!(
        wrong(r#"{ "attempt_timeout": 120 }"#),
        format!("invalid type: integer `120`, expected `attempt_timeout` {above}, or \"none\"")
    );
    assert_eq!(
        wrong(r#"{ "total_timeout": "learned" }"#),
        format!("invalid value: string \"learned\", expected `total_timeout` {above}, or \"none\"")
    );
    assert_eq!(
        wrong_backoff(r#""base": null"#),
        format!("invalid type: null, expected `base` of `backoff` {right}")
    );
    assert_eq!(
        wrong_backoff(r#""base": "none""#),
        format!("invalid value: string \"none\", expected `base` of `backoff` {right}")
    );
}

#[test]
fn bad_factors_and_shares_are_errors() {
    let factor = "expected `factor` of `backoff` to be a finite number of 1 or more";
    assert_eq!(
        wrong_backoff(r#""factor": 0.5"#),
        format!("invalid value: floating point `0.5`, {factor}")
    );
    assert_eq!(
        wrong_backoff(r#""factor": 0"#),
        format!("invalid value: floating point `0.0`, {factor}")
    );
    assert_eq!(wrong_backoff(r#""factor": "2""#), format!("invalid type: string \"2\", {factor}"));

    let share = "expected `proportional` of `jitter` of `backoff` to be a number from 0 to 1";
    let of = |value: &str| wrong_backoff(&format!(r#""jitter": {{ "proportional": {value} }}"#));
    assert_eq!(of("1.5"), format!("invalid value: floating point `1.5`, {share}"));
    assert_eq!(of("-1"), format!("invalid value: floating point `-1.0`, {share}"));
    assert_eq!(of("null"), format!("invalid type: null, {share}"));
}

/// JSON has no NaN and no infinity, but other formats have.
#[test]
fn a_factor_of_nan_or_infinity_is_an_error() {
    use serde::Deserialize;
    use serde::de::value::{Error, F64Deserializer, MapDeserializer};

    for (n, shown) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        let entry: [(&str, F64Deserializer<Error>); 1] =
            [("factor", serde::de::IntoDeserializer::into_deserializer(n))];
        let error = Backoff::deserialize(MapDeserializer::new(entry.into_iter())).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "invalid value: floating point `{shown}`, expected `factor` to be a finite number of 1 or more"
            )
        );
    }
}

#[test]
fn unknown_names_are_errors() {
    let curve = r#"expected `curve` of `backoff` to be "none", "fixed", "linear", "exponential" or "fibonacci""#;
    assert_eq!(
        wrong_backoff(r#""curve": "quadratic""#),
        format!("invalid value: string \"quadratic\", {curve}")
    );
    assert_eq!(wrong_backoff(r#""curve": 2"#), format!("invalid type: integer `2`, {curve}"));

    let jitter = r#"expected `jitter` of `backoff` to be "none", "full", "equal", "decorrelated" or { "proportional": 0.5 }"#;
    assert_eq!(
        wrong_backoff(r#""jitter": "some""#),
        format!("invalid value: string \"some\", {jitter}")
    );
    assert_eq!(
        wrong_backoff(r#""jitter": "proportional""#),
        format!("invalid value: string \"proportional\", {jitter}")
    );
    assert_eq!(
        wrong_backoff(r#""jitter": true"#),
        format!("invalid type: boolean `true`, {jitter}")
    );

    assert_eq!(
        wrong("5"),
        "invalid type: integer `5`, expected a retry policy to be a map of `attempts`, `total_timeout`, `attempt_timeout`, `learned_attempt_timeout`, `hint_cap`, `backoff`, `throttled_backoff`, `healthy_backoff`"
    );
    assert_eq!(
        wrong(r#"{ "backoff": "fixed" }"#),
        "invalid type: string \"fixed\", expected `backoff` to be a map of `curve`, `base`, `factor`, `cap`, `jitter`"
    );
}

#[test]
fn curves_written_in_code_are_errors() {
    let steps = r#"`curve` cannot be "steps" in a configuration: use `Backoff::steps` in code"#;
    let custom = r#"`curve` cannot be "custom" in a configuration: use `Backoff::custom` in code"#;
    assert_eq!(wrong_backoff(r#""curve": "steps""#), steps);
    assert_eq!(wrong_backoff(r#""curve": "custom""#), custom);

    let policy = RetryPolicy::new();
    let write = |backoff| to_string(&policy.with_backoff(backoff)).unwrap_err().to_string();
    assert_eq!(write(Backoff::steps(&[Duration::ZERO])), steps);
    assert_eq!(write(Backoff::custom(|_| Duration::ZERO)), custom);
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..100_000_u64).prop_map(Duration::from_millis),
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
    ]
}

fn jitters() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
        (0.0..=1.0).prop_map(Jitter::Proportional),
    ]
}

/// Backoffs without a contradiction.
fn backoffs() -> impl Strategy<Value = Backoff> {
    const CURVES: [fn(Duration) -> Backoff; 5] = [
        |_| Backoff::none(),
        Backoff::fixed,
        Backoff::linear,
        Backoff::exponential,
        Backoff::fibonacci,
    ];
    let factors = proptest::option::of(1.0..=f64::MAX);
    let caps = proptest::option::of(durations());
    let backoffs = (proptest::sample::select(&CURVES), durations(), factors, caps);
    (backoffs, proptest::option::of(jitters())).prop_map(|((curve, base, factor, cap), jitter)| {
        let mut backoff = curve(base);
        if let Some(factor) = factor {
            backoff = backoff.with_factor(factor);
        }
        if let Some(cap) = cap {
            backoff = backoff.with_cap(cap.max(base));
        }
        jitter.map_or(backoff, |jitter| backoff.with_jitter(jitter))
    })
}

/// Policies without a contradiction.
fn policies() -> impl Strategy<Value = RetryPolicy> {
    let attempt_timeouts = prop_oneof![
        Just((None, false)),
        Just((Some(Duration::from_secs(9)), true)),
        durations().prop_map(|limit| (Some(limit), false)),
    ];
    let own = (proptest::option::of(backoffs()), proptest::option::of(backoffs()));
    let timeouts = (proptest::option::of(durations()), attempt_timeouts);
    (any::<u32>(), timeouts, durations(), backoffs(), own).prop_map(
        |(attempts, (total, (attempt, learned)), cap, backoff, (throttled, healthy))| {
            let policy = RetryPolicy::new().with_attempts(attempts);
            let policy = policy.with_hint_cap(cap).with_backoff(backoff);
            let policy = throttled.map_or(policy, |backoff| policy.with_throttled_backoff(backoff));
            let policy = healthy.map_or(policy, |backoff| policy.with_healthy_backoff(backoff));

            let first = |backoff: Backoff| backoff.schedule().next().unwrap();
            let delay = [throttled, healthy]
                .into_iter()
                .flatten()
                .map(first)
                .fold(first(backoff), Duration::max);
            let total = total.filter(|total| *total > delay);
            let policy = total.map_or(policy, |limit| policy.with_total_timeout(limit));
            let policy = if learned { policy.with_learned_attempt_timeout() } else { policy };
            attempt.map_or(policy, |limit| {
                let limit = limit.max(Duration::from_nanos(1));
                policy.with_attempt_timeout(total.map_or(limit, |total| limit.min(total)))
            })
        },
    )
}

/// A policy is written as it is. The contradiction is found by the reader.
#[test]
fn a_written_contradiction_is_named_by_the_reader() {
    let second = Duration::from_secs(1);
    let policy = RetryPolicy::new().with_total_timeout(second).with_attempt_timeout(second * 2);
    let error = from_value::<RetryPolicy>(to_value(policy).unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("contradictory settings: `attempt_timeout` is 2s and"), "{error}");
    let read_back = |policy| from_value::<RetryPolicy>(to_value(policy).unwrap()).unwrap();
    for preset in
        [RetryPolicy::new(), RetryPolicy::patient(), RetryPolicy::contention(), RetryPolicy::none()]
    {
        assert_eq!(read_back(preset), preset);
    }
    // Its limit on the hint has no setting.
    let aws = read_back(RetryPolicy::aws());
    assert_ne!(aws, RetryPolicy::aws());
    let public = |policy: RetryPolicy| (policy.backoff(), policy.throttled_backoff());
    assert_eq!(public(aws), public(RetryPolicy::aws()));
}

proptest! {
    #[test]
    fn a_written_policy_is_read_back_unchanged(policy in policies()) {
        // The test compares values, because not every JSON reader keeps the last bit of a float.
        prop_assert_eq!(from_value::<RetryPolicy>(to_value(policy).unwrap()).unwrap(), policy);
        let backoff = policy.backoff();
        prop_assert_eq!(from_value::<Backoff>(to_value(backoff).unwrap()).unwrap(), backoff);
    }

    #[test]
    fn a_written_jitter_is_read_back_unchanged(jitter in jitters()) {
        prop_assert_eq!(from_value::<Jitter>(to_value(jitter).unwrap()).unwrap(), jitter);
    }

    /// Some formats have no null and leave such settings out.
    #[test]
    fn a_policy_without_its_nulls_is_read_back_unchanged(policy in policies()) {
        let mut written = to_value(policy).unwrap();
        written.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        prop_assert_eq!(from_value::<RetryPolicy>(written).unwrap(), policy);
    }

    #[test]
    fn any_text_is_a_duration_or_an_error(text in ".{0,12}") {
        let read = from_value::<RetryPolicy>(json!({ "total_timeout": text, "attempt_timeout": text }));
        if let Ok(read) = read {
            prop_assert_eq!(from_value::<RetryPolicy>(to_value(read).unwrap()).unwrap(), read);
        }
    }
}

/// A list is never read as the settings in their order.
#[test]
fn a_list_is_not_a_policy() {
    let right = "expected a retry policy to be a map of `attempts`, `total_timeout`, `attempt_timeout`, `learned_attempt_timeout`, `hint_cap`, `backoff`, `throttled_backoff`, `healthy_backoff`";
    for list in ["[]", r#"[7, "1s"]"#] {
        assert_eq!(wrong(list), format!("invalid type: sequence, {right}"), "{list}");
    }
    let right = "expected `backoff` to be a map of `curve`, `base`, `factor`, `cap`, `jitter`";
    for list in ["[]", r#"["fixed", "1s"]"#] {
        assert_eq!(
            wrong(&format!(r#"{{ "backoff": {list} }}"#)),
            format!("invalid type: sequence, {right}"),
            "{list}"
        );
    }
    let jitter = wrong_backoff(r#""jitter": [0.5]"#);
    assert!(
        jitter.starts_with("invalid type: sequence, expected `jitter` of `backoff` to be"),
        "{jitter}"
    );
}

fn draw(range: std::ops::RangeInclusive<u64>) -> u64 {
    rand::rng().random_range(range)
}

/// An explicit delay in a configuration has no jitter by default.
#[test]
fn a_fixed_delay_in_a_configuration_has_no_jitter_by_default() {
    let fixed = |more: &str| {
        policy(&format!(r#"{{ "backoff": {{ "curve": "fixed", "base": "5s"{more} }} }}"#)).backoff()
    };
    let delays = |backoff: Backoff| -> Vec<_> {
        (1..20).map(|n| backoff.delay(n, Duration::ZERO, draw)).collect()
    };
    assert_eq!(delays(fixed("")), [Duration::from_secs(5); 19]);
    assert_ne!(delays(fixed(r#", "jitter": "full""#)), [Duration::from_secs(5); 19]);
    let written = to_string(&Backoff::fixed(Duration::from_secs(5))).unwrap();
    assert_eq!(written, r#"{"curve":"fixed","base":"5s"}"#);
}

/// A hint gets jitter unless `Jitter::None` was set. A jitter that was not set must therefore not
/// be written.
#[test]
fn a_jitter_that_was_not_set_is_not_set_after_reading() {
    use resile::policy::Decision;
    use resile::{Attempt, Verdict};

    let hint = Duration::from_secs(10);
    let spreads = |backoff: Backoff| {
        let policy = RetryPolicy::new().with_backoff(backoff);
        let delay = || policy.decide(Attempt::new(1), Some(Verdict::transient().after(hint)), draw);
        (0..50).any(|_| delay() != Decision::Retry(hint))
    };
    let again = |backoff: Backoff| from_value::<Backoff>(to_value(backoff).unwrap()).unwrap();
    let fixed = Backoff::fixed(Duration::from_secs(5));
    assert!(spreads(fixed) && spreads(again(fixed)));
    let none = fixed.with_jitter(Jitter::None);
    assert!(!spreads(none) && !spreads(again(none)));
}
