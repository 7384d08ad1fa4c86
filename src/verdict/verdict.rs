use std::time::Duration;

use super::Health;
use super::answers::{Answers, Flag, Ground};
use crate::time::nanos;

/// The classification of a failed attempt.
///
/// A verdict answers three questions, and each part of the crate reads the answer that it needs.
///
/// | question | read by | getter |
/// |---|---|---|
/// | May the same request be sent again? | retry, stream, hedge, fallback | [`is_again`](Self::is_again) |
/// | How is the upstream? | breaker, cooldown, metrics | [`health`](Self::health) |
/// | When may the request be sent again? | retry, hedge, cooldown, breaker | [`wait`](Self::wait) |
///
/// The questions are independent. After a 500 on a `POST` the request must not be sent again
/// although the upstream is failing, so the breaker counts what the retry may not repeat. After a
/// 404 the request must not be sent again either, but there the upstream is healthy.
///
/// Beside the answers, a classifier may state two facts about the request: that it may be executed
/// twice ([`idempotent`](Self::idempotent)), and that it was never sent ([`not_sent`](Self::not_sent)).
/// Verdicts are equal if their answers and these facts are. Two more facts do not count for equality: that
/// the upstream [kept nothing](Self::without_effect) of the request, and that the request has a
/// [key](Self::keyed).
///
/// # Examples
///
/// ```
/// use resile::{Health, Verdict};
/// use std::time::Duration;
///
/// const TWO: Duration = Duration::from_secs(2);
/// const BUSY: Verdict = Verdict::throttled().after(TWO);
/// assert_eq!((BUSY.is_again(), BUSY.hint()), (true, Some(TWO)));
/// assert_eq!(BUSY.health(), Health::Throttling);
///
/// let booking = Verdict::transient().not_again();
/// assert_eq!((booking.is_again(), booking.health()), (false, Health::Failing));
///
/// let missing = Verdict::fatal().with_health(Health::Healthy);
/// assert_eq!((missing.is_again(), missing.health()), (false, Health::Healthy));
/// ```
#[derive(Clone, Copy)]
#[must_use = "a verdict does nothing until it is returned"]
pub struct Verdict {
    /// The wait in nanoseconds, or `NO_WAIT`.
    pub(super) wait: u64,
    pub(super) answers: Answers,
}

pub(super) const NO_WAIT: u64 = u64::MAX;

impl Verdict {
    /// Creates a verdict for a reset, a timeout or an internal error. The request may be sent
    /// again, and the upstream is failing.
    pub const fn transient() -> Self {
        Self::fatal().with(Flag::Again, true).with_health(Health::Failing)
    }

    /// Creates a verdict for a rate limit of the caller. The request may be sent again, and the
    /// upstream asks for fewer requests. A [quota](crate::quota) counts itself as used up.
    pub const fn throttled() -> Self {
        Self::overloaded().with(Flag::OwnLimit, true)
    }

    /// Creates a verdict for an overload by all callers together. The request may be sent again,
    /// and the upstream asks for fewer requests but says nothing about the caller's own limit.
    pub const fn overloaded() -> Self {
        Self::transient().with_health(Health::Throttling).with(Flag::OwnLimit, false)
    }

    /// Creates a verdict that forbids sending the request again. The health of the upstream is
    /// unknown.
    pub const fn fatal() -> Self {
        Self { wait: NO_WAIT, answers: Answers::FATAL }
    }

    /// Adds a hint: the upstream asked for a wait of `wait` from now. It replaces an earlier wait.
    /// Saturates at 584 years.
    ///
    /// Use this only for a wait that the upstream stated, because the log then says that the upstream
    /// asked for it. For a wait of your own use [`at_least`](Self::at_least).
    pub const fn after(mut self, wait: Duration) -> Self {
        self.wait = limited(wait);
        self.with(Flag::OwnWait, false).with(Flag::Base, false)
    }

