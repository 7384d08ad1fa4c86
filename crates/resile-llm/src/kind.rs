use std::fmt;

/// The kind of a failure. The [module page](super) has a table of all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Too many requests or LLM tokens came in too short a time.
    RateLimit,
    /// The paid or allotted quota is used up. Its reset is too far away for a waiting call.
    QuotaExhausted,
    /// The provider has no capacity for any caller at the moment.
    Overloaded,
    /// The provider failed internally.
    Server,
    /// No answer came within the provider's or the caller's timeout.
    Timeout,
    /// The connection to the provider failed or the answer was truncated.
    Network,
    /// The request conflicts with another request.
    Conflict,
    /// The provider does not accept the credentials.
    Auth,
    /// The credentials are valid but do not permit this request.
    Permission,
    /// The model or another resource does not exist.
    NotFound,
    /// The request is invalid and stays invalid.
    InvalidRequest,
    /// The prompt and the requested answer do not fit into the model's context.
    ContextLength,
    /// The request is larger than the provider ever accepts or than a whole minute's limit.
    TooLarge,
    /// The provider's content filter refused the prompt or the answer.
    ContentFilter,
    /// The model's answer cannot be used.
    InvalidOutput,
    /// The caller cancelled the call.
    Cancelled,
    /// No rule matched.
    Unknown,
}

impl Kind {
    /// Returns a stable word for logs, metrics and JSON: `rate_limit`, `quota_exhausted`,
    /// `overloaded`, `server`, `timeout`, `network`, `conflict`, `auth`, `permission`, `not_found`,
    /// `invalid_request`, `context_length`, `request_too_large`, `content_filter`,
    /// `invalid_output`, `cancelled`, `unknown`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::QuotaExhausted => "quota_exhausted",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::Conflict => "conflict",
            Self::Auth => "auth",
            Self::Permission => "permission",
            Self::NotFound => "not_found",
            Self::InvalidRequest => "invalid_request",
            Self::ContextLength => "context_length",
            Self::TooLarge => "request_too_large",
            Self::ContentFilter => "content_filter",
            Self::InvalidOutput => "invalid_output",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }

    /// Returns whether failures of this kind pass by themselves. The same request may then succeed
    /// later. The other kinds are permanent: the request fails again until something other than
    /// time changes.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::RateLimit
                | Self::Overloaded
                | Self::Server
                | Self::Timeout
                | Self::Network
                | Self::Conflict
        )
    }

    /// Returns the action that resolves failures of this kind.
    #[must_use]
    pub const fn recovery(&self) -> Recovery {
        match self {
            Self::RateLimit
            | Self::Overloaded
            | Self::Server
            | Self::Timeout
            | Self::Network
            | Self::Conflict => Recovery::Wait,
            Self::QuotaExhausted => Recovery::Billing,
            Self::Auth => Recovery::Credentials,
            Self::Permission => Recovery::Access,
            Self::NotFound => Recovery::SwitchModel,
            Self::InvalidRequest => Recovery::FixRequest,
            Self::ContextLength => Recovery::Shrink,
            Self::TooLarge => Recovery::Split,
            Self::ContentFilter => Recovery::Rephrase,
            Self::InvalidOutput => Recovery::ReAsk,
            Self::Cancelled | Self::Unknown => Recovery::None,
        }
    }

    /// Returns the beginning of the failure's `Display`: the cause with an action for most
    /// permanent kinds.
    pub(crate) const fn headline(self) -> &'static str {
        match self {
            Self::RateLimit => "rate limited by the provider",
            Self::QuotaExhausted => {
                "the provider's quota or credit is used up, add credit or use another key"
            }
            Self::Overloaded => "the provider is overloaded",
            Self::Server => "the provider failed",
            Self::Timeout => "the provider did not answer in time",
            Self::Network => "the connection to the provider failed",
            Self::Conflict => "the request conflicts with another request",
            Self::Auth => "the provider rejected the credentials, check the API key",
            Self::Permission => "the provider does not permit this request, ask for access",
            Self::NotFound => "the provider has no such model or resource, check the name",
            Self::InvalidRequest => "the request is invalid, correct it",
            Self::ContextLength => "the prompt is too long for the model, shorten it",
            Self::TooLarge => "the request is too large, split it",
            Self::ContentFilter => "the provider's content filter refused the content, rephrase it",
            Self::InvalidOutput => "the model's answer cannot be used, ask again",
            Self::Cancelled => "the call was cancelled",
            Self::Unknown => "the call failed for an unknown reason",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The unit that a limit counts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Requests or LLM tokens per minute or per second.
    Minute,
    /// Requests or LLM tokens per day.
    Day,
    /// Requests in flight at the same time.
    Concurrency,
    /// A plan's own window: some hours, a week, a month.
    Window,
}

