use std::fmt;

use http::uri::PathAndQuery;
use http::{Method, Uri};

/// The place that a request goes to, for the words of its failures: `POST /orders`, or the path alone.
/// A query is left out, because it may have secrets.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    method: Option<Method>,
    /// Shared with the request, so nothing is allocated for it.
    path: Option<PathAndQuery>,
}

impl Place {
    /// Returns the method and the path of a request.
    pub(crate) fn new(method: &Method, uri: &Uri) -> Self {
        Self { method: Some(method.clone()), path: uri.path_and_query().cloned() }
    }

    /// Returns the path alone, which is the name of a method of gRPC.
    #[cfg(feature = "grpc")]
    pub(crate) fn path(uri: &Uri) -> Self {
        Self { method: None, path: uri.path_and_query().cloned() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_ref().map_or("", PathAndQuery::path);
        match &self.method {
            Some(method) if path.is_empty() => write!(f, "{method}"),
            Some(method) => write!(f, "{method} {path}"),
            None => f.write_str(path),
        }
    }
}
