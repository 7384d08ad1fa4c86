//! Parts of a multipart upload with `object_store`.
//!
//! The store sends each request of a part again by itself, and then asks a policy whether to begin the
//! part anew, with fresh credentials and a fresh signature. Both multiply. So either set `max_retries`
//! of its `RetryConfig` to 0, or leave this hook out. The start and the end of an upload have the
//! retries of the store alone.

use std::fmt;
use std::sync::Arc;

use ::object_store::client::HttpErrorKind;
use ::object_store::retry::{self, RetryContext, RetryFailure};
use async_trait::async_trait;
use resile::policy::Decision;
use resile::time::{Timer, TokioTimer};
use resile::{Attempt, Budget, Classify, RetryPolicy, Verdict};

use crate::Idempotency::Idempotent;
use crate::rule::State::{Failing, Healthy, Overload, OwnLimit, Unknown};
use crate::rule::{always, never};

/// Returns the verdict on the failure of a part. A part is idempotent, because it replaces what has the
/// same number.
///
/// 408, 500, 502, 504, a 2xx with an error in its body, and a broken connection may pass. 429 is the
/// limit of the caller and 503 an overload. All other answers are final. 401 and 403 do not speak
/// against the store: a classifier of your own before this one may repeat them.
///
/// # Examples
///
/// ```
/// use object_store::client::HttpErrorKind;
/// use object_store::retry::RetryFailure;
/// use resile_clients::object_store::failure;
///
/// let timeout = RetryFailure::Transport(HttpErrorKind::Timeout);
/// assert!(failure(&timeout).unwrap().is_again());
/// ```
#[must_use]
pub fn failure(failure: &RetryFailure) -> Option<Verdict> {
    let rule = match failure {
        RetryFailure::Status(status) => match status.as_u16() {
            200..=299 | 408 | 500 | 502 | 504 => always(Failing),
            429 => always(OwnLimit),
            503 => always(Overload),
            401 | 403 => never(Unknown),
            501 | 505..=599 => never(Failing),
            _ => never(Healthy),
        },
        RetryFailure::Transport(
            HttpErrorKind::Connect
            | HttpErrorKind::Request
            | HttpErrorKind::Timeout
            | HttpErrorKind::Interrupted
            | HttpErrorKind::Decode,
        ) => always(Failing),
        _ => return None,
    };
    Some(rule.verdict(Idempotent))
}

/// The attempts, the delays and the total timeout of a [`RetryPolicy`] for the parts of an upload. The
/// store itself has no limit and no delay here.
///
/// The total timeout counts from the first attempt of a part, and no attempt is cut by it. The jitter
/// `Decorrelated` stays at its base, because the store does not tell the last delay. The wait needs the
/// runtime of tokio, as the store does.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use object_store::PutMultipartOptions;
/// use resile_clients::object_store::{PartRetry, failure};
/// use resile_clients::resile::{Budget, RetryPolicy};
///
/// let policy = RetryPolicy::new()
///     .with_attempts(4)
///     .with_total_timeout(Duration::from_secs(60))
///     .with_classifier(failure);
/// let budget = Arc::new(Budget::new()); // one for all uploads
/// let parts = PartRetry::new(policy).with_budget(Arc::clone(&budget));
/// let options = PutMultipartOptions::default().with_retry_policy(Arc::new(parts));
/// // Then `store.put_multipart_opts(&path, options)`, and `budget.deposit()` for each stored part.
/// # let _ = options;
/// ```
#[must_use = "a policy does nothing until an upload has it"]
pub struct PartRetry<C> {
    policy: RetryPolicy<C>,
    budget: Option<Arc<Budget>>,
}

impl<C> PartRetry<C> {
    /// Creates the policy of uploads. The classifier is often [`failure`], or a pair with it.
    pub const fn new(policy: RetryPolicy<C>) -> Self {
        Self { policy, budget: None }
    }

    /// Makes each retry take a token of the budget. Without a token the part fails.
    ///
    /// The store does not tell a policy that a part succeeded. So call [`Budget::deposit`] after each
    /// part, or the budget is spent for good after some failures.
    pub fn with_budget(self, budget: Arc<Budget>) -> Self {
        Self { budget: Some(budget), ..self }
    }

    fn pay(&self) -> Option<Paid<'_>> {
        match self.budget.as_deref() {
            Some(budget) => budget.withdraw().then_some(Paid(Some(budget))),
            None => Some(Paid(None)),
        }
    }
}

impl<C> fmt::Debug for PartRetry<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartRetry")
            .field("attempts", &self.policy.attempts())
            .field("backoff", &self.policy.backoff())
            .field("total_timeout", &self.policy.total_timeout())
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<C> retry::RetryPolicy for PartRetry<C>
where
    C: Classify<RetryFailure> + Send + Sync + 'static,
{
    /// Cancel safe: a token is given back if the upload ends in the delay.
    async fn retry(&self, context: RetryContext) -> bool {
        let verdict = self.policy.classifier().classify(&context.failure);
        let left = self.policy.total_timeout().map(|all| all.saturating_sub(context.elapsed));
        let failed = Attempt::new(u32::try_from(context.attempt).unwrap_or(u32::MAX))
            .with_elapsed(context.elapsed)
            .with_remaining(left);
        let timer = TokioTimer::new();
        let draw = |range| timer.draw_within(range);
        let Decision::Retry(delay) = self.policy.decide(failed, verdict, draw) else {
            return false;
        };
        let Some(mut paid) = self.pay() else {
            return false;
        };
        timer.sleep(delay).await;
        paid.0 = None; // the retry is made
        true
    }
}

/// The token of a retry. It goes back unless the retry is made.
struct Paid<'b>(Option<&'b Budget>);

impl Drop for Paid<'_> {
    fn drop(&mut self) {
        if let Some(budget) = self.0 {
            budget.refund();
        }
    }
}
