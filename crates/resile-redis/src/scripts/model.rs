//! Pure models of the scripts, with exact integers in place of doubles where the numbers are whole.
//!
//! Each model follows the rules of its script and not its statements. A field of a model has the
//! meaning of the stored field, and `stored` returns the text that the server must hold.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    HoldReply, HoldRequest, MemberReply, MemberRequest, ProbeReply, ProbeRequest, ProbeStep,
    VoteReply, VoteRequest,
};

mod account;
mod learned;
mod rivals;

pub(crate) use account::Account;
pub(crate) use learned::Lessons;
pub(crate) use rivals::Record;

/// The stored fields, members or texts by their names.
pub(crate) type Stored = BTreeMap<String, String>;

/// A script as a function of its state, the time and the request.
pub(crate) trait Model<R: super::Request>: Default {
    /// Runs one request at `now`, in microseconds.
    fn step(&mut self, now: i128, request: &R) -> R::Reply;
    /// Returns what the server must hold.
    fn stored(&self) -> Stored;
    /// Returns the life of the key after a step that writes, in milliseconds.
    fn life(&self) -> i128;
}

const MOST_PARTS: i128 = 1 << 52;
const MOST_UNITS: i128 = 1 << 51;
const SECOND: i128 = 1_000_000;

fn micros(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos().div_ceil(1_000)).unwrap().min(MOST_UNITS)
}

fn duration(micros: i128) -> Duration {
    Duration::from_micros(micros.try_into().unwrap())
}

fn ceil(n: i128, by: i128) -> i128 {
    -(-n).div_euclid(by)
}

/// The time behind `steady.lua`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Time {
    /// The time of the last write. It never runs backwards.
    pub(crate) now: i128,
    /// The distance from the clock, which has stepped back by so much in all.
    pub(crate) offset: i128,
}

impl Time {
    /// Brings the time to a reading of the clock. Returns the step by which the clock ran back.
    fn follow(&mut self, clock: i128) -> i128 {
        let now = (clock + self.offset).min(1 << 52);
        let stepped = (self.now - now).max(0);
        if stepped > 0 {
            self.offset = self.now - clock;
        }
        self.now = self.now.max(now);
        stepped
    }

    /// Returns the field of the distance, if it is stored.
    fn distance(&self) -> Option<(String, String)> {
        (self.offset > 0).then(|| ("d".to_owned(), self.offset.to_string()))
    }
}

fn id(name: &str) -> String {
    format!("m:{name}")
}

/// The hold behind `cooldown.lua`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hold {
    known: bool,
    until: i128,
    since: i128,
    hint: i128,
    pub(super) time: Time,
    /// The member that set the end.
    by: String,
}

impl Hold {
    /// Returns the end of the hold with its release.
    fn end(&self) -> i128 {
        self.until + ((self.until - self.since) / 4).max(250_000)
    }
}

impl Model<HoldRequest<'_>> for Hold {
    fn step(&mut self, now: i128, request: &HoldRequest<'_>) -> HoldReply {
        let [remaining, elapsed, hint] =
            [request.remaining, request.elapsed, request.hint].map(micros);
        let mut time = self.time;
        if time.follow(now) > 0 {
            self.time.offset = time.offset;
        }
        let now = time.now;
        let runs = self.known && now < self.end();
        if remaining == 0 {
            let times = if runs {
                [(self.until - now).max(0), now - self.since, self.hint]
            } else {
                [0; 3]
            };
            let [remaining, elapsed, hint] = times.map(duration);
            let by = runs.then(|| self.by.clone());
            return HoldReply { remaining, elapsed, hint, grew: false, by };
        }
        let (until, since, by) = (now + remaining, now - elapsed, request.id.to_owned());
        let before = std::mem::replace(self, Self { known: true, until, since, hint, time, by });
        let grew = !runs || until > before.until;
        if runs {
            self.until = until.max(before.until);
            self.since = since.min(before.since);
            self.hint = hint.max(before.hint);
        }
        if !grew {
            self.by = before.by;
        }
        HoldReply {
            remaining: duration(self.until - now),
            elapsed: duration(now - self.since),
            hint: duration(self.hint),
            grew,
            by: Some(self.by.clone()),
        }
    }

    fn stored(&self) -> Stored {
        if !self.known {
            return Stored::new();
        }
        let Self { until, since, hint, time, by, .. } = self;
        let fields = [("u", until), ("s", since), ("h", hint), ("t", &time.now)];
        let text = |(name, value): (&str, &i128)| (name.to_owned(), value.to_string());
        let by = ("i".to_owned(), by.clone());
        fields.into_iter().map(text).chain(time.distance()).chain([by]).collect()
    }

    fn life(&self) -> i128 {
        ceil(self.end() - self.time.now + 10 * SECOND, 1_000)
    }
}

