//! Chains of `hyper`, `hyper-util` and `reqwest`: real clients against peers that break connections.

mod frames;
mod kinds;
mod peer;
mod reqwest;
mod tls;

use std::error::Error;

use resile_clients::Idempotency;
use resile_clients::hyper::error;

use crate::data::{Says, says};

/// Returns what the function says of an error under both idempotencies.
fn seen(failed: &(dyn Error + 'static)) -> Option<Says> {
    says(|it: Idempotency| error(failed, it))
}
