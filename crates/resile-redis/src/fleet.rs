use std::fmt;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use resile::fleet::State;
use resile::quota::{Dimension, Rate};
use resile::time::Timer;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::agent::{self, Plan};
use crate::error::{BadUrl, JoinError, NotSet};
use crate::fail_mode::FailMode;
use crate::keys::Keys;
use crate::member::Member;
use crate::meter::Meter;
use crate::name;
use crate::scripts::LimitsRequest;
use crate::shareable::Shareable;
use crate::store::{Site, Store};

/// A fleet: the processes that share upstreams through one Redis or Valkey server.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | member name | host and number of the process, such as `web-2/4711` | an operator finds the process |
/// | prefix | `resile` | set it if several programs use one server |
/// | fail mode | [`FailMode::Safe`] | the limit holds while Redis is away |
/// | least members | 1 | the members are known after the first answer. Set it if a fleet may start while Redis is away |
/// | timeout | 3 round trips, 50 ms to 1 s | it follows the server, so a server far away does not count as dead |
/// | budget | shared | the fleet retries as much as one process |
/// | votes | off | each process sees its own failures soon enough |
/// | weight | 1 | equal processes get equal parts of what all want |
///
/// # Examples
///
/// ```no_run
/// use resile::quota::Rate;
/// use resile::{Cooldown, Quota, Upstream};
/// use resile_redis::Fleet;
///
/// static OPENAI: Upstream = Upstream::new("openai")
///     .with_cooldown(Cooldown::new())
///     .with_quota(Quota::new().with_requests(Rate::per_minute(5_000)));
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let fleet = Fleet::new("redis://127.0.0.1:6379")?;
///     fleet.join(&OPENAI)?;
///     // All calls on OPENAI now share its limits with the other processes.
///     Ok(())
/// }
/// ```
#[derive(Clone)]
#[must_use = "a fleet does nothing until an upstream joins"]
pub struct Fleet {
    store: Store,
    plan: Plan,
    prefix: Arc<str>,
    /// The name of this process. `None` for that of the host with the number.
    name: Option<Arc<str>>,
}

impl Fleet {
    /// Creates a fleet on the server at `url`. It connects when the first upstream joins.
    ///
    /// The URL is `redis://`, or `rediss://` for TLS with the feature `tls`:
    /// `rediss://user:password@host:6380/0`.
    ///
    /// # Errors
    ///
    /// [`BadUrl`] if `url` is not such a URL. A server that is away is not an error.
    pub fn new(url: &str) -> Result<Self, BadUrl> {
        Ok(Self::at(Site::server(url)?))
    }

    /// Creates a fleet on the primary that Redis Sentinel knows by a name. Connects with the first
    /// [`join`](Self::join), and after a fail-over to the new primary.
    ///
    /// `sentinels` are the URLs of the sentinels, with their credentials if they have any. Most of
    /// their answers decide. `primary` is the name, such as `mymaster`. For a server with
    /// credentials, a database or TLS it is a URL with the name as its host:
    /// `rediss://user:password@mymaster/0`.
    ///
    /// # Errors
    ///
    /// [`BadUrl`] without a sentinel, or with a text that is not a URL. A sentinel that is away is
    /// not an error.
    pub fn sentinel(
        sentinels: impl IntoIterator<Item = impl Into<String>>,
        primary: &str,
    ) -> Result<Self, BadUrl> {
        let urls: Vec<String> = sentinels.into_iter().map(Into::into).collect();
        Ok(Self::at(Site::sentinels(&urls, primary)?))
    }

    /// Creates a fleet on a cluster. Connects with the first [`join`](Self::join).
    ///
    /// `nodes` are the URLs of some nodes, which tell the others. The others have the credentials
    /// of the first one. All keys of an upstream are on one node, so an upstream needs one
    /// connection.
    ///
    /// # Errors
    ///
    /// [`BadUrl`] without a node, or with a text that is not a URL. A node that is away is not an
    /// error.
    pub fn cluster(nodes: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, BadUrl> {
        let urls: Vec<String> = nodes.into_iter().map(Into::into).collect();
        Ok(Self::at(Site::cluster(&urls)?))
    }

    fn at(site: Site) -> Self {
        Self { store: Store::new(site), plan: Plan::new(), prefix: Arc::from("resile"), name: None }
    }

    /// Sets the certificates of connections over TLS. Without them, a `rediss://` URL trusts the
    /// certificate authorities of the system.
    ///
    /// # Errors
    ///
    /// [`BadTls`](crate::BadTls) if a certificate cannot be read, or without a `rediss://` URL.
    #[cfg(feature = "tls")]
    pub fn with_tls(mut self, tls: &crate::Tls) -> Result<Self, crate::BadTls> {
        self.store = Store::new(self.store.site().clone().with_tls(tls)?);
        Ok(self)
    }

    /// Sets the start of all keys and channels.
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        self.prefix = Arc::from(prefix);
        self
    }

    /// Sets the name of this process, by which the log and the snapshots of the others tell who was
    /// asked for a hold and who votes.
    ///
    /// At most 64 characters count. Spaces and control characters become `_`, and an empty name is
    /// ignored. Members of one name stay different members.
    pub fn with_member_name(mut self, name: &str) -> Self {
        self.name = name::cleaned(name).map(Arc::from);
        self
    }

    /// Sets what a process may use while Redis is away.
    pub const fn with_fail_mode(mut self, fail_mode: FailMode) -> Self {
        self.plan.fail_mode = fail_mode;
        self
    }

