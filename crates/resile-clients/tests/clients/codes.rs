//! The table of the codes of gRPC on the page is what the functions say.

use std::collections::BTreeSet;
use std::time::Duration;

use resile_clients::Idempotency::{self, Idempotent, NotIdempotent};
use resile_clients::grpc::{self, Pushback};
use resile_clients::resile::time::ManualTimer;
use resile_clients::resile::{Health, Never, RetryPolicy, StopReason, Upstream, Verdict, retry};

use super::rows::rows;

const PAGE: &str = include_str!("../../README.md");

/// The words of the server beside the code.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    RetryInfo,
    Pushback(Pushback),
}

impl Beside {
    fn verdict(self, code: i32, it: Idempotency) -> Option<Verdict> {
        match self {
            Self::Nothing => grpc::code(code, Pushback::None, it),
            Self::RetryInfo => grpc::with_retry_info(code, Duration::ZERO, it),
            Self::Pushback(pushback) => grpc::code(code, pushback, it),
        }
    }
}

/// Returns the rows of the table: the status, a read, an order, the effect, and the breaker.
fn table() -> impl Iterator<Item = [&'static str; 5]> {
    let section = PAGE.split("### The codes of gRPC\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    lines.map(|line| {
        let fields: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, status, read, order, effect, breaker, _] = fields[..] else { panic!("{line}") };
        [status, read, order, effect, breaker]
    })
}

/// Returns the code of each name, and its key in the data file.
fn codes(names: &str, key: &str) -> Vec<(i32, String)> {
    let code = |name: &str| {
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        (1..=16).find(|code| grpc::name(*code) == Some(name))
    };
    let codes = names.split(", ").map(|name| code(name).unwrap());
    codes.map(|code| (code, format!("{code}{key}"))).collect()
}

/// Returns what a call does that ends with this verdict.
async fn end(verdict: Verdict) -> &'static str {
    let policy = RetryPolicy::none().with_classifier(move |_: &&str| verdict);
    let bank = Upstream::new("bank").with_timer(ManualTimer::new());
    let call = retry(|_| std::future::ready(Err::<(), _>("down")), policy, Never).on(&bank);
    let gave_up = call.await.unwrap_err();
    match (gave_up.reason(), gave_up.is_in_doubt()) {
        (StopReason::Attempts, false) => "again",
        (StopReason::Fatal, true) => "in doubt",
        (StopReason::Fatal, false) => "final",
        other => panic!("{other:?}"),
    }
}

/// Returns what the table says of the effect of a request.
fn effect_of(verdict: &Verdict) -> &'static str {
    if verdict.is_without_effect() { "none" } else { "not known" }
}

/// Each code stands once, and the data file has no further one.
#[tokio::test]
async fn the_page_has_what_each_code_of_grpc_does() {
    let mut keys = BTreeSet::new();
    for [status, read, order, effect, breaker] in table() {
        let all = |key: &str| (1..=16).map(|code| (code, key.to_owned())).collect();
        let (codes, beside) = match status {
            "each code with a wait in `grpc-retry-pushback-ms`" => {
                (all("*+pushback"), Beside::Pushback(Pushback::After(Duration::from_secs(1))))
            }
            "each code with a negative `grpc-retry-pushback-ms`" => {
                (all("*+stop"), Beside::Pushback(Pushback::Stop))
            }
            _ => match status.strip_suffix(" with `RetryInfo`") {
                Some(names) => (codes(names, "+RetryInfo"), Beside::RetryInfo),
                None => (codes(status, ""), Beside::Nothing),
            },
        };
        for (code, key) in codes {
            assert!(keys.insert(key.clone()) || key.starts_with('*'), "{key} stands twice");
            let [safe, booking] =
                [Idempotent, NotIdempotent].map(|it| beside.verdict(code, it).unwrap());
            let counted = match safe.health() {
                Health::Failing => "a failure",
                Health::Throttling => "throttled",
                Health::Healthy => "good",
                _ => "not counted",
            };
            let [kept, other] = [safe, booking].map(|it| effect_of(&it));
            assert_eq!(kept, other, "{code}: {status}");
            let says = [end(safe).await, end(booking).await, kept, counted];
            assert_eq!(says, [read, order, effect, breaker], "{code}: {status}");
        }
    }
    let rows = rows().into_iter().filter(|row| row.family == "grpc");
    assert_eq!(keys, rows.map(|row| row.code.to_owned()).collect());
}
