//! Holds whose message is lost, and messages for several upstreams of one connection.

use std::time::Duration;

use resile::{Cooldown, Never, Upstream, Verdict};
use resile_redis::Fleet;
use tokio::time::{Instant, sleep};

use crate::crew::{Mate, all_share, until};
use crate::proxy::{Proxy, Way};
use crate::server::Server;

fn join(fleet: &Fleet) -> Mate {
    Mate::join(fleet, Upstream::new("cooled").with_cooldown(Cooldown::new()))
}

/// Makes one call that the upstream refuses for a time.
async fn is_refused(mate: &Mate, after: Duration) {
    let admission = mate.upstream.admit(Never).await.unwrap();
    admission.settle(&Verdict::throttled().after(after));
}

/// Returns the ends of the holds, in time from `began`.
fn ends(crew: &[Mate], began: Instant) -> Vec<Option<Duration>> {
    let end = |mate: &Mate| mate.upstream.held().map(|left| began.elapsed() + left);
    crew.iter().map(end).collect()
}

/// Waits until all members hold until `end` at least.
async fn all_hold(crew: &[Mate], began: Instant, end: Duration) -> Duration {
    let all = || ends(crew, began).iter().all(|at| *at >= Some(end));
    until("a hold at each member", all, || format!("{:?}", ends(crew, began))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_without_messages_and_a_late_one_learn_the_hold() {
    const HOLD: Duration = Duration::from_secs(5);
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::start(server.port()).await;
    let [direct, muted] = [server.url(), proxy.url()].map(|url| Fleet::new(&url).unwrap());
    let mut crew = vec![join(&direct), join(&muted)];
    all_share(&crew).await;
    sleep(Duration::from_millis(500)).await; // until both listen
    proxy.set(Way::Mute);
    let began = Instant::now();
    is_refused(&crew[0], HOLD).await;
    let deaf = all_hold(&crew, began, HOLD / 2).await;
    crew.push(join(&Fleet::new(&server.url()).unwrap()));
    let late = all_hold(&crew, began, HOLD / 2).await;
    println!(
        "a hold without messages after {deaf:.1?}, at a late member {late:.1?} after it joins"
    );
    assert!(
        deaf < Duration::from_millis(1_500) && late < Duration::from_secs(1),
        "{deaf:?} {late:?}"
    );

    // Each copy ends a little later, but the copies do not feed each other.
    let mut latest = Duration::ZERO;
    let mut before = ends(&crew, began);
    while began.elapsed() < HOLD.saturating_sub(Duration::from_millis(500)) {
        let now = ends(&crew, began);
        for (now, before) in now.iter().zip(&before) {
            let (Some(now), Some(before)) = (now, before) else { panic!("a hold is over") };
            latest = latest.max(*now);
            // Two readings of the clock are not at one time.
            let lost = before.saturating_sub(*now);
            assert!(lost < Duration::from_millis(100), "a hold became shorter by {lost:?}");
        }
        before = now;
        sleep(Duration::from_millis(20)).await;
    }
    let growth = latest.saturating_sub(HOLD);
    println!("the copies end at most {growth:.1?} later than the hold");
    assert!(growth < Duration::from_millis(200), "{growth:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_upstreams_of_a_connection_hear_a_hold() {
    let Some(server) = Server::start(&[]) else { return };
    let fleet = Fleet::new(&server.url()).unwrap();
    let crew = [join(&fleet), join(&fleet), join(&Fleet::new(&server.url()).unwrap())];
    all_share(&crew).await;
    sleep(Duration::from_millis(500)).await; // until all listen
    let began = Instant::now();
    is_refused(&crew[2], Duration::from_secs(3)).await;
    let took = all_hold(&crew, began, Duration::from_secs(2)).await;
    assert!(took < Duration::from_millis(500), "{took:?}: by the message");
    // One leaves, and the other hears on.
    crew[0].member.leave().await;
    crew[2].upstream.hold(Duration::from_secs(6));
    let took = all_hold(&crew[1..], began, Duration::from_secs(5)).await;
    assert!(took < Duration::from_millis(500), "{took:?}: by the message");
}
