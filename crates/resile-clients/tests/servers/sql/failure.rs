//! An error of a client, and what its function says.

use resile_clients::resile::Health;

use crate::data::{Says, classified, says, word};

/// Sent again if it is idempotent: nobody knows whether it was executed.
pub(crate) const DOUBT: Option<Says> = Some((true, false, Health::Failing, false));
/// Sent again, because nothing was sent.
pub(crate) const NEVER_SENT: Option<Says> = Some((true, true, Health::Failing, false));
/// Sent again: the pool may be used up, or the server may be gone.
pub(crate) const NO_CONNECTION: Option<Says> = Some((true, true, Health::Unknown, false));
/// Sent again: it was not executed, and the server works.
pub(crate) const PASSES: Option<Says> = Some((true, true, Health::Healthy, false));
/// Sent again: the caller has too many of something, and nothing was sent.
pub(crate) const OWN_LIMIT: Option<Says> = Some((true, true, Health::Throttling, true));
/// Not sent again: the program is at fault.
pub(crate) const OWN_FAULT: Option<Says> = Some((false, false, Health::Unknown, false));

/// Not sent again: the answer has come.
pub(crate) const ANSWERED: Option<Says> = Some((false, false, Health::Healthy, false));

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) says: Option<Says>,
    /// The `error.type`.
    pub(crate) word: String,
    /// The error in the form of `Debug`, which has the code and the words.
    pub(crate) text: String,
}

impl Failure {
    /// Checks the verdict, and that work which was done is never done again.
    #[track_caller]
    pub(crate) fn check(&self, says: Option<Says>, is_executed: bool) {
        assert_eq!(self.says, says, "{}", self.text);
        let is_again = says.is_some_and(|(_, again, ..)| again);
        assert!(!(is_executed && is_again), "it was executed: {}", self.text);
    }

    #[track_caller]
    pub(crate) fn has(&self, words: &str) {
        assert!(self.text.contains(words), "no {words:?} in {}", self.text);
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let says = says(|it| resile_clients::sqlx::error(&error, it));
        assert_eq!(classified(&error), says);
        Self { says, word: word(&error), text: format!("{error:?}") }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let says = says(|it| resile_clients::tokio_postgres::error(&error, it));
        assert_eq!(classified(&error), says);
        Self { says, word: word(&error), text: format!("{error:?}") }
    }
}