    /// Sets the base of the backoff that the upstream asked for, such as the `baseBackoffMS` of an
    /// overloaded MongoDB. It replaces an earlier wait. Saturates at 584 years.
    ///
    /// The base is not a wait: the delays of the policy's backoff grow from it, with their factor,
    /// their cap and their jitter. A backoff without a base, such as
    /// [`Backoff::steps`](crate::Backoff::steps), stays as it is.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::Verdict;
    /// use std::time::Duration;
    ///
    /// const BASE: Duration = Duration::from_millis(250);
    /// let overloaded = Verdict::overloaded().with_base(BASE);
    /// assert_eq!((overloaded.base(), overloaded.wait()), (Some(BASE), None));
    /// ```
    pub const fn with_base(mut self, base: Duration) -> Self {
        self.wait = limited(base);
        self.with(Flag::OwnWait, false).with(Flag::Base, true)
    }

    /// Sets the shortest wait of the classifier itself. A wait that is set already and is
    /// not shorter stays. Saturates at 584 years.
    ///
    /// A call waits as for a [hint](Self::after), and the policy's hint cap applies. Only the log
    /// and the messages differ: they say that the wait is set for the error.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::Verdict;
    /// use std::time::Duration;
    ///
    /// const TWO: Duration = Duration::from_secs(2);
    /// let busy = Verdict::overloaded().at_least(TWO);
    /// assert_eq!((busy.hint(), busy.wait()), (None, Some(TWO)));
    ///
    /// const NINE: Duration = Duration::from_secs(9);
    /// let told = Verdict::overloaded().after(NINE).at_least(TWO);
    /// assert_eq!((told.hint(), told.wait()), (Some(NINE), Some(NINE)));
    /// ```
    pub const fn at_least(mut self, wait: Duration) -> Self {
        let wait = limited(wait);
        if self.wait == NO_WAIT || self.wait < wait || self.answers.is(Flag::Base) {
            self.wait = wait;
            return self.with(Flag::OwnWait, true).with(Flag::Base, false);
        }
        self
    }

    /// Forbids sending the request again and keeps the rest of the verdict.
    pub const fn not_again(self) -> Self {
        self.with(Flag::Again, false).as_fact()
    }

    /// States that the request may be executed twice, such as a read, and keeps the rest of the
    /// verdict.
    ///
    /// Use it with a verdict that forbids a repetition because it would not help, such as after "do not
    /// retry" of the server. The call is then not [in doubt](crate::GaveUp::is_in_doubt), whatever the
    /// health is, because nobody must find out whether the request was executed. The statement does not
    /// allow a repetition. The classifiers of `http` and `io` make it for idempotent requests, also if the
    /// request may be sent again.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::{Health, Verdict};
    ///
    /// let stop = Verdict::overloaded().not_again().idempotent();
    /// assert_eq!((stop.is_again(), stop.health()), (false, Health::Throttling));
    /// assert!(stop.is_idempotent());
    /// ```
    pub const fn idempotent(self) -> Self {
        self.with(Flag::Idempotent, true)
    }

    /// States that the request has an effect and may be executed twice because of a key, such as a payment
    /// with an idempotency key or an insert that does nothing if its row exists. Keeps the rest of the verdict.
    ///
    /// The request is [idempotent](Self::idempotent). But other than after a read, the caller wants to know what
    /// happened, so the error of the call and its line in the log say it:
    ///
    /// | words | meaning |
    /// |---|---|
    /// | without effect | no attempt had an effect |
    /// | the request may have been executed and may be sent again with its key | an attempt may have been executed |
    /// | an earlier attempt may have been executed, the request may be sent again with its key | the same, but the last attempt had no effect |
    ///
    /// The end by a final error has these words too, although the same error would come again.
    /// [`conclusion`](crate::GaveUp::conclusion) tells these ends apart.
    ///
    /// A key that any verdict of a call states is known at its end, unless the call is
    /// [in doubt](crate::GaveUp::is_in_doubt). State the key of each error all the same, because another call with this
    /// key may end by one error alone. And state it in the opinion on
    /// [cuts](crate::Classify#cut-attempts): a call that was refused before its first attempt has no error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::classify::ClassifyExt;
    /// use resile::{Never, RetryPolicy, Verdict, retry};
    ///
    /// const KEYED: Verdict = Verdict::transient().keyed();
    /// // A closure judges errors only, so `cut_is` states the key of a call without one.
    /// let policy = RetryPolicy::none().with_classifier((|_: &&str| KEYED).cut_is(KEYED));
    /// let pay = |_| async { Err::<(), _>("the connection was lost") };
    /// let gave_up = retry(pay, policy, Never).await.unwrap_err();
    /// assert!(!gave_up.is_in_doubt() && !gave_up.is_without_effect());
    /// assert_eq!(
    ///     gave_up.to_string(),
    ///     "gave up after 1 attempt, the request may have been executed and may be sent again with its key",
    /// );
    /// # }
    /// ```
    pub const fn keyed(self) -> Self {
        self.idempotent().with(Flag::Keyed, true)
    }

