//! A bad night: everything that an operator sees of it at WARN and INFO.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use ::tracing::Level;
use resile::classify::ClassifyExt;
use resile::time::{ManualTimer, Timer};
use resile::{
    Backoff, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, GaveUp, Jitter, Never,
    RetryPolicy, Upstream, Verdict, fallback, retry,
};

use super::script::drive;
use super::tracing::{capture, messages};

/// The error of a client: its words hide the cause.
#[derive(Debug)]
enum Broke {
    Sending(io::Error),
    Busy,
}

impl fmt::Display for Broke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sending(_) => "error sending request for url (https://host/now?api_key=s3cret)",
            Self::Busy => "503 Service Unavailable",
        })
    }
}

impl Error for Broke {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Sending(error) => Some(error),
            Self::Busy => None,
        }
    }
}

fn classify(broke: &Broke) -> Verdict {
    match broke {
        Broke::Sending(_) => Verdict::transient(),
        Broke::Busy => Verdict::overloaded().after(SECOND * 5),
    }
}

const SECOND: Duration = Duration::from_secs(1);

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(3)
    .with_attempt_timeout(Duration::from_secs(2))
    .with_total_timeout(Duration::from_secs(20))
    .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));

/// The state of the service.
#[derive(Clone, Copy)]
enum Service {
    Up,
    Resets,
    Busy,
    Hangs,
}

#[rustfmt::skip]
const NIGHT: [&str; 12] = [
    " 10 s WARN weather: attempt 1 of 3 failed, retrying in 1.0s: error sending request for url (https://host/now?…): connection reset",
    " 20 s WARN weather: cooldown: all calls wait 5.0s, those with less time left end at once, the upstream throttled an attempt",
    " 20 s WARN weather: attempt 1 of 3 failed, retrying in at least 5.0s, as the upstream asked: 503 Service Unavailable",
    " 60 s INFO weather: cooldown over: 3 waits within 5.2s, until 34.8s ago",
    " 70 s WARN weather: attempt 1 of 3 failed, retrying in 1.0s: did not finish within 2s",
    " 70 s WARN weather: attempt 2 of 3 failed, retrying in 1.0s: did not finish within 2s",
    " 80 s WARN weather: attempt 1 of 3 failed, retrying in 1.0s: error sending request for url (https://host/now?…): connection reset",
    " 80 s WARN weather: retry budget spent: 0 of 3 tokens left, retries and hedges are not made until tokens come back: error sending request for url (https://host/now?…): connection reset",
    " 80 s WARN weather: breaker opened for 30.0s, all attempts are refused: too many failures in a row (3): error sending request for url (https://host/now?…): connection reset",
    "111 s WARN weather: breaker opened for 30.0s, all attempts are refused: too many probes failed (1 of 1): error sending request for url (https://host/now?…): connection reset",
    "142 s INFO weather: breaker closed: 3 attempts refused within 61.0s",
    "142 s INFO weather: retry budget pays again: 1 retry not made, 61.0s ago",
];

#[test]
fn an_operator_reads_what_failed_since_when_and_what_was_done() {
    capture();
    let timer = ManualTimer::new();
    let open = Backoff::fixed(SECOND * 30).with_jitter(Jitter::None);
    let weather = Upstream::new("weather")
        .with_budget(Budget::new().with_capacity(3))
        .with_breaker(Breaker::new().with_consecutive(3).with_open_time(open).with_probes(1.0, 1))
        .with_cooldown(Cooldown::new().with_jitter(0.01))
        .with_bulkhead(Bulkhead::new(2).with_queue(1))
        .with_timer(&timer)
        .with_seed(7);
    let answers = Upstream::new("answers").with_timer(&timer);
    let service = Cell::new(Service::Up);
    let failures = Cell::new(0);

    // The service fails the next requests as it is told, and then works again.
    let ask = async || {
        let state = if failures.get() == 0 { Service::Up } else { service.get() };
        failures.set(failures.get() - i32::from(failures.get() > 0));
        match state {
            Service::Up => Ok("18 °C"),
            Service::Resets => Err(Broke::Sending(io::ErrorKind::ConnectionReset.into())),
            Service::Busy => Err(Broke::Busy),
            Service::Hangs => std::future::pending().await,
        }
    };
    let policy = POLICY.with_classifier(classify.cut_is(Verdict::transient()));
    let answer = || {
        let op = |alternative: resile::fallback::Alternative<'_, bool>| {
            let is_service = *alternative.value();
            let (ask, policy, weather) = (&ask, &policy, &weather);
            async move {
                if !is_service {
                    return Ok::<_, GaveUp<Broke>>("17 °C, an hour ago");
                }
                retry(|_| ask(), policy, Never).on(weather).await
            }
        };
        let either = fallback(&[true, false], op, FallbackPolicy::new(), Never).on(&answers);
        drive(either, &timer).unwrap()
    };
    let mut lines = Vec::new();
    let mut at = |second: u64, state: Service, requests: i32, calls: u32| {
        timer.advance(Duration::from_secs(second).saturating_sub(timer.now()));
        service.set(state);
        failures.set(requests);
        for _ in 0..calls {
            let _ = answer();
        }
        let seen = messages().into_iter().filter(|(level, _)| *level <= Level::INFO);
        lines.extend(seen.map(|(level, message)| format!("{second:>3} s {level:>4} {message}")));
    };
    at(0, Service::Up, 0, 100);
    at(10, Service::Resets, 1, 10);
    at(20, Service::Busy, 1, 10);
    at(60, Service::Up, 0, 10);
    at(70, Service::Hangs, 2, 1);
    at(80, Service::Resets, i32::MAX, 2);
    at(85, Service::Resets, i32::MAX, 1);
    at(111, Service::Resets, i32::MAX, 1);
    at(142, Service::Up, 0, 100);
    assert_eq!(lines, NIGHT, "{lines:#?}");
    // The guide shows them all.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(include_str!("../../docs/guide/observing.md")).contains(&words(&NIGHT.join("\n")))
    );
}
