//! A fail-over by Redis Sentinel, under load.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use resile::fleet::State;
use resile_redis::Fleet;
use tokio::time::{Instant, sleep};

use crate::crew::{Load, Mate, all_share, limited};
use crate::scene::{BURST, CALLERS, LEASES, LIMIT, MEMBERS, MOST_EXCESS};
use crate::server::{Server, ask, binary, free_port, new_folder};

const NAME: &str = "mymaster";
const PATIENCE: Duration = Duration::from_secs(20);

/// A sentinel of the test.
struct Sentinel {
    folder: PathBuf,
    port: u16,
    child: Child,
}

impl Sentinel {
    fn start(primary: &Server) -> Option<Self> {
        let (binary, folder, port) = (binary()?, new_folder(), free_port());
        let file = folder.join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\n\
             sentinel monitor {NAME} 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds {NAME} 500\n\
             sentinel failover-timeout {NAME} 3000\n",
            folder.display(),
            primary.port()
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(binary);
        command.arg(file).arg("--sentinel");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Self { folder, port, child: command.spawn().unwrap() })
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns whether the sentinel knows the replica and the two other sentinels.
    async fn is_ready(&self) -> bool {
        let client = redis::Client::open(self.url()).unwrap();
        let Ok(mut connection) = client.get_multiplexed_async_connection().await else {
            return false;
        };
        let mut info = redis::cmd("INFO");
        let info: String = info.arg("sentinel").query_async(&mut connection).await.unwrap();
        info.contains("slaves=1,sentinels=3")
    }

    fn kill(&mut self) {
        // An error says that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fleet_follows_a_fail_over() {
    let Some(mut primary) = Server::start(&[]) else { return };
    let port = primary.port().to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]).unwrap();
    let sentinels: Option<Vec<_>> = (0..3).map(|_| Sentinel::start(&primary)).collect();
    let mut sentinels = sentinels.unwrap();
    let began = Instant::now();
    for sentinel in &sentinels {
        while !sentinel.is_ready().await {
            assert!(began.elapsed() < PATIENCE, "the sentinels do not know each other");
            sleep(Duration::from_millis(50)).await;
        }
    }
    let urls: Vec<_> = sentinels.iter().map(Sentinel::url).collect();

    let join = || Mate::join(&Fleet::sentinel(urls.clone(), NAME).unwrap(), limited(LIMIT, BURST));
    let crew: Vec<_> = (0..MEMBERS).map(|_| join()).collect();
    all_share(&crew).await;
    let mut load = Load::new();
    for mate in &crew {
        load.add(mate, CALLERS as usize);
    }
    sleep(Duration::from_secs(1)).await;

    // One of three sentinels dies with the primary. Two are enough.
    sentinels[0].kill();
    primary.kill();
    let from = load.now();
    let began = Instant::now();
    while !ask(replica.port(), "ROLE").is_ok_and(|role| role.contains("master")) {
        assert!(began.elapsed() < PATIENCE, "no sentinel began a fail-over");
        sleep(Duration::from_millis(10)).await;
    }
    let promoted = began.elapsed();
    for mate in &crew {
        mate.becomes(State::Shared).await;
    }
    let shared = began.elapsed();
    sleep(Duration::from_secs(2)).await;
    let times = load.times();
    let seconds = load.now().saturating_sub(from).as_secs_f64();
    let used = times.between(from, load.now()).count() / (f64::from(LIMIT) * seconds);
    let excess = times.excess(f64::from(LIMIT));
    println!(
        "promoted after {promoted:.1?}, shared after {shared:.1?}, {:.1} % of the limit, \
         excess {excess:.0} units",
        used * 100.0
    );
    assert!(shared.saturating_sub(promoted) < Duration::from_secs(6), "{shared:?}");
    assert!(used > 0.8, "{used}");
    // The replica may lack the last writes: one lease of each.
    assert!(excess <= f64::from(MOST_EXCESS + LEASES), "{excess}");

    // The old primary comes back as a replica, and a member that joins now finds the new one.
    primary.restart();
    let late = join();
    all_share(std::slice::from_ref(&late)).await;
    assert_eq!(late.member.snapshot().members, MEMBERS + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_name_and_dead_sentinels_are_said() {
    let Some(primary) = Server::start(&[]) else { return };
    let sentinel = Sentinel::start(&primary).unwrap();
    for (url, name, words) in [
        (sentinel.url(), "other", "no sentinel knows the primary `other`: it knows none"),
        ("redis://127.0.0.1:1/".to_owned(), NAME, "no sentinel knows the primary `mymaster`: "),
    ] {
        let mate = Mate::join(&Fleet::sentinel([url], name).unwrap(), limited(100, 10));
        mate.becomes(State::Safe).await;
        let error = || mate.member.snapshot().last_error.unwrap_or_default();
        crate::crew::until("the reason", || error().contains(words), error).await;
    }
}
