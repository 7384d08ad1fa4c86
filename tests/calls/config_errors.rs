//! Each error of a configuration names the setting, the settings around it and what is right. The
//! laws walk documents with every setting of every type.

use resile::{
    AdaptiveTimeout, Backoff, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, HedgePolicy,
    Jitter, Quota, RetryPolicy, Upstream,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};

/// Reads a document as a type.
type Read = fn(Value) -> Result<(), String>;

fn read<T: DeserializeOwned>(document: Value) -> Result<(), String> {
    from_value::<T>(document).map(drop).map_err(|error| error.to_string())
}

/// Each readable type with a document that has all its settings.
fn documents() -> Vec<(Read, Value)> {
    let jitter = json!({ "proportional": 0.25 });
    let backoff = json!({
        "curve": "exponential", "base": "250ms", "factor": 1.5, "cap": "10s", "jitter": jitter
    });
    let retry = json!({
        "attempts": 5, "total_timeout": "2m", "attempt_timeout": "20s",
        "learned_attempt_timeout": true, "hint_cap": "1h", "backoff": backoff,
        "throttled_backoff": backoff, "healthy_backoff": backoff
    });
    let hedge = json!({
        "delay": "80ms", "learned_delay": true, "hedges": 2, "total_timeout": "9s",
        "attempt_timeout": "3s"
    });
    let fallback = json!({ "total_timeout": "9s", "attempt_timeout": "3s" });
    let budget = json!({ "capacity": 20, "deposit": 1 });
    let breaker = json!({
        "consecutive": 2, "overloads": true, "failure_rate": { "share": 0.5, "of": 10 },
        "slow_rate": { "share": 0.5, "of": 10, "limit": "5s" }, "window": "5s",
        "open_time": backoff, "probes": { "share": 1.0, "of": 1 }, "lease": "9s"
    });
    let cooldown = json!({ "jitter": 0.5, "cap": "4s" });
    let bulkhead = json!({ "limit": 2, "queue": 3, "max_wait": "5s" });
    let rate = json!({ "count": 4000, "per": "1m", "burst": 500 });
    let quota = json!({
        "requests": rate, "input": rate, "output": rate, "tokens": rate, "concurrency": 64,
        "queue": 5, "learning": "both", "shadow": true,
        "charge": {
            "maximum_reserved": true, "refund": false, "output_weight": 5,
            "cache_read_weight": 0.5, "cache_write_weight": 1.25, "default_maximum": 9
        }
    });
    let adaptive = json!({ "quantile": 0.5, "ceiling": "7s" });
    let upstream = json!({
        "name": "model", "budget": budget, "breaker": breaker, "cooldown": cooldown,
        "bulkhead": bulkhead, "quota": quota, "throttle": {}, "adaptive_timeout": adaptive
    });
    vec![
        (read::<Jitter>, jitter),
        (read::<Backoff>, backoff),
        (read::<RetryPolicy>, retry),
        (read::<HedgePolicy>, hedge),
        (read::<FallbackPolicy>, fallback),
        (read::<Budget>, budget),
        (read::<Breaker>, breaker),
        (read::<Cooldown>, cooldown),
        (read::<Bulkhead>, bulkhead),
        (read::<Quota>, quota),
        (read::<AdaptiveTimeout>, adaptive),
        (read::<Upstream>, upstream),
    ]
}

/// Returns the paths of all settings of a document, such as `/breaker/probes/share`.
fn paths(document: &Value, around: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (name, value) in document.as_object().into_iter().flatten() {
        let path = format!("{around}/{name}");
        all.extend(paths(value, &path));
        all.push(path);
    }
    all
}

/// Returns the document with another value at `path`.
fn with(document: &Value, path: &str, value: Value) -> Value {
    let mut changed = document.clone();
    *changed.pointer_mut(path).unwrap() = value;
    changed
}

/// Returns whether `value` is right for the setting, though the laws below try it as a wrong one.
fn is_right(setting: &str, value: &Value) -> bool {
    let any = |settings: &[&str]| settings.contains(&setting);
    match value {
        Value::Null => any(&[
            "total_timeout",
            "attempt_timeout",
            "hint_cap",
            "cap",
            "consecutive",
            "failure_rate",
            "slow_rate",
            "max_wait",
        ]),
        Value::Bool(_) => {
            setting.starts_with("learned")
                || any(&["maximum_reserved", "overloads", "refund", "shadow"])
        }
        Value::String(_) => any(&["name"]),
        Value::Number(_) => any(&["factor"]),
        Value::Array(_) => false,
        Value::Object(map) => {
            map.is_empty()
                && any(&[
                    "backoff",
                    "throttled_backoff",
                    "healthy_backoff",
                    "open_time",
                    "budget",
                    "breaker",
                    "cooldown",
                    "quota",
                    "charge",
                    "throttle",
                    "adaptive_timeout",
                ])
        }
    }
}

