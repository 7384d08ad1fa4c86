use std::borrow::Cow;

use resile::classify::{Opinion, Over};
use resile::{Classify, Verdict};

use crate::Idempotency;
use crate::rule::State::Failing;
use crate::rule::if_idempotent;

/// A classifier of the errors of clients, by the idempotency of the request.
///
/// It classifies these types, each with the feature of its client:
///
/// | feature | types | verdict | `error.type` |
/// |---|---|---|---|
/// | `sqlx-0_9` | `sqlx::Error`, `sqlx::TransactionError` | `sqlx::error` | the SQLSTATE of PostgreSQL, the number of MariaDB and SQLite, or the kind, such as `PoolTimedOut` |
/// | `tokio-postgres-0_7` | `tokio_postgres::Error` | `tokio_postgres::error` | the SQLSTATE |
/// | `tonic-0_14` | `tonic::Status`, `grpc::Failure` | `grpc::status` | the name of the code, such as `UNAVAILABLE` |
/// | `redis-1` | `redis::RedisError` | `redis::error` | the first word of the reply, such as `LOADING` |
/// | `mongodb-3` | `mongodb::error::Error` | `mongodb::error` | the name of the code, such as `WriteConflict`, or the kind |
/// | `lapin-4` | `lapin::Error` | `amqp::error` | the number of the reply |
/// | `async-nats-0_51` | the errors of `connect`, `request`, `publish`, `flush` and JetStream | `nats::error` | the kind, such as `NoResponders`, or the number of JetStream |
/// | `kube-5` | `kube::Error` | `kubernetes::error` | the reason of the server, such as `TooManyRequests` |
/// | `opendal-0_59` | `opendal::Error` | `opendal::error` | the kind, such as `RateLimited` |
/// | `hyper-1` | `hyper::Error` | `hyper::error` | the kind in the table, such as `closed` |
/// | `aws-smithy-1` | `SdkError` of the AWS SDKs | `aws::error` | the code, such as `SlowDown` |
///
/// An `io::Error` below such an error has the word of `resile::io`, such as `refused`. An error without
/// a word has the name of its Rust type.
///
/// # Cut attempts
///
/// The classifier has an opinion on attempts that were cut ([`classify_cut`](Classify::classify_cut)),
/// which a closure around a function such as `sqlx::error` does not have: an idempotent request is sent
/// again after a timeout, and another one is not. Pass the classifier itself, and for an error type of
/// your own use [`over`](Self::over), because both keep this opinion. A function is for code without a
/// policy, and for an error type that is not in the table.
///
/// To treat a code differently, put your own classifier first: `(mine, Classifier::idempotent())`. The code
/// `CANCELLED` of gRPC tells of a cut, so for a request that is not idempotent take [`over`](Self::over): in
/// a pair the member counts that forbids a repetition after a cut.
///
/// # Examples
///
#[cfg_attr(feature = "tonic-0_14", doc = "```")]
#[cfg_attr(not(feature = "tonic-0_14"), doc = "```text")]
/// use resile_clients::Classifier;
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
    pub(crate) idempotency: Idempotency,
    is_keyed: bool,
    place: Option<&'static str>,
}

impl Classifier {
    /// Creates a classifier for requests that may be executed twice.
    pub const fn idempotent() -> Self {
        Self { idempotency: Idempotency::Idempotent, is_keyed: false, place: None }
    }

    /// Creates a classifier for requests that must not be executed twice. A request is only sent
    /// again if it surely was not executed.
    pub const fn non_idempotent() -> Self {
        Self { idempotency: Idempotency::NotIdempotent, is_keyed: false, place: None }
    }

    /// Creates a classifier for requests that have an effect and may be executed twice because of a key, such as
    /// a transaction that begins with the insert of its own id. The error of the call
    /// [says](resile::Verdict::keyed) whether the request may have been executed.
    pub const fn keyed() -> Self {
        Self { is_keyed: true, ..Self::idempotent() }
    }

