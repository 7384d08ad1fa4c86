//! Single attempts on an upstream, without a retry: [`Upstream::call`] and [`Upstream::admit`].

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::call::{CallPolicy, CallState, Ended, GaveUp, Pending, PendingOf};
use crate::cancel::{Cancel, Never};
use crate::classify::{Always, Classify};
use crate::observe::CallKind;
use crate::policy::{Rules, StopReason};
use crate::quota::{Limits, Report, Usage};
use crate::time::Timer;
use crate::upstream::{AtCost, TargetFor, Upstream};
use crate::verdict::Verdict;

impl<M: Timer> Upstream<M> {
    /// Runs `future` as one attempt on the upstream.
    ///
    /// The attempt waits for its admission. `classifier` classifies an error for the breaker and
    /// the cooldown. There is no retry and the attempt takes no budget token. With an
    /// [adaptive timeout](Self::with_adaptive_timeout) the attempt times out at the learned limit.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt failed, was refused or timed out.
    ///
    /// # Cancel safety
    ///
    /// Dropping the call during the wait leaves the queue. Dropping the call in flight drops
    /// `future`. The attempt then counts neither as a success nor as a failure.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::{Always, Bulkhead, Upstream};
    ///
    /// static STORE: Upstream =
    ///     Upstream::new("store").with_bulkhead(Bulkhead::new(10));
    ///
    /// # async fn get() -> std::io::Result<u32> { Ok(7) }
    /// assert_eq!(STORE.call(get(), Always).await.unwrap(), 7);
    /// # }
    /// ```
    #[track_caller]
    pub fn call<F, T, E, C>(
        &self,
        future: F,
        classifier: C,
    ) -> impl Future<Output = Result<T, GaveUp<E>>>
    where
        F: Future<Output = Result<T, E>>,
        E: fmt::Display,
        C: Classify<E>,
    {
        Single::new(self, future, classifier)
    }

    /// Waits for the admission of one attempt that the caller makes.
    ///
    /// The admission asks the token, the cooldown, the bulkhead and the breaker in this order.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt is refused. Its [`reason`](GaveUp::reason) says why. Its
    /// [`retry_after`](GaveUp::retry_after) says when to ask again if known.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use resile::{Breaker, Never, Upstream, Verdict};
    ///
    /// static STORE: Upstream = Upstream::new("store").with_breaker(Breaker::new());
    ///
    /// # fn get() -> Result<u32, &'static str> { Ok(7) }
    /// let admission = STORE.admit(Never).await?;
    /// match get() {
    ///     Ok(_) => admission.succeeded(),
    ///     Err(_) => admission.settle(&Verdict::transient()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn admit<K: Cancel>(
        &self,
        token: K,
    ) -> impl Future<Output = Result<Admission<&Self, K>, GaveUp<Infallible>>> {
        admit(CallState::new(CallKind::Single, OneAttempt(Always), token).on(self))
    }

    /// Does the work of [`admit`](Self::admit) and returns an admission that borrows nothing.
    ///
    /// # Errors
    ///
    /// See [`admit`](Self::admit).
    #[track_caller]
    pub fn admit_owned<K: Cancel>(
        self: Arc<Self>,
        token: K,
    ) -> impl Future<Output = Result<Admission<Arc<Self>, K>, GaveUp<Infallible>>> {
        admit(CallState::new(CallKind::Single, OneAttempt(Always), token).on(self))
    }

    /// Admits one attempt that the caller makes, without a wait.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt is refused or would have to wait. For a cooldown the reason is
    /// [`StopReason::Deadline`], and [`retry_after`](GaveUp::retry_after) says when to ask again.
    #[track_caller]
    pub fn try_admit(&self) -> Result<Admission<&Self, Never>, GaveUp<Infallible>> {
        Admission::at_once(self)
    }
}

