//! Upstreams and their parts are read from configuration. An error names the setting, its value and
//! the accepted values.

use std::sync::LazyLock;
use std::time::Duration;

use resile::breaker::State;
use resile::classify::Always;
use resile::time::ManualTimer;
use resile::{
    AdaptiveTimeout, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, HedgePolicy, RetryPolicy,
    StopReason, Upstream, Verdict,
};
use serde::de::DeserializeOwned;
use serde_json::{from_str, json};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the error without its position in the text.
fn wrong<T: DeserializeOwned>(text: &str) -> String {
    let Err(error) = from_str::<T>(text) else { panic!("{text} is accepted") };
    let error = error.to_string();
    error.rsplit_once(" at line ").map_or(error.clone(), |(message, _)| message.to_owned())
}

#[test]
fn a_whole_upstream_is_read() {
    let text = r#"{
        "name": "openai",
        "budget": { "capacity": 3, "deposit": 0.5 },
        "breaker": {
            "consecutive": 2, "failure_rate": { "share": 0.5, "of": 10 }, "slow_rate": "none", "window": "5s",
            "open_time": { "curve": "fixed", "base": "3s" }, "probes": { "share": 1.0, "of": 1 }, "lease": "9s"
        },
        "cooldown": { "jitter": 0.0, "cap": "4s" },
        "bulkhead": { "limit": 2, "queue": 0 },
        "throttle": {},
        "adaptive_timeout": { "quantile": 0.5, "ceiling": "7s" }
    }"#;
    let (timer, upstream) = (ManualTimer::new(), from_str::<Upstream>(text).unwrap());
    let upstream = upstream.with_timer(timer.clone());
    assert_eq!((upstream.name(), upstream.budget().unwrap().capacity()), ("openai", 3));
    assert_eq!(upstream.adaptive_timeout().unwrap().limit(), SECOND * 7);
    assert_eq!(upstream.throttled(), Some(0.0));
    upstream.hold(SECOND * 100);
    assert_eq!(upstream.held(), Some(SECOND * 4), "the hold is cut to the cap");
    timer.advance(SECOND * 4);

    let inside = [upstream.try_admit().unwrap(), upstream.try_admit().unwrap()];
    assert_eq!(upstream.try_admit().unwrap_err().reason(), StopReason::Full);
    for admission in inside {
        admission.settle(&Verdict::transient());
    }
    assert_eq!(
        upstream.breaker().map(Breaker::state),
        Some(State::Open),
        "two failures in a row open the breaker"
    );
    assert_eq!(upstream.snapshot().unwrap().retry_after, Some(SECOND * 3));
    timer.advance(SECOND * 3);
    upstream.try_admit().unwrap().succeeded();
    assert_eq!(
        upstream.breaker().map(Breaker::state),
        Some(State::Closed),
        "one probe closes the breaker"
    );
}

