use std::sync::Arc;

/// A policy by value, by reference or in an `Arc`.
///
/// [`Policy`](Self::Policy) is [`RetryPolicy<C>`](crate::RetryPolicy),
/// [`HedgePolicy<C>`](crate::HedgePolicy) or [`FallbackPolicy<C>`](crate::FallbackPolicy).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a policy",
    note = "pass it by value, by reference or in an `Arc`, for example `&RetryPolicy`"
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
