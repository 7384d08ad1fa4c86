use super::admission::Admission;
use super::admitting::Admitting;
use super::future::Call;
use crate::cancel::{Cancel, Never};
use crate::classify::Classify;
use crate::error::GaveUp;
use crate::time::Timer;
#[cfg(doc)]
use crate::upstream::AtCost;
use crate::upstream::{Explained, Upstream, Via};
use std::convert::Infallible;

impl<M: Timer> Upstream<M> {
    /// Runs `future` as one attempt on the upstream.
    ///
    /// The attempt waits for its admission, and `classifier` classifies an error for the breaker
    /// and the cooldown. There is no retry, so the attempt takes no budget token. With an [adaptive
    /// timeout](Self::with_adaptive_timeout) the attempt times out at the learned limit.
    ///
    /// The returned future takes a [token](Call::with_token), a
    /// [total timeout](Call::with_total_timeout) and an
    /// [attempt timeout](Call::with_attempt_timeout). Without a token or a total timeout nothing
    /// but the upstream limits the wait for the admission, and a cooldown may hold the attempt for
    /// minutes. The log prints the errors, so `E` is an `Error`, a
    /// text or the like: see [`Explained`].
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt failed, was refused, timed out or was cancelled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the call during the wait leaves the queue. Dropping the call in flight drops
    /// `future`, and the attempt then counts neither as a success nor as a failure.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::classify::Always;
    /// use resile::{Bulkhead, Upstream};
    ///
    /// static STORE: Upstream =
    ///     Upstream::new("store").with_bulkhead(Bulkhead::new(10));
    ///
    /// # async fn get() -> std::io::Result<u32> { Ok(7) }
    /// assert_eq!(STORE.call(get(), Always).await.unwrap(), 7);
    ///
    /// use std::time::Duration;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let token = CancellationToken::new();
    /// let call = STORE
    ///     .call(get(), Always)
    ///     .with_token(&token)
    ///     .with_total_timeout(Duration::from_secs(5));
    /// assert_eq!(call.await.unwrap(), 7);
    /// # }
    /// ```
    #[track_caller]
    pub fn call<F, T, E, C, R>(&self, future: F, classifier: C) -> Call<F, E, C, Via<&Self, R>>
    where
        F: Future<Output = Result<T, E>>,
        E: Explained<R>,
        C: Classify<E>,
    {
        Call::new(Via::new(self), future, classifier)
    }

    /// Waits for the admission of one attempt that the caller makes.
    ///
    /// The admission borrows the upstream. For one that borrows nothing see [`AtCost::admit`].
    ///
    /// The admission asks the token, the cooldown, the bulkhead, the quota and the breaker in this
    /// order. [`with_max_wait`](Admitting::with_max_wait) limits the wait.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt is refused. Its [`reason`](GaveUp::reason) says why, and its
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
    pub fn admit<K: Cancel>(&self, token: K) -> Admitting<&Self, K> {
        Admitting::new(self, token)
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
