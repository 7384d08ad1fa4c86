//! A limit that changes while the members run.

use std::time::Duration;

use resile::quota::{Dimension, Rate};
use resile_redis::Fleet;
use tokio::time::sleep;

use crate::crew::{Load, Mate, all_share, limited};
use crate::server::Server;

const SECOND: Duration = Duration::from_secs(1);
const OWN: u32 = 100;
const BURST: u32 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_members_take_a_limit_that_is_set_while_they_run() {
    let Some(server) = Server::start(&[]) else { return };
    let fleet = || Fleet::new(&server.url()).unwrap();
    let crew: Vec<_> = (0..3).map(|_| Mate::join(&fleet(), limited(OWN, BURST))).collect();
    all_share(&crew).await;
    let mut load = Load::new();
    for mate in &crew {
        load.add(mate, 4);
    }
    sleep(SECOND).await;
    let operator = fleet();
    let set = |rate: Option<Rate>| operator.set_limit("shared", Dimension::Requests, rate);
    let used = async |load: &Load| {
        sleep(3 * SECOND / 2).await; // until all members know
        let from = load.now();
        sleep(2 * SECOND).await;
        let to = load.now();
        load.times().between(from, to).count() / to.saturating_sub(from).as_secs_f64()
    };
    for limit in [400_u32, 50] {
        set(Some(Rate::per_second(limit.into()).with_burst(u64::from(limit / 5)))).await.unwrap();
        let calls = used(&load).await;
        println!("{calls:.0} calls a second at {limit}");
        assert!((0.9..1.1).contains(&(calls / f64::from(limit))), "{calls} at {limit}");
    }

    // A member that joins with its own limit has that of the fleet too.
    let late = Mate::join(&fleet(), limited(OWN, BURST));
    load.add(&late, 4);
    let calls = used(&load).await;
    assert!((45.0..55.0).contains(&calls), "{calls}");
    set(None).await.unwrap();
    let calls = used(&load).await;
    assert!((0.9..1.1).contains(&(calls / f64::from(OWN))), "{calls}");

    let none = set(Some(Rate::per_second(0))).await.unwrap_err();
    assert_eq!(none.to_string(), "the limit of shared is not set: it has no units");
    let nowhere = Fleet::new("redis://127.0.0.1:1").unwrap();
    let rate = Some(Rate::per_second(1));
    assert!(nowhere.set_limit("shared", Dimension::Requests, rate).await.is_err());
}