#[test]
fn missing_settings_have_the_values_of_new() {
    let shown = |part: &dyn std::fmt::Debug| format!("{part:?}");
    assert_eq!(shown(&from_str::<Budget>("{}").unwrap()), shown(&Budget::new()));
    assert_eq!(shown(&from_str::<Breaker>("{}").unwrap()), shown(&Breaker::new()));
    assert_eq!(shown(&from_str::<Cooldown>("{}").unwrap()), shown(&Cooldown::new()));
    assert_eq!(
        shown(&from_str::<Bulkhead>(r#"{ "limit": 7 }"#).unwrap()),
        shown(&Bulkhead::new(7))
    );
    assert_eq!(shown(&from_str::<AdaptiveTimeout>("{}").unwrap()), shown(&AdaptiveTimeout::new()));
    assert_eq!(from_str::<HedgePolicy>("{}").unwrap(), HedgePolicy::new());
    assert_eq!(from_str::<FallbackPolicy>("{}").unwrap(), FallbackPolicy::new());
    let bare: Upstream = from_str(r#"{ "name": "bare" }"#).unwrap();
    assert!(bare.budget().is_none() && bare.breaker().is_none() && bare.bulkhead().is_none());
}

#[test]
fn policies_are_read() {
    let hedge = r#"{ "delay": "80ms", "learned_delay": true, "hedges": 2, "total_timeout": "9s", "attempt_timeout": "3s" }"#;
    let meant = HedgePolicy::new().with_delay(SECOND * 2 / 25).with_learned_delay().with_hedges(2);
    let meant = meant.with_total_timeout(SECOND * 9).with_attempt_timeout(SECOND * 3);
    assert_eq!(from_str::<HedgePolicy>(hedge).unwrap(), meant);
    let fallback = r#"{ "total_timeout": "9s", "attempt_timeout": "none" }"#;
    assert_eq!(
        from_str::<FallbackPolicy>(fallback).unwrap(),
        FallbackPolicy::new().with_total_timeout(SECOND * 9)
    );
}

/// With a limit of zero each attempt, or the whole call, would be cut after its first poll.
#[test]
fn a_timeout_of_zero_is_an_error() {
    for setting in ["attempt_timeout", "total_timeout"] {
        let right = format!(
            "expected `{setting}` to be a duration above 0 in h, m, s, ms, us or ns, such as \
             \"1.5s\", \"500ms\" or \"2m 30s\", or \"none\""
        );
        for zero in ["0s", "0ms", "0h 0m"] {
            let text = format!(r#"{{ "{setting}": "{zero}" }}"#);
            let message = format!("invalid value: string \"{zero}\", {right}");
            assert_eq!(wrong::<RetryPolicy>(&text), message);
            assert_eq!(wrong::<HedgePolicy>(&text), message);
            assert_eq!(wrong::<FallbackPolicy>(&text), message);
        }
    }
    let least = r#"{ "attempt_timeout": "1ns", "total_timeout": "1ns" }"#;
    let least = from_str::<RetryPolicy>(least).unwrap();
    let limits = (least.attempt_timeout(), least.total_timeout());
    assert_eq!(limits, (Some(Duration::from_nanos(1)), Some(Duration::from_nanos(1))));
}

#[test]
fn an_error_names_the_setting_its_value_and_the_accepted_values() {
    let whole = |setting: &str, place: &str, least: u32| {
        format!("expected `{setting}` of {place} to be a whole number from {least} to 4294967295")
    };
    let share = "expected `share` of `failure_rate` of `breaker` to be a number from 0 to 1";
    let table = [
        ("{}", "missing field `name`".to_owned()),
        (r#"{ "name": "x", "limit": 1 }"#, "unknown field `limit`, expected one of `name`, `budget`, `breaker`, `cooldown`, `bulkhead`, `quota`, `throttle`, `adaptive_timeout`".to_owned()),
        (r#"{ "name": "x", "name": "y" }"#, "duplicate field `name`".to_owned()),
        ("[]", "invalid type: sequence, expected an upstream to be a map of `name`, `budget`, `breaker`, `cooldown`, `bulkhead`, `quota`, `throttle`, `adaptive_timeout`".to_owned()),
        (r#"{ "name": "x", "budget": { "capacity": -1 } }"#, format!("invalid value: integer `-1`, {}", whole("capacity", "`budget`", 0))),
        (r#"{ "name": "x", "budget": { "deposit": -1 } }"#, "invalid value: floating point `-1.0`, expected `deposit` of `budget` to be a number from 0 to 4294967295".to_owned()),
        (r#"{ "name": "x", "breaker": { "consecutive": 0 } }"#, format!("invalid value: integer `0`, {}, or \"none\"", whole("consecutive", "`breaker`", 1))),
        (r#"{ "name": "x", "breaker": { "consecutive": "many" } }"#, format!("invalid value: string \"many\", {}, or \"none\"", whole("consecutive", "`breaker`", 1))),
        (r#"{ "name": "x", "breaker": { "failure_rate": { "share": 2, "of": 3 } } }"#, format!("invalid value: floating point `2.0`, {share}")),
        (r#"{ "name": "x", "breaker": { "failure_rate": { "share": 0.5 } } }"#, "missing field `of` of `failure_rate` of `breaker`".to_owned()),
        (r#"{ "name": "x", "breaker": { "failure_rate": { "share": 0.5, "of": 3, "limit": "1s" } } }"#, "unknown field `limit` of `failure_rate` of `breaker`, expected one of `share`, `of`".to_owned()),
        (r#"{ "name": "x", "breaker": { "slow_rate": { "share": 0.5, "of": 3 } } }"#, "missing field `limit` of `slow_rate` of `breaker`".to_owned()),
        (r#"{ "name": "x", "bulkhead": {} }"#, "missing field `limit` of `bulkhead`".to_owned()),
        (r#"{ "name": 5 }"#, r#"invalid type: integer `5`, expected `name` to be text that is not empty, such as "search""#.to_owned()),
        (r#"{ "name": " " }"#, r#"invalid value: string " ", expected `name` to be text that is not empty, such as "search""#.to_owned()),
        (r#"{ "name": "x", "budget": { "cost": 14 } }"#, "unknown field `cost` of `budget`, expected one of `capacity`, `deposit`".to_owned()),
        (r#"{ "name": "x", "breaker": { "open_time": "5s" } }"#, r#"invalid type: string "5s", expected `open_time` of `breaker` to be a map of `curve`, `base`, `factor`, `cap`, `jitter`"#.to_owned()),
        (r#"{ "name": "x", "throttle": { "ratio": 2 } }"#, "unknown field `ratio` of `throttle`, expected none".to_owned()),
        (r#"{ "name": "x", "throttle": true }"#, "invalid type: boolean `true`, expected `throttle` to be an empty map".to_owned()),
        (r#"{ "name": "x", "cooldown": { "cap": 5 } }"#, r#"invalid type: integer `5`, expected `cap` of `cooldown` to be a duration of 0 or more in h, m, s, ms, us or ns, such as "1.5s", "500ms" or "2m 30s""#.to_owned()),
    ];
    for (text, message) in table {
        assert_eq!(wrong::<Upstream>(text), message, "{text}");
    }
}

/// The short forms have the defaults of [`Breaker::new`]: 20 calls, and the share 0.6 of the probes.
#[test]
fn a_failure_rate_may_be_a_share_and_probes_a_number() {
    let shown = |breaker: Breaker| format!("{breaker:?}");
    let new = Breaker::new;
    for (text, meant) in [
        (r#"{ "failure_rate": 0.25 }"#, shown(new().with_failure_rate(0.25, 20))),
        (r#"{ "failure_rate": 0 }"#, shown(new().with_failure_rate(0.0, 20))),
        (r#"{ "failure_rate": 1 }"#, shown(new().with_failure_rate(1.0, 20))),
        (r#"{ "failure_rate": 0.5, "probes": 5 }"#, shown(new())),
        (r#"{ "probes": 1 }"#, shown(new().with_probes(1.0, 1))),
        (r#"{ "probes": 10 }"#, shown(new().with_probes(0.6, 10))),
        (r#"{ "failure_rate": null }"#, shown(new().without_failure_rate())),
    ] {
        assert_eq!(shown(from_str(text).unwrap()), meant, "{text}");
    }
    let rate = "expected `failure_rate` to be a share from 0 to 1, such as 0.5, or a map of `share`, `of`, or \"none\"";
    let probes =
        "expected `probes` to be a whole number from 1, such as 3, or a map of `share`, `of`";
    for (text, message) in [
        (r#"{ "failure_rate": 50 }"#, format!("invalid value: integer `50`, {rate}")),
        (r#"{ "failure_rate": -1 }"#, format!("invalid value: integer `-1`, {rate}")),
        (r#"{ "failure_rate": 1.5 }"#, format!("invalid value: floating point `1.5`, {rate}")),
        (r#"{ "failure_rate": "50%" }"#, format!("invalid value: string \"50%\", {rate}")),
        (r#"{ "probes": 0 }"#, format!("invalid value: integer `0`, {probes}")),
        (r#"{ "probes": 4294967296 }"#, format!("invalid value: integer `4294967296`, {probes}")),
        (r#"{ "probes": 0.6 }"#, format!("invalid type: floating point `0.6`, {probes}")),
    ] {
        assert_eq!(wrong::<Breaker>(text), message, "{text}");
    }
}

static CONFIGURED: LazyLock<Upstream> =
    LazyLock::new(|| from_str(r#"{ "name": "lazy", "breaker": {} }"#).unwrap());

#[tokio::test(start_paused = true)]
async fn a_static_may_be_read_from_a_configuration() {
    let call =
        resile::retry(|_| async { Ok::<_, &str>(7) }, resile::RetryPolicy::new(), resile::Never);
    assert_eq!(call.on(&CONFIGURED).await.unwrap(), 7);
    assert_eq!(CONFIGURED.call(async { Ok::<_, &str>(8) }, Always).await.unwrap(), 8);
}

#[derive(serde::Deserialize, serde::Serialize)]
struct Own {
    #[serde(with = "resile::config::duration")]
    connect: Duration,
    #[serde(default, with = "resile::config::duration::option")]
    idle: Option<Duration>,
}

#[test]
fn durations_in_other_types_are_read() {
    let own: Own = from_str(r#"{ "connect": "1.5s", "idle": "2m" }"#).unwrap();
    assert_eq!((own.connect, own.idle), (SECOND * 3 / 2, Some(SECOND * 120)));
    assert_eq!(serde_json::to_value(&own).unwrap(), json!({ "connect": "1s 500ms", "idle": "2m" }));
    let none: Own = from_str(r#"{ "connect": "0s", "idle": "none" }"#).unwrap();
    assert_eq!(none.idle, None);
}

/// Serde tells nobody the name of such a field, so the error has the value and the right form.
#[test]
fn an_error_of_a_duration_in_another_type_reads_as_a_sentence() {
    let right = "expected a duration of 0 or more in h, m, s, ms, us or ns, such as \"1.5s\", \"500ms\" or \"2m 30s\"";
    for (text, found) in [
        (r#"{ "connect": "soon" }"#, "invalid value: string \"soon\""),
        (r#"{ "connect": 30 }"#, "invalid type: integer `30`"),
        (r#"{ "connect": null }"#, "invalid type: null"),
    ] {
        assert_eq!(wrong::<Own>(text), format!("{found}, {right}"));
    }
    assert_eq!(
        wrong::<Own>(r#"{ "connect": "1s", "idle": "soon" }"#),
        format!("invalid value: string \"soon\", {right}, or \"none\""),
    );
}

/// A limit is fixed or learned, and a file says which.
#[test]
fn the_limit_of_a_bulkhead_may_be_learned() {
    let shown = |bulkhead: Bulkhead| format!("{bulkhead:?}");
    for (text, meant) in [
        (r#"{ "learned": 200 }"#, Bulkhead::learned(200)),
        (r#"{ "learned": 200, "queue": 0 }"#, Bulkhead::learned(200).with_queue(0)),
        (r#"{ "limit": 200 }"#, Bulkhead::new(200)),
    ] {
        assert_eq!(shown(from_str(text).unwrap()), shown(meant), "{text}");
    }
    let error = wrong::<Bulkhead>(r#"{ "limit": 20, "learned": 200 }"#);
    for part in ["limit", "20", "learned", "200", "only one of them"] {
        assert!(error.contains(part), "{error}");
    }
}
