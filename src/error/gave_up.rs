use std::borrow::Cow;
use std::error::Error;
use std::time::Duration;

use super::facts::Facts;
use super::last_attempt::LastAttempt;
use super::source::{Boxed, Source};
use super::within::{self, End};
use crate::observe::prints_source;
use crate::policy::StopReason;
use crate::quota::TooLarge;
use crate::upstream::{Name, Writer};
use crate::verdict::{Cut, Verdict};

/// The error of a call that gave up: the reason, the effort and the last error of the operation.
///
/// `Display` prints only this error. The last error of the operation is the
/// [`source`](Error::source). If a later attempt was cut, it says "; an earlier attempt failed", because the source is
/// then the error of that attempt and not the cause of the end. A `GaveUp` is one pointer in size, so only a call that gives up pays
/// for the allocation.
///
/// # In one line
///
/// On an upstream, with a name or after [`into_boxed`](Self::into_boxed) the alternate form (`{:#}`) adds
/// the last error with its sources in one line, for a log of your own. Do not walk the sources as well,
/// because each of them would come twice. `{:#}` of an `anyhow::Error` or of an `eyre::Report` that contains
/// the `GaveUp` names each error once, since these print each level by `{}`. An error that passes its
/// formatter on, as `#[error(transparent)]` of `thiserror` does, has the same two forms as the `GaveUp` in it.
///
/// # With `anyhow` and `Box<dyn Error>`
///
/// `?` converts a `GaveUp<E>` if `E` is an `Error`. An `anyhow::Error`, a `Box<dyn Error>` and a
/// `String` are not, so call [`into_boxed`](Self::into_boxed) first:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Never, RetryPolicy, retry};
///
/// # async fn fetch() -> anyhow::Result<u32> { anyhow::bail!("down") }
/// async fn answer() -> anyhow::Result<u32> {
///     let outcome = retry(|_| fetch(), RetryPolicy::new(), Never).await;
///     Ok(outcome.map_err(|gave_up| gave_up.into_boxed())?)
/// }
/// let error = answer().await.unwrap_err();
/// // "gave up after 3 attempts in 1.2s: down"
/// assert!(format!("{error:#}").ends_with("s: down"));
/// # }
/// ```
pub struct GaveUp<E>(pub(super) Box<Inner<E>>);

#[derive(Clone)]
pub(crate) struct Inner<E> {
    pub(crate) facts: Facts,
    pub(crate) last: Option<E>,
    /// The type of `last` in one word, if the classifier has one and an observer was there.
    pub(crate) error_type: Option<Cow<'static, str>>,
    /// Writes `last`, if the target of the call can print it.
    pub(crate) writer: Option<Writer<E>>,
}

impl<E> GaveUp<E> {
    #[cold]
    pub(crate) fn new(inner: Inner<E>) -> Self {
        Self(Box::new(inner))
    }

    /// Returns the reason for giving up.
    #[must_use]
    pub const fn reason(&self) -> StopReason {
        self.0.facts.reason
    }

