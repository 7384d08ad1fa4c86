use crate::policy::Attempt;

/// Makes the attempts of a call: each `FnMut(Attempt) -> Fut` does.
///
/// The type of a closure has no name, so its call has none either. Implement this trait for a type
/// of your own where the call needs a name, as the future of a service does. [`Retry::of`] takes
/// it.
///
/// [`Retry::of`]: crate::retry::Retry::of
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::retry::{Operation, Retry};
/// use resile::{Attempt, Never, RetryPolicy};
/// use std::future::{Ready, ready};
///
/// /// Fails until this attempt.
/// struct Until(u32);
///
/// impl Operation for Until {
///     type Attempt = Ready<Result<u32, &'static str>>;
///
///     fn attempt(&mut self, attempt: Attempt) -> Self::Attempt {
///         let is_good = attempt.number() >= self.0;
///         ready(if is_good { Ok(attempt.number()) } else { Err("too early") })
///     }
/// }
///
/// /// A call without a box, in a field.
/// struct Pending {
///     call: Retry<Until, Ready<Result<u32, &'static str>>, &'static str, RetryPolicy, Never>,
/// }
///
/// let pending = Pending { call: Retry::of(Until(2), RetryPolicy::new(), Never) };
/// assert_eq!(pending.call.await.unwrap(), 2);
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` makes no attempts: pass a closure `|attempt| …` that returns a future",
    note = "or implement `resile::retry::Operation` for a type of your own"
)]
pub trait Operation {
    /// The future of one attempt.
    type Attempt: Future;

    /// Makes one attempt. A call makes the next one after the future of this one is dropped.
    fn attempt(&mut self, attempt: Attempt) -> Self::Attempt;
}

impl<F, Fut> Operation for F
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future,
{
    type Attempt = Fut;

    #[inline]
    fn attempt(&mut self, attempt: Attempt) -> Fut {
        self(attempt)
    }
}
