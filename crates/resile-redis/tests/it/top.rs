//! What the example `top` shows is what the members know.

#[path = "../../examples/top/table.rs"]
mod table;
#[path = "../../examples/top/view.rs"]
mod view;

use std::time::Duration;

use resile::upstream::Resource;
use resile::{Breaker, Budget, Cooldown, Never};
use resile_redis::Fleet;
use tokio::time::sleep;

use crate::crew::{Load, Mate, all_share, limited};
use crate::scene::run;
use crate::server::Server;
use view::{Upstream, View};

fn read(server: &Server, prefix: &str) -> View {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    View::read(&mut connection, prefix).unwrap()
}

/// Returns whether a snapshot has the amount that the server keeps, which is in millionths for a budget.
#[expect(clippy::cast_precision_loss, reason = "the amounts of a test are small")]
fn is(units: f64, resource: Resource, amount: i64) -> bool {
    let unit = if resource == Resource::Budget { 1e6 } else { 1.0 };
    (units - amount as f64 / unit).abs() < 1e-9
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_of_top_are_the_snapshots_of_the_members() {
    let Some(server) = Server::start(&[]) else { return };
    assert!(read(&server, "a[b").upstreams.is_empty());
    let upstream = || {
        limited(10, 200)
            .with_budget(Budget::new())
            .with_cooldown(Cooldown::new())
            .with_breaker(Breaker::new())
    };
    let fleet = Fleet::new(&server.url()).unwrap().with_prefix("a[b").with_votes(true);
    let crew = [Mate::join(&fleet, upstream()), Mate::join(&fleet, upstream())];
    // Another prefix, which the first one would match as a pattern.
    let fleet = Fleet::new(&server.url()).unwrap().with_prefix("ab");
    let other = Mate::join(&fleet, upstream());
    all_share(&crew).await;
    for calls in [5, 10] {
        for _ in 0..calls {
            crew[usize::from(calls == 10)].upstream.admit(Never).await.unwrap().succeeded();
        }
    }
    crew[0].upstream.hold(Duration::from_secs(30));

    // The members and the server know the same only between two exchanges.
    let mut tries = 0;
    let (view, snapshots) = loop {
        sleep(Duration::from_millis(700)).await;
        let snapshots = || crew.each_ref().map(|mate| mate.member.snapshot());
        let before = snapshots();
        let view = read(&server, "a[b");
        let after = snapshots();
        let exchanges = |all: &[resile_redis::Snapshot]| {
            all.iter().map(|snapshot| snapshot.exchanges).collect::<Vec<_>>()
        };
        tries += 1;
        let accounts = &view.upstreams["shared"].accounts;
        let level_is_known = |account: &view::Account| {
            let leases = after.iter().flat_map(|snapshot| &snapshot.leases);
            account.leases.len() == 2
                && leases.into_iter().any(|lease| {
                    lease.level.is_some_and(|level| is(level, lease.resource, account.level))
                })
        };
        let spent = || accounts[1].leases.iter().map(|row| row.spent).sum::<i64>();
        // All calls are told.
        let is_known = accounts.len() == 2 && accounts.iter().all(level_is_known) && spent() == 15;
        if exchanges(&before) == exchanges(&after) && is_known {
            break (view, after);
        }
        assert!(tries < 30, "{view:?} {after:?}");
    };
    assert_eq!(view.upstreams.keys().collect::<Vec<_>>(), ["shared"]);
    let upstream = &view.upstreams["shared"];
    let mut ids = crew.each_ref().map(|mate| mate.member.id());
    ids.sort_unstable();
    let mut present: Vec<_> = upstream.members.iter().map(|(member, _)| member.as_str()).collect();
    present.sort_unstable();
    assert_eq!(present, ids);
    let limits: Vec<_> = upstream.accounts.iter().map(|account| account.limit.as_str()).collect();
    assert_eq!(limits, ["budget", "quota:requests"]);
    for (mate, snapshot) in crew.iter().zip(&snapshots) {
        for leased in &snapshot.leases {
            let is_budget = leased.resource == Resource::Budget;
            let account = &upstream.accounts[usize::from(!is_budget)];
            let row = account.leases.iter().find(|row| row.member == mate.member.id()).unwrap();
            let held = row.granted - row.spent;
            assert!(is(leased.balance, leased.resource, held), "{row:?} {leased:?}");
            assert!(row.ends > 0 && account.at <= 0);
        }
    }
    let hold = upstream.hold.as_ref().unwrap();
    assert!(hold.began <= 0 && (20_000_000..30_000_001).contains(&hold.ends), "{hold:?}");
    assert_eq!(hold.by.as_deref(), Some(crew[0].member.id()));
    assert_eq!(upstream.votes.len(), 2);

    let text = table::of(&view);
    println!("{text}");
    assert!(text.starts_with("shared  2 members\n  held for 2"), "{text}");
    for id in ids {
        let holds = usize::from(id == crew[0].member.id());
        assert_eq!(text.matches(id).count(), 3 + holds, "two leases, a vote, a hold: {text}");
    }
    assert!(!text.contains(other.member.id()));
}

#[tokio::test]
async fn the_member_that_may_probe_is_named() {
    let Some(server) = Server::start(&[]) else { return };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let (now, ends) = (now.as_micros(), now.as_micros() + 60_000_000);
    let permission = format!("{now} {ends} 0 -1 0 web-1-3985c75274c8e2a1");
    run(&server, &["SET", "p:1:{model}:probe", &permission]).await;
    run(&server, &["SET", "p:1:{other}:probe", &format!("{now} {ends} 0 -1 0 ")]).await;
    let view = read(&server, "p");
    let (member, ends) = view.upstreams["model"].probe.as_ref().unwrap();
    assert_eq!(member, "web-1-3985c75274c8e2a1");
    assert!((50_000_000..60_000_001).contains(ends), "{ends}");
    assert_eq!(view.upstreams["other"].probe, None, "nobody may");
}

/// Until the pause ends nobody probes, and then it is the turn of the first one that has asked.
#[tokio::test]
async fn the_pause_after_a_failed_probe_is_shown_with_the_next_turns() {
    let Some(server) = Server::start(&[]) else { return };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let (now, ends) = (now.as_micros(), now.as_micros() + 60_000_000);
    let pause = |closed, by: &str| {
        let turns = format!("{now} web-2-0123456789abcdef\n{now} web-3-0123456789abcdef");
        format!("{now} 0 {closed} -1 0 \n{by}\n{turns}")
    };
    run(&server, &["SET", "p:1:{model}:probe", &pause(ends, "web-1-3985c75274c8e2a1")]).await;
    run(&server, &["SET", "p:1:{over}:probe", &pause(now, "")]).await;
    let view = read(&server, "p");
    let (by, rest) = view.upstreams["model"].pause.as_ref().unwrap();
    assert_eq!(by.as_deref(), Some("web-1-3985c75274c8e2a1"));
    assert!((50_000_000..60_000_001).contains(rest), "{rest}");
    assert_eq!(view.upstreams["over"].pause, None);
    let text = table::of(&view);
    let (model, over) = text.split_once("over  0 members\n").unwrap();
    assert!(model.contains("  pause for 5"), "{text}");
    assert!(model.contains(" s, the probe of web-1-3985c75274c8e2a1 failed\n"), "{text}");
    let turns = "  next to probe: web-2-0123456789abcdef, web-3-0123456789abcdef\n";
    assert!(model.contains(turns) && over.contains(turns) && !over.contains("pause"), "{text}");
}

/// Then each account has the list of these members, which is not text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_whose_members_lack_units_are_shown() {
    let Some(server) = Server::start(&[]) else { return };
    let fleet = Fleet::new(&server.url()).unwrap().with_prefix("p");
    let crew = [(); 2].map(|()| Mate::join(&fleet, limited(20, 5).with_budget(Budget::new())));
    all_share(&crew).await;
    let mut load = Load::new();
    for mate in &crew {
        load.add(mate, 10);
        let upstream = std::sync::Arc::clone(&mate.upstream);
        tokio::spawn(async move {
            loop {
                while upstream.budget().unwrap().withdraw() {}
                sleep(Duration::from_millis(5)).await;
            }
        });
    }
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut lacks = |account: &str| {
        let key = format!("p:1:{{shared}}:{account}");
        let list: Option<Vec<u8>> =
            redis::cmd("HGET").arg(key).arg("r").query(&mut connection).unwrap();
        list.is_some_and(|list| String::from_utf8(list).is_err())
    };
    let mut seen = [false; 2];
    let mut tries = 0;
    while seen != [true; 2] {
        let before = ["budget", "quota:requests"].map(&mut lacks);
        let view = read(&server, "p");
        let after = ["budget", "quota:requests"].map(&mut lacks);
        let accounts = &view.upstreams["shared"].accounts;
        let limits: Vec<_> = accounts.iter().map(|account| account.limit.as_str()).collect();
        assert_eq!(limits, ["budget", "quota:requests"]);
        assert!(accounts.iter().all(|account| account.leases.len() == 2), "{accounts:?}");
        for (seen, lacked) in seen.iter_mut().zip(before.into_iter().zip(after)) {
            *seen |= lacked == (true, true);
        }
        tries += 1;
        assert!(tries < 200, "no list of the members that lack units: {seen:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// The calls of an open breaker are those after the opening, so their number would say that few failed.
#[test]
fn an_open_vote_has_no_calls() {
    let votes = vec![("web-1".to_owned(), 1, 0, true), ("web-2".to_owned(), 10, 4, false)];
    let mut view = View::default();
    view.upstreams.insert("model".to_owned(), Upstream { votes, ..Upstream::default() });
    let text = table::of(&view);
    let lines: Vec<_> = text.lines().skip(1).take(2).collect();
    assert_eq!(lines, ["  vote web-1  open", "  vote web-2  closed, 4 of 10 calls failed"]);
}
