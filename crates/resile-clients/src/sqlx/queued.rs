use resile::{Health, Verdict};

use super::TransactionError;

/// Returns the verdict on a statement before `COMMIT` that PostgreSQL canceled (`57014`): again, without effect
/// and with an unknown health. It returns `None` for every other error.
///
/// A statement in a queue for a row waits once for each transaction before it. `lock_timeout` limits one of these
/// waits only, so `statement_timeout` ends the whole statement. The code does not tell this from a statement that is
/// slow by itself, and a [`Classifier`](crate::Classifier) makes both final. Put this function before it if the
/// statements of the transaction are quick without a queue. A slow one would be sent until a limit of the policy
/// ends the call.
///
/// # Examples
///
/// ```
/// use resile_clients::Classifier;
/// use resile_clients::resile::{Classify, RetryPolicy};
/// use resile_clients::sqlx::{TransactionError, queued};
///
/// let classifier = (queued, Classifier::keyed().with_place("transfer"));
/// # fn check(_: &impl Classify<TransactionError>) {}
/// # check(&classifier);
/// let policy = RetryPolicy::contention().with_classifier(classifier);
/// # let _ = policy;
/// ```
#[must_use]
pub fn queued<E>(failed: &TransactionError<E>) -> Option<Verdict> {
    let TransactionError::Before(error) = failed else { return None };
    let is_canceled = error.as_database_error()?.code()? == "57014";
    is_canceled.then(|| Verdict::transient().with_health(Health::Unknown).without_effect())
}
