//! Fleets whose breakers are open, and members whose way to the upstream is broken. Whole agents in virtual
//! time, with the models of the scripts in place of the server.

use std::sync::Arc;
use std::time::Duration;

use resile::breaker::State;
use resile::time::ManualTimer;
use resile::upstream::Shared;
use resile::{Backoff, Breaker, Jitter, Upstream, Verdict};

use super::job::{Answer, Job};
use super::round::{Failure, Outcome};
use super::step::Agent;
use super::{Context, Plan};
use crate::keys::Keys;
use crate::meter::Meter;
use crate::scripts::model::{Model, Probe, Votes};
use crate::scripts::{MemberReply, ProbeRequest, ProbeStep, ScriptError, VoteRequest};
use crate::store::{Site, Store};

const TICK: Duration = Duration::from_millis(20);
/// The longest open time of a breaker.
const CAP: Duration = Duration::from_secs(10);
/// The time that an answer, a renewal and a call take at the most, in one turn.
const NEWS: Duration = Duration::from_secs(2);

/// Returns the time from which on the ways of some members are whole again: at any part of a pause.
const fn healed_at(seed: u64) -> Duration {
    Duration::from_millis(20_000 + seed * 830 % 10_000)
}

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The state of the way of a member to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Whole,
    Broken,
    /// It is broken at first.
    Heals,
    /// It is broken, and after 5 s the member makes no calls.
    Idle,
}

/// The actions of a member.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The times of the failed calls.
    failed: Vec<Duration>,
    /// The time from which on the breaker stays closed.
    closed_at: Option<Duration>,
}

#[derive(Default)]
struct Server {
    votes: Votes,
    probe: Probe,
}

impl Server {
    fn answer(&mut self, id: &str, job: &Job, now: Duration) -> Answer {
        let micros = i128::try_from(now.as_micros()).unwrap() + 1_000_000_000;
        match job {
            Job::Subscribe => Answer::Subscribed(0),
            Job::Renew(_) => Answer::Members(MemberReply { members: 1, stepped: Duration::ZERO }),
            Job::Vote { calls, failures, is_open, ttl } => {
                let (calls, failures, open, ttl) = (*calls, *failures, *is_open, *ttl);
                let request = VoteRequest { id, calls, failures, open, ttl };
                Answer::Votes(self.votes.step(micros, &request))
            }
            Job::Probe { step, ttl } => {
                let request = ProbeRequest { id, ttl: *ttl, step: *step };
                Answer::Probe(self.probe.step(micros, &request))
            }
            Job::Hold(_) | Job::Lease { .. } | Job::Limits(_) | Job::Learn(_) => {
                unreachable!("no such part")
            }
        }
    }
}

/// Changes the server, and says whether an exchange at this time does not reach it.
type Lose<'a> = dyn FnMut(&mut Server, &Job, Duration) -> bool + 'a;

/// A member, with the time at which its task begins.
struct Member<'a> {
    agent: Agent<'a, ManualTimer>,
    shared: &'a Shared<'a, ManualTimer>,
    begins: Duration,
    way: Way,
    jobs: Vec<Job>,
    seen: Seen,
}

impl Member<'_> {
    fn exchange(&mut self, id: &str, server: &mut Server, lose: &mut Lose<'_>, now: Duration) {
        let jobs = std::mem::take(&mut self.jobs).into_iter();
        let answer = |job: Job| {
            let answer = if lose(server, &job, now) {
                Err(Failure::Script(ScriptError::Lost("no server".to_owned())))
            } else {
                Ok(server.answer(id, &job, now))
            };
            (job, answer, TICK)
        };
        let outcomes: Vec<Outcome> = jobs.map(answer).collect();
        if !outcomes.is_empty() {
            self.agent.apply(outcomes, now);
        }
        self.agent.step(now);
        self.agent.report(now);
        self.jobs = self.agent.due(0, now);
    }

    fn call(&mut self, healed_at: Duration, now: Duration) {
        let is_broken = match self.way {
            Way::Whole => false,
            Way::Heals => now < healed_at,
            Way::Idle if now > at(5) => return,
            Way::Broken | Way::Idle => true,
        };
        let upstream = self.shared.upstream();
        match upstream.try_admit() {
            Ok(admission) if is_broken => {
                admission.settle(&Verdict::transient());
                self.seen.failed.push(now);
            }
            Ok(admission) => admission.succeeded(),
            Err(_) => {}
        }
        let is_closed = upstream.breaker().unwrap().state() == State::Closed;
        self.seen.closed_at = self.seen.closed_at.or(Some(now)).filter(|_| is_closed);
    }
}

/// Plays a fleet for some time. The tasks begin one after another within a second.
fn play(ways: &[Way], seed: u64, length: Duration) -> Vec<Seen> {
    play_with(ways, seed, length, &mut |_, _, _| false)
}

