use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::breaker::{State, Transition};
use crate::policy::{Attempt, StopReason};
use crate::verdict::{Cut, Health, Verdict};

/// What happened to a call, or to the upstream that calls share.
///
/// `Display` words it in one line.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The name of the upstream. `None` for a call on none.
    pub upstream: Option<&'a str>,
    /// The call. `None` for what happens to the upstream as such.
    pub call: Option<Call>,
    /// What happened.
    pub kind: EventKind<'a>,
    /// The state of the upstream's parts when it happened.
    pub gauges: Gauges,
}

/// The call that an [`Event`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// What makes the attempts.
    pub kind: CallKind,
    /// Where in the source the call was made.
    pub site: &'static Location<'static>,
    /// How many attempts the policy allows; of a fallback, how many alternatives there are.
    pub allowed: u32,
    /// Whether it runs within an attempt, or an alternative, of another call on the same upstream. It is known only where
    /// that call is observed by more than the log.
    pub is_part: bool,
    /// Whether its attempts are attempts of the outermost call on the upstream.
    pub(crate) counts_attempts: bool,
}

/// What makes the attempts of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// [`retry`](crate::retry()).
    Retry,
    /// A [`Run`](crate::Run).
    Run,
    /// [`retry_stream`](https://docs.rs/resile/latest/resile/fn.retry_stream.html).
    Stream,
    /// [`hedge`](crate::hedge()).
    Hedge,
    /// [`fallback`](crate::fallback()).
    Fallback,
    /// [`Upstream::call`](crate::Upstream::call) or [`Upstream::admit`](crate::Upstream::admit).
    Single,
}

/// What happened.
///
/// A call ends with exactly one `Succeeded` or `GaveUp`, unless it is dropped. An observer that only wants
/// [trouble](super::Observe::wants_all) gets the `Started` of hedges alone, and no `Succeeded` of a first attempt.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// The call runs within an attempt of another one: their attempts multiply. Reported before its first attempt.
    #[non_exhaustive]
    Nested {
        /// Where the other call was made.
        outer: &'static Location<'static>,
    },
    /// An attempt begins.
    #[non_exhaustive]
    Started {
        /// The attempt, with the times at its start.
        attempt: Attempt,
    },
    /// An attempt waits for its admission. Reported for each wait: amid a release a call may wait several times.
    #[non_exhaustive]
    Held {
        /// The number of the attempt.
        attempt: u32,
        /// What holds it.
        by: HeldBy,
        /// For how long, if that is known. Then it asks again.
        delay: Option<Duration>,
    },
    /// An attempt failed.
    #[non_exhaustive]
    Failed {
        /// The attempt, with the times at its failure.
        attempt: Attempt,
        /// Why it failed, and how that was classified.
        failure: AttemptFailure<'a>,
        /// How long the attempt took, if its start is known: only where an observer wants all events.
        latency: Option<Duration>,
    },
    /// The next attempt begins after a delay, which may be zero. Follows `Failed`.
    #[non_exhaustive]
    Waiting {
        /// The attempt that failed, with the times at its failure.
        attempt: Attempt,
        /// Why it failed, and how that was classified.
        failure: AttemptFailure<'a>,
        /// The delay.
        delay: Duration,
        /// When the delay is over, on the upstream's [`Timer`](crate::Timer); `None` if the clock was not read.
        resumes_at: Option<Duration>,
    },
    /// A hedge was due and is not made: the budget cannot pay for it, or it was not admitted.
    #[non_exhaustive]
    Denied {
        /// How many attempts have begun.
        attempts: u32,
    },
    /// An attempt in flight was dropped, as another one decided the call.
    #[non_exhaustive]
    Lost {
        /// The number of the attempt.
        attempt: u32,
    },
    /// The call succeeded; with more than one attempt, it recovered.
    #[non_exhaustive]
    Succeeded {
        /// The number of the attempt that succeeded.
        attempt: u32,
        /// How many attempts were begun.
        attempts: u32,
        /// How long the call took. Zero if it never had to wait, and no observer wants all events.
        elapsed: Duration,
        /// How long the attempt took, as in `Failed`.
        latency: Option<Duration>,
    },
    /// The call ended without success.
    #[non_exhaustive]
    GaveUp {
        /// Why.
        reason: StopReason,
        /// How many attempts were begun.
        attempts: u32,
        /// How long the call took.
        elapsed: Duration,
        /// The last failure.
        failure: AttemptFailure<'a>,
        /// How long it is worth waiting before the next call.
        retry_after: Option<Duration>,
        /// The type of the operation's error, or `timeout` where a timeout cut the last attempt.
        error_type: &'static str,
    },
    /// The upstream's breaker made a transition.
    Breaker(Transition),
}

/// Why an attempt failed.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct AttemptFailure<'a> {
    /// The words of its error. `None` where there is none, or where the call is on no upstream.
    pub error: Option<&'a dyn fmt::Display>,
    /// What cut it, if it came to no error.
    pub cut: Option<Cut>,
    /// How it was classified. `None`: it was not, or there was no opinion.
    pub verdict: Option<Verdict>,
}

