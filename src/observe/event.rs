use std::fmt;
use std::panic::Location;
use std::time::Duration;

use super::failure::AttemptFailure;
use super::gauges::Gauges;
use super::held_by::HeldBy;
use super::kinds::Kinds;
use super::no_room::NoRoom;
use super::placed::Placed;
use super::too_long::TooLong;
use crate::breaker::Transition;
#[cfg(feature = "fleet")]
use crate::fleet;
use crate::policy::{Attempt, StopReason};
use crate::quota::{Finding, TooLarge};

/// An event of a call or of the upstream shared by calls.
///
/// `Display` prints the event in one line.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The name of the upstream. `None` for a call without an upstream or a name.
    pub upstream: Option<&'a str>,
    /// The call. `None` for an event of the upstream itself.
    pub call: Option<Call>,
    /// The event with its data.
    pub kind: EventKind<'a>,
    /// The state of the upstream's parts at the time of the event.
    pub gauges: Gauges,
    /// Knows the place of the requests. `None` if nobody does, and for an event of the upstream itself. The
    /// failure in an event knows it too.
    pub(crate) place: Option<&'a dyn Placed>,
    /// The types of the errors in a surge. `None` for another event.
    pub(crate) kinds: Option<&'a Kinds>,
}

/// The call that an [`Event`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each one is a fact of its own")]
pub struct Call {
    /// The function or type by which the call was made.
    pub kind: CallKind,
    /// The call site in the source.
    pub site: &'static Location<'static>,
    /// The number that tells this call apart from others on its upstream. It counts the calls with
    /// events up to 65,535 and starts again at 1. Calls without an upstream have one count
    /// together.
    pub number: u16,
    /// The number of attempts that the policy allows. For a fallback, the number of alternatives. `u32::MAX` in
    /// [`EventKind::Dropped`], where it is not known.
    pub allowed: u32,
    /// True if the call runs within an attempt or an alternative of another call on the same
    /// upstream. It is only known if an observer of all events observes the other call, and not in
    /// [`EventKind::Dropped`].
    pub is_part: bool,
    /// True if the metrics count the attempts of this call.
    pub(crate) counts_attempts: bool,
    /// True if the call runs within an alternative of a fallback whose lines have the words of its end.
    pub(crate) is_told: bool,
    /// True for a fallback whose failed alternative is one of many, so that their upstream has a surge.
    pub(crate) surges: bool,
    /// True if an attempt failed other than by an error of a healthy upstream, so a retry may have a line at WARN.
    pub(crate) has_failed: bool,
}

/// The function or type by which a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// A [`retry`](crate::retry()).
    Retry,
    /// A [`Run`](crate::Run).
    Run,
    /// A `retry_stream`.
    Stream,
    /// A [`hedge`](crate::hedge()).
    Hedge,
    /// A [`fallback`](crate::fallback()).
    Fallback,
    /// An [`Upstream::call`](crate::Upstream::call) or [`Upstream::admit`](crate::Upstream::admit).
    Single,
}

impl CallKind {
    /// Returns the words for the attempt whose error is the last one of a call, if a later one was cut. A hedge
    /// that was cut may have started before it.
    pub(crate) const fn earlier(self) -> &'static str {
        match self {
            Self::Hedge => "another attempt",
            Self::Fallback => "an earlier alternative",
            Self::Retry | Self::Run | Self::Stream | Self::Single => "an earlier attempt",
        }
    }
}

