//! Many processes on one limit, in virtual time.

#![expect(clippy::cast_precision_loss, reason = "counts of a test are small")]

use std::time::Duration;

use resile::quota::{Dimension, Rate, Waiting};
use resile::upstream::Resource;

use super::{Ask, Lease, TTL};
use crate::scale::Scale;
use crate::scripts::LeaseReply;
use crate::scripts::model::{Account, Model};

/// The calls of a process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Calls {
    /// Callers that each begin the next call this long after an admission.
    Loops { callers: u32, pause: Duration },
    /// Calls at a steady rate, in calls a second. A call waits for at most a second.
    Open(f64),
}

/// A process in virtual time.
pub(super) struct Process {
    name: String,
    calls: Calls,
    weight: u32,
    pub(super) lease: Lease,
    pub(super) balance: i64,
    /// The times at which calls came that wait now, in order.
    waiting: Vec<Duration>,
    /// The times at which callers in loops come back.
    pub(super) back: Vec<Duration>,
    arrivals: f64,
    pub(super) admitted: Vec<Duration>,
    /// The exchange that runs: its arrival at the server, the end, and the answer.
    exchange: Option<(Duration, Duration, Ask, Option<LeaseReply>)>,
}

pub(super) struct World {
    pub(super) scale: Scale,
    pub(super) processes: Vec<Process>,
    pub(super) account: Account,
    pub(super) now: Duration,
    trip: Duration,
    /// The time in which the server is away.
    pub(super) outage: (Duration, Duration),
}

/// The time after which an exchange counts as failed.
const TIMEOUT: Duration = Duration::from_millis(50);
/// The step of the virtual time.
const TICK: Duration = Duration::from_millis(2);
impl World {
    pub(super) fn new(rate: Rate, calls: impl IntoIterator<Item = (Calls, u32)>) -> Self {
        let scale = Scale::of_rate(&rate);
        let process = |(number, (calls, weight)): (usize, (Calls, u32))| Process {
            name: format!("p{number}"),
            calls,
            weight,
            lease: Lease::new(Resource::Quota(Dimension::Requests), scale, 0),
            balance: 0,
            waiting: Vec::new(),
            back: match calls {
                Calls::Loops { callers, .. } => vec![Duration::ZERO; callers as usize],
                Calls::Open(_) => Vec::new(),
            },
            // Not all at one time.
            arrivals: number as f64 * 0.37 % 1.0,
            admitted: Vec::new(),
            exchange: None,
        };
        let processes = calls.into_iter().enumerate().map(process).collect();
        let (account, now) = (Account::default(), Duration::from_secs(1));
        Self {
            scale,
            processes,
            account,
            now,
            trip: Duration::from_millis(2),
            outage: (Duration::MAX, Duration::MAX),
        }
    }

    pub(super) fn run(&mut self, length: Duration) {
        let end = self.now + length;
        while self.now < end {
            self.tick();
            self.now += TICK;
        }
    }

    fn tick(&mut self) {
        let (now, members) = (self.now, u32::try_from(self.processes.len()).unwrap());
        for process in &mut self.processes {
            process.call(now);
            process.share(now, members);
            let (from, to) = self.outage;
            let server = (now < from || now >= to).then_some(&mut self.account);
            process.exchange(now, self.trip, members, &self.scale, server);
            process.admit(now);
        }
    }

    /// Holds all callers in loops, also those that wait.
    pub(super) fn hold(&mut self, length: Duration) {
        for process in &mut self.processes {
            process.back.append(&mut process.waiting);
            process.back.fill(self.now + length);
        }
    }

    /// Returns the admissions of each process in a time after the beginning.
    pub(super) fn counts(&self, from: Duration, length: Duration) -> Vec<f64> {
        let from = Duration::from_secs(1) + from;
        let count = |process: &Process| {
            let within = |at: &&Duration| (from..from + length).contains(*at);
            process.admitted.iter().filter(within).count() as f64
        };
        self.processes.iter().map(count).collect()
    }
}

impl Process {
    /// Lets calls come and give up.
    fn call(&mut self, now: Duration) {
        match self.calls {
            Calls::Loops { .. } => {
                let come = self.back.iter().filter(|at| **at <= now).count();
                self.back.retain(|at| *at > now);
                self.waiting.extend(std::iter::repeat_n(now, come));
            }
            Calls::Open(per_second) => {
                self.arrivals += per_second * TICK.as_secs_f64();
                while self.arrivals >= 1.0 {
                    self.arrivals -= 1.0;
                    self.waiting.push(now);
                }
                self.waiting.retain(|at| now.saturating_sub(*at) < Duration::from_secs(1));
            }
        }
        self.admit(now);
    }

    fn admit(&mut self, now: Duration) {
        let fit = usize::try_from(self.balance.max(0)).unwrap().min(self.waiting.len());
        self.waiting.drain(..fit);
        self.balance -= i64::try_from(fit).unwrap();
        self.admitted.extend(std::iter::repeat_n(now, fit));
        if let Calls::Loops { pause, .. } = self.calls {
            self.back.extend(std::iter::repeat_n(now + pause, fit));
        }
    }

    fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        waiting.all = self.waiting.len() as u64;
        waiting.first = waiting.all.min(1);
        waiting
    }

    /// Adds the share in safe mode.
    fn share(&mut self, now: Duration, members: u32) {
        self.lease.mode.tick(now);
        if self.lease.mode.is_safe() {
            let waiting = self.waiting();
            let part = 1.0 / f64::from(members);
            self.balance += self.lease.share(self.balance, waiting, part, members, now);
            self.admit(now);
        }
    }

    fn exchange(
        &mut self,
        now: Duration,
        trip: Duration,
        members: u32,
        scale: &Scale,
        server: Option<&mut Account>,
    ) {
        if let Some((arrives, ends, ask, reply)) = &mut self.exchange {
            match server {
                Some(account) if reply.is_none() && *arrives <= now => {
                    let request = ask.request(&self.name, scale, TTL, self.weight);
                    *reply = Some(account.step(now.as_micros().try_into().unwrap(), &request));
                }
                None if *arrives + TIMEOUT <= now => {
                    self.lease.mode.failed(now, Duration::ZERO);
                    self.exchange = None;
                }
                None => *ends = (*ends).max(now + TICK),
                Some(_) => {}
            }
        }
        if let Some((_, ends, ask, Some(reply))) = self.exchange {
            if ends <= now {
                self.balance += self.lease.answered(&ask, &reply, now);
                self.exchange = None;
                self.admit(now);
            }
        }
        let waiting = self.waiting();
        self.lease.observe(self.balance, waiting, now);
        let due = self.lease.due_at(self.balance, waiting, members);
        if self.exchange.is_none() && due.is_some_and(|at| at <= now) {
            let (ask, surplus) = self.lease.ask(self.balance, waiting, members, now);
            self.balance -= surplus;
            self.exchange = Some((now + trip / 2, now + trip, ask, None));
        }
    }
}