    /// Sets the least number of members that [`FailMode::Safe`] divides a limit by.
    pub const fn with_least_members(mut self, members: u32) -> Self {
        self.plan.least_members = members;
        self
    }

    /// Sets a fixed time after which an exchange with the server counts as failed: 10 ms to 1 s.
    ///
    /// Without it the time is three times the round trip that one of ten exceeds, but at least 50
    /// ms and at most 1 s. It doubles with each round without an answer.
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        let timeout = match timeout.as_millis() {
            0..10 => Duration::from_millis(10),
            10..1_000 => timeout,
            _ => Duration::from_secs(1),
        };
        self.plan.timeout = Some(timeout);
        self
    }

    /// Sets whether the members share one budget. Otherwise each has its own.
    pub const fn with_shared_budget(mut self, is_shared: bool) -> Self {
        self.plan.shares_budget = is_shared;
        self
    }

    /// Sets whether the breakers of the members vote. Votes of others make a breaker quicker to
    /// open, and the open ones probe in turn: one member in each pause. While fewer than half of at
    /// least three members vote for "open", each open breaker probes for itself. Votes alone open no
    /// breaker.
    pub const fn with_votes(mut self, vote: bool) -> Self {
        self.plan.votes = vote;
        self
    }

    /// Sets the weight of this process: 1 to 100.
    ///
    /// It matters only while the processes want more than the limit. Then a process of weight 2
    /// gets twice as much as one of weight 1, but never more than it wants. In safe mode all
    /// processes have equal shares.
    pub const fn with_weight(mut self, weight: u32) -> Self {
        self.plan.weight = match weight {
            0 => 1,
            1..=100 => weight,
            _ => 100,
        };
        self
    }

    /// Sets the limit that all members of an upstream have instead of their own, from their next
    /// renewal on: after at most 1.2 s. `None` gives them back their own. Members that join later have
    /// it too. The server forgets it a month after the last member. If the server loses its data, the
    /// members bring the limit back.
    ///
    /// [`Upstream::quota_rate`](resile::Upstream::quota_rate) returns this limit in each process that has taken it.
    /// A call that costs more than the burst that its process was built with is still refused.
    ///
    /// The server takes a limit for any name, also for one without members. So a mistyped name is not an error, and
    /// members of that name would have the limit.
    ///
    /// # Errors
    ///
    /// [`NotSet`] if the server does not take the limit within two seconds, and for a limit without
    /// units.
    pub async fn set_limit(
        &self,
        upstream: &str,
        dimension: Dimension,
        rate: Option<Rate>,
    ) -> Result<(), NotSet> {
        let not_set = |reason: String| NotSet { upstream: upstream.to_owned(), reason };
        if rate.is_some_and(|rate| rate.count() == 0 || rate.burst() == 0) {
            return Err(not_set("it has no units".to_owned()));
        }
        let key = Keys::new(&self.prefix, upstream).limits();
        let request = LimitsRequest { known: &[], change: Some((dimension, rate)) };
        match timeout(SETTING, self.store.run(&key, &request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(not_set(error.to_string())),
            Err(_) => Err(not_set("the server does not answer".to_owned())),
        }
    }

    /// Lets an upstream share its limits with the upstreams of the same name in other processes.
    ///
    /// A task of the current tokio runtime exchanges with the server. It runs until
    /// [`Member::leave`], or until the runtime ends. The returned handle shows the state. Dropping
    /// it does not leave the fleet.
    ///
    /// The upstream is a `&'static Upstream` or an `Arc<Upstream>`. For a `LazyLock` in a `static`
    /// pass `&*UPSTREAM`. A reference to a local upstream is rejected with "does not live long enough": put
    /// that upstream into an `Arc`. The task keeps the `Arc`, also if a [`Keyed`](resile::Keyed) drops it.
    /// The members must have the same limits.
    ///
    /// # Errors
    ///
    /// [`JoinError`] if the upstream has joined already, or without a tokio runtime.
    ///
    /// # Panics
    ///
    /// Panics on a tokio runtime without timers.
    pub fn join<U, M>(&self, upstream: U) -> Result<Member, JoinError>
    where
        U: Shareable<M>,
        M: Timer + Send + Sync + 'static,
    {
        let runtime =
            Handle::try_current().map_err(|_| JoinError::NoRuntime(Arc::from(upstream.name())))?;
        if upstream.fleet().is_some_and(|status| status.state != State::Left) {
            return Err(JoinError::Joined(Arc::from(upstream.name())));
        }
        let id = match &self.name {
            Some(name) => name::new_id(name),
            None => name::new_id(&name::of_process()),
        };
        let meter = Meter::new(upstream.name());
        let (member, seat) = Member::new(upstream.name(), Arc::clone(&id), meter.clone());
        let keys = Keys::new(&self.prefix, upstream.name());
        let (store, plan) = (self.store.clone(), self.plan);
        let context = agent::Context { store, plan, keys, id, meter };
        let mut task = Box::pin(agent::run(upstream, context, seat));
        // The first step ends before this returns, so the next call is under the fleet already.
        let _entered = runtime.enter();
        let is_done = task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if is_done {
            return Err(JoinError::Joined(Arc::from(member.name())));
        }
        runtime.spawn(task);
        Ok(member)
    }
}

/// The time for the server to take a limit.
const SETTING: Duration = Duration::from_secs(2);

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("site", &self.store.site().words())
            .field("prefix", &self.prefix)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
