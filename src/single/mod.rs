//! Single attempts on an upstream, without a retry: [`Upstream::call`] and [`Upstream::admit`].

mod admission;
mod at_cost;
mod future;
mod rules;

pub use admission::Admission;

use std::convert::Infallible;
use std::sync::Arc;

use crate::call::{CallState, GaveUp};
use crate::cancel::{Cancel, Never};
use crate::classify::{Always, Classify};
use crate::observe::CallKind;
use crate::time::Timer;
use crate::upstream::{Explained, Upstream, Via};
use future::Single;
use rules::OneAttempt;

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
    pub fn call<F, T, E, C, R>(
        &self,
        future: F,
        classifier: C,
    ) -> impl Future<Output = Result<T, GaveUp<E>>>
    where
        F: Future<Output = Result<T, E>>,
        E: Explained<R>,
        C: Classify<E>,
    {
        Single::new(Via::new(self), future, classifier)
    }

    /// Waits for the admission of one attempt that the caller makes.
    ///
    /// The admission asks the token, the cooldown, the bulkhead, the quota and the breaker in this
    /// order.
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
        admission::admit(CallState::new(CallKind::Single, OneAttempt(Always), token).on(self))
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
        admission::admit(CallState::new(CallKind::Single, OneAttempt(Always), token).on(self))
    }

    /// Admits one attempt that the caller makes, without a wait.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt is refused or would have to wait. For a cooldown or a quota the
    /// reason is [`StopReason::Deadline`](crate::StopReason::Deadline).
    /// [`retry_after`](GaveUp::retry_after) then says when to ask again, unless the quota waits for
    /// another attempt to end.
    #[track_caller]
    pub fn try_admit(&self) -> Result<Admission<&Self, Never>, GaveUp<Infallible>> {
        Admission::at_once(self)
    }
}
