use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::ConnectionManager;
use redis::{ConnectionAddr, ErrorKind, RedisError, ServerErrorKind};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::link::Link;
use super::listeners::Listeners;
use super::map::Map;
use super::site::{Site, at};
use crate::scripts::{Request, ScriptError, run, run_asking};

/// The connections to the servers, shared by all upstreams of a fleet.
#[derive(Clone)]
pub(crate) struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    site: Site,
    links: Mutex<Links>,
    /// Wakes the requests that wait for the end of a search.
    found: Notify,
    listeners: Arc<Listeners>,
}

/// The connections in use.
#[derive(Default)]
struct Links {
    /// Where the keys are. `None` until the first search has an answer.
    map: Option<Map>,
    open: Vec<(ConnectionAddr, Link)>,
    /// A number that changes when a connection was replaced.
    generation: u64,
    /// The begin of the last search.
    searched_at: Option<Instant>,
    is_searching: bool,
    /// The reason for which the last search found nothing.
    wrong: Option<String>,
}

/// A connection, with what is needed to judge its answer.
struct Line {
    manager: ConnectionManager,
    address: ConnectionAddr,
    generation: u64,
}

/// What can be done after a failure.
enum Next {
    Nothing,
    /// The server of the key is another one now.
    Again,
    /// The key has left its server, and its slot is still on its way to this one.
    Ask(ConnectionAddr),
}

/// The shortest time between the begins of two searches.
const SEARCH_PAUSE: Duration = Duration::from_millis(200);
/// The time after which a search counts as lost: its runtime may have ended.
const SEARCH_LOST: Duration = Duration::from_secs(5);
/// The time without an answer after which the guides are asked whether the keys are elsewhere.
const DOUBT: Duration = Duration::from_millis(500);
/// The most redirections of one request.
const REDIRECTIONS: usize = 3;

impl Store {
    /// Creates a store. Connects with the first request.
    pub(crate) fn new(site: Site) -> Self {
        let links = Links { map: site.map(), ..Links::default() };
        Self {
            shared: Arc::new(Shared {
                site,
                links: Mutex::new(links),
                found: Notify::new(),
                listeners: Arc::default(),
            }),
        }
    }

    /// Returns where the servers are.
    pub(crate) fn site(&self) -> &Site {
        &self.shared.site
    }

    /// Runs a script on a key.
    pub(crate) async fn run<R: Request>(
        &self,
        key: &str,
        request: &R,
    ) -> Result<R::Reply, ScriptError> {
        let mut left = REDIRECTIONS;
        loop {
            let mut line = self.line(key).await?;
            let result = run(&mut line.manager, key, request).await;
            match &result {
                Ok(_) => lock(&self.shared.links).answered(&line.address),
                Err(ScriptError::Server(error)) => match self.failed(&line, error) {
                    Next::Again if left > 0 => {
                        left -= 1;
                        continue;
                    }
                    Next::Ask(address) => return self.ask(&address, key, request).await,
                    Next::Again | Next::Nothing => {}
                },
                Err(ScriptError::Lost(_) | ScriptError::Reply { .. }) => {}
            }
            return result;
        }
    }

    /// Runs a script on the server to which the slot of the key moves.
    async fn ask<R: Request>(
        &self,
        address: &ConnectionAddr,
        key: &str,
        request: &R,
    ) -> Result<R::Reply, ScriptError> {
        let Shared { site, listeners, links, .. } = &*self.shared;
        let mut manager = {
            let mut links = lock(links);
            let link = links.link(address);
            link.replace_if_silent(Instant::now());
            link.manager(site.info_of(address), listeners)?
        };
        let result = run_asking(&mut manager, key, request).await;
        if result.is_ok() {
            lock(links).answered(address);
        }
        result
    }

    /// Returns a number that changes when a connection was replaced.
    pub(crate) fn generation(&self) -> u64 {
        lock(&self.shared.links).generation
    }

    /// Receives the messages of a channel from now on. [`subscribe`](Self::subscribe) must follow.
    /// Dropping the receiver ends it.
    pub(crate) fn listen(&self, channel: &str) -> UnboundedReceiver<String> {
        self.shared.listeners.listen(channel)
    }

