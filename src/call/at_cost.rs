use std::convert::Infallible;

use super::{Admission, Admitting};
use crate::cancel::{Cancel, Never};
use crate::error::GaveUp;
use crate::upstream::{AtCost, TargetFor};

/// Single attempts at a cost, made by the caller. For a future see
/// [`ResilienceExt::through`](crate::ResilienceExt::through).
impl<X> AtCost<'_, X> {
    /// Waits for the admission of one attempt at this cost. See
    /// [`Upstream::admit`](crate::Upstream::admit).
    ///
    /// The admission holds the target. With an `Arc<Upstream>` it borrows nothing.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt is refused.
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
    /// use resile::quota::Cost;
    /// use resile::upstream::AtCost;
    /// use resile::{Never, Upstream};
    /// use std::sync::Arc;
    ///
    /// let host = Arc::new(Upstream::named("example.org"));
    /// let admission = AtCost::new(host, Cost::new()).admit(Never).await?;
    /// let task = tokio::spawn(async move {
    ///     admission.succeeded(); // after the request
    /// });
    /// # task.await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn admit<K: Cancel>(self, token: K) -> Admitting<Self, K>
    where
        Self: TargetFor<Infallible>,
    {
        Admitting::new(self, token)
    }

    /// Admits one attempt at this cost without a wait. See
    /// [`Upstream::try_admit`](crate::Upstream::try_admit).
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
