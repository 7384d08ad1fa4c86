use std::error::Error;
use std::fmt;

/// An error of the constructors of [`Fleet`](crate::Fleet): an address is no URL of a Redis server.
///
/// `Display` names the wrong part. The error does not print the URL, which may have a password.
#[derive(Debug)]
pub struct BadUrl(pub(crate) &'static str);

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for BadUrl {}

/// An error of [`Fleet::with_tls`](crate::Fleet::with_tls): the certificates cannot be used.
#[cfg(feature = "tls")]
#[derive(Debug)]
pub struct BadTls(pub(crate) String);

#[cfg(feature = "tls")]
impl fmt::Display for BadTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the certificates cannot be used: {}", self.0)
    }
}

#[cfg(feature = "tls")]
impl Error for BadTls {}

/// An error of [`Fleet::set_limit`](crate::Fleet::set_limit): the server did not take the limit.
#[derive(Debug)]
pub struct NotSet(pub(crate) String);

impl fmt::Display for NotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the limit is not set: {}", self.0)
    }
}

impl Error for NotSet {}

/// An error of [`Fleet::join`](crate::Fleet::join).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinError {
    /// The upstream has joined a fleet already.
    Joined,
    /// No tokio runtime runs on this thread.
    NoRuntime,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Joined => "the upstream has joined a fleet already: call `join` once",
            Self::NoRuntime => "no tokio runtime: call `join` within `#[tokio::main]` or a task",
        })
    }
}

impl Error for JoinError {}