/// What an attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeldBy {
    /// The upstream's cooldown.
    Cooldown,
    /// The line in front of the upstream's bulkhead.
    Bulkhead,
}

impl HeldBy {
    /// Returns a stable word for logs and metrics: `cooldown`, `bulkhead`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cooldown => "cooldown",
            Self::Bulkhead => "bulkhead",
        }
    }
}

/// The state of an upstream's parts. `None` is a part that the upstream does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// How many retries the budget can pay.
    pub tokens: Option<u32>,
    /// The state of the breaker.
    pub breaker: Option<State>,
    /// How many attempts are in the bulkhead.
    pub in_flight: Option<u32>,
    /// How many attempts wait for the bulkhead.
    pub waiting: Option<u32>,
}

impl AttemptFailure<'_> {
    /// Returns how the upstream is, as far as this attempt shows.
    #[must_use]
    pub fn health(&self) -> Health {
        self.verdict.map_or(Health::Unknown, |verdict| verdict.health())
    }
}

/// The error in one line, or what cut the attempt.
impl fmt::Display for AttemptFailure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.cut, self.error) {
            (Some(cut), _) => cut.fmt(f)?,
            (None, Some(error)) => write!(f, "{error:#}")?, // anyhow's chain in one line
            (None, None) => f.write_str("error")?,
        }
        match self.verdict.and_then(|verdict| verdict.hint()) {
            Some(hint) => write!(f, " (asked for {hint:.1?})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.upstream {
            write!(f, "{name}: ")?;
        }
        let allowed = self.call.map_or(0, |call| call.allowed);
        let is_fallback = self.call.is_some_and(|call| call.kind == CallKind::Fallback);
        let attempt = if is_fallback { "alternative" } else { "attempt" };
        let is_told =
            |failure: &AttemptFailure<'_>| failure.cut.is_some() || failure.error.is_some();
        match self.kind {
            EventKind::Nested { outer } => {
                write!(
                    f,
                    "runs within an attempt of the call at {outer}, so their attempts multiply"
                )
            }
            EventKind::Started { attempt: started } => {
                write!(f, "{attempt} {} of {allowed} starts", started.number())
            }
            EventKind::Held { attempt: number, by, delay } => {
                write!(f, "{attempt} {number} of {allowed} is held by the {}", by.as_str())?;
                delay.map_or(Ok(()), |delay| write!(f, " for {delay:.1?}"))
            }
            EventKind::Failed { attempt: failed, failure, .. } => {
                write!(f, "{attempt} {} of {allowed} failed: {failure}", failed.number())
            }
            EventKind::Waiting { attempt: failed, failure, delay, .. } => {
                write!(f, "{attempt} {} of {allowed} failed, ", failed.number())?;
                match is_fallback {
                    true => write!(f, "trying the next: {failure}"),
                    false if delay.is_zero() => write!(f, "retrying at once: {failure}"),
                    false => write!(f, "retrying in {delay:.1?}: {failure}"),
                }
            }
            EventKind::Denied { attempts } => {
                write!(f, "no hedge beside {attempts} attempts: no budget or no admission")
            }
            EventKind::Lost { attempt: lost } => {
                write!(f, "attempt {lost} was dropped, another one decided the call")
            }
            EventKind::Succeeded { attempt: won, attempts, .. } => {
                write!(f, "succeeded with {attempt} {won} of {attempts}")
            }
            EventKind::GaveUp { reason, attempts, failure, retry_after, .. } => {
                write!(f, "gave up after {attempts} of {allowed} {attempt}s, {reason}")?;
                if is_told(&failure) {
                    write!(f, ": {failure}")?;
                }
                match retry_after {
                    Some(after) => write!(f, ", try again in {after:.1?}"),
                    None => Ok(()),
                }
            }
            EventKind::Breaker(transition) => transition.fmt(f),
        }
    }
}

impl fmt::Debug for AttemptFailure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.error.map(|error| format!("{error:#}"));
        f.debug_struct("AttemptFailure")
            .field("error", &error)
            .field("cut", &self.cut)
            .field("verdict", &self.verdict)
            .finish()
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("words", &self.to_string())
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EventKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl EventKind<'_> {
    /// Returns a stable word for logs: `nested`, `started`, `held`, `failed`, `waiting`, `denied`, `lost`, `succeeded`,
    /// `gave_up`, `breaker`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Nested { .. } => "nested",
            Self::Started { .. } => "started",
            Self::Held { .. } => "held",
            Self::Failed { .. } => "failed",
            Self::Waiting { .. } => "waiting",
            Self::Denied { .. } => "denied",
            Self::Lost { .. } => "lost",
            Self::Succeeded { .. } => "succeeded",
            Self::GaveUp { .. } => "gave_up",
            Self::Breaker(_) => "breaker",
        }
    }
}
