use std::sync::Arc;

/// Gives a policy: the policy itself, a reference to one, or an `Arc`.
///
/// [`Policy`](Self::Policy) is [`RetryPolicy<C>`](crate::RetryPolicy), [`HedgePolicy<C>`](crate::HedgePolicy) or
/// [`FallbackPolicy<C>`](crate::FallbackPolicy).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no policy",
    note = "give a policy by value, by reference or in an `Arc`: `RetryPolicy`, `&RetryPolicy`, `Arc<RetryPolicy>`"
)]
pub trait AsPolicy {
    /// The policy.
    type Policy;

    /// Returns the policy.
    fn as_policy(&self) -> &Self::Policy;
}

impl<P: AsPolicy + ?Sized> AsPolicy for &P {
    type Policy = P::Policy;

    #[inline]
    fn as_policy(&self) -> &P::Policy {
        (**self).as_policy()
    }
}

impl<P: AsPolicy + ?Sized> AsPolicy for Arc<P> {
    type Policy = P::Policy;

    #[inline]
    fn as_policy(&self) -> &P::Policy {
        (**self).as_policy()
    }
}
