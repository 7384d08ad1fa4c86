//! The metrics of the exchange are the figures of the snapshot.

use std::time::Duration;

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use resile::fleet::State;
use resile::{Breaker, Budget, Never};
use resile_redis::Fleet;
use tokio::time::sleep;

use crate::crew::{Mate, all_share, limited, until};
use crate::server::Server;

/// The task runs on the thread of the test, whose recorder it then has.
#[tokio::test]
async fn the_metrics_are_the_figures_of_the_snapshot() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let Some(mut server) = Server::start(&[]) else { return };
    let upstream = limited(100, 50).with_budget(Budget::new()).with_breaker(Breaker::new());
    let mate = Mate::join(&Fleet::new(&server.url()).unwrap().with_votes(true), upstream);
    all_share(std::slice::from_ref(&mate)).await;
    for _ in 0..20 {
        mate.upstream.admit(Never).await.unwrap().succeeded();
    }
    sleep(Duration::from_millis(2_500)).await; // until an exchange has the last state
    let before = mate.member.snapshot();
    server.kill();
    let snapshot = || mate.member.snapshot();
    let words = || format!("{:?}", snapshot());
    until("failures", || snapshot().failures > before.failures + 3, words).await;
    let after = snapshot();

    let mut counted = [0, 0];
    let (mut leases, mut durations) = (Vec::new(), 0);
    let (mut starving, mut votes) = (None, Vec::new());
    for (key, unit, text, value) in snapshotter.snapshot().into_vec() {
        let (kind, key) = key.into_parts();
        let label = |name: &str| {
            let label = key.labels().find(|label| label.key() == name);
            label.map(|label| label.value().to_owned())
        };
        assert_eq!(label("upstream").as_deref(), Some("shared"));
        assert!(text.is_some(), "{key} has no description");
        match (key.name(), value) {
            ("resile_fleet_exchanges_total", DebugValue::Counter(count)) => {
                counted[usize::from(label("outcome").unwrap() == "failed")] = count;
            }
            ("resile_fleet_exchange_duration_seconds", DebugValue::Histogram(times)) => {
                assert_eq!(unit.map(|unit| unit.as_str()), Some("seconds"));
                if label("outcome").unwrap() == "ok" {
                    let latency = before.latency.unwrap().as_secs_f64();
                    let is_last = |time: f64| (time - latency).abs() < 1e-6;
                    assert!(times.iter().any(|time| is_last(time.into_inner())), "{latency}");
                    durations = times.len();
                }
            }
            ("resile_fleet_lease" | "resile_fleet_level", DebugValue::Gauge(value)) => {
                leases.push((key.name().to_owned(), label("limit").unwrap(), value.into_inner()));
            }
            ("resile_fleet_votes", DebugValue::Gauge(value)) => {
                votes.push((label("kind").unwrap(), value.into_inner()));
            }
            ("resile_fleet_starving", DebugValue::Gauge(value)) => {
                starving = Some(value.into_inner());
            }
            (name, value) => panic!("{kind:?} {name} {value:?}"),
        }
        assert_eq!(kind == MetricKind::Counter, key.name().ends_with("_total"));
    }
    assert_eq!(counted[0], after.exchanges);
    assert!(counted[1] >= after.failures && after.failures > 0, "{counted:?} {after:?}");
    assert_eq!(u64::try_from(durations).unwrap(), after.exchanges);
    assert_eq!(starving, Some(0.0));
    votes.sort_by(|one, other| one.0.cmp(&other.0));
    // Alone it has a vote, and no number of votes is enough. In safe mode nobody counts.
    let kinds = [("members", 1.0), ("needed", f64::INFINITY), ("open", 0.0)];
    for ((kind, count), (wanted, value)) in votes.iter().zip(kinds) {
        assert_eq!(kind, wanted);
        let is_known = after.votes.is_some();
        assert!(
            if is_known { count.total_cmp(&value).is_eq() } else { count.is_nan() },
            "{votes:?}"
        );
    }
    assert_eq!(votes.len(), 3);
    leases.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let names: Vec<_> = leases.iter().map(|(name, limit, _)| format!("{name} {limit}")).collect();
    assert_eq!(
        names,
        [
            "resile_fleet_lease budget",
            "resile_fleet_lease requests",
            "resile_fleet_level budget",
            "resile_fleet_level requests",
        ]
    );
    let level = before.leases.iter().find_map(|lease| lease.level).unwrap();
    assert!((leases[3].2 - level).abs() < 0.1, "{leases:?} {before:?}");
}