    /// Sets the [place](Classify::place) that the requests go to, such as `/store.Store/Stock` for a method of
    /// gRPC. A second call replaces the first one. State it where the request is made, so that one policy serves
    /// all methods.
    ///
    /// The log prints the place before the words of a failure that does not name it, such as a status of gRPC
    /// or a cut attempt, which has no error of the client. So does the error of the call, but it has the words
    /// of an error only in its alternate form (`{:#}`). The place is not part of a verdict. A pair of
    /// classifiers has the place of its first member that knows one. A layer of `resile-tower` takes the path
    /// of the request itself.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "tonic-0_14", doc = "```")]
    #[cfg_attr(not(feature = "tonic-0_14"), doc = "```text")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use resile_clients::Classifier;
    /// use resile_clients::resile::{Never, RetryPolicy, Upstream, retry};
    /// use std::time::Duration;
    /// use tonic::Status;
    ///
    /// const READ: Classifier = Classifier::idempotent();
    ///
    /// /// The policy of all methods.
    /// const fn policy(classifier: Classifier) -> RetryPolicy<Classifier> {
    ///     RetryPolicy::none()
    ///         .with_attempt_timeout(Duration::from_millis(500))
    ///         .with_classifier(classifier)
    /// }
    ///
    /// # use resile_clients::resile::time::ManualTimer;
    /// # let timer = ManualTimer::new();
    /// let store = Upstream::new("store");
    /// # let store = store.with_timer(timer.clone());
    /// # async fn stock() -> Result<u32, Status> { std::future::pending().await }
    /// let policy = policy(READ.with_place("/store.Store/Stock"));
    /// let call = retry(|_| stock(), policy, Never).on(&store);
    /// # let call = async {
    /// #     tokio::join!(call, async { timer.advance(Duration::from_millis(500)) }).0
    /// # };
    /// let gave_up = call.await.unwrap_err();
    /// let end = "(last failure: /store.Store/Stock: did not finish within 500ms)";
    /// assert!(gave_up.to_string().ends_with(end));
    /// # }
    /// ```
    pub const fn with_place(mut self, place: &'static str) -> Self {
        self.place = Some(place);
        self
    }

    /// Returns whether requests count as idempotent.
    #[must_use]
    pub const fn is_idempotent(&self) -> bool {
        matches!(self.idempotency, Idempotency::Idempotent)
    }

    /// Returns the verdict on an error of a client. An unknown code has none.
    #[must_use]
    pub fn verdict<E: ?Sized>(&self, error: &E) -> Option<Verdict>
    where
        Self: Classify<E>,
    {
        self.classify(error)
    }

    /// Returns the verdict on a request that may have reached the server but has no answer.
    pub const fn unanswered(&self) -> Verdict {
        self.on_request(if_idempotent(Failing).verdict(self.idempotency))
    }

    /// Returns a verdict with what is known of the request.
    pub(crate) const fn on_request(&self, verdict: Verdict) -> Verdict {
        if self.is_keyed { verdict.keyed() } else { verdict }
    }

    /// Makes a classifier for an error type of your own. `map` finds the error of the client in it and
    /// asks this classifier. The opinion on cut attempts, the [place](Self::with_place) and the word of
    /// `error.type` remain those of this classifier. An error that `map` does not ask it about has no word, so
    /// write `own(error).or(clients.verdict(error))` and not `or_else`.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "tonic-0_14", doc = "```")]
    #[cfg_attr(not(feature = "tonic-0_14"), doc = "```text")]
    /// use resile_clients::Classifier;
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
    ///     .over(|clients, error: &CallError| match error {
    ///         CallError::Rpc(status) => clients.verdict(status),
    ///         CallError::NoToken => None,
    ///     });
    /// assert!(!booking.classify_cut(Cut::Deadline).unwrap().is_again());
    /// # assert!(booking.classify(&CallError::Rpc(Status::unavailable(""))).is_some());
    /// # assert!(booking.classify(&CallError::NoToken).is_none());
    /// ```
    pub const fn over<E, F, V>(self, map: F) -> Over<Self, F>
    where
        E: ?Sized,
        F: Fn(&Self, &E) -> V,
        V: Opinion,
    {
        Over::new(self, self.unanswered(), map).with_place(self.place)
    }

    /// Returns the place that the requests go to.
    #[allow(dead_code, reason = "without a client nothing asks for it")]
    pub(crate) fn known_place(&self) -> Option<Cow<'_, str>> {
        self.place.map(Cow::Borrowed)
    }
}

/// Makes the classifier one of these types, or of one type with parameters in square brackets: by the
/// function of its verdict, and by that of its word for `error.type`.
#[allow(unused_macros, reason = "without a client nothing uses it")]
macro_rules! classifies {
    ([$($parameters:tt)*] $type:ty => $error:path, $word:path) => {
        impl<$($parameters)*> resile::Classify<$type> for crate::Classifier {
            fn classify(&self, error: &$type) -> Option<resile::Verdict> {
                resile::classify::note_error_type(|| $word(error));
                $error(error, self.idempotency).map(|verdict| self.on_request(verdict))
            }

            fn classify_cut(&self, _: resile::classify::Cut) -> Option<resile::Verdict> {
                Some(self.unanswered())
            }

            fn place(&self) -> Option<std::borrow::Cow<'_, str>> {
                self.known_place()
            }

            fn error_type<'e>(&self, error: &'e $type) -> Option<std::borrow::Cow<'e, str>> {
                $word(error)
            }
        }
    };
    ($($type:ty),+ => $error:path, $word:path) => {
        $(crate::classifier::classifies!([] $type => $error, $word);)+
    };
}
#[allow(unused_imports, reason = "without a client nothing uses it")]
pub(crate) use classifies;
