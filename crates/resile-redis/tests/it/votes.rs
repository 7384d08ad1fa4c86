//! Breakers that vote.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use resile::breaker::State;
use resile::classify::Always;
use resile::{Backoff, Breaker, Upstream, Verdict};
use resile_redis::Fleet;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::crew::{Mate, all_share, until};
use crate::log::capture_at;
use crate::server::Server;

const MEMBERS: usize = 5;

async fn crew(server: &Server, breaker: impl Fn() -> Breaker) -> Vec<Mate> {
    let crew: Vec<_> = (0..MEMBERS)
        .map(|number| {
            let name = format!("web-{number}");
            let fleet = Fleet::new(&server.url()).unwrap().with_votes(true);
            let fleet = fleet.with_member_name(&name);
            Mate::join(&fleet, Upstream::new("voted").with_breaker(breaker()))
        })
        .collect();
    all_share(&crew).await;
    crew
}

fn fail(mate: &Mate, times: u32) {
    for _ in 0..times {
        if let Ok(admission) = mate.upstream.try_admit() {
            admission.settle(&Verdict::transient());
        }
    }
}

fn state(mate: &Mate) -> State {
    mate.upstream.breaker().unwrap().state()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn votes_halve_the_failures_that_open_and_open_nothing_alone() {
    let Some(server) = Server::start(&[]) else { return };
    let breaker = || {
        Breaker::new()
            .without_failure_rate()
            .with_consecutive(10)
            .with_open_time(Backoff::fixed(Duration::from_secs(60)))
    };
    let crew = crew(&server, breaker).await;
    for mate in &crew {
        mate.upstream.try_admit().unwrap().succeeded();
    }
    sleep(Duration::from_millis(1_200)).await;
    fail(&crew[4], 5);
    assert_eq!(state(&crew[4]), State::Closed); // nobody has voted for open
    crew[4].upstream.try_admit().unwrap().succeeded();

    for mate in &crew[..3] {
        fail(mate, 10);
        assert_eq!(state(mate), State::Open);
    }
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!([state(&crew[3]), state(&crew[4])], [State::Closed; 2]);
    fail(&crew[4], 4);
    assert_eq!(state(&crew[4]), State::Closed);
    fail(&crew[4], 1);
    assert_eq!(state(&crew[4]), State::Open);
    assert_eq!(state(&crew[3]), State::Closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member_probes_for_the_fleet() {
    let Some(server) = Server::start(&[]) else { return };
    let breaker = || {
        Breaker::new()
            .with_consecutive(2)
            .with_open_time(Backoff::fixed(Duration::from_millis(1_500)))
            .with_probes(1.0, 1)
    };
    let crew = crew(&server, breaker).await;
    for mate in &crew {
        fail(mate, 2);
        assert_eq!(state(mate), State::Open);
    }
    let (running, most, probes) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let seen = Arc::new((running, most, probes));
    let mut callers = JoinSet::new();
    for mate in crew.clone() {
        let seen = Arc::clone(&seen);
        callers.spawn(async move {
            loop {
                let probe = async {
                    let (running, most, probes) = &*seen;
                    most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    probes.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(100)).await;
                    running.fetch_sub(1, Ordering::Relaxed);
                    Err::<(), _>("down")
                };
                let _ = mate.upstream.call(probe, Always).await;
                sleep(Duration::from_millis(5)).await;
            }
        });
    }
    sleep(Duration::from_secs(4)).await;
    let (_, most, probes) = &*seen;
    let (most, probes) = (most.load(Ordering::Relaxed), probes.load(Ordering::Relaxed));
    println!("{probes} probes of {MEMBERS} members in 4 s, at most {most} at once");
    assert!(probes >= 1);
    assert_eq!(most, 1);
    // The pause after a failed probe is that of all: 1.5 s.
    assert!(probes <= 3, "{probes} probes");
}

/// Nobody knows how long a probe of another member takes, so the others tell no time.
#[tokio::test]
async fn a_member_that_waits_for_the_probe_of_another_one_says_so() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::DEBUG);
    let join = |name, seconds| {
        let fleet = Fleet::new(&server.url()).unwrap().with_votes(true).with_member_name(name);
        let open = Backoff::fixed(Duration::from_secs(seconds)).with_jitter(resile::Jitter::None);
        let breaker = Breaker::new().with_consecutive(2).with_open_time(open);
        Mate::join(&fleet, Upstream::new("voted").with_breaker(breaker))
    };
    let crew = [join("web-1", 4), join("web-2", 2)];
    all_share(&crew).await;
    for mate in &crew {
        fail(mate, 2);
        assert_eq!(state(mate), State::Open);
    }
    sleep(Duration::from_millis(2_500)).await;
    let probe = crew[1].upstream.try_admit().unwrap();
    sleep(Duration::from_secs(2)).await;
    let waiting = crew[0].upstream.snapshot().unwrap();
    assert_eq!((waiting.state, waiting.retry_after), (State::Open, None));
    let call = crew[0].upstream.call(async { Ok::<_, &str>(()) }, Always);
    let refused = call.await.unwrap_err().to_string();
    let words = "the circuit breaker is open while another process has the turn to probe";
    assert_eq!(refused, format!("voted: gave up after 0 attempts, {words}"));
    let told =
        lines.with("voted: fleet: member web-2 has the turn to probe, this breaker waits for it");
    assert_eq!(told.len(), 1, "{:?}", lines.with(""));
    probe.settle(&Verdict::transient());
}