    /// Subscribes to a channel. Returns the generation of the connection.
    ///
    /// All nodes of a cluster pass a message on. This one also has the keys of the upstream.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<u64, ScriptError> {
        let mut line = self.line(channel).await?;
        line.manager.subscribe(channel).await?;
        Ok(line.generation)
    }

    /// Returns a connection to the server that has a key. Waits for a search without one.
    async fn line(&self, key: &str) -> Result<Line, ScriptError> {
        loop {
            let found = self.shared.found.notified();
            tokio::pin!(found);
            found.as_mut().enable();
            if let Some(line) = self.known_line(key)? {
                return Ok(line);
            }
            found.await;
        }
    }

    /// Returns a connection to the server that has a key. `None` while a search runs.
    fn known_line(&self, key: &str) -> Result<Option<Line>, ScriptError> {
        let Shared { site, listeners, .. } = &*self.shared;
        let now = Instant::now();
        let mut links = lock(&self.shared.links);
        let Some(address) = links.map.as_ref().and_then(|map| map.address(key)).cloned() else {
            let wrong = links.wrong.clone();
            self.search(&mut links, now);
            return match wrong {
                // The next request sees whether the search found more.
                Some(wrong) => Err(ScriptError::Lost(wrong)),
                None if links.map.is_some() => {
                    Err(ScriptError::Lost("no node of the cluster serves the slot".to_owned()))
                }
                None => Ok(None),
            };
        };
        let is_stale = match site.patrol() {
            Some(patrol) => links.searched_at.is_none_or(|at| now - at >= patrol),
            None => false,
        };
        let link = links.link(&address);
        let doubts = link.waits(now) >= DOUBT;
        let is_replaced = link.replace_if_silent(now);
        let manager = link.manager(site.info_of(&address), listeners)?;
        if is_replaced {
            links.generation += 1;
        }
        let generation = links.generation;
        if doubts || is_stale {
            self.search(&mut links, now);
        }
        Ok(Some(Line { manager, address, generation }))
    }

    /// Judges a failure.
    fn failed(&self, line: &Line, error: &RedisError) -> Next {
        let now = Instant::now();
        let mut links = lock(&self.shared.links);
        if let Some((place, slot)) = error.redirect_node() {
            links.answered(&line.address);
            let address = redirected(place, &line.address);
            if matches!(error.kind(), ErrorKind::Server(ServerErrorKind::Ask)) {
                return address.map_or(Next::Nothing, Next::Ask);
            }
            self.search(&mut links, now);
            let Some(address) = address else { return Next::Nothing };
            links.generation += 1; // for the subscriptions
            if let Some(map) = &mut links.map {
                map.moves(slot, address);
            }
            return Next::Again;
        }
        if is_replica(error) {
            if links.generation == line.generation {
                links.generation += 1;
                links.link(&line.address).replace();
            }
            self.search(&mut links, now);
        } else if error.is_io_error() || error.is_connection_dropped() || error.is_cluster_error() {
            self.search(&mut links, now);
        }
        Next::Nothing
    }

    /// Begins to ask where the keys are, if a question can have a new answer.
    fn search(&self, links: &mut Links, now: Instant) {
        let age = links.searched_at.map(|at| now.saturating_duration_since(at));
        let pause = if links.is_searching { SEARCH_LOST } else { SEARCH_PAUSE };
        if self.shared.site.map().is_some() || age.is_some_and(|age| age < pause) {
            return;
        }
        links.searched_at = Some(now);
        links.is_searching = true;
        let shared = Arc::clone(&self.shared);
        let known: Vec<_> = links.map.iter().flat_map(Map::addresses).cloned().collect();
        // It may take longer than a request may wait.
        tokio::spawn(async move {
            let found = shared.site.search(&known).await;
            lock(&shared.links).found(found);
            shared.found.notify_waiters();
        });
    }
}

impl Links {
    fn link(&mut self, address: &ConnectionAddr) -> &mut Link {
        let index = self.open.iter().position(|(other, _)| other == address);
        let index = index.unwrap_or_else(|| {
            self.open.push((address.clone(), Link::default()));
            self.open.len() - 1
        });
        &mut self.open[index].1
    }

    fn answered(&mut self, address: &ConnectionAddr) {
        // A search may have removed the link meanwhile.
        if let Some((_, link)) = self.open.iter_mut().find(|(other, _)| other == address) {
            link.answered();
        }
    }

    /// Ends a search.
    fn found(&mut self, found: Result<Map, String>) {
        self.is_searching = false;
        let map = match found {
            Ok(map) => map,
            Err(wrong) => {
                self.wrong = Some(wrong);
                return;
            }
        };
        self.wrong = None;
        if self.map.as_ref() != Some(&map) {
            self.generation += 1;
            self.open.retain(|(address, _)| map.addresses().any(|other| other == address));
            self.map = Some(map);
        }
    }
}

/// Returns the server that a node names. A node that does not know the host names none.
fn redirected(place: &str, from: &ConnectionAddr) -> Option<ConnectionAddr> {
    let (host, port) = place.rsplit_once(':')?;
    let (ConnectionAddr::Tcp(same, _) | ConnectionAddr::TcpTls { host: same, .. }) = from else {
        return None;
    };
    let host = if matches!(host, "" | "?") { same } else { host };
    Some(at(from, host, port.parse().ok()?))
}

/// Returns whether the server is not a primary, or not yet. After a fail-over the old server may go on
/// as a replica, which refuses writes.
fn is_replica(error: &RedisError) -> bool {
    // Redis 6 has the code of an error within a script only in the text.
    matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "LOADING"))
        || error.detail().is_some_and(|text| text.contains("READONLY"))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("site", &self.site().words()).finish_non_exhaustive()
    }
}