/// The fleet behind `members.lua`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fleet {
    time: Time,
    expiries: BTreeMap<String, i128>,
}

impl Model<MemberRequest<'_>> for Fleet {
    fn step(&mut self, now: i128, request: &MemberRequest<'_>) -> MemberReply {
        let stepped = duration(self.time.follow(now));
        let now = self.time.now;
        self.expiries.insert(request.id.to_owned(), now + micros(request.ttl));
        self.expiries.retain(|_, expiry| *expiry > now);
        MemberReply { members: self.expiries.len().try_into().unwrap(), stepped }
    }

    fn stored(&self) -> Stored {
        let members = self.expiries.iter().map(|(name, expiry)| (id(name), expiry.to_string()));
        let time = ("t".to_owned(), self.time.now.to_string());
        members.chain([time]).chain(self.time.distance()).collect()
    }

    fn life(&self) -> i128 {
        let last = self.expiries.values().max().unwrap_or(&self.time.now);
        ceil(last - self.time.now, 1_000) + 10_000
    }
}

/// The votes behind `votes.lua`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Votes {
    time: Time,
    votes: BTreeMap<String, (i128, i128, bool, i128)>,
}

impl Model<VoteRequest<'_>> for Votes {
    fn step(&mut self, now: i128, request: &VoteRequest<'_>) -> VoteReply {
        self.time.follow(now);
        let now = self.time.now;
        let [calls, failures] =
            [request.calls, request.failures].map(|n| i128::from(n).min(1 << 53));
        let vote = (calls, failures, request.open, now + micros(request.ttl));
        self.votes.insert(request.id.to_owned(), vote);
        self.votes.retain(|_, vote| vote.3 > now);
        let voters = self.votes.iter().filter(|(_, vote)| vote.0 > 0);
        let members = voters.clone().count().try_into().unwrap();
        let mut ids: Vec<_> = voters.filter(|(_, vote)| vote.2).map(|(id, _)| id.clone()).collect();
        let open = ids.len().try_into().unwrap();
        ids.truncate(8);
        VoteReply { members, open, ids }
    }

    fn stored(&self) -> Stored {
        let text =
            |(name, (calls, failures, open, expiry)): (&String, &(i128, i128, bool, i128))| {
                (id(name), format!("{calls} {failures} {} {expiry}", u8::from(*open)))
            };
        let Time { now, offset } = self.time;
        let times = [("t", now), ("d", offset)].map(|(name, at)| (name.to_owned(), at.to_string()));
        self.votes.iter().map(text).chain(times).collect()
    }

    fn life(&self) -> i128 {
        let last = self.votes.values().map(|vote| vote.3).max().unwrap_or(self.time.now);
        ceil(last - self.time.now, 1_000) + 10_000
    }
}

/// The lease behind `probe.lua`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Probe(Option<Permission>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Permission {
    time: Time,
    holder: Option<String>,
    expiry: i128,
    /// The end of the pause after a failed probe.
    closed: i128,
    passed: Option<i128>,
    failed_by: Option<String>,
    /// The members that wait, in the order of their turns, with the times at which they asked.
    queue: Vec<(String, i128)>,
}

impl Permission {
    /// Returns the member whose turn comes before that of `id`, which asks.
    fn before(&self, id: &str, now: i128) -> Option<String> {
        let mut ahead = self.queue.iter().take_while(|(waiter, _)| waiter != id);
        let is_here = |asked| now < self.closed - SECOND + 750_000 || now - asked < 1_500_000;
        ahead.find(|(_, asked)| is_here(*asked)).map(|(waiter, _)| waiter.clone())
    }

    /// Notes that a member waits, at its place or at the end.
    fn wait(&mut self, id: &str, now: i128) {
        match self.queue.iter_mut().find(|(waiter, _)| waiter == id) {
            Some((_, asked)) => *asked = now,
            None => self.queue.push((id.to_owned(), now)),
        }
    }
}