/// Single attempts at a cost.
impl<X> AtCost<'_, X> {
    /// Runs `future` as one attempt at this cost. See [`Upstream::call`].
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt failed, was refused or timed out.
    #[track_caller]
    pub fn call<F, T, E, C>(
        self,
        future: F,
        classifier: C,
    ) -> impl Future<Output = Result<T, GaveUp<E>>>
    where
        F: Future<Output = Result<T, E>>,
        C: Classify<E>,
        Self: TargetFor<E>,
    {
        Single::new(self, future, classifier)
    }

    /// Waits for the admission of one attempt at this cost. See [`Upstream::admit`].
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt is refused.
    #[track_caller]
    pub fn admit<K: Cancel>(
        self,
        token: K,
    ) -> impl Future<Output = Result<Admission<Self, K>, GaveUp<Infallible>>>
    where
        Self: TargetFor<Infallible>,
    {
        admit(CallState::new(CallKind::Single, OneAttempt(Always), token).on(self))
    }

    /// Admits one attempt at this cost without a wait. See [`Upstream::try_admit`].
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt is refused or would have to wait.
    #[track_caller]
    pub fn try_admit(self) -> Result<Admission<Self, Never>, GaveUp<Infallible>>
    where
        Self: TargetFor<Infallible>,
    {
        Admission::at_once(self)
    }
}

async fn admit<K: Cancel, X: TargetFor<Infallible>>(
    call: CallState<Infallible, OneAttempt<Always>, K, X>,
) -> Result<Admission<X, K>, GaveUp<Infallible>> {
    let mut admission = Admission { call };
    let mut pending = pin!(Pending::none());
    poll_fn(|cx| admission.call.poll_between(0, pending.as_mut(), cx)).await?;
    Ok(admission)
}

/// An admitted attempt on an [`Upstream`], made by the caller.
///
/// Dropping it without a report gives everything back except the reservation of a quota. The
/// attempt does not count. The reservation stands because the request may have been sent. If it was
/// not sent, call [`withdraw`](Self::withdraw).
#[must_use = "a dropped admission reports nothing: call `succeeded` or `settle`"]
pub struct Admission<X: TargetFor<Infallible>, K = Never> {
    call: CallState<Infallible, OneAttempt<Always>, K, X>,
}

impl<X: TargetFor<Infallible>> Admission<X> {
    #[track_caller]
    fn at_once(target: X) -> Result<Self, GaveUp<Infallible>> {
        let mut call = CallState::new(CallKind::Single, OneAttempt(Always), Never).on(target);
        call.begin_now(0)?;
        Ok(Self { call })
    }
}

impl<X: TargetFor<Infallible>, K: Cancel> Admission<X, K> {
    /// Reports that the attempt succeeded.
    #[inline]
    pub fn succeeded(mut self) {
        self.call.succeeded_at(0, 1, None);
    }

    /// Reports the usage so far to the quota. The usage of a stream may come in parts: each number
    /// replaces the one before.
    pub fn record(&mut self, usage: Usage) {
        self.call.settle_usage(0, &Report { usage: Some(usage), limits: None });
    }

    /// Reports the limits of the answer to the quota.
    pub fn learn(&mut self, limits: Limits) {
        self.call.settle_usage(0, &Report { usage: None, limits: Some(limits) });
    }

    /// Reports that the request was not sent, and gives everything back.
    pub fn withdraw(mut self) {
        self.call.guard.withdraw(0);
    }

    /// Reports that the attempt failed with this verdict.
    #[inline]
    pub fn settle(mut self, verdict: &Verdict) {
        self.call.settle(0, *verdict);
    }
}

impl<X: TargetFor<Infallible>, K> fmt::Debug for Admission<X, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

/// The rules of a single attempt: no retry, and no timeout except the learned limit.
struct OneAttempt<C>(C);

impl<C> Rules for OneAttempt<C> {
    type Classifier = C;

    #[inline]
    fn classifier(&self) -> &C {
        &self.0
    }

    #[inline]
    fn timeouts(&self) -> (Option<Duration>, Option<Duration>) {
        (None, None)
    }

