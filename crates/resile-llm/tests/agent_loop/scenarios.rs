//! Each scenario ends as documented, and its printed numbers agree with each other.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::program::{Running, command, events};

/// Runs a scenario. Checks its exit code, its state and the sums of its summary. Returns its events
/// and its summary.
fn run(arguments: &[&str], code: i32, state: &str) -> (Vec<Value>, Value) {
    let output = command(arguments).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    let mut events = events(&output);
    let summary = events.pop().unwrap();
    assert_eq!(summary["event"], "summary");
    assert_eq!(summary["state"], state);
    assert_eq!(summary["success"], code == 0);

    assert_eq!(summary["attempts"], count(&events, "attempt"));
    let number = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(number("attempts"), number("calls") + number("retries"));
    let sum = |name: &str, field: &str| -> u64 {
        all(&events, name).map(|event| event[field].as_u64().unwrap()).sum()
    };
    let waited = sum("waiting", "wait_ms") + sum("held", "wait_ms") - sum("wait_cut", "left_ms");
    assert_eq!(number("waited_ms"), waited);
    assert_eq!(
        number("failures_in_all"),
        all(&events, "failed").filter(|event| event["who"] == "model").count() as u64
    );
    (events, summary)
}

fn all<'e>(events: &'e [Value], name: &'e str) -> impl Iterator<Item = &'e Value> {
    events.iter().filter(move |event| event["event"] == name)
}

fn count(events: &[Value], name: &str) -> usize {
    all(events, name).count()
}

#[test]
fn calm_needs_no_retry() {
    let (events, summary) = run(&["--scenario", "calm"], 0, "completed");
    assert_eq!((count(&events, "failed"), &summary["retries"]), (0, &Value::from(0)));
}

#[test]
fn stormy_survives_every_fault() {
    let (events, summary) = run(&[], 0, "completed");
    assert!(summary["elapsed_ms"].as_u64().unwrap() < 30_000);
    for (kind, times) in [
        ("rate_limit", 6),
        ("overloaded", 2),
        ("server", 3),
        ("network", 2),
        ("timeout", 2),
        ("invalid_output", 1),
        ("context_length", 1),
    ] {
        assert_eq!(summary["failures"][kind], times, "{kind}");
    }
    assert_eq!(summary["restarts"], 3, "streams that are cut, too slow, or have an error event");
    assert_eq!(summary["reasks"], 3, "malformed output, an unknown tool, wrong arguments");
    assert_eq!(count(&events, "shrunk"), 1);
    let ran: Vec<_> =
        all(&events, "tool").map(|event| event["arguments"].as_str().unwrap()).collect();
    assert!(
        !ran.iter().any(|arguments| arguments.contains("cut off")),
        "a truncated tool call is never run"
    );
    assert_eq!(
        all(&events, "tool").filter(|event| event["name"] == "send_mail").count(),
        1,
        "no mail is sent twice"
    );
    // Every wait is at least as long as its hint.
    let reported: Vec<_> = events
        .iter()
        .filter(|event| event["event"] == "failed" || event["event"] == "waiting")
        .collect();
    let hinted: Vec<_> = reported.windows(2).filter(|pair| pair[0]["asked_ms"].is_u64()).collect();
    assert_eq!(hinted.len(), 6, "one hint of each kind");
    assert!(hinted.iter().all(|pair| pair[0]["asked_ms"] == pair[1]["hint_ms"]), "{hinted:?}");
    let waits = all(&events, "waiting");
    let hints: Vec<_> = waits
        .filter_map(|event| Some((event["wait_ms"].as_u64()?, event["hint_ms"].as_u64()?)))
        .collect();
    assert_eq!(hints.len(), 6, "the waits of our own after an overload are no hints");
    assert!(hints.iter().all(|(waited, hint)| waited >= hint), "{hints:?}");
}

#[test]
fn a_captcha_ends_the_run_without_success() {
    let (events, summary) = run(&["--scenario", "captcha"], 1, "completed");
    assert!(
        all(&events, "observation")
            .any(|event| event["text"].as_str().unwrap().contains("captcha"))
    );
    assert_eq!(summary["tool_retries"], 0);
}