/// The turn of the next member comes after the pause, whose end all know.
#[tokio::test]
async fn a_member_whose_turn_comes_later_tells_the_pause_after_a_failed_probe() {
    let Some(server) = Server::start(&[]) else { return };
    let join = |name, first: u64| {
        let fleet = Fleet::new(&server.url()).unwrap().with_votes(true).with_member_name(name);
        let times = [first, 9_000].map(Duration::from_millis);
        let open = Backoff::steps(Box::leak(Box::new(times)));
        let breaker = Breaker::new().with_consecutive(2).with_open_time(open).with_probes(1.0, 1);
        Mate::join(&fleet, Upstream::new("voted").with_breaker(breaker))
    };
    let crew = [("web-1", 2_000), ("web-2", 2_500), ("web-3", 3_500)]
        .map(|(name, first)| join(name, first));
    all_share(&crew).await;
    for mate in &crew {
        fail(mate, 2);
        assert_eq!(state(mate), State::Open);
    }
    sleep(Duration::from_millis(2_500)).await;
    crew[0].upstream.try_admit().unwrap().settle(&Verdict::transient());
    sleep(Duration::from_secs(2)).await;
    for mate in &crew {
        let call = mate.upstream.call(async { Ok::<_, &str>(()) }, Always);
        let refused = call.await.unwrap_err();
        let after = refused.retry_after().unwrap_or_else(|| panic!("{refused}"));
        assert!((5.0..8.0).contains(&after.as_secs_f64()), "{refused}");
    }
}

/// One member has a short open time, and the others have a long one. Its probe lets all probe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_that_passes_lets_all_probe() {
    let Some(server) = Server::start(&[]) else { return };
    let opens_for = |seconds| {
        let open = Backoff::fixed(Duration::from_secs(seconds));
        Breaker::new().with_consecutive(2).with_open_time(open)
    };
    let join = |seconds| {
        let fleet = Fleet::new(&server.url()).unwrap().with_votes(true);
        Mate::join(&fleet, Upstream::new("voted").with_breaker(opens_for(seconds)))
    };
    let crew = [join(2), join(60), join(60), join(60)];
    all_share(&crew).await;
    for mate in &crew {
        fail(mate, 2);
        assert_eq!(state(mate), State::Open);
    }
    let calls = || {
        for mate in &crew {
            if let Ok(admission) = mate.upstream.try_admit() {
                admission.succeeded();
            }
        }
        crew.iter().all(|mate| state(mate) == State::Closed)
    };
    let states = || format!("{:?}", crew.iter().map(state).collect::<Vec<_>>());
    let took = until("closed breakers", calls, states).await;
    println!("all breakers closed {took:.1?} after they opened for 2 s and 60 s");
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(8), "{took:?}");
}

