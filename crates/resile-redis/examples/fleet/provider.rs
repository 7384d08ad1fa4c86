//! A provider with a strict rate limit. It answers 429 to each request above the limit, and counts
//! the requests of each process.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::plan::{LIMIT, PROCESSES, PROVIDER_BURST};

/// The header with the number of the process.
pub(crate) const PROCESS: &str = "x-process";
/// The time in which requests count together.
pub(crate) const SLOT: Duration = Duration::from_millis(100);
/// The time that an answer takes.
const LATENCY: Duration = Duration::from_millis(20);

/// The requests within one [`SLOT`], by process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) accepted: [u32; PROCESSES],
    pub(crate) refused: [u32; PROCESSES],
}

impl Slot {
    pub(crate) fn all_accepted(&self) -> u32 {
        self.accepted.iter().sum()
    }

    pub(crate) fn all_refused(&self) -> u32 {
        self.refused.iter().sum()
    }
}

/// A provider on a loopback port. It serves until the runtime ends.
#[derive(Clone)]
pub(crate) struct Provider {
    address: SocketAddr,
    count: Arc<Mutex<Count>>,
}

struct Count {
    began: Instant,
    /// The requests that may still come, and the time at which they were counted.
    level: f64,
    at: Instant,
    slots: Vec<Slot>,
}

impl Provider {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, count) = (listener.local_addr()?, Arc::new(Mutex::new(Count::new())));
        let provider = Self { address, count };
        let server = provider.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(stream));
            }
        });
        Ok(provider)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Begins a new count with a full bucket. Returns the time of the beginning.
    pub(crate) fn begin(&self) -> Instant {
        let mut count = self.count();
        *count = Count::new();
        count.began
    }

    /// Returns the requests of each slot from the beginning up to `length`.
    pub(crate) fn slots(&self, length: Duration) -> Vec<Slot> {
        let mut slots = self.count().slots.clone();
        slots.resize((length.as_millis() / SLOT.as_millis()) as usize, Slot::default());
        slots
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(self, stream: TcpStream) {
        let answer = service_fn(|request| self.answer(request));
        // An error is a worker that has ended.
        _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<String>, Infallible> {
        let process = request.headers().get(PROCESS).and_then(|value| value.to_str().ok());
        let process = process.and_then(|number| number.parse().ok()).unwrap_or(0);
        let is_accepted = self.count().take(process);
        tokio::time::sleep(LATENCY).await;
        let mut answer = Response::new(String::new());
        if !is_accepted {
            *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            // `Retry-After` has whole seconds.
            answer.headers_mut().insert(RETRY_AFTER, 1.into());
        }
        Ok(answer)
    }
}

impl Count {
    fn new() -> Self {
        let now = Instant::now();
        Self { began: now, level: f64::from(PROVIDER_BURST), at: now, slots: Vec::new() }
    }

    /// Counts a request. Returns false if it is above the limit.
    fn take(&mut self, process: usize) -> bool {
        let now = Instant::now();
        let refilled = (now - self.at).as_secs_f64() * f64::from(LIMIT);
        self.level = (self.level + refilled).min(f64::from(PROVIDER_BURST));
        self.at = now;
        let is_accepted = self.level >= 1.0;
        if is_accepted {
            self.level -= 1.0;
        }
        let slot = ((now - self.began).as_millis() / SLOT.as_millis()) as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, Slot::default());
        }
        let Slot { accepted, refused } = &mut self.slots[slot];
        let counts = if is_accepted { accepted } else { refused };
        if let Some(count) = counts.get_mut(process) {
            *count += 1;
        }
        is_accepted
    }
}