#[test]
fn an_outage_opens_the_breaker_and_reports_when_to_come_back() {
    let (events, summary) = run(&["--scenario", "outage"], 3, "error");
    assert_eq!(all(&events, "breaker").next().unwrap()["state"], "open");
    assert_eq!(summary["breaker"], "open");
    assert!(summary["text"].as_str().unwrap().contains("come back in"));
}

#[test]
fn an_exhausted_quota_is_not_retried() {
    let (_, summary) = run(&["--scenario", "quota"], 3, "error");
    assert_eq!(
        (&summary["retries"], &summary["failures"]["quota_exhausted"]),
        (&Value::from(0), &Value::from(1))
    );
    let text = summary["text"].as_str().unwrap();
    for part in ["quota_exhausted", "rule", "come back in 86400"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_runaway_ends_at_its_step_limit() {
    let (events, summary) = run(&["--scenario", "runaway", "--max-steps", "6"], 3, "error");
    assert_eq!((&summary["steps"], &summary["calls"]), (&Value::from(6), &Value::from(6)));
    assert_eq!(
        all(&events, "observation")
            .filter(|event| event["text"].as_str().unwrap().contains("Only"))
            .count(),
        2
    );
}

#[test]
fn the_stop_scenario_ends_as_stopped() {
    let (events, summary) = run(&["--scenario", "stop"], 130, "stopped");
    assert_eq!(events.last().unwrap()["event"], "ended");
    assert_eq!(
        count(&events, "discarded"),
        1,
        "the result of the tool after the stop is discarded"
    );
    assert!(summary["elapsed_ms"].as_u64().unwrap() < 20_000, "the tool would take 30 s");
}

#[test]
fn without_a_terminal_the_output_is_plain_text() {
    let output = command(&["--scenario", "calm"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("completed, success: true"));
    assert!(!text.contains(['\u{1b}', '\r']));
}

#[test]
fn the_server_serves_other_clients_through_the_environment() {
    let mut server =
        Running(command(&["--server-only", "0", "--scenario", "calm"]).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("OPENAI_BASE_URL=").unwrap();
    let output = command(&["--json"])
        .env("OPENAI_BASE_URL", url)
        .env("OPENAI_API_KEY", "sk-secret")
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "the program uses the given server, not its own stormy one"
    );
    let events = events(&output);
    assert!(!all(&events, "failed").any(|event| event["who"] == "model"));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("sk-secret"));
}

#[test]
fn the_environment_limits_the_retries() {
    for (retries, attempts) in [("0", 1), ("1", 2)] {
        let mut outage = command(&["--scenario", "outage", "--json"]);
        let output =
            outage.env("LLM_MAX_RETRIES", retries).env("LLM_RETRY_DELAY_MS", "1").output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(events(&output).last().unwrap()["attempts"], attempts);
    }
}

#[test]
fn a_bad_value_prints_one_line_and_ends_with_exit_code_2() {
    let arguments: [(&[&str], &str); 8] = [
        (&["--scenario", "sunny"], "--scenario"),
        (&["--max-steps", "0"], "--max-steps"),
        (&["--max-steps", "many"], "--max-steps"),
        (&["--seed", "-1"], "--seed"),
        (&["--task", " "], "--task"),
        (&["--server-only", "70000"], "--server-only"),
        (&["--loud"], "--loud"),
        (&["more"], "more"),
    ];
    for (arguments, name) in arguments {
        refused(&mut command(arguments), name);
    }
    for (name, value) in [
        ("LLM_MAX_RETRIES", "-1"),
        ("LLM_MAX_RETRIES", "three"),
        ("LLM_RETRY_DELAY_MS", "0.5"),
        ("LLM_TIMEOUT_MS", "0"),
        ("LLM_TIMEOUT_MS", "99999999999999999999999"),
        ("OPENAI_BASE_URL", "api.example.org"),
        ("OPENAI_BASE_URL", "ftp://example.org"),
        ("OPENAI_API_KEY", "a key"),
    ] {
        refused(command(&[]).env(name, value), name);
    }
}

fn refused(command: &mut std::process::Command, name: &str) {
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{name}: {error}");
    assert!(output.stdout.is_empty());
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains(name), "{error}");
}