/// The kind of an event with its data.
///
/// A call ends with exactly one `Succeeded` or `GaveUp` unless the program drops it, and then with `Dropped` if an
/// attempt was in flight. Some observers do not [want all events](super::Observe::wants_all): these get `Started` only
/// for hedges, and no `Succeeded` for a first attempt.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// The call runs within an attempt of another call, so their attempts multiply.
    ///
    /// This event comes before the first attempt.
    #[non_exhaustive]
    Nested {
        /// The call site of the other call.
        outer: &'static Location<'static>,
    },
    /// An attempt starts.
    #[non_exhaustive]
    Started {
        /// The attempt with the times at its start.
        attempt: Attempt,
        /// The tokens reserved for the attempt. `None` without a quota.
        reserved: Option<u64>,
    },
    /// An attempt waits for its admission.
    ///
    /// The event is emitted for each wait. The wait for the hold of a cooldown goes on while the cooldown releases its
    /// calls, so it is one event for both. Its delay is the least time then. A hold that becomes longer has
    /// another event.
    #[non_exhaustive]
    Held {
        /// The number of the attempt.
        attempt: u32,
        /// The part of the upstream for which the attempt waits.
        by: HeldBy,
        /// The length of the wait. `None` if the length is unknown.
        delay: Option<Duration>,
    },
    /// The quota charged the usage that an attempt reported.
    ///
    /// The usage of a stream may come in parts, each with an event.
    #[non_exhaustive]
    Settled {
        /// The number of the attempt.
        attempt: u32,
        /// The tokens reserved or charged for the attempt before.
        before: u64,
        /// The tokens charged for the attempt now.
        charged: u64,
    },
    /// An attempt failed.
    #[non_exhaustive]
    Failed {
        /// The attempt with the times at its failure.
        attempt: Attempt,
        /// The error and its classification.
        failure: AttemptFailure<'a>,
        /// The duration of the attempt. `None` if its start is unknown or if no observer wants
        /// all events.
        latency: Option<Duration>,
        /// True if the upstream counts this failure. False if a call within the attempt on the same
        /// upstream has reported it.
        is_counted: bool,
    },
    /// The next attempt is due after a delay, which may be zero. Follows `Failed`.
    ///
    /// The attempt may never start, because the token, the deadline or a part of the upstream may end
    /// the call before.
    #[non_exhaustive]
    Waiting {
        /// The failed attempt with the times at its failure.
        attempt: Attempt,
        /// The error and its classification.
        failure: AttemptFailure<'a>,
        /// The delay before the next attempt.
        delay: Duration,
        /// The time for which the cooldown or the quota surely holds the next attempt, if that is longer than the
        /// delay. The words of the event then have this time in place of the delay, as the least one. `None`
        /// otherwise.
        held: Option<Duration>,
        /// The end of the delay, as a reading of the upstream's [`Timer`](crate::time::Timer).
        ///
        /// `None` if the clock was not read.
        resumes_at: Option<Duration>,
        /// True if the consumer of a stream has a part of the answer: the next attempt begins it anew or
        /// continues it, as `Resumption` says.
        is_partial: bool,
    },
    /// A due hedge was not started: the budget could not pay for it or it was not admitted.
    #[non_exhaustive]
    Denied {
        /// The number of attempts started so far.
        attempts: u32,
        /// The part of the upstream that denied it. `None` if the call was about to end.
        by: Option<HeldBy>,
    },
    /// An attempt in flight was dropped because another attempt ended the call.
    #[non_exhaustive]
    Lost {
        /// The number of the attempt.
        attempt: u32,
    },
    /// The call was dropped while an attempt was in flight, such as by the handler of a client that has
    /// disconnected or as the losing branch of a `select!`.
    ///
    /// The end of a call that drops another one within its attempt tells of that, so there the other one has this
    /// event only if it is in doubt and the end does not say so. These have none: a call that waits for an attempt to
    /// begin, a [`hedge`](crate::hedge()), an attempt that [`Run::next`](crate::Run::next) or
    /// [`Run::blocking_next`](crate::Run::blocking_next) began, an [`Admission`](crate::call::Admission), a stream
    /// after its first content, and a call that is dropped by a panic.
    ///
    /// A [`Run`](crate::Run) may go on after a drop of its [`attempt`](crate::Run::attempt). So it has this event at its
    /// own drop, and only if neither another attempt nor a report came after the drop of the attempt.
    ///
    /// The event knows the place of its request only if the classifier states of an attempt that is cut that its
    /// request must not be sent again.
    #[non_exhaustive]
    Dropped {
        /// The number of attempts started.
        attempts: u32,
        /// The time since the start of the call.
        elapsed: Duration,
        /// True if the request may have been executed and must not be sent again, as the classifier states of an
        /// attempt that is cut. False if the attempt was dropped within
        /// [`before_sending`](crate::ResilienceExt::before_sending).
        in_doubt: bool,
    },
    /// The call succeeded. With more than one attempt, the call recovered.
    #[non_exhaustive]
    Succeeded {
        /// The number of the attempt that succeeded.
        attempt: u32,
        /// The number of attempts started.
        attempts: u32,
        /// The duration of the call. Zero if the call never waited and no observer wants all
        /// events.
        elapsed: Duration,
        /// The duration of the attempt as in `Failed`.
        latency: Option<Duration>,
    },
    /// The call ended without success.
    #[non_exhaustive]
    GaveUp {
        /// The reason for giving up.
        reason: StopReason,
        /// The number of attempts started.
        attempts: u32,
        /// The duration of the call.
        elapsed: Duration,
        /// The last failure.
        failure: AttemptFailure<'a>,
        /// The recommended wait before the next call. `None` if it is unknown.
        retry_after: Option<Duration>,
        /// The numbers of a cost above a quota, if that is the reason.
        too_large: Option<TooLarge>,
        /// The queue that was full, if that is the reason.
        no_room: Option<NoRoom>,
        /// The wait that was above the hint cap or longer than the time left, if that is the reason.
        too_long: Option<TooLong>,
        /// True if the request may have been executed and must not be sent again, as the classifier
        /// states. See [`GaveUp::is_in_doubt`](crate::GaveUp::is_in_doubt).
        in_doubt: bool,
        /// True if the consumer of a stream has a part of the answer, and the rest never comes. See
        /// [`GaveUp::is_partial`](crate::GaveUp::is_partial).
        is_partial: bool,
        /// The type of the error in one word.
        ///
        /// It is `cancelled` if the caller ended the call. Otherwise it is that of the last
        /// [failure](AttemptFailure::error_type). Without a failure it is the word of the reason,
        /// such as `open`.
        error_type: &'a str,
    },
    /// A part of the upstream begins to make calls wait or to refuse them.
    ///
    /// One further event says so before [`Relieved`](Self::Relieved), if calls waited at first and then the
    /// queue is full. Each hold of a cooldown that is more than twice as long as the last one in such an event has one
    /// too, if it is longer by a second at least. The quota of a fleet has no event in the first two seconds of a
    /// member and before the first exchange after its rest, because its share is not known then.
    #[non_exhaustive]
    Limiting {
        /// The part.
        by: HeldBy,
        /// The capacity of the budget or the limit of the bulkhead.
        limit: Option<u32>,
        /// The time for which a cooldown holds all calls, or for which a quota holds this call if that is
        /// known.
        hold: Option<Duration>,
        /// The length of the queue if calls have waited already, and now the queue is full.
        full: Option<u32>,
        /// The failure whose retry a budget did not pay for.
        ///
        /// `None` for another part, for a hedge, after an attempt that was dropped and after one made by hand.
        failure: Option<AttemptFailure<'a>>,
    },
    /// A part of the upstream goes on to make calls wait or to refuse them. The event comes with a wait or a
    /// refusal, a minute after the one before at least.
    ///
    /// For a budget, a quota and a cooldown, each process of a fleet has it after as many minutes as there are
    /// processes, ten at most.
    #[non_exhaustive]
    StillLimiting {
        /// The part.
        by: HeldBy,
        /// The time from the start of the first wait or refusal until now.
        lasted: Duration,
        /// The number of waits and refusals since then, at most 1,048,575.
        times: u64,
        /// The number of refusals among them, as in [`Relieved`](Self::Relieved).
        refused: u64,
        /// The number of holds of a cooldown, as in [`Relieved`](Self::Relieved).
        holds: u64,
        /// The latest failure, as in [`Limiting`](Self::Limiting).
        failure: Option<AttemptFailure<'a>>,
    },
    /// A part of the upstream made no call wait for ten seconds and refused none, or the process leaves a
    /// fleet.
    ///
    /// The event comes with the next report of an attempt, and at once when the process leaves a fleet.
    #[non_exhaustive]
    Relieved {
        /// The part.
        by: HeldBy,
        /// The time from the start of the first wait or refusal to the end of the last one, or to the end
        /// of the hold. A wait that ends without an admission counts with its start only.
        lasted: Duration,
        /// The time from that end until this event.
        ago: Duration,
        /// The number of waits and refusals, at most 1,048,575.
        times: u64,
        /// The number of refusals among them. For a cooldown, those of the attempts whose call ended at once.
        /// A call that waits for a quota and reaches its deadline there counts once as a wait and once as a refusal.
        refused: u64,
        /// The number of holds, each of which began after the end of the one before. 0 if it is not a cooldown.
        holds: u64,
        /// True if the process leaves its fleet, which says nothing of the room that the part has.
        leaves: bool,
    },
    /// Many attempts fail and announce a retry by [`Waiting`](Self::Waiting): ten within ten seconds. The event
    /// comes once, and again with a failure after each minute.
    ///
    /// Only failures of calls on this upstream count, and none while its breaker is open. A retry that was
    /// announced may never be sent. Meanwhile the [`Log`](super::Log) writes each `Waiting` at DEBUG.
    ///
    /// The words of the event have the types of the errors with their numbers if there are several.
    ///
    /// Errors of a healthy upstream, such as collisions, are counted apart. Their surge has events of its own.
    /// So have the calls on this upstream that give up in an alternative of a [`fallback`](crate::fallback()),
    /// whose `Waiting` is then at DEBUG too. A refusal by a part or a token does not count among them.
    ///
    /// A third surge is that of the calls that end at their first attempt, because the error is final or the policy
    /// allows no retry. Ten of them in a row within ten seconds begin it, and any attempt that shows a healthy
    /// upstream ends the row. So an error of a [healthy](crate::Health::Healthy) upstream, such as a 404, does not
    /// count, and neither does a call whose end the `Log` writes at WARN.
    #[non_exhaustive]
    Surge {
        /// The number of these attempts or calls since the start of the surge.
        failures: u64,
        /// The time from the first of them to the last.
        lasted: Duration,
        /// True for the first event of a surge.
        begins: bool,
        /// True for calls that gave up in an alternative of a fallback.
        in_fallback: bool,
        /// True for calls that ended at their first attempt.
        at_first: bool,
        /// The latest failure.
        failure: AttemptFailure<'a>,
    },
    /// No such failure came for ten seconds after many. The event comes with the next report of an attempt that is not
    /// a failure of the upstream, and not before a breaker is closed.
    #[non_exhaustive]
    SurgeOver {
        /// The number of attempts that announced a retry, or of calls that ended.
        failures: u64,
        /// The time from the first of them to the last.
        lasted: Duration,
        /// The time from the last one until this event.
        ago: Duration,
        /// True for retries after errors of a healthy upstream.
        is_healthy: bool,
        /// True for calls that gave up in an alternative of a fallback.
        in_fallback: bool,
        /// True for calls that ended at their first attempt.
        at_first: bool,
    },
    /// A refusal has lowered the learned limit of the bulkhead. Once for all attempts that began before.
    #[non_exhaustive]
    Lowered {
        /// The limit before.
        before: u32,
        /// The limit now.
        after: u32,
    },
    /// The quota has found that a limit of the provider is not the configured one.
    Learned(Finding),
    /// The upstream's breaker made a transition.
    #[non_exhaustive]
    Breaker {
        /// The transition.
        transition: Transition,
        /// The failure that opened the breaker.
        ///
        /// `None` for any other transition, after a slow call that succeeded and after an attempt made
        /// by hand ([`Upstream::admit`](crate::Upstream::admit)). Also `None` if the breaker opens while
        /// the observer still has the event of an earlier transition.
        failure: Option<AttemptFailure<'a>>,
    },
    /// The way in which the process shares the upstream with other processes has changed.
    #[cfg(feature = "fleet")]
    Fleet(fleet::Status),
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
    /// Returns a stable word for logs: `nested`, `started`, `held`, `settled`, `failed`, `waiting`,
    /// `denied`, `lost`, `dropped`, `succeeded`, `gave_up`, `limiting`, `still_limiting`, `relieved`, `surge`,
    /// `surge_over`, `lowered`, `learned`, `breaker`, `fleet`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Nested { .. } => "nested",
            Self::Started { .. } => "started",
            Self::Held { .. } => "held",
            Self::Settled { .. } => "settled",
            Self::Failed { .. } => "failed",
            Self::Waiting { .. } => "waiting",
            Self::Denied { .. } => "denied",
            Self::Lost { .. } => "lost",
            Self::Dropped { .. } => "dropped",
            Self::Succeeded { .. } => "succeeded",
            Self::GaveUp { .. } => "gave_up",
            Self::Limiting { .. } => "limiting",
            Self::StillLimiting { .. } => "still_limiting",
            Self::Relieved { .. } => "relieved",
            Self::Surge { .. } => "surge",
            Self::SurgeOver { .. } => "surge_over",
            Self::Lowered { .. } => "lowered",
            Self::Learned(_) => "learned",
            Self::Breaker { .. } => "breaker",
            #[cfg(feature = "fleet")]
            Self::Fleet(_) => "fleet",
        }
    }
}