#[tokio::test]
async fn each_vote_is_told_and_the_decision_at_info() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::DEBUG);
    let open = Backoff::fixed(Duration::from_secs(60));
    let crew = crew(&server, || Breaker::new().with_consecutive(2).with_open_time(open)).await;
    let told = |text: &str| lines.with(text);
    let words = || format!("{:?}", told("votes"));
    assert!(
        crew.iter().all(|mate| mate.member.snapshot().votes.is_none_or(|votes| votes.open == 0))
    );
    // A member without calls in its window does not vote.
    let all_call = || {
        for mate in crew.iter().filter(|mate| state(mate) == State::Closed) {
            mate.upstream.try_admit().unwrap().succeeded();
        }
    };
    let tell = |text: &str, members: usize| {
        all_call();
        told(text).len() >= members
    };
    let all_tell = |text: &str| tell(text, MEMBERS);
    let all_vote = || {
        all_call();
        let votes = |mate: &Mate| mate.member.snapshot().votes.map(|votes| votes.members);
        crew.iter().all(|mate| votes(mate) == Some(5))
    };
    until("all members", all_vote, words).await;
    assert_eq!(told("votes for open"), [""; 0], "nobody votes for open yet");
    fail(&crew[0], 2);
    until("one vote", || all_tell("1 of 5 (web-0), 3 are needed"), words).await;
    let own = "member=\"web-0\" vote=\"open\"";
    let line = told("1 of 5").into_iter().find(|line| line.contains(own)).unwrap();
    assert!(line.starts_with("DEBUG ") && line.contains("upstream=\"voted\""), "{line}");
    assert!(line.contains("votes=1 needed=3 members=5"), "{line}");
    fail(&crew[1], 2);
    fail(&crew[2], 2);
    let decision = "fleet: votes for open: 3 of 5 (web-0, web-1, web-2), 3 are needed: \
                    this breaker opens at half of its thresholds";
    until("the votes", || all_tell("3 of 5 (web-0, web-1, web-2), 3 are needed"), words).await;
    until("the decision", || tell(decision, 2), words).await;
    assert_eq!(told(decision).len(), 2, "it changes nothing for an open breaker: {}", words());
    assert!(told(decision).iter().all(|line| line.starts_with("INFO ")), "{}", words());
    let votes = crew[4].member.snapshot().votes.unwrap();
    assert_eq!((votes.open, votes.needed, votes.members), (3, Some(3), 5));
    let open = crew[4].member.snapshot().open_voters;
    assert_eq!(open, ["web-0", "web-1", "web-2"]);
    // The log grows with the votes and not with time.
    let before = told("votes").len();
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(told("votes").len(), before, "{}", words());
    crew[0].upstream.reset();
    let over =
        "2 of 5 (web-1, web-2), 3 are needed: this breaker opens at its full thresholds again";
    until("the votes", || all_tell("2 of 5 (web-1, web-2), 3 are needed"), words).await;
    until("the end", || tell(over, 2), words).await;
    assert_eq!(told(over).len(), 2, "{}", words());
}

/// All breakers open together and close one after another. Who is first hears of the votes of the
/// others, which are those of the same outage.
#[tokio::test]
async fn the_end_of_an_outage_is_not_told_as_another_one() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::DEBUG);
    let open = Backoff::fixed(Duration::from_millis(1_500));
    let crew = crew(&server, || Breaker::new().with_consecutive(2).with_open_time(open)).await;
    let words = || format!("{:?}", lines.with("votes for open"));
    for mate in &crew {
        fail(mate, 2);
    }
    until("all votes", || lines.with("5 of 5").len() >= MEMBERS, words).await;
    for mate in &crew {
        let closes = || {
            if let Ok(admission) = mate.upstream.try_admit() {
                admission.succeeded();
            }
            state(mate) == State::Closed
        };
        until("a closed breaker", closes, words).await;
        sleep(Duration::from_millis(600)).await;
    }
    until("no votes", || lines.with("votes for open: 0 of").len() >= MEMBERS, words).await;
    let after = |line: &String| line.contains("vote=\"closed\"") && line.contains("votes=4 ");
    assert!(lines.with("votes for open").iter().any(after), "{}", words());
    let loud: Vec<_> = lines
        .with("votes for open")
        .into_iter()
        .filter(|line| !line.starts_with("DEBUG "))
        .collect();
    assert_eq!(loud, [""; 0]);
}

/// The others have no calls, so one member probes for all of them.
#[tokio::test]
async fn the_process_whose_probe_failed_is_named() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::INFO);
    let open = Backoff::fixed(Duration::from_millis(4_500));
    let crew = crew(&server, || Breaker::new().with_consecutive(2).with_open_time(open)).await;
    for mate in &crew {
        fail(mate, 2);
    }
    let told = || lines.with("fleet: breaker stays open for ");
    let has_failed = || {
        fail(&crew[2], 1);
        told().len() >= MEMBERS - 1
    };
    until("a probe that failed", has_failed, || format!("{:?}", lines.with(""))).await;
    for line in told() {
        assert!(line.contains(": the probe of member web-2 failed"), "{line}");
        assert!(line.contains("upstream=\"voted\" by=\"web-2\" delay_ms="), "{line}");
    }
}
