//! The reasons for the kind of a failure: the evidence that decided, and what lost against it.

use std::fmt;
use std::ops::Range;

use crate::failure::Failure;
use crate::kind::Kind;
use crate::rule::Rule;

/// One piece of evidence, with the kind that it speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub(crate) kind: Kind,
    pub(crate) rule: Rule,
    pub(crate) text: Option<String>,
    pub(crate) span: Option<Range<usize>>,
    /// It says less than a code: a status, a generic code or the name of an exception.
    pub(crate) is_weak: bool,
}

impl Reason {
    /// Returns the kind that this evidence speaks for.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the rule that reads this evidence.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Returns the part of the answer that the rule read: a code, some words, the name of an
    /// exception. `None` if the rule reads no text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns the place of the words in [`Failure::message`], in bytes. `None` if the evidence is
    /// not a part of the message.
    #[must_use]
    pub fn span(&self) -> Option<Range<usize>> {
        self.span.clone()
    }
}

/// Writes the rule, the kind and the text, as in `phrase: rate limit (rate_limit): "Rate limit"`.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.rule, self.kind.as_str())?;
        self.text.as_ref().map_or(Ok(()), |text| write!(f, ": {text:?}"))
    }
}

/// The certainty of a classification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Certainty {
    /// Only a status or the phase decided. See [`Failure::is_by_status_alone`].
    Unsure,
    /// Words or a part of a code decided, or a code decided against words or a code that say the contrary
    /// about a retry.
    Likely,
    /// A detail or a number of the provider decided, or a code against which at most a status, a generic
    /// code or the name of an exception speaks.
    Sure,
}

impl Certainty {
    /// Returns a stable word for logs and JSON: `unsure`, `likely`, `sure`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unsure => "unsure",
            Self::Likely => "likely",
            Self::Sure => "sure",
        }
    }
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure and the reasons for its kind. [`Reply::explain`](crate::Reply::explain) creates it.
///
/// `Display` writes one line for each reason.
///
/// # Examples
///
/// ```
/// use resile_llm::{Certainty, Kind, Reply};
/// use std::time::SystemTime;
///
/// let body = r#"{"error":{"code":"rate_limit_exceeded","message":"Your daily limit is reached."}}"#;
/// let explained = Reply::new(body.as_bytes()).with_status(429).explain(SystemTime::now());
/// assert_eq!(explained.failure().kind(), Kind::QuotaExhausted);
/// assert_eq!(explained.decisive().text(), Some("daily limit is reached"));
/// let lost: Vec<_> = explained.lost().iter().map(|reason| reason.rule().to_string()).collect();
/// assert_eq!(lost, ["code: ratelimitexceeded", "status: 429"]);
/// assert_eq!(explained.certainty(), Certainty::Likely);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub(crate) failure: Failure,
    pub(crate) decisive: Reason,
    pub(crate) lost: Vec<Reason>,
}

impl Explanation {
    /// Sorts `reasons` into the one that decided and those for another kind.
    pub(crate) fn new(failure: Failure, reasons: Vec<Reason>) -> Self {
        let (kind, rule) = (failure.kind(), failure.rule());
        let decisive = reasons.iter().find(|reason| reason.rule == rule).cloned();
        let bare = || Reason { kind, rule, text: None, span: None, is_weak: false };
        // Some words mean two kinds, such as a quota of a minute or of a month. They do not speak against
        // one of them.
        let own: Vec<_> = reasons.iter().filter(|it| it.kind == kind).map(Reason::span).collect();
        let is_own = |reason: &Reason| reason.span.is_some() && own.contains(&reason.span);
        let mut lost: Vec<Reason> = Vec::new();
        for reason in reasons {
            let is_known = lost.iter().any(|known| known.rule == reason.rule);
            if reason.kind != kind && !is_known && !is_own(&reason) {
                lost.push(reason);
            }
        }
        let mut decisive = decisive.map_or_else(bare, |reason| Reason { kind, ..reason });
        // The message of an answer that broke off does not quote it, so nothing has a place in it.
        let message = failure.message().unwrap_or_default();
        for reason in lost.iter_mut().chain([&mut decisive]) {
            reason.span =
                reason.span.take().filter(|span| message.get(span.clone()) == reason.text());
        }
        Self { failure, decisive, lost }
    }

    /// Returns the failure. It is equal to the one of [`Reply::classify`](crate::Reply::classify).
    #[must_use]
    pub fn failure(&self) -> &Failure {
        &self.failure
    }

    /// Returns the evidence that decided the kind.
    #[must_use]
    pub fn decisive(&self) -> &Reason {
        &self.decisive
    }

    /// Returns the evidence for other kinds, each rule once. The status alone is the last one.
    #[must_use]
    pub fn lost(&self) -> &[Reason] {
        &self.lost
    }

    /// Returns how sure the kind is.
    #[must_use]
    pub fn certainty(&self) -> Certainty {
        if self.failure.is_by_status_alone() {
            return Certainty::Unsure;
        }
        match self.decisive.rule {
            Rule::Phrase(_) | Rule::Grammar(_) | Rule::Stem(_) => Certainty::Likely,
            // They name the limit. Codes and words beside them are the same for every limit.
            Rule::Google(_) | Rule::Arithmetic => Certainty::Sure,
            _ if self.is_doubted() => Certainty::Likely,
            _ => Certainty::Sure,
        }
    }

    /// Returns whether evidence of some weight says the contrary about a retry.
    fn is_doubted(&self) -> bool {
        let is_retryable = self.failure.kind().is_passing();
        let mut lost = self.lost.iter().filter(|reason| !reason.is_weak);
        lost.any(|reason| reason.kind.is_passing() != is_retryable)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, by {} ({})", self.failure.kind(), self.decisive, self.certainty())?;
        self.lost.iter().try_for_each(|reason| write!(f, "\nagainst {reason}"))
    }
}