    /// Returns the number of attempts started, including an attempt that timed out.
    ///
    /// The number is 0 if the first attempt was refused or the token was cancelled before it.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.0.facts.attempts
    }

    /// Returns the duration of the call. It saturates at 584 years.
    ///
    /// It is as exact as [`Attempt::elapsed`](crate::Attempt::elapsed).
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.0.facts.elapsed
    }

    /// Returns the verdict on the whole call, for an outer call that sends it again.
    ///
    /// The classifier of an outer call is `|gave_up: &GaveUp<E>| gave_up.verdict()`. The verdict
    /// depends on the reason and on the last failure:
    ///
    /// | [`reason`](Self::reason) | after a failure | without a failure |
    /// |---|---|---|
    /// | `Fatal` | the classifier's verdict, which forbids sending the request again | |
    /// | `Unclassified` | `None`. After a cut without an opinion of the classifier: not again | |
    /// | `Attempts`, `Alternatives`, `HintTooLong` | the classifier's verdict | may be sent again, health unknown |
    /// | `Deadline`, `Budget`, `Open`, `Throttled`, `Full` | the classifier's verdict | may be sent again, health unknown |
    /// | `TooLarge`, `Partial`, `Cancelled` | the classifier's verdict, but [not again](Verdict::not_again) | not again, health unknown |
    ///
    /// A call that was refused before its first attempt did not reach the upstream, so a breaker of
    /// the outer call does not count it. The verdict on a call
    /// [without effect](Self::is_without_effect) says so too. An attempt of a [`Run`](crate::Run) that the
    /// caller dropped may have reached it: then the classifier's verdict on a [cut](Cut) says whether the
    /// request may be sent again. The [wait](Verdict::wait) is at least
    /// [`retry_after`](Self::retry_after) if that is known. A wait that the upstream did not ask
    /// for is a [floor](Verdict::at_least). If the deadline cut an attempt that ran too briefly to count, the
    /// health is that of the error before, or unknown. It states the [key](Verdict::keyed) of a request, or that it is
    /// [idempotent](Verdict::idempotent), also if the classifier states it only of a cut, and if the call made no
    /// attempt. Observers of this call get the classifier's verdict.
    ///
    /// # Examples
    ///
    /// An outer call waits until the breaker of the inner call lets an attempt through:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::classify::Always;
    /// use resile::{Breaker, GaveUp, Never, RetryPolicy, Upstream, Verdict, retry};
    /// use std::io;
    ///
    /// static STORE: Upstream = Upstream::new("store")
    ///     .with_breaker(Breaker::new().with_consecutive(1));
    ///
    /// # async fn get() -> io::Result<u32> { Ok(7) }
    /// // One failure opens the breaker.
    /// STORE.try_admit().unwrap().settle(&Verdict::transient());
    /// let refused = STORE.call(get(), Always).await.unwrap_err();
    /// let verdict = refused.verdict().unwrap();
    /// assert!(verdict.is_again() && verdict.wait().is_some());
    ///
    /// let policy = RetryPolicy::patient()
    ///     .with_classifier(|gave_up: &GaveUp<io::Error>| gave_up.verdict());
    /// let answer = retry(|_| STORE.call(get(), Always), policy, Never).await;
    /// assert_eq!(answer.unwrap(), 7);
    /// # }
    /// ```
    #[must_use]
    pub const fn verdict(&self) -> Option<Verdict> {
        self.0.facts.verdict
    }

    /// Returns the timeout or the end of the stream if the last attempt that finished returned no
    /// error. It is the cause of a call that ended for another reason later, such as a token during
    /// the delay.
    ///
    /// [`last`](Self::last) is then the error of an earlier attempt, if there is one.
    #[must_use]
    pub const fn cut(&self) -> Option<Cut> {
        self.0.facts.last.cut
    }

    /// Returns whether the last request may have been executed and must not be sent again.
    ///
    /// Nobody knows the outcome of such a call, so ask the upstream for it before you go on: by the
    /// number of the booking, or by the key of the row. Look to know it and not to send the request
    /// again, because the upstream may still execute the first one after your look. A repetition is safe
    /// only with an idempotency key.
    ///
    /// `false` does not mean that nothing happened. Either the error says what happened, or the same call may
    /// be made again. After a cut a request with a key may still be executed later. So the answer to a
    /// caller of your own is "not known yet, ask again with the same key" and not "failed".
    ///
    /// [`is_without_effect`](Self::is_without_effect) tells that no attempt did anything, so that the answer
    /// is "failed". [`conclusion`](Self::conclusion) asks both questions in the right order.
    ///
    /// The value depends on the classifier:
    ///
    /// | last attempt | in doubt |
    /// |---|---|
    /// | cut, or dropped by its caller or its token, and the classifier forbids a repetition | yes |
    /// | failed with a verdict that forbids a repetition, and the upstream is failing or throttling: a 500 to a `POST`, a connection lost at `COMMIT` | yes |
    /// | failed without a verdict: the classifier does not know the error | yes |
    /// | failed with a verdict that forbids a repetition, and the upstream is healthy: a 404, a row that exists. The error says what happened | no |
    /// | the same, but the answer does not say it: a body that the program cannot read, redirects without an end | yes |
    /// | the same, but content of a stream came before an error that denies an effect | yes |
    /// | the same, and the health is unknown: the classifier calls the error final | no |
    /// | may be sent again: the request was not executed, or a repetition does no harm | no |
    /// | failed, and the classifier says that it had [no effect](Verdict::is_without_effect) | no |
    /// | may be sent again, but the caller [cannot make it again](Verdict::not_repeatable) | no |
    /// | failed or cut, and the request is [idempotent](Verdict::idempotent): a read that the server does not want again | no |
    /// | none was started | no |
    ///
    /// A [`fallback`](crate::fallback()) is also in doubt if a call of this crate within one of its alternatives is,
    /// whichever alternative that was. It hears it from the call, so the error of the alternative does not matter. It does
    /// not hear a call in another task: there let its classifier pass on [`verdict`](Self::verdict).
    ///
    /// If the caller of a [`Run`](crate::Run) drops an attempt after an earlier one failed, the verdict
    /// on the earlier one counts. If it drops an attempt and makes another one, that one counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::io::Classifier;
    /// use resile::{Never, RetryPolicy, retry};
    /// use std::io;
    ///
    /// async fn book() -> io::Result<u32> {
    ///     Err(io::ErrorKind::ConnectionReset.into()) // after the request was sent
    /// }
    /// let policy = RetryPolicy::new().with_classifier(Classifier::non_idempotent());
    /// let gave_up = retry(|_| book(), policy, Never).await.unwrap_err();
    /// assert!(gave_up.is_in_doubt());
    /// assert_eq!(
    ///     gave_up.to_string(),
    ///     "gave up after 1 attempt, the request may have been executed and must not be sent again",
    /// );
    /// # }
    /// ```
    #[must_use]
    pub const fn is_in_doubt(&self) -> bool {
        self.0.facts.in_doubt
    }

    /// Returns whether surely no attempt of the call had an effect.
    ///
    /// It is what a caller needs for the answer "failed, nothing was done". It is true if the call ended
    /// before its first attempt, and if of each attempt one of these is known:
    /// * It failed with a verdict that [says so](Verdict::is_without_effect): a refused connection, an answer
    ///   404 or 422, a transaction that the database has rolled back.
    /// * A limit or the token cut it in [`before_sending`](crate::ResilienceExt::before_sending).
    ///
    /// Otherwise it is false, also for a call that is not [in doubt](Self::is_in_doubt) because the same
    /// call may be made again: an earlier attempt with the same key may still be executed. After content of a stream
    /// it is false, also for a read: the upstream executed at least a part, whatever the error after it says. For a
    /// [`fallback`](crate::fallback()) it is about all alternatives.
    ///
    /// An HTTP client that follows a redirect judges a `POST` by the answer of the redirect's target, and then the
    /// value is wrong. The page of `http` has a section on redirects.
    ///
    /// It is about this call alone. If an earlier call with the same key may still be executed, the answer
    /// stays "not known yet", as [`conclusion`](Self::conclusion) says.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::io::Classifier;
    /// use resile::{Never, RetryPolicy, retry};
    /// use std::io;
    ///
    /// async fn book() -> io::Result<u32> {
    ///     Err(io::ErrorKind::ConnectionRefused.into())
    /// }
    /// let policy = RetryPolicy::new().with_classifier(Classifier::non_idempotent());
    /// let gave_up = retry(|_| book(), policy, Never).await.unwrap_err();
    /// assert!(gave_up.attempts() == 3 && gave_up.is_without_effect());
    /// # }
    /// ```
    #[must_use]
    pub const fn is_without_effect(&self) -> bool {
        !self.0.facts.effect.may_have
    }

    /// Returns whether the consumer of a stream has a part of the answer, and the rest never comes.
    ///
    /// Such a call must not be answered again behind that part, by a retry or by a
    /// [`fallback`](crate::fallback()): the second answer would begin anew after the first one.
    /// [`verdict`](Self::verdict) forbids it. The reason is
    /// [`Partial`](StopReason::Partial) where the policy would have allowed another attempt. It is
    /// [`Fatal`](StopReason::Fatal), [`Attempts`](StopReason::Attempts) or any other reason of a
    /// call where that reason alone ended it. A stream that starts again (`Restart`) takes the part back
    /// only when its new answer begins. If none begins, the consumer still has the part.
    ///
    /// A [`fallback`](crate::fallback()) around streams has the value `true` if its own timeout or its
    /// token drops a stream in the middle of its answer. If the stream itself failed, the inner error
    /// has the value, and [`flatten`](Self::flatten) takes it over for each reason of the outer call.
    /// The value is `false` for every other call that is not a stream.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.0.facts.is_partial
    }

    /// Returns the last error that an attempt returned.
    #[must_use]
    #[doc(alias = "last_error")]
    #[doc(alias = "error")]
    pub const fn last(&self) -> Option<&E> {
        self.0.last.as_ref()
    }

    /// Returns the last error that an attempt returned, by value.
    #[must_use]
    pub fn into_last(self) -> Option<E> {
        self.0.last
    }

    /// Returns the name of the upstream if the call had one.
    #[must_use]
    pub fn upstream(&self) -> Option<&str> {
        self.0.facts.upstream.as_ref().map(Name::as_str)
    }

    /// Returns the recommended wait from the end of this call to the next call.
    ///
    /// The wait saturates at 584 years. It is known in these cases:
    /// * The upstream asked for a wait with the last error, or the classifier
    ///   [demands](Verdict::at_least) one, and the call did not wait. Either the wait was above the
    ///   hint cap or the time left, or no attempt or budget was left, or the token was cancelled
    ///   before the wait. A call cancelled during the wait has no such value.
    /// * The reason is [`StopReason::Open`], and the breaker is open. It will let calls through after
    ///   the wait. While it is half-open the time is not known: its probes decide when they end. In a fleet it
    ///   is not known either while another process has the turn to probe.
    /// * The reason is [`StopReason::Deadline`] and a cooldown, a quota or the queue of a bulkhead holds
    ///   the next attempt for longer than the time left. For the queue it is an estimate.
    ///
    /// A call in doubt has its wait too, although its request must not be sent again. So ask for the
    /// [`conclusion`](Self::conclusion) first.
    ///
    /// The error of a [`fallback`](crate::fallback()) around calls knows the waits of its alternatives after
    /// [`flatten`](Self::flatten).
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.0.facts.retry_after
    }

    /// Returns the numbers of a cost above a quota, if that is the
    /// [reason](StopReason::TooLarge).
    #[must_use]
    pub const fn too_large(&self) -> Option<TooLarge> {
        self.0.facts.too_large
    }

    pub(super) const fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// Returns the function that writes the last error, if the target of the call can print it.
    pub(super) const fn writer(&self) -> Option<Writer<E>> {
        self.0.writer
    }

    /// Applies `map` to the error.
    pub fn map<F>(self, map: impl FnOnce(E) -> F) -> GaveUp<F> {
        let Inner { facts, last, error_type, .. } = *self.0;
        GaveUp::new(Inner { facts, last: last.map(map), error_type, writer: None })
    }

    /// Boxes the error. `?` then converts the result into `anyhow::Error` and `Box<dyn Error>`.
    #[must_use]
    pub fn into_boxed(self) -> GaveUp<Boxed>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut boxed = self.map(|error| Boxed::new(error.into()));
        boxed.0.writer = Some(Boxed::explain);
        boxed
    }
}

