use std::fmt;

/// The rule that decided what a failure is: so that a verdict can be explained.
///
/// `Display` is stable in its first word, before the colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// We stopped it ourselves.
    Cancelled,
    /// The caller said what it is.
    Caller,
    /// A machine code of the provider; named as the table of codes has it.
    Code(&'static str),
    /// A part of a machine code that the table of codes does not have.
    Stem(&'static str),
    /// A detail of Google's error model.
    Google(&'static str),
    /// The request alone asks for more than the limit.
    Arithmetic,
    /// The provider's words; named by the first of them.
    Phrase(&'static str),
    /// How a good answer says that it ended.
    Finish(&'static str),
    /// A stream, or a body, that ended before its end.
    Truncated,
    /// A good answer that holds nothing.
    Empty,
    /// The transport's error, by its type or its words.
    Transport(&'static str),
    /// The class of the status.
    Status(u16),
    /// An error inside a good answer that says nothing more: the request had been accepted, so what broke is theirs.
    InBand,
    /// Nothing matched.
    Nothing,
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
            Self::Finish(reason) => write!(f, "finish: {reason}"),
            Self::Truncated => f.write_str("truncated"),
            Self::Empty => f.write_str("empty"),
            Self::Transport(what) => write!(f, "transport: {what}"),
            Self::Status(status) => write!(f, "status: {status}"),
            Self::InBand => f.write_str("in-band error"),
            Self::Nothing => f.write_str("nothing matched"),
        }
    }
}