    /// States that the upstream asked for no retry, such as by a negative pushback of gRPC. Forbids sending
    /// the request again and keeps the rest of the verdict.
    ///
    /// The log and the messages then print "the upstream asks for no retry",
    /// and the log prints it as a warning if the policy allows a retry. A request in
    /// [doubt](crate::GaveUp::is_in_doubt) stays in doubt. Equal verdicts may differ in it.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::Verdict;
    ///
    /// let stop = Verdict::overloaded().idempotent().not_wanted();
    /// assert!(!stop.is_again());
    /// ```
    pub const fn not_wanted(self) -> Self {
        self.not_again().with(Flag::NotWanted, true)
    }

    /// States that the caller cannot make the request again, such as one whose body is a stream. Forbids
    /// sending the request again and keeps the rest of the verdict.
    ///
    /// The log and the messages then print "the request cannot be made again",
    /// and the log prints it as a warning. The request is not in [doubt](crate::GaveUp::is_in_doubt), because
    /// the classifier allowed a repetition. A verdict that forbids one stays as it is. Equal verdicts may
    /// differ in this statement.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::{Health, Verdict};
    ///
    /// let once = Verdict::transient().not_repeatable();
    /// assert_eq!((once.is_again(), once.health()), (false, Health::Failing));
    /// ```
    pub const fn not_repeatable(self) -> Self {
        if self.is_again() { self.not_again().with(Flag::NotRepeatable, true) } else { self }
    }

    /// States that the request was surely never sent, such as after a refused connection, and keeps the
    /// rest of the verdict.
    ///
    /// A quota then gives back all that the attempt has reserved, and its request does not count. It
    /// keeps the reservation if the attempt has recorded a usage or limits, because an earlier request
    /// of the attempt was sent then, and after a throttling, which only the upstream can tell. The
    /// [verdict on a call](crate::GaveUp::verdict) of several attempts does not say it, because an
    /// earlier attempt may have sent its request.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::Verdict;
    ///
    /// let refused = Verdict::transient().not_sent();
    /// assert!(refused.is_again() && refused.is_not_sent());
    /// ```
    pub const fn not_sent(self) -> Self {
        self.with(Flag::NotSent, true)
    }

    /// States that the upstream kept nothing of the request: it refused the request before it executed it, or
    /// it undid all of it, such as a transaction that it rolled back.
    ///
    /// The request was received, so it counts in a quota, other than one that was [not sent](Self::not_sent).
    /// But the quota gets the reserved tokens back that no usage has charged. Retries do not read this fact.
    /// After content of a stream a call does not believe it. It is for the answer to a caller: see
    /// [`GaveUp::is_without_effect`](crate::GaveUp::is_without_effect).
    pub const fn without_effect(self) -> Self {
        self.with(Flag::NoEffect, true)
    }

    /// States that the upstream ended the request because the time that the request gave it was over, such as
    /// `DEADLINE_EXCEEDED` of gRPC. For a verdict that forbids sending the request again.
    ///
    /// A call of which the attempt had all the time obeys that. If the attempt timeout was shorter, the failure is
    /// what a cut by this timeout is: the [opinion on cuts](crate::Classify#cut-attempts) says whether the request
    /// is sent again. Equal verdicts may differ in this statement.
    #[doc(hidden)]
    pub const fn late(self) -> Self {
        self.with(Flag::Late, true)
    }

    /// States that the upstream has answered, and that the answer does not tell the program what happened.
    /// So the upstream is healthy, but a request that is not idempotent is in doubt.
    #[cfg(any(feature = "http", feature = "stream"))]
    pub(crate) const fn not_told(self) -> Self {
        self.with(Flag::NotTold, true)
    }

