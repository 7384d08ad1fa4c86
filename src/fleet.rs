//! The state of an upstream that many processes share.
//!
//! Processes that share an upstream are its *members*. They share it through a store, such as the
//! crate `resile-redis`, but no call waits for the store.
//! [`Upstream::fleet`](crate::Upstream::fleet) returns the [`Status`], and observers get it in
//! events and gauges.

use std::fmt;
use std::sync::atomic::{self, AtomicBool, Ordering};
use std::time::Duration;

use crate::sync::AtomicU64;

/// The way in which a process shares an upstream now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// The process has joined. The store has not answered yet.
    Joining,
    /// The store answers.
    Shared,
    /// Exchanges with the store fail. The process uses what it was granted.
    Coasting,
    /// Exchanges with the store fail. The process uses its share of the limits.
    Safe,
    /// The store answers again. It does not know all members yet.
    Learning,
    /// The process has left. It shares nothing until it joins again.
    Left,
}

impl State {
    const ALL: [Self; 6] =
        [Self::Joining, Self::Shared, Self::Coasting, Self::Safe, Self::Learning, Self::Left];

    /// Returns a stable word for logs and metrics: `joining`, `shared`, `coasting`, `safe`,
    /// `learning`, `left`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Shared => "shared",
            Self::Coasting => "coasting",
            Self::Safe => "safe",
            Self::Learning => "learning",
            Self::Left => "left",
        }
    }

    /// Returns whether the store answers, so that the limits are those of all members and the store tells operators
    /// what the members learn of them.
    pub(crate) const fn shares(self) -> bool {
        matches!(self, Self::Shared | Self::Learning)
    }
}

/// `Display` prints the word of [`as_str`](State::as_str).
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The status of a process that shares an upstream.
///
/// `Display` prints it in a few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Status {
    /// The state.
    pub state: State,
    /// The number of members last known in this state, with this process.
    pub members: u32,
    /// The time since the store last answered. `None` before the first answer.
    pub age: Option<Duration>,
}

impl Status {
    /// The status of a process that has left.
    pub(crate) const LEFT: Self = Self { state: State::Left, members: 1, age: None };
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = Members(self.members);
        match self.state {
            State::Joining => write!(f, "joining: the store has not answered yet")?,
            State::Shared => write!(f, "shared by {members}")?,
            State::Coasting => write!(f, "coasting: exchanges with the store fail")?,
            State::Safe if self.age.is_none() => {
                f.write_str("safe mode: no exchange with the store has succeeded yet")?;
            }
            State::Safe => {
                write!(f, "safe mode: exchanges with the store fail, ")?;
                write!(f, "{members} known last")?;
            }
            State::Learning => {
                write!(f, "learning: the store answers, {members} known last")?;
            }
            State::Left => f.write_str("left: the process shares nothing")?,
        }
        match self.age.filter(|_| matches!(self.state, State::Coasting | State::Safe)) {
            Some(age) => write!(f, " ({age:.1?} since the last one that succeeded)"),
            None => Ok(()),
        }
    }
}

/// Names a number of members: "1 process", "3 processes".
struct Members(u32);

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} process{}", self.0, if self.0 == 1 { "" } else { "es" })
    }
}

/// The status as an upstream stores it.
pub(crate) struct Cell {
    /// The state counted from 1, and the members above it. 0 while the upstream is not shared.
    word: AtomicU64,
    /// True after the process has left. Read for the status only, so it is no subject of a model and always the
    /// standard library's.
    has_left: AtomicBool,
    /// The time of the last answer in nanoseconds, or [`NEVER`].
    answered_at: AtomicU64,
    /// The time from which on the share of the process is that of a member, or [`NEVER`].
    settles_at: AtomicU64,
    /// The end of the lease of the quota in nanoseconds.
    leased_until: AtomicU64,
    /// The end of the latest hold of another member in nanoseconds, or 0.
    joined_until: AtomicU64,
    /// True if the budget is leased and was not spent after the last answer of the store. Read as a
    /// hint, so it is no subject of a model and always the standard library's.
    may_have_tokens: AtomicBool,
    /// The time up to which the store is known to have no units for calls that wait, in nanoseconds. This
    /// and the next ones are hints too.
    short_until: atomic::AtomicU64,
    /// The time since which calls lack units, in nanoseconds, or [`NEVER`].
    lacks_since: atomic::AtomicU64,
    /// The attempts that were told to wait since then, and those that were refused.
    lacked: atomic::AtomicU64,
    refused: atomic::AtomicU64,
    /// The end of the latest hold of any member in nanoseconds, or 0.
    held_until: atomic::AtomicU64,
    /// The end of the time in which nothing refills after a rate limit that this process met, in nanoseconds,
    /// or 0.
    emptied_until: atomic::AtomicU64,
}

