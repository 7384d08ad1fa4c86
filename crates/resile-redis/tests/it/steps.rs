//! A clock of the server that steps back.
//!
//! A test cannot set the clock of a server. It moves all times that a key holds into the future
//! instead, which is the same.

use std::time::Duration;

use redis::{Script, Value, cmd};
use resile::{Cooldown, Upstream};
use resile_redis::Fleet;
use tokio::time::sleep;

use crate::crew::{Mate, all_share, until};
use crate::scene::{LEASES, LIMIT, Scene, run};
use crate::server::Server;

/// Moves the times of a key by `ARGV[1]` microseconds.
const MOVE: &str = "
local function moved(text)
    return (string.gsub(text, '%d+', function(digits)
        if #digits == 16 then return string.format('%.0f', digits + ARGV[1]) end
    end))
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'hash' then
    local all = redis.call('HGETALL', KEYS[1])
    for i = 1, #all, 2 do
        local is_level = all[i] == 'l' or all[i] == 'o' or all[i] == 's' or all[i] == 'd'
        if not is_level then redis.call('HSET', KEYS[1], all[i], moved(all[i + 1])) end
    end
elseif kind == 'zset' then
    for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
        if member ~= 'd' then redis.call('ZINCRBY', KEYS[1], ARGV[1], member) end
    end
elseif kind == 'string' then
    redis.call('SET', KEYS[1], moved(redis.call('GET', KEYS[1])), 'KEEPTTL')
end";

/// Lets the clock of the server step back, as all keys see it.
pub(crate) async fn step_back(server: &Server, by: Duration) {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<String> = cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
    let script = Script::new(MOVE);
    for key in keys {
        let micros = u64::try_from(by.as_micros()).unwrap();
        let mut call = script.key(key);
        let _: Value = call.arg(micros).invoke_async(&mut connection).await.unwrap();
    }
}

fn steps(scene: &Scene) -> u64 {
    scene.crew.iter().map(|mate| mate.member.snapshot().clock_steps).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_steps_back_stops_no_limit() {
    tokio::join!(
        by(Duration::from_secs(3_600)),
        by(Duration::from_secs(5)),
        account_of_the_future()
    );
}

async fn by(step: Duration) {
    let Some(mut scene) = Scene::start("a clock that steps back", 1).await else { return };
    scene.begin().await;
    step_back(&scene.server, step).await;
    let from = scene.endure().await;
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(0.0);
    assert!(steps(&scene) > 0, "nobody was told");
}

/// Only the account has a time of the future, so its leases count as ended.
async fn account_of_the_future() {
    let Some(mut scene) = Scene::start("an account of the future", 1).await else { return };
    scene.begin().await;
    let time = run(&scene.server, &["TIME"]).await;
    let (seconds, _): (u64, u64) = redis::from_redis_value(time).unwrap();
    let future = format!("{}000000", seconds + 3_600);
    run(&scene.server, &["HSET", "resile:1:{shared}:quota:requests", "t", &future]).await;
    let from = scene.endure().await;
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    // The account is full after an hour, and the leases count as given back.
    scene.keeps_the_limit(f64::from(LEASES + LIMIT / 5));
    assert!(steps(&scene) > 0, "nobody was told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_ends_in_its_time_after_a_step_back() {
    let Some(server) = Server::start(&[]) else { return };
    let cooled = || Upstream::new("cooled").with_cooldown(Cooldown::new());
    let join = || Mate::join(&Fleet::new(&server.url()).unwrap(), cooled());
    let crew = [join(), join()];
    all_share(&crew).await;
    let is_held = |mate: &Mate| mate.upstream.held().is_some();
    crew[0].upstream.hold(Duration::from_secs(2));
    let both = || crew.iter().all(is_held);
    until("the hold", both, || format!("{:?}", crew[1].member.snapshot())).await;
    step_back(&server, Duration::from_secs(3_600)).await;
    let late = join();
    until("the hold of a late member", || is_held(&late), String::new).await;
    sleep(Duration::from_secs(3)).await;
    for mate in crew.iter().chain([&late]) {
        assert_eq!(mate.upstream.held(), None, "{:?}", mate.member.snapshot());
    }
}