/// Plays a fleet whose server has faults.
fn play_with(ways: &[Way], seed: u64, length: Duration, lose: &mut Lose<'_>) -> Vec<Seen> {
    let timer = ManualTimer::with_seed(seed);
    let open = Backoff::exponential(at(5)).with_cap(CAP).with_jitter(Jitter::None);
    let breaker = || Breaker::new().with_consecutive(2).with_open_time(open);
    let upstream =
        |_: &Way| Upstream::new("shop").with_breaker(breaker()).with_timer(timer.clone());
    let upstreams: Vec<_> = ways.iter().map(upstream).collect();
    let context = |id: usize| Context {
        store: Store::new(Site::server("redis://nowhere").unwrap()),
        plan: Plan { votes: true, ..Plan::new() },
        keys: Keys::new("test", "shop"),
        id: Arc::from(format!("p{id}")),
        meter: Meter::new("shop"),
    };
    let contexts: Vec<_> = (0..ways.len()).map(context).collect();
    let shared: Vec<_> = upstreams.iter().map(|it| it.share().unwrap()).collect();
    let members = shared.iter().zip(&contexts).zip(ways).zip(1..);
    let mut members: Vec<_> = members
        .map(|(((shared, context), way), number)| Member {
            agent: Agent::new(shared, context),
            shared,
            begins: Duration::from_millis(seed.wrapping_mul(number * number * 37) % 1_000),
            way: *way,
            jobs: Vec::new(),
            seen: Seen::default(),
        })
        .collect();
    let (mut server, mut now) = (Server::default(), Duration::ZERO);
    while now < length {
        for (member, context) in members.iter_mut().zip(&contexts) {
            if now >= member.begins {
                member.exchange(&context.id, &mut server, lose, now);
                member.call(healed_at(seed), now);
            }
        }
        timer.advance(TICK);
        now += TICK;
    }
    members.into_iter().map(|member| member.seen).collect()
}

/// Returns how long after its way was whole the breaker of the last healed member has closed.
fn waits(ways: &[Way], seed: u64) -> Duration {
    let played = play(ways, seed, healed_at(seed) + at(70));
    let healed = played.iter().zip(ways).filter(|(_, way)| **way == Way::Heals);
    let closed = healed.map(|(seen, _)| {
        let at = seen.closed_at.unwrap_or_else(|| panic!("seed {seed}: {ways:?} {played:?}"));
        at.saturating_sub(healed_at(seed))
    });
    closed.max().unwrap()
}

/// Half of the members vote for open, so one member probes for all. Each has its turn.
#[test]
fn a_healed_member_probes_although_another_one_stays_broken() {
    let ways = [Way::Heals, Way::Broken, Way::Whole, Way::Whole];
    let waits = (0..12).map(|seed| waits(&ways, seed)).max().unwrap();
    assert!(waits <= 2 * CAP + NEWS, "{waits:?}");
}

/// With `m` open members a healed one probes within `m` pauses.
#[test]
fn each_open_member_has_its_turn() {
    for open in 2_u32..=5 {
        let mut ways = vec![Way::Broken; open as usize];
        ways[0] = Way::Heals;
        let waits = (0..8).map(|seed| waits(&ways, seed)).max().unwrap();
        assert!(waits <= open * (CAP + NEWS / 2) + NEWS, "{open}: {waits:?}");
    }
}

/// A member without calls makes no use of its turn, and the next one has it two seconds later.
#[test]
fn members_without_calls_keep_their_turn_for_two_seconds() {
    let ways = [Way::Heals, Way::Idle, Way::Idle, Way::Idle];
    let waits = (0..12).map(|seed| waits(&ways, seed)).max().unwrap();
    assert!(waits <= CAP + 3 * (at(2) + NEWS) + NEWS, "{waits:?}");
}

/// The upstream is back for all, and the first probe that passes lets all probe.
#[test]
fn nobody_waits_for_longer_than_the_longest_open_time_after_an_outage() {
    let waits = (0..8).map(|seed| waits(&[Way::Heals; 4], seed)).max().unwrap();
    assert!(waits <= CAP + NEWS, "{waits:?}");
}

/// Most members are closed, so the upstream is up, and the fault is that of a member.
#[test]
fn a_member_probes_for_itself_while_most_others_are_closed() {
    let ways = [Way::Heals, Way::Broken, Way::Whole, Way::Whole, Way::Whole];
    let waits = (0..12).map(|seed| waits(&ways, seed)).max().unwrap();
    assert!(waits <= CAP + NEWS, "{waits:?}");
}