/// Numbers of an hour ago would hide that nobody counts.
#[tokio::test]
async fn the_series_of_the_votes_is_not_a_number_while_nobody_counts() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let Some(mut server) = Server::start(&[]) else { return };
    let join = || {
        let upstream = limited(100, 50).with_breaker(Breaker::new());
        Mate::join(&Fleet::new(&server.url()).unwrap().with_votes(true), upstream)
    };
    let votes = || {
        let series = snapshotter.snapshot().into_vec();
        let series =
            series.into_iter().filter(|(key, ..)| key.key().name() == "resile_fleet_votes");
        let values = series.map(|(.., value)| match value {
            DebugValue::Gauge(value) => value.into_inner(),
            value => panic!("{value:?}"),
        });
        values.collect::<Vec<_>>()
    };
    let mate = join();
    let is_counted = || mate.member.snapshot().votes.is_some();
    let words = || format!("{:?}", mate.member.snapshot());
    until("the votes", is_counted, words).await;
    let counted = votes();
    assert!(counted.len() == 3 && counted.iter().all(|count| !count.is_nan()), "{counted:?}");
    mate.member.leave().await;
    let snapshot = mate.member.snapshot();
    assert_eq!((snapshot.state, snapshot.members), (State::Left, 0), "nobody remains");
    assert!(votes().iter().all(|count| count.is_nan()));

    let mate = join();
    let is_counted = || mate.member.snapshot().votes.is_some();
    let words = || format!("{:?}", mate.member.snapshot());
    until("the votes again", is_counted, words).await;
    assert!(votes().iter().all(|count| !count.is_nan()));
    server.kill();
    until("the outage", || !is_counted(), words).await;
    let unknown = votes();
    assert!(unknown.len() == 3 && unknown.iter().all(|count| count.is_nan()), "{unknown:?}");
}

/// A series cannot be taken back. So it must not have the last numbers of a process that has left.
#[test]
fn the_series_of_a_process_that_has_left_are_not_those_of_a_member() {
    use std::collections::BTreeMap;

    use resile::observe::Metrics;

    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let Some(server) = Server::start(&[]) else { return };
    let gauges = || {
        let series = snapshotter.snapshot().into_vec().into_iter();
        let gauges = series.filter_map(|(key, .., value)| match value {
            DebugValue::Gauge(value) if key.key().name().starts_with("resile_fleet_") => {
                let labels: Vec<_> = key.key().labels().map(|it| it.value().to_owned()).collect();
                let name = key.key().name().trim_start_matches("resile_fleet_");
                let name = format!("{name} {}", labels[1..].join(" "));
                Some((name.trim().to_owned(), value.into_inner()))
            }
            _ => None,
        });
        gauges.collect::<BTreeMap<_, _>>()
    };
    let fleet = Fleet::new(&server.url()).unwrap().with_votes(true);
    let names = [
        "age_seconds",
        "level budget",
        "level requests",
        "lease budget",
        "lease requests",
        "members",
        "shared",
        "starving",
        "votes members",
        "votes needed",
        "votes open",
    ];
    for leaves in [true, false] {
        let upstream = limited(100, 50)
            .with_budget(Budget::new())
            .with_breaker(Breaker::new())
            .with_observer(&Metrics);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mate = runtime.block_on(async {
            let mate = Mate::join(&fleet, upstream);
            all_share(std::slice::from_ref(&mate)).await;
            mate.upstream.admit(Never).await.unwrap().succeeded();
            let is_shown = || {
                let now = gauges();
                let is_known = |name: &&str| now.get(*name).is_some_and(|value| !value.is_nan());
                names.iter().all(is_known) && now["shared"] > 0.0
            };
            until("the series", is_shown, || format!("{:?}", gauges())).await;
            // Each look sets all gauges to 0, so they must be set once more.
            let exchanges = || mate.member.snapshot().exchanges;
            let least = exchanges() + 3;
            until("more exchanges", || exchanges() >= least, || exchanges().to_string()).await;
            mate.upstream.admit(Never).await.unwrap().succeeded();
            if leaves {
                mate.member.leave().await;
            }
            mate
        });
        drop(runtime); // which ends the membership too
        drop(mate.upstream.try_admit()); // a call of one process
        let after = gauges();
        for name in names {
            let zeros = ["shared", "starving", "lease budget", "lease requests"];
            let value = after[name];
            let is_right = if zeros.contains(&name) { value == 0.0 } else { value.is_nan() };
            assert!(is_right, "{leaves} {name}: {after:?}");
        }
    }
}
