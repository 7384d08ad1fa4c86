use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::kind::{Kind, Phase, Recovery, Scope};
use crate::normal::{LONGEST, normalize};
use crate::rule::Rule;
use crate::tokens::Tokens;
use resile::quota::Usage;

/// A failed call to a model, with its meaning and the raw facts behind it.
///
/// These create a `Failure`. It is one pointer wide, so a `Result<T, Failure>` stays small.
///
/// | you have | the function |
/// |---|---|
/// | a status, headers and a body | [`Reply::classify`](crate::Reply::classify), [`from_parts`](Self::from_parts) |
/// | a status and a text | [`from_text`](Self::from_text) |
/// | only a `String`: the text of an answer, its status lost | [`from_error_text`](Self::from_error_text) |
/// | an event of a stream | [`from_event`](Self::from_event), [`find_in_event`](Self::find_in_event) |
/// | an error of the connection | [`from_transport`](Self::from_transport) |
/// | an error of any origin | [`find_in_error`](Self::find_in_error), [`find_in_text`](Self::find_in_text) |
///
/// The words are those of the provider's error and never those of an answer: an answer that breaks off
/// says where, and not what it was.
///
/// `Display` writes one line for people. The [`source`](Error::source) is the transport's error, if
/// there was one.
///
/// # Examples
///
/// ```
/// use resile_llm::{Failure, Kind};
///
/// let body = "prompt is too long: 210000 tokens > 200000 maximum";
/// let failure = Failure::from_text(400, body);
/// assert_eq!(failure.kind(), Kind::ContextLength);
/// assert_eq!(failure.tokens().prompt(), Some(210_000));
/// assert!(!failure.is_retryable());
/// ```
#[derive(Clone)]
pub struct Failure(pub(crate) Box<FailureParts>);

/// The contents of a [`Failure`], boxed.
#[derive(Clone, Debug)]
pub(crate) struct FailureParts {
    pub(crate) kind: Kind,
    pub(crate) scope: Option<Scope>,
    pub(crate) retryable: bool,
    /// The provider said whether or when the request may be sent again.
    pub(crate) instructed: bool,
    pub(crate) wait: Option<Duration>,
    pub(crate) rule: Rule,
    pub(crate) phase: Phase,
    /// The request surely never left.
    pub(crate) not_sent: bool,
    pub(crate) status: Option<u16>,
    pub(crate) code: Option<String>,
    pub(crate) error_type: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) tokens: Tokens,
    pub(crate) usage: Usage,
    pub(crate) provider: Option<Cow<'static, str>>,
    pub(crate) source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Failure {
    pub(crate) fn bare(kind: Kind, rule: Rule, phase: Phase) -> Self {
        Self(Box::new(FailureParts {
            kind,
            scope: None,
            retryable: kind.is_passing(),
            instructed: false,
            wait: None,
            rule,
            phase,
            not_sent: false,
            status: None,
            code: None,
            error_type: None,
            message: None,
            tokens: Tokens::default(),
            usage: Usage::new(),
            provider: None,
            source: None,
        }))
    }

    /// Creates the failure of a call that the caller cancelled. The failure is never retried.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::bare(Kind::Cancelled, Rule::Cancelled, Phase::Connect)
    }

    /// Creates the failure of a stream that ended cleanly but without its last event. Its words say that
    /// the answer is truncated, while its kind is [`Kind::Network`] as for any answer that broke off.
    #[must_use]
    pub fn truncated(phase: Phase) -> Self {
        let mut failure = Self::bare(Kind::Network, Rule::Truncated, phase);
        failure.0.message = Some("the stream ended before its last event".to_owned());
        failure
    }

    /// Creates the failure of an answer that the caller cannot use: broken JSON or tool arguments,
    /// a violated schema or nothing at all. `message` describes the fault. It is in the log, so it should
    /// not quote the answer, as an error of `serde_json` about a type does.
    #[must_use]
    pub fn invalid_output(message: impl Into<String>) -> Self {
        let mut failure = Self::bare(Kind::InvalidOutput, Rule::Caller, Phase::Response);
        failure.0.message = Some(message.into());
        failure
    }

    /// Sets the provider's name for `Display`.
    #[must_use]
    pub fn with_provider(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.0.provider = Some(name.into());
        self
    }

    /// Sets the error behind this failure as its source.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns whether the same request may succeed later. The header `x-should-retry` decides if
    /// it is present. Otherwise the [kind](Kind::is_passing) decides. A cancelled call is never
    /// retryable.
    ///
    /// In [`Phase::Content`] a retry repeats content. The consumer decides whether this is
    /// acceptable.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// Returns the wait that the provider asks for, counted from its answer. For
    /// [`Kind::QuotaExhausted`], returns the time until the reset. The wait is never zero. A number
    /// too large to hold is `Duration::MAX`.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.0.wait
    }

    /// Returns the scope of the limit if the failure is a limit and the provider named its scope.
    #[must_use]
    pub fn scope(&self) -> Option<Scope> {
        self.0.scope
    }

    /// Returns the action that resolves the failure: that of the [kind](Kind::recovery), but
    /// [`FixRequest`](Recovery::FixRequest) if the token limit cut off the answer or if the answer is not
    /// a stream, because the request sets the limit and asks for the stream.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        let rule = self.rule();
        if rule.is_token_limit() || rule == Rule::NotStream {
            return Recovery::FixRequest;
        }
        self.0.kind.recovery()
    }

    /// Returns the rule that decided the kind.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.0.rule
    }

    /// Returns whether only the status or the phase decided: no known code, phrase, detail, ending or
    /// type of an error was found. Such a verdict may be wrong because a status has several meanings. Log the
    /// [message](Self::message) of such a failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_llm::Failure;
    ///
    /// assert!(Failure::from_text(429, "no").is_by_status_alone());
    /// assert!(!Failure::from_text(429, "daily limit reached").is_by_status_alone());
    /// ```
    #[must_use]
    pub fn is_by_status_alone(&self) -> bool {
        let rule = self.0.rule;
        matches!(rule, Rule::Status(_) | Rule::InBand | Rule::Nothing | Rule::Transport("unknown"))
    }

    /// Returns the progress of the exchange at the time of the failure.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.0.phase
    }

    /// Returns whether the provider surely did not see the request, because no connection was made or
    /// because the request could not be built. False means that nobody knows.
    ///
    /// Only the types of the errors tell this, so [`from_transport`](Self::from_transport) and the
    /// conversions by `?` know it. The quota of the attempt then gets the reservation back.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_llm::Failure;
    /// use std::io::{Error, ErrorKind};
    ///
    /// let refused = Failure::from(Error::from(ErrorKind::ConnectionRefused));
    /// assert!(refused.is_not_sent());
    /// let reset = Failure::from(Error::from(ErrorKind::ConnectionReset));
    /// assert!(!reset.is_not_sent());
    /// ```
    #[must_use]
    pub fn is_not_sent(&self) -> bool {
        self.0.not_sent
    }

    /// Returns the status: the answer's own, or a status named by an error inside the body.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// Returns the provider's code as it was sent, at most 128 bytes.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// Returns the provider's error type as it was sent, at most 128 bytes.
    #[must_use]
    pub fn error_type(&self) -> Option<&str> {
        self.0.error_type.as_deref()
    }

    /// Returns the message of the innermost error, at most 4 KiB.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// Returns the numbers of LLM tokens that the provider named. They are read only for
    /// `ContextLength` and `TooLarge`.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        self.0.tokens
    }

    /// Returns the usage that the answer reported, which is empty if it reported none. A provider charges
    /// an answer with a bad ending too, such as one that the token limit cut off.
    ///
    /// Of a stream that `events` reads it is the usage that all its events reported until the failure. A
    /// refusal has none, and neither has an attempt that a timeout cut.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_llm::Reply;
    /// use std::time::SystemTime;
    ///
    /// let body = br#"{"choices":[{"finish_reason":"length"}],
    ///     "usage":{"prompt_tokens":700,"completion_tokens":1000}}"#;
    /// let failure = Reply::new(body).with_status(200).find(SystemTime::now()).unwrap();
    /// assert_eq!(failure.usage().output(), Some(1_000));
    /// ```
    pub fn usage(&self) -> Usage {
        self.0.usage
    }

    /// Returns the provider's name, if the caller set one.
    #[must_use]
    pub fn provider(&self) -> Option<&str> {
        self.0.provider.as_deref()
    }
}