impl<E: Clone> Clone for GaveUp<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Compares the errors and all facts, the [`elapsed`](GaveUp::elapsed) time included.
impl<E: PartialEq> PartialEq for GaveUp<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0.facts == other.0.facts && self.0.last == other.0.last
    }
}

impl<E: Eq> Eq for GaveUp<E> {}

impl<E: Source> Error for GaveUp<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let last = self.last().map(Source::as_source);
        self.answer(last);
        last.filter(|_| !(prints_source() && self.last().is_some_and(Source::has_words)))
    }
}

impl<E> GaveUp<E> {
    /// Tells an outer call that asks how this call ended. `last` is the last error, if that is known
    /// as an `Error`.
    pub(crate) fn answer(&self, last: Option<&(dyn Error + 'static)>) {
        within::answer(|| {
            let Facts { reason, attempts, last: LastAttempt { cut, .. }, .. } = self.0.facts;
            let error_type = match (reason, cut, &self.0.error_type) {
                (StopReason::Cancelled, ..) => "cancelled".into(),
                (_, Some(cut), _) => cut.as_str().into(),
                (.., Some(word)) => word.clone(),
                _ if self.0.last.is_none() => reason.as_str().into(),
                _ => within::ask(|| last)
                    .map_or(std::any::type_name::<E>().into(), |end| end.error_type),
            };
            let is_refusal = reason.is_refusal(attempts, cut.is_some());
            End { error_type, is_refusal, reason, retry_after: self.retry_after() }
        });
    }
}
