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
/// | [`NotDone`](Self::NotDone) | says "failed, ask again" | 503 |
/// | [`AskAgain`](Self::AskAgain) | says "not known, ask again" | 503 |
/// | [`AskAgainWithKey`](Self::AskAgainWithKey) | says "not known yet, ask again with the same key" | 503 |
/// | [`Unresolved`](Self::Unresolved) | says "not known", and a person has to look | 500 |
/// | [`InDoubt`](Self::InDoubt) | says "it may be done, do not send it again", and a person has to look | 499 |
/// | [`SeeError`](Self::SeeError) | reads the [last error](GaveUp::last) | that of the error, such as 404 or 422, or 500 |
///
/// Only a 503 may have a `Retry-After` with the [`retry_after`](GaveUp::retry_after) of the call, in the whole
/// seconds of `http::headers::retry_after_secs`. A 499 for `InDoubt` is neither a 5xx nor a 409, because the client of
/// the caller may repeat its request after those.
///
/// Ask for the conclusion before the last error. After a lost answer a request with a key may end with 422 "sold out"
/// although the request before it was executed. Then the conclusion is `Unresolved`, and the error alone would deny it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a conclusion does nothing until the program acts on it"]
pub enum Conclusion {
    /// The request surely had no effect, and it may be sent again.
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
    /// The last error says what happened, and the same request would end with it again: an item that does not exist, a
    /// wrong password, a [cost](crate::StopReason::TooLarge) above the quota.
    SeeError,
}

impl Conclusion {
    /// Returns whether the caller has to learn that its request may have been executed. Nobody asks for that of a read.
    #[doc(hidden)]
    #[must_use]
    pub const fn may_matter(self) -> bool {
        matches!(self, Self::AskAgainWithKey | Self::Unresolved | Self::InDoubt)
    }
}

impl<E> GaveUp<E> {
    /// Returns what a program may tell its own caller about the request.
    ///
    /// It relies only on this call. An earlier call with the same key may still be executed, so a request with a key is
    /// never [`NotDone`](Conclusion::NotDone). Use [`conclusion_if_first`](Self::conclusion_if_first) if the program
    /// knows that no earlier call had this key.
    ///
    /// A closure that judges errors cannot [state the key](crate::Verdict::keyed) of a call without an attempt, such as
    /// one that a breaker refuses. So that call is `AskAgain` in place of `NotDone`, unless
    /// [`cut_is`](crate::classify::ClassifyExt::cut_is) states what kind of request it is.
    ///
    /// The error of a [`fallback`](crate::fallback()) around calls knows the last error only after
    /// [`flatten`](Self::flatten), so ask then. It knows the doubt of the calls within each alternative
    /// and the key of those that may have been executed, but nothing of calls in another task.
    ///
    /// An error is *final* if the reason is [`TooLarge`](StopReason::TooLarge), or if it is
    /// [`Fatal`](StopReason::Fatal) and the upstream is neither failing nor throttling. The first row that applies counts:
    ///
    /// | call | conclusion |
    /// |---|---|
    /// | surely [without effect](Self::is_without_effect), the classifier has judged its last error or its kind of request and has stated no key, and the error is not final | `NotDone` |
    /// | the same, and the error is final | `SeeError` |
    /// | [in doubt](Self::is_in_doubt) | `InDoubt` |
    /// | its request has a key, and the error is final | `Unresolved` |
    /// | its request has a key | `AskAgainWithKey` |
    /// | its request may be sent again by its [verdict](Self::verdict) | `AskAgain` |
    /// | its request is [idempotent](crate::Verdict::idempotent) or had no effect, and the token, its deadline or a part of the answer ended it, or the upstream is failing or throttling | `AskAgain` |
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
    /// It differs from [`conclusion`](Self::conclusion) only for a request that may have a key: if the call was surely
    /// [without effect](Self::is_without_effect), it is [`NotDone`](Conclusion::NotDone) or
    /// [`SeeError`](Conclusion::SeeError). That is wrong if an earlier call had the same key, because that one may have
    /// executed the request before a breaker refused this one. A program that stores how its calls ended may count a
    /// call as the first if its classifier states the key and each earlier call with the key has ended with one of
    /// these two.
    pub const fn conclusion_if_first(&self) -> Conclusion {
        self.concluded(true)
    }

    const fn concluded(&self, is_first: bool) -> Conclusion {
        let reason = self.reason();
        let Some(verdict) = self.verdict() else {
            return if self.is_in_doubt() { Conclusion::InDoubt } else { Conclusion::SeeError };
        };
        let is_failing = matches!(verdict.health(), Health::Failing | Health::Throttling);
        // The same error would come again.
        let is_final = matches!(reason, StopReason::Fatal) && !is_failing
            || matches!(reason, StopReason::TooLarge);
        // The upstream may do it the next time.
        let may_pass = is_failing
            || matches!(reason, StopReason::Cancelled | StopReason::Deadline | StopReason::Partial);
        let is_harmless = verdict.is_idempotent() || self.is_without_effect();
        if self.is_without_effect() && (is_first || !verdict.may_have_key()) {
            if is_final { Conclusion::SeeError } else { Conclusion::NotDone }
        } else if self.is_in_doubt() {
            Conclusion::InDoubt
        } else if verdict.is_keyed() && is_final {
            Conclusion::Unresolved
        } else if verdict.is_keyed() {
            Conclusion::AskAgainWithKey
        } else if verdict.is_again() || is_harmless && may_pass {
            Conclusion::AskAgain
        } else {
            Conclusion::SeeError
        }
    }
}