/// The units that calls lack, if that is a strain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// The time since which calls lack units.
    pub(crate) since: u64,
    /// The waits and refusals since then.
    pub(crate) times: u64,
    /// The refusals among them.
    pub(crate) refused: u64,
}

const NEVER: u64 = u64::MAX;
const STATE_BITS: u32 = 8;
/// The time in which a newcomer gets its part, in nanoseconds. The others count it with their next
/// renewal, after 1.2 s at most, and give units back.
const SETTLING: u64 = 2_000_000_000;
/// The time for which an answer without units counts, in nanoseconds. A process whose calls wait asks
/// again within a second.
const SHORT: u64 = 1_500_000_000;
/// The time of a wait that is longer than an exchange with a store that has units, in nanoseconds.
const LONG: u64 = 250_000_000;
/// The difference of two ends below which two holds count as one, in nanoseconds. Requests may be on their way when
/// the news of a hold comes. Their answers ask for the same hold a little later, and in whole seconds.
const SAME: u64 = 1_000_000_000;

impl Cell {
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            has_left: AtomicBool::new(false),
            answered_at: AtomicU64::new(NEVER),
            settles_at: AtomicU64::new(NEVER),
            leased_until: AtomicU64::new(0),
            joined_until: AtomicU64::new(0),
            may_have_tokens: AtomicBool::new(false),
            short_until: atomic::AtomicU64::new(0),
            lacks_since: atomic::AtomicU64::new(NEVER),
            lacked: atomic::AtomicU64::new(0),
            refused: atomic::AtomicU64::new(0),
            held_until: atomic::AtomicU64::new(0),
            emptied_until: atomic::AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Marks the upstream as shared. Returns false if it is shared already.
    pub(crate) fn join(&self) -> bool {
        let joining = word(State::Joining, 1);
        self.word.compare_exchange(0, joining, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn leave(&self) {
        self.answered_at.store(NEVER, Ordering::Relaxed);
        self.settles_at.store(NEVER, Ordering::Relaxed);
        self.leased_until.store(0, Ordering::Relaxed);
        self.may_have_tokens.store(false, Ordering::Relaxed);
        self.short_until.store(0, Ordering::Relaxed);
        self.emptied_until.store(0, Ordering::Relaxed);
        self.has_units();
        self.has_left.store(true, Ordering::Relaxed);
        self.word.store(0, Ordering::Release);
    }

    /// Sets the state and the members. Returns whether the state is another one.
    pub(crate) fn set(&self, state: State, members: u32, now: impl FnOnce() -> u64) -> bool {
        let before = self.word.swap(word(state, members), Ordering::Relaxed);
        if state != State::Joining && self.settles_at.load(Ordering::Relaxed) == NEVER {
            self.settles_at.store(now().saturating_add(SETTLING).min(NEVER - 1), Ordering::Relaxed);
        }
        before & ((1 << STATE_BITS) - 1) != word(state, members) & ((1 << STATE_BITS) - 1)
    }

    /// Notes that the lease of the quota ends at `end`.
    pub(crate) fn leased_until(&self, end: u64) {
        self.leased_until.store(end, Ordering::Relaxed);
    }

    /// Returns whether the share of this process is not known at `now`: it has just joined, or it has no
    /// lease, as before its first exchange and after a rest. Units that it lacks then say nothing of the
    /// limit.
    pub(crate) fn lacks_share(&self, now: u64) -> bool {
        self.is_shared()
            && (now < self.settles_at.load(Ordering::Relaxed)
                || now >= self.leased_until.load(Ordering::Relaxed))
    }

    /// Notes that the store has no units for calls that wait at `now`.
    pub(crate) fn is_short(&self, now: u64) {
        self.short_until.store(now.saturating_add(SHORT), Ordering::Relaxed);
    }

    /// Notes that no call waits for units any more.
    pub(crate) fn has_units(&self) {
        self.lacks_since.store(NEVER, Ordering::Relaxed);
    }

    /// Notes that all calls are held until `end`. Nobody asks the store for units before.
    pub(crate) fn holds(&self, end: u64) {
        self.held_until.fetch_max(end, Ordering::Relaxed);
    }

    /// Notes that a rate limit of the upstream has emptied the quota, and that nothing refills until `end`.
    pub(crate) fn empties(&self, end: u64) {
        self.emptied_until.fetch_max(end, Ordering::Relaxed);
    }

    /// Returns whether calls lack units because such a limit has emptied the quota: they have lacked them since
    /// that time, or since soon after.
    pub(crate) fn is_emptied(&self) -> bool {
        let end = self.emptied_until.load(Ordering::Relaxed);
        let since = self.lacks_since.load(Ordering::Relaxed);
        end > 0 && since != NEVER && since <= end.saturating_add(SHORT)
    }

    /// Notes that a call lacks units at `now`. `is_first` tells that no other call waits for them. `times` and
    /// `refused` are 1 for a wait or a refusal that counts, and for a refusal. Returns what calls lack if that is
    /// a strain: the store has none, or they wait for longer than an exchange takes. A store that has not
    /// answered meanwhile, or does not know all members yet, says nothing of the limit.
    pub(crate) fn lacks_units(
        &self,
        is_first: bool,
        times: u64,
        refused: u64,
        now: u64,
    ) -> Option<Shortage> {
        let before = self.lacks_since.load(Ordering::Relaxed);
        let begins = is_first || before == NEVER;
        if begins {
            self.lacked.store(0, Ordering::Relaxed);
            self.refused.store(0, Ordering::Relaxed);
        }
        let times = self.lacked.fetch_add(times, Ordering::Relaxed).saturating_add(times);
        let refused = self.refused.fetch_add(refused, Ordering::Relaxed).saturating_add(refused);
        let since = if begins { now } else { before };
        let since = since.max(self.held_until.load(Ordering::Relaxed));
        self.lacks_since.store(since, Ordering::Relaxed);
        let lasts = now.checked_sub(since)?;
        let is_long = lasts >= LONG && self.has_answered(since);
        let is_strain = is_long || now < self.short_until.load(Ordering::Relaxed);
        is_strain.then_some(Shortage { since, times, refused })
    }

    /// Returns whether the store answers and has done so since this time. True for a store that tells no
    /// time of an answer.
    fn has_answered(&self, since: u64) -> bool {
        let state = self.status(|| since).map(|status| status.state);
        !matches!(state, Some(State::Coasting | State::Safe | State::Learning))
            && self.answered_at.load(Ordering::Relaxed) >= since // `NEVER` is above each time
    }

    /// Notes that another member has asked for a hold until `end`. `before` is the end of the hold that goes on
    /// at `now`, if there is one. An own hold stays one if it is the same one: its copy in the store, or the
    /// answer to another member at about the same time, ends a little later.
    pub(crate) fn joins_hold(&self, before: Option<u64>, end: u64, now: u64, is_by_hand: bool) {
        let is_own = |before: &u64| !self.has_joined(*before, now, is_by_hand);
        let is_same = |before: u64| end <= before.saturating_add(SAME);
        if !before.filter(is_own).is_some_and(is_same) {
            self.joined_until.fetch_max(end, Ordering::Relaxed);
        }
    }

    /// Returns whether another member has asked for the hold that goes on at `now` and ends at `end`. One by hand
    /// is longer if it ends later at all.
    pub(crate) fn has_joined(&self, end: u64, now: u64, is_by_hand: bool) -> bool {
        let joined = self.joined_until.load(Ordering::Relaxed);
        let later = if is_by_hand { 0 } else { SAME };
        self.is_shared() && now < joined && end <= joined.saturating_add(later)
    }

    /// Returns whether a hold that ends at `end` is longer than the one that another member has asked for.
    pub(crate) fn outlasts_joined(&self, end: u64) -> bool {
        end > self.joined_until.load(Ordering::Relaxed)
    }

    /// Returns whether the store answers. See [`State::shares`].
    pub(crate) fn shares(&self) -> bool {
        self.status(|| 0).is_some_and(|status| status.state.shares())
    }

    /// Notes whether the store may have tokens for a budget that is spent here.
    pub(crate) fn note_tokens(&self, may_have: bool) {
        self.may_have_tokens.store(may_have, Ordering::Relaxed);
    }

    /// Returns whether the store may have tokens for a budget that is spent here. A process holds the
    /// tokens of its next retries only, and gets others with the next answer.
    pub(crate) fn may_have_tokens(&self) -> bool {
        self.is_shared() && self.may_have_tokens.load(Ordering::Relaxed)
    }

    pub(crate) fn answered(&self, now: u64) {
        self.answered_at.store(now.min(NEVER - 1), Ordering::Relaxed);
    }

    /// Returns the status of a process that has left, and has not joined again.
    pub(crate) fn left(&self) -> Option<Status> {
        let has_left = !self.is_shared() && self.has_left.load(Ordering::Relaxed);
        has_left.then_some(Status::LEFT)
    }

    /// Returns the status of a process that shares the upstream.
    pub(crate) fn status(&self, now: impl FnOnce() -> u64) -> Option<Status> {
        let word = self.word.load(Ordering::Relaxed);
        let index = usize::try_from(word & ((1 << STATE_BITS) - 1)).ok()?;
        let state = *State::ALL.get(index.checked_sub(1)?)?;
        let members = u32::try_from(word >> STATE_BITS).unwrap_or(u32::MAX);
        let at = self.answered_at.load(Ordering::Relaxed);
        let age = (at != NEVER).then(|| Duration::from_nanos(now().saturating_sub(at)));
        Some(Status { state, members, age })
    }
}

const fn word(state: State, members: u32) -> u64 {
    (members as u64) << STATE_BITS | (state as u64 + 1)
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status(|| 0).map(|status| status.state).fmt(f)
    }
}