    #[inline]
    fn is_learned(&self) -> bool {
        true
    }

    #[inline]
    fn allowed(&self) -> u32 {
        1
    }
}

impl<C> CallPolicy for OneAttempt<C> {
    type Rules = Self;

    #[inline]
    fn rules(&self) -> &Self {
        self
    }
}

pin_project! {
    /// The future of [`Upstream::call`].
    struct Single<F, E, C, X>
    where
        X: TargetFor<E>,
    {
        // `None` after its end. Declared before `call`: it drops before the permit is released.
        #[pin]
        future: Option<F>,
        call: CallState<E, OneAttempt<C>, Never, X>,
        has_begun: bool,
        #[pin]
        pending: PendingOf<X, Never>,
    }
}

impl<F, E, C, X: TargetFor<E>> Single<F, E, C, X> {
    #[track_caller]
    fn new(target: X, future: F, classifier: C) -> Self {
        let call = CallState::new(CallKind::Single, OneAttempt(classifier), Never).on(target);
        Self { call, has_begun: false, future: Some(future), pending: Pending::none() }
    }
}

impl<F, T, E, C, X> Future for Single<F, E, C, X>
where
    F: Future<Output = Result<T, E>>,
    C: Classify<E>,
    X: TargetFor<E>,
{
    type Output = Result<T, GaveUp<E>>;

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the part before `poll_on` is short, and most attempts need only that part"
    )]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        // Most attempts end here. No observer counts the call, so no `Polled` guard is needed.
        if !*this.has_begun && this.call.begin_first(0).is_some() {
            *this.has_begun = true;
            let future = this
                .future
                .as_mut()
                .as_pin_mut()
                .expect("`Upstream::call` polled after completion");
            let Poll::Ready(outcome) = future.poll(cx) else { return self.poll_in_flight(cx) };
            this.future.set(None);
            return Poll::Ready(match outcome {
                Ok(value) => {
                    this.call.succeeded_at_once(0);
                    Ok(value)
                }
                Err(error) => {
                    this.call.note_error(error);
                    Err(this.call.failed_for_good(0, Ended::Error, StopReason::Attempts))
                }
            });
        }
        self.poll_on(cx)
    }
}

impl<F, T, E, C, X> Single<F, E, C, X>
where
    F: Future<Output = Result<T, E>>,
    C: Classify<E>,
    X: TargetFor<E>,
{
    /// Polls an attempt that needs a full admission, or that was pending.
    #[inline(never)]
    fn poll_on(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        let mut this = self.project();
        if !*this.has_begun {
            let begun = ready!(this.call.poll_between(0, this.pending.as_mut(), cx));
            if let Err(gave_up) = begun {
                this.future.set(None);
                return Poll::Ready(Err(gave_up));
            }
            *this.has_begun = true;
        }
        let future =
            this.future.as_mut().as_pin_mut().expect("`Upstream::call` polled after completion");
        let outcome = ready!(this.call.poll_attempt(0, future, this.pending, cx));
        this.future.set(None);
        Poll::Ready(match outcome {
            Ok(value) => {
                this.call.succeeded(0, 1);
                Ok(value)
            }
            Err(ended) => Err(Self::end(this.call, ended)),
        })
    }

    /// Polls the limits after the first poll left the attempt pending.
    #[inline(never)]
    fn poll_in_flight(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        let mut this = self.project();
        let ended = ready!(this.call.poll_limits(0, this.pending, cx));
        this.future.set(None);
        Poll::Ready(Err(Self::end(this.call, ended)))
    }

    #[cold]
    fn end(call: &mut CallState<E, OneAttempt<C>, Never, X>, ended: Ended) -> GaveUp<E> {
        match ended {
            Ended::Deadline => call.give_up(StopReason::Deadline, None),
            Ended::Cancelled => call.give_up(StopReason::Cancelled, None),
            ended => call.failed_for_good(0, ended, StopReason::Attempts),
        }
    }
}