/// Compares all facts. Two sources are equal if they are the same object, as in a clone.
impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&*self.0, &*other.0);
        let is_same_source = match (&one.source, &two.source) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.is_none() && two.is_none(),
        };
        is_same_source
            && (one.kind, one.scope, one.retryable, one.instructed, one.wait)
                == (two.kind, two.scope, two.retryable, two.instructed, two.wait)
            && (one.rule, one.phase, one.not_sent, one.status, one.tokens)
                == (two.rule, two.phase, two.not_sent, two.status, two.tokens)
            && one.usage == two.usage
            && (&one.code, &one.error_type, &one.message, &one.provider)
                == (&two.code, &two.error_type, &two.message, &two.provider)
    }
}

impl Eq for Failure {}

/// Writes the kind, the rule and all raw facts for logs.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &*self.0;
        f.debug_struct("Failure")
            .field("kind", &facts.kind)
            .field("rule", &format_args!("{}", RuleAsSent(facts)))
            .field("retryable", &facts.retryable)
            .field("wait", &facts.wait)
            .field("scope", &facts.scope)
            .field("status", &facts.status)
            .field("code", &facts.code)
            .field("error_type", &facts.error_type)
            .field("message", &facts.message)
            .field("tokens", &facts.tokens)
            .field("usage", &facts.usage)
            .field("phase", &facts.phase)
            .field("not_sent", &facts.not_sent)
            .field("provider", &facts.provider)
            .field("source", &facts.source)
            .finish()
    }
}

/// The rule with the code as it was sent, because the table spells codes in another way.
struct RuleAsSent<'a>(&'a FailureParts);

impl fmt::Display for RuleAsSent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.0;
        let Rule::Code(known) = facts.rule else { return facts.rule.fmt(f) };
        let is_known = |sent: &&String| normalize(sent, &mut [0; LONGEST]) == Some(known);
        match [&facts.code, &facts.error_type].into_iter().flatten().find(is_known) {
            Some(sent) => write!(f, "code: {sent}"),
            None => facts.rule.fmt(f),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
