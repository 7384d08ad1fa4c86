use resile::RetryPolicy;

use super::Deadline;

/// Returns the policy for a `resile::retry` in a handler: the call ends at the [current](Deadline::current)
/// deadline, or at the end of the policy if that is earlier. Without a deadline the policy stays as it is.
///
/// Call it where the call begins and not once for a program, because the time is read here. A layer and a
/// middleware of this crate do so by themselves. [`RetryPolicy::shortened_to`] says what an attempt that this deadline
/// cuts means for the breaker.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile_tower::deadline::{Deadline, until_deadline};
/// use resile_tower::resile::RetryPolicy;
/// use std::time::Duration;
///
/// const POLICY: RetryPolicy = RetryPolicy::new().with_total_timeout(Duration::from_secs(5));
///
/// let two = Duration::from_secs(2);
/// let handler = async { until_deadline(POLICY).total_timeout() };
/// assert_eq!(Deadline::after(two).scope(handler).await, Some(two));
/// assert_eq!(until_deadline(POLICY), POLICY);
/// # }
/// ```
pub fn until_deadline<C>(policy: RetryPolicy<C>) -> RetryPolicy<C> {
    match Deadline::current() {
        Some(deadline) => policy.shortened_to(deadline.left()),
        None => policy,
    }
}
