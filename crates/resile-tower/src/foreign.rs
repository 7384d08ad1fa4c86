//! Retries of another library, as far as a request or an error shows them.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use tracing::warn;

use crate::below::links;

/// The place where a layer was made.
pub(crate) type Site = &'static Location<'static>;

/// A retry of another library around or below a layer of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    by: By,
    attempt: u32,
    most: Option<u32>,
}

/// The library that makes the retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Aws,
    Envoy,
    Grpc,
    ReqwestRetry,
    Stainless,
}

impl Foreign {
    /// Returns the retry above, if a header of the request tells of one.
    pub(crate) fn above(headers: &HeaderMap) -> Option<Self> {
        let text = |name| headers.get(name)?.to_str().ok();
        let number = |name| text(name)?.trim().parse::<u32>().ok();
        // The first two count retries, and the others attempts.
        let retries = |by: By| Some((by, number(by.sign())?.saturating_add(1), None));
        let (by, attempt, most) = retries(By::Stainless)
            .or_else(|| retries(By::Grpc))
            .or_else(|| Some((By::Envoy, number(By::Envoy.sign())?, None)))
            .filter(|(_, attempt, _)| *attempt > 1)
            .or_else(|| {
                let fields = text(By::Aws.sign())?;
                Some((By::Aws, field(fields, "attempt")?, field(fields, "max")))
            })?;
        (attempt > 1 || most > Some(1)).then_some(Self { by, attempt, most })
    }

    /// Returns the retry below, if an error tells of one.
    #[cfg_attr(
        not(feature = "reqwest-middleware-0_5"),
        expect(dead_code, reason = "only the middleware reads errors from below")
    )]
    pub(crate) fn below(error: &(dyn Error + 'static)) -> Option<Self> {
        let retries = links(error).find_map(|error| {
            let text = error.to_string();
            let rest = text.strip_prefix(By::ReqwestRetry.sign())?;
            rest.trim_start().split(' ').next()?.parse::<u32>().ok()
        })?;
        let attempt = retries.saturating_add(1);
        (attempt > 1).then_some(Self { by: By::ReqwestRetry, attempt, most: None })
    }

    /// Logs a warning, once in a program for each layer and library.
    pub(crate) fn warn(self, site: Site) {
        if is_new(site, self.by) {
            warn!(
                target: "resile",
                layer = %site,
                by = self.by.name(),
                sign = self.by.sign(),
                attempt = self.attempt,
                "{} retries this request too ({self}), so attempts multiply: {}",
                self.by.name(),
                self.by.remedy(),
            );
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {}", self.attempt)?;
        match self.most {
            Some(most) => write!(f, " of {most}"),
            None => Ok(()),
        }
    }
}

impl By {
    const fn name(self) -> &'static str {
        match self {
            Self::Aws => "an AWS SDK",
            Self::Envoy => "an Envoy on the way",
            Self::Grpc => "a client of gRPC",
            Self::ReqwestRetry => "reqwest-retry",
            Self::Stainless => "an SDK made by Stainless",
        }
    }

    /// Returns the header, or the words of the error.
    const fn sign(self) -> &'static str {
        match self {
            Self::Aws => "amz-sdk-request",
            Self::Envoy => "x-envoy-attempt-count",
            Self::Grpc => "grpc-previous-rpc-attempts",
            Self::ReqwestRetry => "Request failed after ",
            Self::Stainless => "x-stainless-retry-count",
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Aws => "set `RetryConfig::disabled()`, or leave this layer out",
            Self::Envoy => "remove the `retry_policy` of its route, or leave this layer out",
            Self::Grpc => {
                "remove the `retryPolicy` of its service config or the `retry` around its call, \
                 or leave this layer out"
            }
            Self::ReqwestRetry => "leave `RetryTransientMiddleware` out",
            Self::Stainless => "set its `max_retries` to 0, or leave this layer out",
        }
    }
}

/// Returns a field of a header such as `attempt=2; max=3`.
fn field(fields: &str, name: &str) -> Option<u32> {
    let mut fields = fields.split(';').filter_map(|field| field.split_once('='));
    fields.find(|(key, _)| key.trim() == name)?.1.trim().parse().ok()
}

/// A call site as a key: file, line and column.
pub(crate) type Key = (&'static str, u32, u32);

pub(crate) fn key(site: Site) -> Key {
    (site.file(), site.line(), site.column())
}

/// The warnings so far. The number of call sites in the source bounds it.
static TOLD: Mutex<BTreeSet<(Key, By)>> = Mutex::new(BTreeSet::new());

fn is_new(site: Site, by: By) -> bool {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert((key(site), by))
}
