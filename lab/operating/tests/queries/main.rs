//! The dashboard and the alerts ask for series, labels and values that the crate publishes.

mod scene;
mod series;

use std::fs;
use std::path::Path;

use serde::Deserialize;
use series::{Query, Series};

/// Returns the text of a file of the repository.
fn read(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns the series of the crate, and those of `resile-redis`, which needs a server.
fn published() -> Series {
    let mut series = Series::of(&scene::text());
    series.add_source(&read("crates/resile-redis/src/meter.rs"));
    series
}

#[derive(Deserialize)]
struct Dashboard {
    panels: Vec<Panel>,
}

#[derive(Deserialize)]
struct Panel {
    title: String,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    expr: String,
    legend_format: String,
}

#[derive(Deserialize)]
struct Alerts {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    alert: String,
    expr: String,
    annotations: Annotations,
}

#[derive(Deserialize)]
struct Annotations {
    summary: String,
    description: String,
}

/// Returns the labels that a text names after `before`, as in `{{ $labels.upstream }}`.
fn labels<'t>(text: &'t str, before: &str) -> Vec<&'t str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let after = text.split(before).skip(1).map(str::trim_start);
    after.map(|after| after.split(|c| !is_name(c)).next().unwrap_or_default()).collect()
}

#[test]
fn each_panel_asks_for_what_is_published() {
    let published = published();
    let dashboard: Dashboard =
        serde_json::from_str(&read("docs/operating/dashboard.json")).unwrap();
    let mut shown = Vec::new();
    for Panel { title, targets } in &dashboard.panels {
        for Target { expr, legend_format } in targets {
            let expr = expr.replace("$upstream", ".*").replace("$__rate_interval", "5m");
            let query = Query::of(&expr);
            assert_eq!(query.faults(&published), [""; 0], "{title}: {expr}");
            for label in labels(legend_format, "{{") {
                assert!(query.has_label(label), "{title}: the legend names `{label}`");
            }
            shown.extend(query.families().into_iter().map(str::to_owned));
        }
    }
    // Nothing that is published is missing.
    let missing: Vec<_> =
        published.families().filter(|it| !shown.iter().any(|name| name == it)).collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}

/// The scene leaves out no series of the observer's table.
#[test]
fn each_series_of_the_crate_is_published() {
    let source = read("src/observe/metrics.rs");
    let rows =
        source.lines().filter_map(|line| line.strip_prefix("/// | `resile_")?.split('`').next());
    let published = published();
    let missing: Vec<_> = rows
        .map(|name| format!("resile_{name}"))
        .filter(|name| published.families().all(|family| family != name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn each_alert_asks_for_what_is_published() {
    let published = published();
    let alerts: Alerts = serde_saphyr::from_str(&read("docs/operating/alerts.yml")).unwrap();
    let rules: Vec<_> = alerts.groups.iter().flat_map(|group| &group.rules).collect();
    assert_eq!(rules.len(), 10);
    for Rule { alert, expr, annotations } in rules {
        let query = Query::of(expr);
        assert_eq!(query.faults(&published), [""; 0], "{alert}");
        let text = format!("{} {}", annotations.summary, annotations.description);
        for label in labels(&text, "$labels.") {
            assert!(query.has_label(label), "{alert}: the text names `{label}`");
        }
    }
}

/// The alert on retries subtracts those on a healthy upstream. So nothing may be left of them, and the refusals of
/// calls without a retry may not be subtracted.
#[test]
fn the_retries_after_collisions_are_the_healthy_attempts_that_ended_no_call() {
    let text = scene::text_of_collisions();
    let sum = |series: &str, has: &[&str]| -> u64 {
        let lines = text.lines().filter(|line| line.starts_with(&format!("{series}{{")));
        let lines = lines.filter(|line| has.iter().all(|label| line.contains(label)));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let healthy = ["health=\"healthy\""];
    let attempts = sum("resile_attempts_total", &["outcome=\"healthy\""]);
    let ended =
        sum("resile_calls_total", &healthy) - sum("resile_calls_total", &["outcome=\"ok\""]);
    assert_eq!((attempts, ended, sum("resile_retries_total", &[])), (11, 3, 8), "{text}");
}

#[test]
fn a_query_of_what_is_not_published_is_found() {
    let published = published();
    for (expr, faults) in [
        ("rate(resile_calls_total[5m])", 0),
        ("sum by (upstream, le) (resile_call_duration_seconds_bucket)", 0),
        ("resile_fleet_level{limit=\"requests\"}", 0),
        ("resile_call_total", 1),
        ("resile_calls_total{end=\"ok\"}", 1),
        ("resile_calls_total{outcome=~\"ok|okay\"}", 1),
        ("sum by (outcomes) (resile_calls_total)", 1),
        ("sum by (le) (resile_call_duration_seconds_sum)", 1),
        ("rate(resile_call_duration_seconds[5m])", 1),
    ] {
        assert_eq!(Query::of(expr).faults(&published).len(), faults, "{expr}");
    }
}
