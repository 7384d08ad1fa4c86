use super::gave_up::GaveUp;
use crate::policy::StopReason;
use crate::verdict::Health;

/// The answer that a program may give its own caller about a request whose call gave up. Made by
/// [`GaveUp::conclusion`] and [`GaveUp::conclusion_if_first`].
///
/// The list is complete and no later version extends it, so a `match` needs no last arm and the compiler finds a case
/// without an answer. The right column is the usual answer of an HTTP service:
///
/// | conclusion | the program | status |
/// |---|---|---|
/// | [`NotDone`](Self::NotDone) | says "failed" | 503, but 500 after [`StopReason::Fatal`] |
/// | [`AskAgain`](Self::AskAgain) | says "ask again" | 503 |
/// | [`AskAgainWithKey`](Self::AskAgainWithKey) | says "not known yet, ask again with the same key" | 503 |
/// | [`Unresolved`](Self::Unresolved) | says "not known", and a person has to look | 500 |
/// | [`InDoubt`](Self::InDoubt) | says "it may be done, do not send it again", and a person has to look | 499 |
/// | [`SeeError`](Self::SeeError) | reads the last error | 500 |
///
/// Only the first three may have a `Retry-After` with the [`retry_after`](GaveUp::retry_after) of the call, in the whole
/// seconds of `http::headers::retry_after_secs`. A 499 for `InDoubt` is neither a 5xx nor a 409, because the client of
/// the caller may repeat its request after those.
///
/// An error that the caller has to know, such as a 404 for an item, comes before all of them:
/// [`last`](GaveUp::last) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a conclusion does nothing until the program acts on it"]
pub enum Conclusion {
    /// The request surely had no effect. If the reason is [`Fatal`](StopReason::Fatal), the same error would come again.
    NotDone,
    /// The request may be sent again, such as a read.
    AskAgain,
    /// The request has a [key](crate::Verdict::keyed) and may have been executed. With the same key it may be sent
    /// again at any time, and may tell then that it was executed.
    AskAgainWithKey,
    /// The request has a [key](crate::Verdict::keyed) and may have been executed, but to send it again does not help,
    /// because it would end with the same error.
    Unresolved,
    /// The request may have been executed and must not be sent again: it is [in doubt](GaveUp::is_in_doubt).
    InDoubt,
    /// The last error says what happened, and the same request does not help.
    SeeError,
}

impl<E> GaveUp<E> {
    /// Returns what a program may tell its own caller about the request.
    ///
    /// It relies only on this call. An earlier call with the same key may still be executed, so a request with a key is
    /// never [`NotDone`](Conclusion::NotDone). Use [`conclusion_if_first`](Self::conclusion_if_first) if the program
    /// knows that no earlier call had this key.
    ///
    /// The first row that applies counts:
    ///
    /// | call | conclusion |
    /// |---|---|
    /// | surely [without effect](Self::is_without_effect), and its request has no key | `NotDone` |
    /// | its request has a key, and the reason is [`TooLarge`](StopReason::TooLarge), or it is [`Fatal`](StopReason::Fatal) and the upstream is neither failing nor throttling | `Unresolved` |
    /// | its request has a key | `AskAgainWithKey` |
    /// | [in doubt](Self::is_in_doubt) | `InDoubt` |
    /// | its request may be sent again by its [verdict](Self::verdict) | `AskAgain` |
    /// | its request is [idempotent](crate::Verdict::idempotent), and the token, its deadline or a part of the answer ended it, or the upstream is failing or throttling | `AskAgain` |
    /// | any other | `SeeError` |
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::error::Conclusion;
    /// use resile::io::Classifier;
    /// use resile::{GaveUp, Never, RetryPolicy, retry};
    /// use std::io;
    ///
    /// fn status<E>(end: &GaveUp<E>) -> u16 {
    ///     match end.conclusion() {
    ///         Conclusion::NotDone | Conclusion::AskAgain | Conclusion::AskAgainWithKey => 503,
    ///         Conclusion::InDoubt => 499,
    ///         Conclusion::Unresolved | Conclusion::SeeError => 500,
    ///     }
    /// }
    ///
    /// async fn book() -> io::Result<u32> {
    ///     Err(io::ErrorKind::ConnectionReset.into()) // after the request was sent
    /// }
    /// let policy = RetryPolicy::new().with_classifier(Classifier::non_idempotent());
    /// let gave_up = retry(|_| book(), policy, Never).await.unwrap_err();
    /// assert_eq!(status(&gave_up), 499);
    /// # }
    /// ```
    pub const fn conclusion(&self) -> Conclusion {
        self.concluded(false)
    }

    /// Returns what a program may tell its own caller about the request, if no earlier call had the same key.
    ///
    /// It differs from [`conclusion`](Self::conclusion) only for a request with a key: if the call was surely
    /// [without effect](Self::is_without_effect), it is [`NotDone`](Conclusion::NotDone). That is wrong if an earlier
    /// call had the same key, because that one may have executed the request before a breaker refused this one.
    pub const fn conclusion_if_first(&self) -> Conclusion {
        self.concluded(true)
    }

    const fn concluded(&self, is_first: bool) -> Conclusion {
        let reason = self.reason();
        let (is_keyed, is_idempotent, is_again, is_failing) = match self.verdict() {
            Some(it) => (it.is_keyed(), it.is_idempotent(), it.is_again(), is_failing(it.health())),
            None => (false, false, false, false),
        };
        // The same error would come again.
        let is_final = matches!(reason, StopReason::Fatal) && !is_failing
            || matches!(reason, StopReason::TooLarge);
        // The upstream may do it the next time.
        let may_pass = is_failing
            || matches!(reason, StopReason::Cancelled | StopReason::Deadline | StopReason::Partial);
        if self.is_without_effect() && (is_first || !is_keyed) {
            Conclusion::NotDone
        } else if is_keyed && is_final {
            Conclusion::Unresolved
        } else if is_keyed {
            Conclusion::AskAgainWithKey
        } else if self.is_in_doubt() {
            Conclusion::InDoubt
        } else if is_again || is_idempotent && may_pass {
            Conclusion::AskAgain
        } else {
            Conclusion::SeeError
        }
    }
}

const fn is_failing(health: Health) -> bool {
    matches!(health, Health::Failing | Health::Throttling)
}
