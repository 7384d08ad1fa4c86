/// The answer to one question: may a request be executed twice?
///
/// A read, a `DELETE` by key and a write of a whole value are idempotent. So is a request with an
/// idempotency key, and a transaction that checks what it has done. An increment, an append, an
/// insert without a key and a sent message are not.
///
/// The unit is the attempt. If that is a whole database transaction, from its beginning to its
/// commit, a rolled-back one has done nothing, and it may be repeated in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Idempotency {
    /// The request may be executed twice.
    Idempotent,
    /// The request must not be executed twice. It is sent again only if it surely was not executed.
    /// In doubt it is not.
    NotIdempotent,
}

#[cfg(any(
    feature = "aws-smithy-1",
    feature = "hyper-1",
    feature = "lapin-4",
    feature = "mongodb-3",
    feature = "redis-1",
    feature = "sqlx-0_9",
    feature = "tokio-postgres-0_7"
))]
impl Idempotency {
    /// Returns the classifier of the errors of the system.
    pub(crate) const fn io(self) -> resile::io::Classifier {
        match self {
            Self::Idempotent => resile::io::Classifier::idempotent(),
            Self::NotIdempotent => resile::io::Classifier::non_idempotent(),
        }
    }
}