#[test]
fn a_document_with_all_settings_is_read() {
    for (read, document) in documents() {
        assert_eq!(read(document.clone()), Ok(()), "{document}");
    }
}

#[test]
fn an_error_names_the_setting_and_the_settings_around_it() {
    let wrong = [
        json!([]),
        json!(["1s", 2]),
        json!(true),
        json!("wrong"),
        json!(-1),
        json!(1.5e300),
        json!(null),
        json!({}),
        json!({ "wrong": 1 }),
    ];
    let mut faults = Vec::new();
    for (read, document) in documents() {
        for path in paths(&document, "") {
            for value in &wrong {
                let setting = path.rsplit('/').next().unwrap();
                let message = match read(with(&document, &path, value.clone())) {
                    Ok(()) if is_right(setting, value) => continue,
                    Ok(()) => "accepted".to_owned(),
                    Err(message) => message,
                };
                let names =
                    path.split('/').skip(1).all(|name| message.contains(&format!("`{name}`")));
                let helps = message.contains("expected") || message.contains("missing field");
                if !names || !helps {
                    faults.push(format!("{path} = {value}: {message}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns the names that the message of an unknown setting lists.
fn listed(message: &str) -> Vec<String> {
    let (_, right) = message.split_once("expected").expect(message);
    right.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The documents above leave out no setting: the error of an unknown setting lists all of them.
#[test]
fn an_unknown_setting_is_answered_with_all_settings_of_its_place() {
    for (read, document) in documents() {
        let mut places = paths(&document, "");
        places.push(String::new());
        for place in places {
            let Some(known) = document.pointer(&place).and_then(Value::as_object) else { continue };
            let mut wrong = known.clone();
            wrong.insert("wrong".to_owned(), json!(1));
            let message = read(with(&document, &place, wrong.into())).expect_err(&place);
            assert!(message.starts_with("unknown field `wrong`"), "{place}: {message}");
            assert!(
                place.split('/').skip(1).all(|name| message.contains(&format!("`{name}`"))),
                "{place}: {message}"
            );
            let (mut names, mut known) =
                (listed(&message), known.keys().cloned().collect::<Vec<_>>());
            // The other one of `limit` and `learned`, which no document has both.
            if names.iter().any(|name| name == "max_wait") {
                known.push("learned".to_owned());
            }
            names.sort();
            known.sort();
            assert_eq!(names, known, "{place}");
        }
    }
}

#[test]
fn a_missing_setting_is_named_with_its_place() {
    let table = [
        ("/bulkhead/limit", "missing field `limit` of `bulkhead`"),
        ("/breaker/failure_rate/of", "missing field `of` of `failure_rate` of `breaker`"),
        ("/breaker/slow_rate/limit", "missing field `limit` of `slow_rate` of `breaker`"),
        ("/quota/tokens/per", "missing field `per` of `tokens` of `quota`"),
        ("/name", "missing field `name`"),
    ];
    let (read, document) = documents().pop().unwrap();
    for (path, message) in table {
        let (place, name) = path.rsplit_once('/').unwrap();
        let mut without = document.clone();
        without.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(name);
        assert_eq!(read(without), Err(message.to_owned()));
    }
}

#[test]
fn a_repeated_setting_is_named_with_its_place() {
    let text = r#"{ "name": "x", "breaker": { "probes": { "of": 1, "of": 2 } } }"#;
    let message = serde_json::from_str::<Upstream>(text).unwrap_err().to_string();
    assert!(message.starts_with("duplicate field `of` of `probes` of `breaker`"), "{message}");
}

/// A format that knows the place of a name shows the line with the wrong name.
#[test]
fn a_wrong_name_in_a_file_is_shown_with_its_line() {
    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "the file is wrong")]
    struct File {
        policy: RetryPolicy,
        weather: Upstream,
    }

    let policy = "[policy]\nattempts = 3\natempts = 3\n";
    let budget = "[policy]\n[weather]\nname = \"weather\"\n[weather.budget]\ncapacty = 3\n";
    for (file, line, name) in [(policy, 3, "atempts"), (budget, 5, "capacty")] {
        let error = toml::from_str::<File>(file).unwrap_err();
        let words = error.to_string();
        assert!(words.contains(&format!("line {line}, column 1")), "{words}");
        assert!(words.contains(&format!("unknown field `{name}`")), "{words}");
        assert_eq!(&file[error.span().unwrap()], name);
    }
}
