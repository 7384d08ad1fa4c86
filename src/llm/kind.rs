use std::fmt;

/// What kind of failure it is. The table of all kinds is on the [module page](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Too much in too short a time.
    RateLimit,
    /// What was paid for or allotted is used up: no wait that a call can sit out brings it back.
    QuotaExhausted,
    /// The provider has no capacity at the moment, whoever asks.
    Overloaded,
    /// The provider broke.
    Server,
    /// No answer in time: theirs, or by our own limit.
    Timeout,
    /// The way to the provider broke, or its answer was cut short.
    Network,
    /// Another request was in the way.
    Conflict,
    /// The provider does not know who asks.
    Auth,
    /// The provider knows who asks, and they may not.
    Permission,
    /// No such model, or no such thing.
    NotFound,
    /// The request is wrong and stays wrong.
    InvalidRequest,
    /// The prompt and the answer asked for do not fit the model's context.
    ContextLength,
    /// The request is larger than the provider takes at all, or than a whole minute's allowance.
    TooLarge,
    /// The provider refuses what was said, or what it was about to say.
    ContentFilter,
    /// The model answered, with something that cannot be used.
    InvalidOutput,
    /// We stopped it ourselves.
    Cancelled,
    /// Nothing matched.
    Unknown,
}

impl Kind {
    /// A stable word for logs, metrics and JSON: `rate_limit`, `quota_exhausted`, `overloaded`, `server`, `timeout`,
    /// `network`, `conflict`, `auth`, `permission`, `not_found`, `invalid_request`, `context_length`,
    /// `request_too_large`, `content_filter`, `invalid_output`, `cancelled`, `unknown`.
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

    /// Whether failures of this kind pass by themselves, so that the same request may succeed later. The other kinds
    /// are permanent: such a request fails again, until something other than time changes.
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

    /// What mends failures of this kind.
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

    /// What this kind is, for a person: what `Failure`'s `Display` begins with.
    pub(super) const fn headline(self) -> &'static str {
        match self {
            Self::RateLimit => "rate limited by the provider",
            Self::QuotaExhausted => "the provider's quota or credit is used up",
            Self::Overloaded => "the provider is overloaded",
            Self::Server => "the provider had an internal error",
            Self::Timeout => "the provider did not answer in time",
            Self::Network => "the connection to the provider broke",
            Self::Conflict => "the request collided with another one",
            Self::Auth => "the provider does not accept the credentials",
            Self::Permission => "the provider does not permit this",
            Self::NotFound => "the provider does not have that model or resource",
            Self::InvalidRequest => "the provider calls the request invalid",
            Self::ContextLength => "the prompt is too long for the model",
            Self::TooLarge => "the request is too large",
            Self::ContentFilter => "the provider's content filter refused",
            Self::InvalidOutput => "the model's answer cannot be used",
            Self::Cancelled => "cancelled",
            Self::Unknown => "the call failed",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a limit counts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Requests or tokens per minute, or per second.
    Minute,
    /// Requests or tokens per day.
    Day,
    /// Requests at once.
    Concurrency,
    /// A plan's own window: some hours, a week, a month.
    Window,
}

impl Scope {
    /// A stable word: `minute`, `day`, `concurrency`, `window`.
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

/// What mends a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recovery {
    /// Send the same again, later; or to another model at once.
    Wait,
    /// Pay, wait for the reset, or use another key or model.
    Billing,
    /// Give other credentials.
    Credentials,
    /// Have somebody grant access.
    Access,
    /// Name another model.
    SwitchModel,
    /// Resumption the request.
    FixRequest,
    /// Shorten the prompt, then send.
    Shrink,
    /// Send it in parts.
    Split,
    /// Say it differently.
    Rephrase,
    /// Ask the model again, with its answer and what was wrong with it; on its own count, not the transport's.
    ReAsk,
    /// Nothing that we know of.
    None,
}

impl Recovery {
    /// A stable word: `wait`, `billing`, `credentials`, `access`, `switch_model`, `fix_request`, `shrink`, `split`,
    /// `rephrase`, `re_ask`, `none`.
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

    /// What to do, for a person.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Wait => "wait, then send the same again",
            Self::Billing => "add credit or wait for the reset, or use another key or model",
            Self::Credentials => "check the API key",
            Self::Access => "ask for access, or use another account or model",
            Self::SwitchModel => "check the model's name, or use another model",
            Self::FixRequest => "mend the request",
            Self::Shrink => "shorten the prompt, then send",
            Self::Split => "split the request",
            Self::Rephrase => "rephrase the request",
            Self::ReAsk => "ask the model again, with what was wrong",
            Self::None => "nothing known",
        }
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far the exchange had come when it failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Before any answer: what is judged is the transport's error.
    Connect,
    /// A whole answer is here: status, headers, body.
    #[default]
    Response,
    /// A stream has begun, and nothing of it was handed on: a retry is invisible.
    Preamble,
    /// Content of a stream has been handed on: a retry is visible to the consumer.
    Content,
}

impl Phase {
    /// Whether something was handed on that a retry cannot take back.
    #[must_use]
    pub const fn is_committed(&self) -> bool {
        matches!(self, Self::Content)
    }

    /// Whether this is a stream that began well.
    #[must_use]
    pub const fn is_stream(&self) -> bool {
        matches!(self, Self::Preamble | Self::Content)
    }

    /// A stable word: `connect`, `response`, `preamble`, `content`.
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
