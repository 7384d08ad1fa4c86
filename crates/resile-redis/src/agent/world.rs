//! Whole agents in virtual time, with the models of the scripts in place of the server, and a provider.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use resile::call::Admission;
use resile::quota::{Dimension, Rate};
use resile::time::ManualTimer;
use resile::upstream::Shared;
use resile::{Cooldown, Never, Quota, Upstream, Verdict};

use super::job::{Answer, Job};
use super::round::{Failure, Outcome};
use super::step::Agent;
use super::{Context, Plan};
use crate::keys::Keys;
use crate::meter::Meter;
use crate::scripts::model::{Account, Hold, Lessons, Model};
use crate::scripts::{HoldRequest, LearnedRequest, MemberReply, ScriptError};
use crate::store::{Site, Store};

/// The course of a world. The processes begin within a second.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// The calls a second of each process, which has the limit of 100 a second in its code.
    pub(super) calls: Vec<f64>,
    pub(super) least_members: u32,
    /// The times from which on the server is there, or away again.
    pub(super) server: Vec<Duration>,
    pub(super) seed: u64,
    /// The time for which the server has no answer to a renewal when it is there.
    pub(super) lag: Duration,
    /// The number of processes for which this is so, from the first one on.
    pub(super) lagging: usize,
    /// The limit of the provider from some times on, in requests a second.
    pub(super) provider: Vec<(Duration, f64)>,
    /// The burst of the provider in requests. The quota has one of 25.
    pub(super) burst: f64,
    /// The longest time for which a request is on its way to a provider that counts those of each second of its clock.
    /// `None` is a token bucket that has each request at once.
    pub(super) windows: Option<Duration>,
    /// The failures of a server that is there.
    pub(super) failure: fn(&Job, Duration) -> Option<Failure>,
}

/// The counts of one second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    pub(super) accepted: u32,
    pub(super) refused: u32,
    /// The lowest limit that a process uses at its end, in requests a second.
    pub(super) used: u32,
}

const TICK: Duration = Duration::from_millis(2);
/// The calls that wait in one process at the most.
const QUEUE: f64 = 12.0;

/// Returns the context of a process without a server.
pub(super) fn context(id: usize, plan: Plan) -> Context {
    Context {
        store: Store::new(Site::server("redis://nowhere").unwrap()),
        plan,
        keys: Keys::new("test", "shop"),
        id: Arc::from(format!("p{id}")),
        meter: Meter::new("shop"),
    }
}

/// The server.
#[derive(Default)]
pub(super) struct Server {
    accounts: BTreeMap<String, Account>,
    lessons: Lessons,
    hold: Hold,
    /// The end of the presence of each member.
    members: BTreeMap<usize, Duration>,
}

impl Server {
    pub(super) fn answer(&mut self, id: usize, job: &Job, now: Duration) -> Answer {
        let micros = i128::try_from(now.as_micros()).unwrap() + 1_000_000_000;
        match job {
            Job::Subscribe => Answer::Subscribed(0),
            Job::Renew(ttl) => {
                self.members.insert(id, now + *ttl);
                self.members.retain(|_, end| *end > now);
                let members = self.members.len() as u64;
                Answer::Members(MemberReply { members, stepped: Duration::ZERO })
            }
            Job::Limits(known) => Answer::Limits(known.clone()),
            Job::Learn(reports) => {
                let request = LearnedRequest { id: &format!("p{id}"), reports };
                Answer::Learned(self.lessons.step(micros, &request))
            }
            Job::Lease { key, scale, ask, ttl, .. } => {
                let account = self.accounts.entry(key.clone()).or_default();
                let id = format!("p{id}");
                Answer::Lease(account.step(micros, &ask.request(&id, scale, *ttl, 1)))
            }
            Job::Hold(hold) => {
                let resile::cooldown::Hold { remaining, elapsed, hint } = hold.unwrap_or_default();
                let (id, channel) = ("p", "holds");
                let request = HoldRequest { id, channel, remaining, elapsed, hint };
                Answer::Hold(self.hold.step(micros, &request))
            }
            Job::Vote { .. } | Job::Probe { .. } => unreachable!("no such part"),
        }
    }
}

type Request<'a> = Admission<&'a Upstream<ManualTimer>, Never>;

/// A provider that counts as a token bucket, or in windows of a second.
struct Provider {
    level: f64,
    burst: f64,
    longest_way: Option<Duration>,
    rng: u64,
}

impl Provider {
    fn refill(&mut self, limit: f64, now: Duration) {
        if self.longest_way.is_none() {
            self.level = (self.level + limit * TICK.as_secs_f64()).min(self.burst);
        } else if now.subsec_nanos() == 0 {
            self.level = limit;
        }
    }

    /// Returns the time for which a request is on its way: each up to the longest is as likely.
    fn way(&mut self) -> Duration {
        self.rng = self.rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let part = u32::try_from(self.rng >> 48).unwrap();
        self.longest_way.unwrap_or_default() * part / (1 << 16)
    }

    fn settle(&mut self, admission: Request<'_>, counts: &mut Second) {
        if self.level >= 1.0 {
            self.level -= 1.0;
            admission.succeeded();
            counts.accepted += 1;
        } else {
            admission.settle(&Verdict::throttled().after(Duration::from_secs(1)));
            counts.refused += 1;
        }
    }
}

