use std::time::Duration;

use resile::Backoff;
use resile::time::{ThreadTimer, Timer};
use rmcp::transport::common::client_side_sse::SseRetryPolicy;

/// The delays between the connections of a stream of `rmcp`: a [`Backoff`] with its cap and its jitter.
///
/// The client connects again for ever, after 1, 2, 4 … seconds without a limit and without jitter.
/// After an hour of outage its next delay is another hour. With jitter the clients of a server that
/// restarted do not come back together.
///
/// After an error the client connects once at once and asks for the delays after that. A `retry` of the
/// server is the least delay. The jitter `Decorrelated` stays at its base, because the client does not
/// tell the last delay.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use resile_clients::mcp::Reconnect;
/// use resile_clients::resile::Backoff;
/// use rmcp::transport::common::client_side_sse::SseRetryPolicy;
///
/// let backoff = Backoff::exponential(Duration::from_secs(1)).with_cap(Duration::from_secs(30));
/// // The field `retry_config` of `StreamableHttpClientTransportConfig`.
/// let retries: Arc<dyn SseRetryPolicy> = Arc::new(Reconnect::new(backoff).with_most(20));
/// assert!(retries.retry(19).unwrap() <= Duration::from_secs(30));
/// assert_eq!(retries.retry(20), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a policy does nothing until a transport has it"]
pub struct Reconnect {
    backoff: Backoff,
    most: Option<usize>,
}

impl Reconnect {
    /// Creates a policy that connects again for ever.
    pub const fn new(backoff: Backoff) -> Self {
        Self { backoff, most: None }
    }

    /// Ends the stream after this number of failed connections in a row. With 0 a stream that ended
    /// is not opened again.
    pub const fn with_most(self, failures: usize) -> Self {
        Self { most: Some(failures), ..self }
    }
}

impl SseRetryPolicy for Reconnect {
    fn retry(&self, current_times: usize) -> Option<Duration> {
        if self.most.is_some_and(|most| current_times >= most) {
            return None;
        }
        let retry = u32::try_from(current_times).unwrap_or(u32::MAX).saturating_add(1);
        let draw = |range| ThreadTimer::new().draw_within(range);
        Some(self.backoff.delay(retry, Duration::ZERO, draw))
    }
}
