use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{ConnectionInfo, PushInfo, RedisError, cmd};
use tokio::time::Instant;

use super::listeners::Listeners;
use super::site::client;

/// The connection to one server. It connects again by itself.
#[derive(Default)]
pub(super) struct Link {
    manager: Option<ConnectionManager>,
    /// The time of the first request since the last success.
    waiting_since: Option<Instant>,
}

/// The longest time for a connection, with its TLS handshake.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest pause before the client connects again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The time without a success after which the connection is replaced. The client itself does not
/// notice a connection that is dead but open, and does not try again after a refused password.
const SILENCE: Duration = Duration::from_millis(2_500);

impl Link {
    /// Returns the connection. Connects if there is none.
    pub(super) fn manager(
        &mut self,
        info: ConnectionInfo,
        listeners: &Arc<Listeners>,
    ) -> Result<ConnectionManager, RedisError> {
        self.waiting_since.get_or_insert_with(Instant::now);
        if let Some(manager) = &self.manager {
            return Ok(manager.clone());
        }
        let manager = connect(info, listeners)?;
        self.manager = Some(manager.clone());
        let mut first = manager.clone();
        // A handshake may take longer than a request may wait, so it has a task of its own.
        tokio::spawn(async move { first.send_packed_command(&cmd("PING")).await });
        Ok(manager)
    }

    /// Returns the time since the first request without a success after it.
    pub(super) fn waits(&self, now: Instant) -> Duration {
        self.waiting_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Replaces a connection that is silent for too long. Returns whether it was.
    pub(super) fn replace_if_silent(&mut self, now: Instant) -> bool {
        let is_silent = self.waits(now) >= SILENCE;
        if is_silent {
            self.replace();
            self.waiting_since = Some(now);
        }
        is_silent
    }

    /// Notes a success.
    pub(super) const fn answered(&mut self) {
        self.waiting_since = None;
    }

    /// Connects again with the next request.
    pub(super) fn replace(&mut self) {
        self.manager = None;
    }
}

/// Creates a connection. It connects with its first request.
fn connect(
    info: ConnectionInfo,
    listeners: &Arc<Listeners>,
) -> Result<ConnectionManager, RedisError> {
    let listeners = Arc::clone(listeners);
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_min_delay(Duration::from_millis(20))
        .set_max_delay(LONGEST_PAUSE)
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(CONNECT_TIMEOUT)) // each round has its own limit
        .set_automatic_resubscription()
        .set_push_sender(move |push: PushInfo| {
            listeners.deliver(&push);
            Ok::<(), redis::aio::SendError>(())
        });
    ConnectionManager::new_lazy_with_config(client(info)?, config)
}
