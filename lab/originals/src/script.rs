use std::fmt;
use std::time::{Duration, SystemTime};

use resile::http::headers::retry_after;
use resile::{Budget, Upstream};
use serde::Deserialize;

use crate::breaker::{Setting, run};
use crate::call::call;
use crate::delay::Delays;
use crate::mongo::Mongo;
use crate::smithy::Smithy;
use crate::vector::Vector;

/// A script, and what the original said to it.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Script {
    /// Calls of up to three attempts on the retry quota of botocore: `s` succeeds, `f` fails and `t` is
    /// throttled.
    Aws {
        calls: Vec<String>,
        attempts: Vec<u32>,
        left: Vec<u32>,
    },
    Smithy(Smithy),
    /// Calls of up to four attempts on the throttle of a channel of gRPC.
    Grpc {
        tokens: u32,
        sixteenths: u32,
        calls: Vec<String>,
        attempts: Vec<u32>,
    },
    /// Calls on a breaker: the milliseconds before each, and whether it succeeds.
    Cockatiel {
        failures: u32,
        open: u64,
        steps: Vec<(u64, bool)>,
        ran: Vec<bool>,
    },
    /// Such calls on a breaker of a failure rate. A slot of its window has so many milliseconds.
    Opossum {
        slot: u64,
        percent: u32,
        least: u32,
        open: u64,
        steps: Vec<(u64, bool)>,
        ran: Vec<bool>,
    },
    Delays(Delays),
    Mongo(Mongo),
    Vector(Vector),
    /// The value of a header.
    Urllib3 {
        value: String,
        now: u64,
        wait: Option<f64>,
    },
}

/// The answers that differ, and the input.
pub(crate) struct Difference {
    pub(crate) ours: String,
    pub(crate) theirs: String,
    pub(crate) input: String,
    /// The place of the first answer that differs, of those that come in order.
    pub(crate) at: usize,
}

impl Script {
    pub(crate) fn original(&self) -> &str {
        match self {
            Self::Aws { .. } => "botocore",
            Self::Smithy(_) => "aws-smithy-runtime",
            Self::Grpc { .. } => "grpc-js",
            Self::Cockatiel { .. } => "cockatiel, breaker",
            Self::Opossum { .. } => "opossum",
            Self::Delays(delays) => &delays.original,
            Self::Mongo(_) => "pymongo",
            Self::Vector(vector) => &vector.original,
            Self::Urllib3 { .. } => "urllib3",
        }
    }

    /// Runs the script with the crate, and compares the answers.
    pub(crate) fn compare(&self) -> Result<(), Difference> {
        match self {
            Self::Aws { calls, attempts, left } => {
                let upstream = Upstream::new("aws").with_budget(Budget::aws());
                let ours: Vec<_> = calls
                    .iter()
                    .map(|outcomes| {
                        let made = call(&upstream, outcomes, 3);
                        (made, upstream.budget().map_or(0, Budget::available))
                    })
                    .collect();
                let theirs: Vec<_> = attempts.iter().copied().zip(left.iter().copied()).collect();
                same(&ours, &theirs, calls)
            }
            Self::Smithy(smithy) => smithy.compare(),
            Self::Grpc { tokens, sixteenths, calls, attempts } => {
                let budget = Budget::grpc(*tokens, f64::from(*sixteenths) / 16.0);
                let upstream = Upstream::new("grpc").with_budget(budget);
                let ours: Vec<_> =
                    calls.iter().map(|outcomes| call(&upstream, outcomes, 4)).collect();
                same(&ours, attempts, &(tokens, sixteenths, calls))
            }
            Self::Cockatiel { steps, ran, .. } | Self::Opossum { steps, ran, .. } => {
                let setting = self.breaker();
                let ours = run(setting, steps);
                same(&ours.ran, ran, &(setting, steps))
            }
            Self::Delays(delays) => delays.compare(),
            Self::Mongo(mongo) => mongo.compare(),
            Self::Vector(vector) => vector.compare(),
            Self::Urllib3 { value, now, wait } => {
                let now = SystemTime::UNIX_EPOCH + Duration::from_secs(*now);
                let mut headers = http::HeaderMap::new();
                if let Ok(value) = value.parse() {
                    headers.insert("retry-after", value);
                }
                let ours = retry_after(&headers, now).map(|wait| wait.as_secs_f64());
                same(&[ours], &[*wait], value)
            }
        }
    }

    /// Returns the breaker of the script, that of no other one.
    fn breaker(&self) -> Setting {
        match *self {
            Self::Cockatiel { failures, open, .. } => Setting::Consecutive { failures, open },
            Self::Opossum { slot, percent, least, open, .. } => {
                Setting::Rate { slot, percent, least, open }
            }
            _ => unreachable!("a script without a breaker"),
        }
    }

    /// Returns the place of the first call that closed the crate's breaker.
    pub(crate) fn first_closing(&self) -> Option<usize> {
        match self {
            Self::Opossum { steps, .. } => run(self.breaker(), steps).first_closing,
            _ => None,
        }
    }
}

/// Compares answers in their order.
pub(crate) fn same<T: PartialEq + fmt::Debug>(
    ours: &[T],
    theirs: &[T],
    input: &impl fmt::Debug,
) -> Result<(), Difference> {
    if ours == theirs {
        return Ok(());
    }
    let at = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
    let print = |answers: &[T]| format!("{answers:?}");
    let (ours, theirs) = (print(ours), print(theirs));
    Err(Difference { ours, theirs, input: format!("{input:?}"), at })
}
