use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisError, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

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
struct Current {
    manager: Option<ConnectionManager>,
    generation: u64,
}

/// The receivers of messages, by channel.
#[derive(Default)]
struct Listeners(Mutex<HashMap<String, UnboundedSender<String>>>);

/// The longest time for a connection, with its TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest pause before the client connects again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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
        let current = Mutex::new(Current { manager: None, generation: 0 });
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
        let manager = if let Some(manager) = &current.manager {
            manager.clone()
        } else {
            let manager = self.connect()?;
            current.manager = Some(manager.clone());
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
        if let Err(ScriptError::Server(error)) = &result {
            // After a fail-over the old server may go on as a replica, which refuses writes.
            if matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "LOADING")) {
                self.replace(generation);
            }
        }
        result
    }

    /// Returns a number that changes when the connection was replaced.
    pub(crate) fn generation(&self) -> u64 {
        lock(&self.shared.current).generation
    }

    /// Connects again with the next request.
    fn replace(&self, generation: u64) {
        let mut current = lock(&self.shared.current);
        if current.generation == generation {
            current.generation += 1;
            current.manager = None;
        }
    }

    /// Receives the messages of a channel from now on. [`subscribe`](Self::subscribe) must follow.
    pub(crate) fn listen(&self, channel: &str) -> UnboundedReceiver<String> {
        let (sender, receiver) = unbounded_channel();
        lock(&self.shared.listeners.0).insert(channel.to_owned(), sender);
        receiver
    }

    /// Ends the reception of a channel.
    pub(crate) fn ignore(&self, channel: &str) {
        lock(&self.shared.listeners.0).remove(channel);
    }

    /// Subscribes to a channel. Returns the generation of the connection.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<u64, ScriptError> {
        let (mut connection, generation) = self.connection()?;
        connection.subscribe(channel).await?;
        Ok(generation)
    }
}

impl Listeners {
    /// Passes a message to the listener of its channel.
    fn deliver(&self, push: &PushInfo) {
        let (PushKind::Message, [channel, message]) = (&push.kind, push.data.as_slice()) else {
            return;
        };
        let (Some(channel), Some(message)) = (text(channel), text(message)) else { return };
        if let Some(listener) = lock(&self.0).get(channel) {
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
