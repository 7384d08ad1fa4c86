//! What the example `top` shows is what the members know.

#[path = "../../examples/top/table.rs"]
mod table;
#[path = "../../examples/top/view.rs"]
mod view;

use std::time::Duration;

use resile::{Breaker, Budget, Cooldown, Never};
use resile_redis::Fleet;
use tokio::time::sleep;

use crate::crew::{Mate, all_share, limited};
use crate::scene::run;
use crate::server::Server;
use view::View;

fn read(server: &Server, prefix: &str) -> View {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    View::read(&mut connection, prefix).unwrap()
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
                && leases.into_iter().any(|lease| lease.level == Some(account.level))
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
            let is_budget = leased.resource == resile::upstream::Resource::Budget;
            let account = &upstream.accounts[usize::from(!is_budget)];
            let row = account.leases.iter().find(|row| row.member == mate.member.id()).unwrap();
            assert_eq!(row.granted - row.spent, leased.balance, "{row:?} {leased:?}");
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
