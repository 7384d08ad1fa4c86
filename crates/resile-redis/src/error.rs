use std::error::Error;
use std::fmt;
use std::sync::Arc;

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
pub struct NotSet {
    pub(crate) upstream: String,
    pub(crate) reason: String,
}

impl fmt::Display for NotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the limit of {} is not set: {}", self.upstream, self.reason)
    }
}

impl Error for NotSet {}

/// An error of [`Fleet::join`](crate::Fleet::join).
///
/// `Display` names the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinError {
    /// The upstream of this name has joined a fleet already.
    Joined(Arc<str>),
    /// No tokio runtime runs on the thread on which the upstream of this name would join.
    NoRuntime(Arc<str>),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joined(name) => {
                write!(f, "the upstream {name} has joined a fleet already: call `join` once")
            }
            Self::NoRuntime(name) => write!(
                f,
                "no tokio runtime for the upstream {name}: call `join` within `#[tokio::main]` or a task"
            ),
        }
    }
}

impl Error for JoinError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_upstream() {
        let name = || Arc::from("model");
        let joined = "the upstream model has joined a fleet already: call `join` once";
        assert_eq!(JoinError::Joined(name()).to_string(), joined);
        let words = JoinError::NoRuntime(name()).to_string();
        assert!(
            words.starts_with("no tokio runtime for the upstream model: call `join`"),
            "{words}"
        );
        let not_set = NotSet { upstream: "model".to_owned(), reason: "it has no units".to_owned() };
        assert_eq!(not_set.to_string(), "the limit of model is not set: it has no units");
    }
}
