//! The verdict on a failure, and what it says of the one request.

use crate::failure::Failure;
use crate::kind::{Kind, Phase};
use crate::rule::Rule;
use resile::{Health, Verdict};

impl Failure {
    /// Returns the verdict.
    ///
    /// The request may be sent again if it [is retryable](Self::is_retryable), after
    /// [`wait`](Self::wait). The provider is [`Throttling`](Health::Throttling) for `RateLimit` and
    /// `Overloaded`. Of these two only `RateLimit` is the [caller's own
    /// limit](Verdict::is_own_limit). The provider is [`Failing`](Health::Failing) for `Server`,
    /// `Timeout` and `Network`. It is [`Unknown`](Health::Unknown) for `Cancelled` and `Unknown`.
    /// For all other kinds the provider is [`Healthy`](Health::Healthy) because it was right to
    /// refuse the request, but `Unknown` if the request [never left](Self::is_not_sent). A quota then
    /// gives its reservation back.
    ///
    /// A request that the provider refused with 4xx before it did any work is
    /// [without effect](Verdict::without_effect), so a quota gives its tokens back. This is not so for
    /// `ContentFilter`, because the filter has read the prompt, and Azure charges it.
    pub fn verdict(&self) -> Verdict {
        let verdict = self.answers();
        let verdict = if self.is_not_sent() { verdict.not_sent() } else { verdict };
        if self.is_refused() { verdict.without_effect() } else { verdict }
    }

    /// Returns the verdict without what it says of this one request.
    pub(crate) fn answers(&self) -> Verdict {
        let verdict = match self.kind() {
            Kind::RateLimit => Verdict::throttled(),
            Kind::Overloaded => Verdict::overloaded(),
            Kind::Server | Kind::Timeout | Kind::Network => Verdict::transient(),
            Kind::Cancelled | Kind::Unknown => Verdict::transient().with_health(Health::Unknown),
            _ if self.is_not_sent() => Verdict::transient().with_health(Health::Unknown),
            _ => Verdict::transient().with_health(Health::Healthy),
        };
        let verdict = if self.is_retryable() { verdict } else { verdict.not_again() };
        self.wait().map_or(verdict, |wait| verdict.after(wait))
    }

    /// Returns whether the provider says that the limit is one of requests, and names no tokens beside it.
    #[cfg(any(feature = "reqwest", feature = "stream"))]
    pub(crate) fn is_about_requests(&self) -> bool {
        const WORDS: [&str; 7] = [
            "request per ",
            "requests per ",
            "requests/min",
            "rpm)",
            "max rpm",
            "call rate",
            "_requests",
        ];
        if self.kind() != Kind::RateLimit {
            return false;
        }
        if self.error_type() == Some("requests") {
            return true;
        }
        let words = self.message().unwrap_or_default().to_lowercase();
        let is_of_tokens = words.contains("token") || words.contains("tpm");
        !is_of_tokens && WORDS.iter().any(|word| words.contains(word))
    }

    /// Returns whether the provider surely refused the request before it did any work. After a good status
    /// and after a 5xx nobody knows it.
    fn is_refused(&self) -> bool {
        let is_refusal = matches!(
            self.kind(),
            Kind::RateLimit
                | Kind::QuotaExhausted
                | Kind::Conflict
                | Kind::Auth
                | Kind::Permission
                | Kind::NotFound
                | Kind::InvalidRequest
                | Kind::ContextLength
                | Kind::TooLarge
        );
        let is_answered = self.phase() != Phase::Response || matches!(self.rule(), Rule::Finish(_));
        let has_status = self.status().is_none_or(|status| matches!(status, 400..=498));
        is_refusal && !is_answered && has_status
    }
}
