use std::fmt;

use http::Method;
use reqwest::{Request, Url};

/// The place that a request goes to, for the words of its failures: `POST https://store/orders`.
pub(super) struct Place {
    method: Method,
    url: Url,
}

impl Place {
    /// Returns the method and the URL of a request.
    pub(super) fn new(request: &Request) -> Self {
        Self { method: request.method().clone(), url: request.url().clone() }
    }

    /// Returns the method alone, for an error that has the URL in its words.
    pub(super) const fn method(&self) -> &Method {
        &self.method
    }
}

/// Leaves out the parts of the URL that may have secrets.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.url.clone();
        strip(&mut url);
        write!(f, "{} {url}", self.method)
    }
}

/// Removes the parts of a URL that may have secrets.
pub(super) fn strip(url: &mut Url) {
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only for a URL that cannot have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}
