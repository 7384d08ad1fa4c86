use std::convert::Infallible;

use super::{Admission, Admitting, Call};
use crate::engine::GaveUp;
use crate::cancel::{Cancel, Never};
use crate::classify::Classify;
use crate::upstream::{AtCost, TargetFor, Via};

/// Single attempts at a cost.
impl<X> AtCost<'_, X> {
    /// Runs `future` as one attempt at this cost. See [`Upstream::call`](crate::Upstream::call).
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt failed, was refused, timed out or was cancelled.
    #[track_caller]
    pub fn call<F, T, E, C, R>(self, future: F, classifier: C) -> Call<F, E, C, Via<Self, R>>
    where
        F: Future<Output = Result<T, E>>,
        C: Classify<E>,
        Via<Self, R>: TargetFor<E>,
    {
        Call::new(Via::new(self), future, classifier)
    }

    /// Waits for the admission of one attempt at this cost. See
    /// [`Upstream::admit`](crate::Upstream::admit).
    ///
    /// # Errors
    ///
    /// [`GaveUp`] if the attempt is refused.
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
