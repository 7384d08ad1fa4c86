use std::borrow::Cow;

use ::tonic::{Code, Status};
use resile::classify::{Cut, Opinion, Over};
use resile::{Classify, Verdict};

use super::status;
use crate::Idempotency;
use crate::rule::State::Failing;
use crate::rule::if_idempotent;

/// A classifier of the statuses of `tonic`, by [`status()`] and by the idempotency of the request.
///
/// The classifier has an opinion on attempts that were cut
/// ([`classify_cut`](Classify::classify_cut)), which a closure around [`status()`] does not have: an
/// idempotent request is sent again after a timeout, and another one is not. Pass the classifier
/// itself, and for an error type of your own use [`over`](Self::over), because both keep this opinion.
///
/// To treat a code differently, put your own classifier first: `(mine, Classifier::idempotent())`.
///
/// # Examples
///
/// ```
/// use resile_clients::grpc::Classifier;
/// use resile_clients::resile::{Classify, RetryPolicy, Verdict};
/// use tonic::Status;
///
/// let policy = RetryPolicy::new().with_classifier(Classifier::idempotent());
/// # let _ = policy;
/// let booking = Classifier::non_idempotent();
/// let lost = booking.classify(&Status::unavailable("the connection was lost"));
/// assert_eq!(lost, Some(Verdict::transient().not_again()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a classifier does nothing until it is asked"]
pub struct Classifier {
    idempotency: Idempotency,
}

impl Classifier {
    /// Creates a classifier for requests that may be executed twice.
    pub const fn idempotent() -> Self {
        Self { idempotency: Idempotency::Idempotent }
    }

    /// Creates a classifier for requests that must not be executed twice. A request is only sent
    /// again if it surely was not executed.
    pub const fn non_idempotent() -> Self {
        Self { idempotency: Idempotency::NotIdempotent }
    }

    /// Returns the verdict on a status. An unknown code has none.
    #[must_use]
    pub fn verdict(&self, status: &Status) -> Option<Verdict> {
        self::status(status, self.idempotency)
    }

    /// Returns the verdict on a request that may have reached the server but has no answer.
    pub fn unanswered(&self) -> Verdict {
        if_idempotent(Failing).verdict(self.idempotency)
    }

    /// Makes a classifier for an error type of your own. `map` finds the status in the error and asks
    /// this classifier. The opinion on cut attempts remains that of this classifier.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_clients::grpc::Classifier;
    /// use resile_clients::resile::Classify;
    /// use resile_clients::resile::classify::Cut;
    /// use tonic::Status;
    ///
    /// enum CallError {
    ///     Rpc(Status),
    ///     NoToken,
    /// }
    ///
    /// let booking = Classifier::non_idempotent()
    ///     .over(|grpc, error: &CallError| match error {
    ///         CallError::Rpc(status) => grpc.verdict(status),
    ///         CallError::NoToken => None,
    ///     });
    /// assert!(!booking.classify_cut(Cut::Deadline).unwrap().is_again());
    /// # assert!(booking.classify(&CallError::Rpc(Status::unavailable(""))).is_some());
    /// # assert!(booking.classify(&CallError::NoToken).is_none());
    /// ```
    pub fn over<E, F, V>(self, map: F) -> Over<Self, F>
    where
        E: ?Sized,
        F: Fn(&Self, &E) -> V,
        V: Opinion,
    {
        Over::new(self, self.unanswered(), map)
    }
}

/// Has no opinion on `OK`.
impl Classify<Status> for Classifier {
    fn classify(&self, status: &Status) -> Option<Verdict> {
        self.verdict(status)
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered())
    }

    /// Returns the name of the code, such as `UNAVAILABLE`.
    fn error_type<'e>(&self, status: &'e Status) -> Option<Cow<'e, str>> {
        Some(Cow::Borrowed(name(status.code())))
    }
}

/// Returns the name of a code as the specification of gRPC spells it.
const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