    /// Sets the health of the upstream and keeps the rest of the verdict.
    ///
    /// A quota counts itself as used up if the health is changed to [`Health::Throttling`].
    pub const fn with_health(mut self, health: Health) -> Self {
        let is_new = !matches!(self.health(), Health::Throttling);
        let own = matches!(health, Health::Throttling) && (is_new || self.is_own_limit());
        self.answers = self.answers.with_health(health);
        self.with(Flag::OwnLimit, own)
    }

    /// Returns whether the same request may be sent again.
    #[must_use]
    pub const fn is_again(&self) -> bool {
        self.answers.is(Flag::Again)
    }

    /// Returns the health of the upstream.
    #[must_use]
    pub const fn health(&self) -> Health {
        self.answers.health()
    }

    /// Returns whether the classifier says that the request may be executed twice. False means that
    /// nobody has said it.
    #[must_use]
    pub const fn is_idempotent(&self) -> bool {
        self.answers.is(Flag::Idempotent)
    }

    /// Returns whether the classifier says that the request has an effect and a [key](Self::keyed). False
    /// means that nobody has said it.
    #[must_use]
    pub const fn is_keyed(&self) -> bool {
        self.answers.is(Flag::Keyed)
    }

    /// Returns whether the request was surely never sent. False means that nobody knows.
    #[must_use]
    pub const fn is_not_sent(&self) -> bool {
        self.answers.is(Flag::NotSent)
    }

    /// Returns whether the request surely had no effect, because it was [not sent](Self::not_sent) or the
    /// upstream [kept nothing](Self::without_effect) of it. False means that nobody knows.
    #[must_use]
    pub const fn is_without_effect(&self) -> bool {
        self.answers.is(Flag::NoEffect) || self.is_not_sent()
    }

    /// Returns whether the upstream asked for no retry.
    pub(crate) const fn is_not_wanted(&self) -> bool {
        self.answers.is(Flag::NotWanted)
    }

    /// Returns whether the request might be sent again, but cannot be made again.
    pub(crate) const fn is_not_repeatable(&self) -> bool {
        self.answers.is(Flag::NotRepeatable)
    }

    /// Returns whether the caller's own usage limit caused a throttling.
    #[must_use]
    pub const fn is_own_limit(&self) -> bool {
        self.answers.is(Flag::OwnLimit)
    }

    /// Returns the wait that the upstream asked for, or `None` if it asked for none.
    ///
    /// The wait that a call respects is [`wait`](Self::wait).
    #[must_use]
    pub const fn hint(&self) -> Option<Duration> {
        if self.answers.is(Flag::OwnWait) { None } else { self.wait() }
    }

    /// Returns the shortest wait before the request may be sent again: the [hint](Self::hint) of the
    /// upstream, or the classifier's own [floor](Self::at_least). `None` if neither is set.
    #[must_use]
    pub const fn wait(&self) -> Option<Duration> {
        match self.wait {
            NO_WAIT => None,
            _ if self.answers.is(Flag::Base) => None,
            wait => Some(Duration::from_nanos(wait)),
        }
    }

    /// Returns the [base](Self::with_base) of the backoff that the upstream asked for, or `None` if it
    /// asked for none.
    #[must_use]
    pub const fn base(&self) -> Option<Duration> {
        if self.answers.is(Flag::Base) { Some(Duration::from_nanos(self.wait)) } else { None }
    }

    /// Returns the wait, but `None` for a wait of zero.
    #[inline]
    pub(crate) const fn positive_wait(&self) -> Option<Duration> {
        match self.wait {
            NO_WAIT | 0 => None,
            _ if self.answers.is(Flag::Base) => None,
            wait => Some(Duration::from_nanos(wait)),
        }
    }

    /// Returns the classifier's own floor, but `None` for a floor of zero and for a hint.
    pub(crate) const fn floor(&self) -> Option<Duration> {
        if self.answers.is(Flag::OwnWait) { self.positive_wait() } else { None }
    }

    pub(super) const fn with(mut self, flag: Flag, is_set: bool) -> Self {
        self.answers = self.answers.with(flag, is_set);
        self
    }

    pub(super) const fn with_ground(mut self, ground: Ground) -> Self {
        self.answers = self.answers.with_ground(ground);
        self
    }
}

/// Returns a wait in nanoseconds, which is never `NO_WAIT`.
const fn limited(wait: Duration) -> u64 {
    let wait = nanos(wait);
    if wait == NO_WAIT { NO_WAIT - 1 } else { wait }
}