/// The upstream is down for all. Then a pause has the probes of one member.
#[test]
fn one_member_probes_in_each_pause_of_an_outage() {
    for seed in 0..6 {
        let played = play(&[Way::Broken; 6], seed, at(100));
        let mut failed: Vec<_> = played.iter().flat_map(|seen| &seen.failed).collect();
        failed.retain(|at| **at > Duration::from_secs(4));
        failed.sort_unstable();
        // Three failed probes decide, and a pause has ten seconds.
        let most =
            |from: Duration| failed.iter().filter(|at| (from..from + CAP).contains(*at)).count();
        let most = (4..90).map(|second| most(at(second))).max().unwrap();
        assert!((3..=6).contains(&most), "seed {seed}: {most} of {}", failed.len());
        let probers = played.iter().filter(|seen| seen.failed.iter().any(|time| *time > at(4)));
        assert_eq!(probers.count(), 6, "seed {seed}: each has its turn");
    }
}

/// Returns the time at which the probes of a member fail first, and the failed calls of all members in the next
/// seconds. `lose` has the time since then.
fn failed_after_probes(seed: u64, lose: impl Fn(Duration) -> bool) -> (Duration, usize) {
    let mut told = None;
    let played = play_with(&[Way::Broken; 4], seed, at(25), &mut |_, job, now| {
        let is_told = matches!(job, Job::Probe { step: ProbeStep::Failed, .. });
        told = told.or(Some(now).filter(|_| is_told));
        told.is_some_and(|told| lose(now.saturating_sub(told)))
    });
    let told = told.unwrap();
    let pause = told + TICK..told + CAP * 9 / 10;
    let failed = played.iter().flat_map(|seen| &seen.failed).filter(|at| pause.contains(at));
    (told, failed.count())
}

/// The open time of each of them is over long before.
#[test]
fn members_that_lose_the_server_keep_the_pause_that_they_know() {
    for seed in 0..8 {
        let (told, failed) = failed_after_probes(seed, |since| since > at(1));
        assert_eq!(failed, 0, "seed {seed}: probes failed at {told:?}");
    }
}

#[test]
fn a_failed_probe_whose_exchange_is_lost_is_told_again() {
    for seed in 0..8 {
        let (told, failed) = failed_after_probes(seed, |since| since < TICK);
        assert_eq!(failed, 0, "seed {seed}: probes failed at {told:?}");
    }
}

/// The others wait for the end of the turn meanwhile.
#[test]
fn a_probe_that_failed_in_a_short_outage_is_told_after_it() {
    for seed in 0..8 {
        let (told, failed) = failed_after_probes(seed, |since| since < at(1) / 2);
        assert_eq!(failed, 0, "seed {seed}: probes failed at {told:?}");
    }
}

/// The pause of all comes back from the member whose probes failed, and nobody probes without a turn meanwhile.
#[test]
fn a_server_that_has_lost_its_data_ends_no_pause() {
    for seed in 0..8 {
        let (mut told, mut is_empty) = (None, false);
        let scene = &mut |server: &mut Server, job: &Job, now: Duration| {
            let is_told = matches!(job, Job::Probe { step: ProbeStep::Failed, .. });
            told = told.or(Some(now).filter(|_| is_told));
            if !is_empty && told.is_some_and(|told| now >= told + 3 * CAP / 10) {
                (*server, is_empty) = (Server::default(), true);
            }
            false
        };
        let played = play_with(&[Way::Broken; 4], seed, at(25), scene);
        let told = told.unwrap();
        let pause = told + TICK..told + CAP * 9 / 10;
        let failed = played.iter().flat_map(|seen| &seen.failed).filter(|at| pause.contains(at));
        assert_eq!(failed.count(), 0, "seed {seed}: probes failed at {told:?}");
    }
}

/// The server and the upstream are away together. Each member probes for itself then, at most once in its own
/// open time, and when both are back a probe that passes lets all probe.
#[test]
fn a_member_probes_once_in_its_own_open_time_while_the_server_is_away_too() {
    let away = at(12)..at(52);
    for seed in 0..6 {
        let lose = &mut |_: &mut Server, _: &Job, now| away.contains(&now);
        let played = play_with(&[Way::Broken; 4], seed, at(60), lose);
        for seen in &played {
            let most = |from| {
                let pause = at(from)..at(from) + CAP;
                seen.failed.iter().filter(|at| pause.contains(at)).count()
            };
            let most = (14..42).map(most).max().unwrap();
            assert!((1..=6).contains(&most), "seed {seed}: {most} of {seen:?}");
        }
        let healed_at = healed_at(seed);
        let lose = &mut |_: &mut Server, _: &Job, now| (at(12)..healed_at).contains(&now);
        let played = play_with(&[Way::Heals; 4], seed, healed_at + at(20), lose);
        for seen in &played {
            let waits = seen.closed_at.unwrap().saturating_sub(healed_at);
            assert!(waits <= CAP + NEWS, "seed {seed}: {waits:?}");
        }
    }
}