impl Model<ProbeRequest<'_>> for Probe {
    fn step(&mut self, now: i128, request: &ProbeRequest<'_>) -> ProbeReply {
        let is_known = self.0.is_some();
        let mut next = self.0.take().unwrap_or_default();
        next.time.follow(now);
        let now = next.time.now;
        let ttl = i128::try_from(request.ttl.as_nanos().div_ceil(1_000_000)).unwrap();
        let ttl = ttl.min(1 << 41) * 1_000;
        next.holder = next.holder.filter(|_| next.expiry > now);
        next.failed_by = next.failed_by.filter(|_| next.closed > now);
        next.passed = next.passed.filter(|at| at + 10 * SECOND > now);
        let is_mine = next.holder.as_deref() == Some(request.id);
        let is_free = is_mine || next.holder.is_none();
        let (mut is_told, mut turn) = (true, None);
        match request.step {
            ProbeStep::Passed => {
                next.queue.clear();
                (next.holder, next.closed, next.passed) = (None, 0, Some(now));
                next.failed_by = None;
            }
            ProbeStep::Failed => {
                if now + ttl > next.closed {
                    next.closed = now + ttl;
                    next.failed_by = (ttl > 0).then(|| request.id.to_owned());
                }
                next.passed = None;
                next.holder = next.holder.filter(|_| !is_mine);
                next.queue.retain(|(waiter, _)| waiter != request.id);
            }
            ProbeStep::Acquire if ttl > 0 => {
                let is_open = next.passed.is_none() && next.closed - now <= SECOND;
                turn = next.before(request.id, now).filter(|_| next.passed.is_none());
                is_told = is_free && is_open && (is_mine || turn.is_none());
                if is_told {
                    let is_waiter = |(waiter, _): &(String, i128)| waiter == request.id;
                    let place = next.queue.iter().position(is_waiter);
                    let passed_over = place.map_or(next.queue.len(), |place| place + 1);
                    next.queue.drain(..if is_mine { 0 } else { passed_over });
                    next.holder = Some(request.id.to_owned());
                    next.expiry = next.closed.max(now) + ttl;
                } else if next.passed.is_none() && !is_mine {
                    next.wait(request.id, now);
                }
            }
            ProbeStep::Look => is_told = false,
            ProbeStep::Acquire | ProbeStep::Release => {
                is_told = false;
                next.holder = next.holder.filter(|_| !is_mine);
                next.queue.retain(|(waiter, _)| waiter != request.id);
            }
        }
        let held = next.holder.as_deref() == Some(request.id);
        let holder = next.holder.clone().filter(|_| !held);
        let turn = turn.filter(|_| !held && holder.is_none());
        let others = holder.as_ref().map(|_| next.expiry - now);
        let others = others.or(turn.as_ref().map(|_| SECOND)).unwrap_or(0);
        let prober = holder.or(turn);
        let rest = ceil((next.closed - now).max(others).max(0), 1_000);
        let passed = next.passed.map(|at| (now - at) / 1_000);
        let pause = ceil((next.closed - now).max(0), 1_000);
        let failed_by = next.failed_by.clone();
        self.0 = (is_known || is_told).then_some(next);
        let millis = |millis: i128| Duration::from_millis(millis.try_into().unwrap());
        let (remaining, passed, pause) = (millis(rest), passed.map(millis), millis(pause));
        ProbeReply { held, remaining, passed, pause, failed_by, prober }
    }

    fn stored(&self) -> Stored {
        let text = |permission: &Permission| {
            let Permission {
                time: Time { now, offset },
                holder,
                expiry,
                closed,
                passed,
                failed_by,
                queue,
            } = permission;
            let (passed, holder) = (passed.unwrap_or(-1), holder.as_deref().unwrap_or_default());
            let has_line = failed_by.is_some() || !queue.is_empty();
            let by = failed_by.as_deref().filter(|_| has_line).unwrap_or_default();
            let line = has_line.then(|| format!("\n{by}"));
            let queue = queue.iter().map(|(id, asked)| format!("\n{asked} {id}"));
            let line: String = line.into_iter().chain(queue).collect();
            (String::new(), format!("{now} {expiry} {closed} {passed} {offset} {holder}{line}"))
        };
        self.0.iter().map(text).collect()
    }

    fn life(&self) -> i128 {
        self.0.as_ref().map_or(0, |permission| {
            let Permission { time, expiry, closed, passed, .. } = permission;
            let kept = passed.map_or(0, |at| at + 10 * SECOND);
            let last = time.now.max(*expiry).max(*closed).max(kept);
            ceil(last - time.now, 1_000) + 10_000
        })
    }
}
