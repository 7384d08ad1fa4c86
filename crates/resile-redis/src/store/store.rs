use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{
    Client, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisError, Value, cmd,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::error::BadUrl;
use crate::scripts::{Request, ScriptError, run};

/// The connection to the server, shared by all upstreams of a fleet. It connects again by itself.
#[derive(Clone)]
pub(crate) struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    address: String,
    current: Mutex<Current>,
    listeners: Arc<Listeners>,
}

/// The connection in use. A generation begins with each replacement.
#[derive(Default)]
struct Current {
    manager: Option<ConnectionManager>,
    generation: u64,
    /// The time of the first request since the last success.
    waiting_since: Option<Instant>,
}

/// The receivers of messages, by channel. Upstreams of one name have one channel.
#[derive(Default)]
struct Listeners(Mutex<HashMap<String, Vec<UnboundedSender<String>>>>);

/// The longest time for a connection, with its TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest pause before the client connects again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The time without a success after which the connection is replaced. The client itself does not
/// notice a connection that is dead but open, and does not try again after a refused password.
const SILENCE: Duration = Duration::from_millis(2_500);

impl Store {
    /// Creates a store. Connects with the first request.
    pub(crate) fn new(url: &str) -> Result<Self, BadUrl> {
        // The description of the error may have parts of the URL.
        let bad = |error: &RedisError| BadUrl(format!("{:?}", error.kind()));
        let info = url.into_connection_info().map_err(|error| bad(&error))?;
        // Messages arrive on the same connection with this protocol. Redis 6 has it.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let info = info.set_redis_settings(settings);
        let address = info.addr().to_string();
        let client = Client::open(info).map_err(|error| bad(&error))?;
        let current = Mutex::new(Current::default());
        Ok(Self {
            shared: Arc::new(Shared { client, address, current, listeners: Arc::default() }),
        })
    }

    /// Returns host and port.
    pub(crate) fn address(&self) -> &str {
        &self.shared.address
    }

    /// Returns the connection and its generation.
    fn connection(&self) -> Result<(ConnectionManager, u64), RedisError> {
        let mut current = lock(&self.shared.current);
        let now = Instant::now();
        let waiting_since = *current.waiting_since.get_or_insert(now);
        if now.saturating_duration_since(waiting_since) >= SILENCE {
            current.replace();
            current.waiting_since = Some(now);
        }
        let manager = if let Some(manager) = &current.manager {
            manager.clone()
        } else {
            let manager = self.connect()?;
            current.manager = Some(manager.clone());
            let mut first = manager.clone();
            // A handshake may take longer than a request may wait, so it has a task of its own.
            tokio::spawn(async move { first.send_packed_command(&cmd("PING")).await });
            manager
        };
        Ok((manager, current.generation))
    }

    /// Creates a connection. It connects with its first request.
    fn connect(&self) -> Result<ConnectionManager, RedisError> {
        let listeners = Arc::clone(&self.shared.listeners);
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
        ConnectionManager::new_lazy_with_config(self.shared.client.clone(), config)
    }

    /// Runs a script on a key.
    pub(crate) async fn run<R: Request>(
        &self,
        key: &str,
        request: &R,
    ) -> Result<R::Reply, ScriptError> {
        let (mut connection, generation) = self.connection()?;
        let result = run(&mut connection, key, request).await;
        let mut current = lock(&self.shared.current);
        match &result {
            Err(ScriptError::Server(error)) if is_replica(error) => {
                if current.generation == generation {
                    current.replace();
                }
            }
            Ok(_) => current.waiting_since = None,
            Err(_) => {}
        }
        result
    }

    /// Returns a number that changes when the connection was replaced.
    pub(crate) fn generation(&self) -> u64 {
        lock(&self.shared.current).generation
    }

    /// Receives the messages of a channel from now on. [`subscribe`](Self::subscribe) must follow.
    /// Dropping the receiver ends it.
    pub(crate) fn listen(&self, channel: &str) -> UnboundedReceiver<String> {
        let (sender, receiver) = unbounded_channel();
        let mut listeners = lock(&self.shared.listeners.0);
        listeners.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        listeners.entry(channel.to_owned()).or_default().push(sender);
        receiver
    }

    /// Subscribes to a channel. Returns the generation of the connection.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<u64, ScriptError> {
        let (mut connection, generation) = self.connection()?;
        connection.subscribe(channel).await?;
        Ok(generation)
    }
}

impl Current {
    /// Connects again with the next request.
    fn replace(&mut self) {
        self.generation += 1;
        self.manager = None;
    }
}

/// Returns whether the server is no primary, or not yet. After a fail-over the old server may go on
/// as a replica, which refuses writes.
fn is_replica(error: &RedisError) -> bool {
    // Redis 6 has the code of an error within a script only in the text.
    matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "LOADING"))
        || error.detail().is_some_and(|text| text.contains("READONLY"))
}

impl Listeners {
    /// Passes a message to the listeners of its channel.
    fn deliver(&self, push: &PushInfo) {
        let (PushKind::Message, [channel, message]) = (&push.kind, push.data.as_slice()) else {
            return;
        };
        let (Some(channel), Some(message)) = (text(channel), text(message)) else { return };
        for listener in lock(&self.0).get(channel).into_iter().flatten() {
            // The listener may have ended meanwhile.
            let _ = listener.send(message.to_owned());
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("address", &self.address()).finish_non_exhaustive()
    }
}
