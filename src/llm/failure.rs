use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::kind::{Kind, Phase, Recovery, Scope};
use super::rule::Rule;
use super::tokens::Tokens;
use crate::verdict::{Health, Verdict};

/// A failed call to a model: what it means, and every raw fact that says so.
///
/// Made by [`Reply::judge`](super::Reply::judge), or by one of the `from_` functions. One pointer wide, so that a
/// `Result<T, Failure>` stays small.
///
/// `Display` is fit to show to a person; the transport's error, if there was one, is the [`source`](Error::source).
///
/// # Examples
///
/// ```
/// use resile::llm::{Failure, Kind};
///
/// let failure = Failure::from_text(400, r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#);
/// assert_eq!(failure.kind(), Kind::ContextLength);
/// assert_eq!(failure.tokens().prompt(), Some(210_000));
/// assert!(!failure.is_retryable());
/// ```
#[derive(Clone)]
pub struct Failure(pub(super) Box<FailureParts>);

/// What a [`Failure`] holds, boxed.
#[derive(Clone, Debug)]
pub(super) struct FailureParts {
    pub(super) kind: Kind,
    pub(super) scope: Option<Scope>,
    pub(super) retryable: bool,
    pub(super) wait: Option<Duration>,
    pub(super) rule: Rule,
    pub(super) phase: Phase,
    pub(super) status: Option<u16>,
    pub(super) code: Option<String>,
    pub(super) error_type: Option<String>,
    pub(super) message: Option<String>,
    pub(super) tokens: Tokens,
    pub(super) provider: Option<Cow<'static, str>>,
    pub(super) source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Failure {
    pub(super) fn bare(kind: Kind, rule: Rule, phase: Phase) -> Self {
        Self(Box::new(FailureParts {
            kind,
            scope: None,
            retryable: kind.is_passing(),
            wait: None,
            rule,
            phase,
            status: None,
            code: None,
            error_type: None,
            message: None,
            tokens: Tokens::default(),
            provider: None,
            source: None,
        }))
    }

    /// We stopped the call ourselves. Never retried.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::bare(Kind::Cancelled, Rule::Cancelled, Phase::Connect)
    }

    /// A stream that ended, cleanly, without its terminal event.
    #[must_use]
    pub fn truncated(phase: Phase) -> Self {
        Self::bare(Kind::Network, Rule::Truncated, phase)
    }

    /// A model's answer that the caller cannot use: broken tool arguments or JSON, a schema that it fails, nothing at
    /// all. `message` says what is wrong.
    #[must_use]
    pub fn invalid_output(message: impl Into<String>) -> Self {
        let mut failure = Self::bare(Kind::InvalidOutput, Rule::Caller, Phase::Response);
        failure.0.message = Some(message.into());
        failure
    }

    /// The same with the provider's name, for `Display`.
    #[must_use]
    pub fn with_provider(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.0.provider = Some(name.into());
        self
    }

    /// The same with the error that it was made from as its source.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Whether the same request may succeed later: the kind passes, or the provider says so in `x-should-retry`.
    ///
    /// In [`Phase::Content`] a retry repeats what the consumer has seen; whether that may be is the consumer's to say.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// How long the provider asks to wait, counted from when it answered; for [`Kind::QuotaExhausted`], when it resets.
    /// Never zero. A number too large to hold is `Duration::MAX`.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.0.wait
    }

    /// What the limit counts over, if it is one and the provider said.
    #[must_use]
    pub fn scope(&self) -> Option<Scope> {
        self.0.scope
    }

    /// What mends it.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.0.kind.recovery()
    }

    /// The rule that decided.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.0.rule
    }

    /// How far the exchange had come.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.0.phase
    }

    /// The status: the answer's own, or the one that an error inside a good answer names.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The provider's code for it, as it was sent.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// The provider's type of error, as it was sent.
    #[must_use]
    pub fn error_type(&self) -> Option<&str> {
        self.0.error_type.as_deref()
    }

    /// The provider's message, of the innermost error; at most 4 KiB of it.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// The numbers of tokens that the provider named.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        self.0.tokens
    }

    /// The provider's name, if the caller gave it.
    #[must_use]
    pub fn provider(&self) -> Option<&str> {
        self.0.provider.as_deref()
    }

    /// Returns the verdict. The request may be sent again where it [is retryable](Self::is_retryable), after
    /// [`wait`](Self::wait). The provider is [`Throttling`](Health::Throttling) for `RateLimit` and `Overloaded`,
    /// [`Failing`](Health::Failing) for `Server`, `Timeout` and `Network`, [`Unknown`](Health::Unknown) for `Cancelled` and
    /// `Unknown`, and else [`Healthy`](Health::Healthy): it refused the request, as it should.
    pub fn verdict(&self) -> Verdict {
        let health = match self.kind() {
            Kind::RateLimit | Kind::Overloaded => Health::Throttling,
            Kind::Server | Kind::Timeout | Kind::Network => Health::Failing,
            Kind::Cancelled | Kind::Unknown => Health::Unknown,
            _ => Health::Healthy,
        };
        let verdict = if self.is_retryable() { Verdict::transient() } else { Verdict::fatal() };
        let verdict = verdict.with_health(health);
        self.wait().map_or(verdict, |wait| verdict.after(wait))
    }
}