impl Scope {
    /// Returns a stable word: `minute`, `day`, `concurrency`, `window`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Day => "day",
            Self::Concurrency => "concurrency",
            Self::Window => "window",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The action that resolves a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recovery {
    /// Send the same request later or send it to another model at once.
    Wait,
    /// Pay, wait for the reset, or use another key or model.
    Billing,
    /// Use other credentials.
    Credentials,
    /// Ask the provider or the account's owner for access.
    Access,
    /// Use another model.
    SwitchModel,
    /// Correct the request.
    FixRequest,
    /// Shorten the prompt or ask for less output, and then send the request.
    Shrink,
    /// Send the request in parts.
    Split,
    /// Rephrase the request.
    Rephrase,
    /// Ask the model again and include its answer and the fault. Count these attempts apart from
    /// the transport's retries.
    ReAsk,
    /// No action is known.
    None,
}

impl Recovery {
    /// Returns a stable word: `wait`, `billing`, `credentials`, `access`, `switch_model`,
    /// `fix_request`, `shrink`, `split`, `rephrase`, `re_ask`, `none`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Billing => "billing",
            Self::Credentials => "credentials",
            Self::Access => "access",
            Self::SwitchModel => "switch_model",
            Self::FixRequest => "fix_request",
            Self::Shrink => "shrink",
            Self::Split => "split",
            Self::Rephrase => "rephrase",
            Self::ReAsk => "re_ask",
            Self::None => "none",
        }
    }

    /// Returns the action in words for people.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Wait => "wait, then send the same request again",
            Self::Billing => "add credit or wait for the reset, or use another key or model",
            Self::Credentials => "check the API key",
            Self::Access => "ask for access, or use another account or model",
            Self::SwitchModel => "check the model's name, or use another model",
            Self::FixRequest => "correct the request",
            Self::Shrink => "shorten the prompt or ask for less output, then send it again",
            Self::Split => "split the request",
            Self::Rephrase => "rephrase the request",
            Self::ReAsk => "ask the model again and name the fault",
            Self::None => "no action is known",
        }
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The progress of an exchange at the time of its failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// No answer has arrived. The transport's error is classified.
    Connect,
    /// A whole answer has arrived: status, headers and body.
    #[default]
    Response,
    /// A stream has begun. None of it was handed on. A retry is invisible to the consumer.
    Preamble,
    /// Content of a stream was handed on. A retry is visible to the consumer.
    Content,
}

impl Phase {
    /// Returns whether content was handed on. A retry cannot take such content back.
    #[must_use]
    pub const fn is_committed(&self) -> bool {
        matches!(self, Self::Content)
    }

    /// Returns whether a stream had begun with a good status.
    #[must_use]
    pub const fn is_stream(&self) -> bool {
        matches!(self, Self::Preamble | Self::Content)
    }

    /// Returns a stable word: `connect`, `response`, `preamble`, `content`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Response => "response",
            Self::Preamble => "preamble",
            Self::Content => "content",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