impl Scene {
    /// Plays the scene for some seconds.
    pub(super) fn play(&self, seconds: usize) -> Vec<Second> {
        let timer = ManualTimer::with_seed(self.seed);
        let rate = Rate::per_second(100).with_burst(25);
        // The names tell the lines of the processes apart.
        let upstream = |(_, name): (&f64, &'static str)| {
            let quota = Quota::new().with_requests(rate);
            let upstream = Upstream::new(name).with_cooldown(Cooldown::new()).with_quota(quota);
            upstream.with_timer(timer.clone())
        };
        let names = ["one", "two", "three", "four"];
        let upstreams: Vec<_> = self.calls.iter().zip(names).map(upstream).collect();
        let context = |id| context(id, Plan { least_members: self.least_members, ..Plan::new() });
        let contexts: Vec<_> = (0..upstreams.len()).map(context).collect();
        let shared: Vec<_> = upstreams.iter().map(|it| it.share().unwrap()).collect();
        let processes = shared.iter().zip(&contexts).zip(&self.calls);
        let mut processes: Vec<_> = processes
            .map(|((shared, context), calls)| Process {
                agent: Agent::new(shared, context),
                shared,
                calls: *calls,
                waiting: 0.0,
                jobs: Vec::new(),
                sent: Vec::new(),
            })
            .collect();
        let mut server = Server::default();
        let (level, burst, longest_way) = (self.burst, self.burst, self.windows);
        let mut provider = Provider { level, burst, longest_way, rng: self.seed };
        let (mut now, mut played) = (Duration::ZERO, Vec::new());
        for second in 1..=seconds {
            let mut counts = Second::default();
            while now < Duration::from_secs(second as u64) {
                let is_away = self.server.iter().filter(|at| **at <= now).count() % 2 == 0;
                let mut limits = self.provider.iter().filter(|(at, _)| *at <= now);
                provider.refill(limits.next_back().map_or(0.0, |(_, limit)| *limit), now);
                // They begin one after another, so they do not try again at one time.
                let begun = now.as_millis() / 330 + 1;
                let begun = usize::try_from(begun).unwrap();
                for (id, process) in processes.iter_mut().enumerate().take(begun) {
                    let lag = if id < self.lagging { self.lag } else { Duration::ZERO };
                    let renews = self.server.iter().all(|at| now < *at || now >= *at + lag);
                    let server = (!is_away).then_some(&mut server);
                    process.exchange(id, server, renews, self.failure, now);
                    process.call(&mut provider, &mut counts, now);
                }
                timer.advance(TICK);
                now += TICK;
            }
            let used = |it: &Upstream<_>| it.quota_rate(Dimension::Requests).unwrap().count();
            counts.used = upstreams.iter().map(used).min().unwrap();
            played.push(counts);
        }
        played
    }
}

/// A process with its agent.
struct Process<'a> {
    agent: Agent<'a, ManualTimer>,
    shared: &'a Shared<'a, ManualTimer>,
    calls: f64,
    waiting: f64,
    /// The exchanges that run.
    jobs: Vec<Job>,
    /// The requests that are on their way, with the times of their arrival.
    sent: Vec<(Duration, Request<'a>)>,
}

impl Process<'_> {
    /// Takes the answers to the exchanges of the last tick, and begins the next ones.
    fn exchange(
        &mut self,
        id: usize,
        server: Option<&mut Server>,
        renews: bool,
        failure: fn(&Job, Duration) -> Option<Failure>,
        now: Duration,
    ) {
        let jobs = std::mem::take(&mut self.jobs);
        let mut server = server;
        let answer = |job: Job| {
            let is_answered = renews || matches!(job, Job::Lease { .. });
            let answer = match (&mut server, failure(&job, now)) {
                (Some(_), Some(failure)) => Err(failure),
                (Some(server), None) if is_answered => Ok(server.answer(id, &job, now)),
                _ => Err(Failure::Script(ScriptError::Lost("no server".to_owned()))),
            };
            (job, answer, TICK)
        };
        let outcomes: Vec<Outcome> = jobs.into_iter().map(answer).collect();
        if !outcomes.is_empty() {
            self.agent.apply(outcomes, now);
        }
        self.agent.step(now);
        self.agent.report(now);
        self.jobs = self.agent.due(0, now);
    }

    fn call(&mut self, provider: &mut Provider, counts: &mut Second, now: Duration) {
        self.waiting = (self.waiting + self.calls * TICK.as_secs_f64()).min(QUEUE);
        while self.waiting >= 1.0 {
            let Ok(admission) = self.shared.upstream().try_admit() else { break };
            self.waiting -= 1.0;
            match provider.way() {
                Duration::ZERO => provider.settle(admission, counts),
                way => self.sent.push((now + way, admission)),
            }
        }
        let sent = std::mem::take(&mut self.sent).into_iter();
        let (arrived, sent) = sent.partition::<Vec<_>, _>(|(at, _)| *at <= now);
        self.sent = sent;
        for (_, admission) in arrived {
            provider.settle(admission, counts);
        }
    }
}