/// As `Kind (rule)` with the raw facts: for logs.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &*self.0;
        f.debug_struct("Failure")
            .field("kind", &facts.kind)
            .field("rule", &format_args!("{}", facts.rule))
            .field("retryable", &facts.retryable)
            .field("wait", &facts.wait)
            .field("scope", &facts.scope)
            .field("status", &facts.status)
            .field("code", &facts.code)
            .field("error_type", &facts.error_type)
            .field("message", &facts.message)
            .field("tokens", &facts.tokens)
            .field("phase", &facts.phase)
            .field("provider", &facts.provider)
            .field("source", &facts.source)
            .finish()
    }
}

/// How much of the provider's message is shown.
const SHOWN: usize = 240;

/// One line, whatever the provider sent: what it is, how long to wait, the provider's words where the kind alone leaves
/// open what is wrong, and in parentheses who said it and how they call it.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &*self.0;
        f.write_str(facts.kind.headline())?;
        if let (Some(prompt), Some(limit)) = (facts.tokens.prompt, facts.tokens.limit) {
            write!(f, ": {prompt} tokens, where {limit} are allowed")?;
        }
        if let Some(wait) = facts.wait {
            write!(f, ", try again in {}", Span(wait))?;
        }
        let is_reporting = !matches!(
            facts.kind,
            Kind::RateLimit | Kind::Overloaded | Kind::ContextLength | Kind::Cancelled
        );
        if let Some(message) =
            facts.message.as_deref().filter(|message| is_reporting && !message.is_empty())
        {
            f.write_str(": ")?;
            one_line(message, f)?;
        }
        let name =
            facts.code.as_deref().or(facts.error_type.as_deref()).filter(|name| !name.is_empty());
        let status = facts.status.map(|status| status.to_string());
        let label = name.or(status.as_deref());
        match (facts.provider.as_deref(), label) {
            (Some(provider), Some(label)) => {
                write!(f, " ({provider}: ")?;
                one_line(label, f)?;
                f.write_str(")")
            }
            (Some(provider), None) => write!(f, " ({provider})"),
            (None, Some(label)) => {
                f.write_str(" (")?;
                one_line(label, f)?;
                f.write_str(")")
            }
            (None, None) => Ok(()),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// `text` without line breaks and control characters, cut to what fits a line.
fn one_line(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use fmt::Write;
    let words =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut left = SHOWN;
    for (n, word) in words.enumerate() {
        if n > 0 {
            f.write_char(' ')?;
        }
        for c in word.chars() {
            if left == 0 {
                return f.write_char('…');
            }
            f.write_char(c)?;
            left -= 1;
        }
    }
    Ok(())
}

/// A wait as a person says it: `644 ms`, `11.1 s`, `9 min 38 s`, `19 h 14 min`, `7 days`.
pub(super) struct Span(pub(super) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0 => write!(f, "{} ms", self.0.as_millis().max(1)),
            1..60 => write!(f, "{} s", (self.0.as_secs_f64() * 10.0).ceil() / 10.0),
            60..3_600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            3_600..172_800 => write!(f, "{} h {} min", seconds / 3_600, seconds / 60 % 60),
            172_800..3_153_600_000 => write!(f, "{} days", seconds / 86_400),
            _ => f.write_str("more than a century"),
        }
    }
}
