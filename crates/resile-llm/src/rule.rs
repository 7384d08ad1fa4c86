use std::fmt;

/// The rule that decided the kind of a failure. The rule explains a verdict.
///
/// The first word of `Display` before the colon is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The caller cancelled the call.
    Cancelled,
    /// The caller named the kind.
    Caller,
    /// A machine code of the provider in the spelling of the table of codes.
    Code(&'static str),
    /// A part of a machine code. The table of codes lacks the whole code.
    Stem(&'static str),
    /// A detail of Google's error model.
    Google(&'static str),
    /// The request alone asks for more than the limit.
    Arithmetic,
    /// The provider's words. The name is the first phrase of the matching row.
    Phrase(&'static str),
    /// The meanings of the provider's words together. The name is the rule of the grammar.
    Grammar(&'static str),
    /// The name of the limit in a header.
    Header(&'static str),
    /// The wait that the provider asks for: an hour or more is no matter of a rate.
    LongWait,
    /// The ending that a good answer named.
    Finish(&'static str),
    /// A stream or a body stopped before its end.
    Truncated,
    /// A good answer was empty.
    Empty,
    /// A good answer to a request for a stream was one whole body.
    NotStream,
    /// The type or the words of the transport's error.
    Transport(&'static str),
    /// The status alone.
    Status(u16),
    /// An error without details inside a good answer. The request had been accepted and then the
    /// provider failed.
    InBand,
    /// No rule matched.
    Nothing,
}

impl Rule {
    /// Returns whether the answer ended at the limit that its request sets for the output.
    pub(crate) fn is_token_limit(self) -> bool {
        matches!(self, Self::Finish("length" | "max_tokens" | "max_output_tokens"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("cancelled"),
            Self::Caller => f.write_str("caller"),
            Self::Code(code) => write!(f, "code: {code}"),
            Self::Stem(stem) => write!(f, "code: …{stem}…"),
            Self::Google(detail) => write!(f, "google: {detail}"),
            Self::Arithmetic => f.write_str("arithmetic: requested > limit"),
            Self::Phrase(phrase) => write!(f, "phrase: {phrase}"),
            Self::Grammar(rule) => write!(f, "grammar: {rule}"),
            Self::Header(what) => write!(f, "header: {what}"),
            Self::LongWait => f.write_str("wait: an hour or more"),
            Self::Finish(reason) => write!(f, "finish: {reason}"),
            Self::Truncated => f.write_str("truncated"),
            Self::Empty => f.write_str("empty"),
            Self::NotStream => f.write_str("not a stream"),
            Self::Transport(what) => write!(f, "transport: {what}"),
            Self::Status(status) => write!(f, "status: {status}"),
            Self::InBand => f.write_str("in-band error"),
            Self::Nothing => f.write_str("nothing matched"),
        }
    }
}
