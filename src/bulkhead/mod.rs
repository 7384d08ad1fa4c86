//! A bulkhead that limits the number of calls in flight and the number of waiters.
//!
//! The guide has a chapter on [load](crate::guide::load).
//!
//! A slow upstream fills its callers. Each call to it holds memory, a socket and a task. Soon calls
//! to healthy upstreams find no room. A [`Bulkhead`] limits the calls to one upstream. It also
//! helps to respect an upstream's own limit on concurrent requests.
//!
//! The queue is bounded. With an unbounded queue an overload becomes a wait that outlasts the
//! callers. A call without a timely answer is better refused at once, while its caller can still do
//! something else. The queue limits the number of waiters.
//! [`with_max_wait`](Bulkhead::with_max_wait) and the call's total timeout limit the wait.
//!
//! A bulkhead cannot enforce a limit per second: any number of quick calls passes it. It is not for
//! CPU work either: use a thread pool.
//!
//! # Placement
//!
//! A bulkhead is a part of an [`Upstream`](crate::Upstream). It gives each attempt a permit. The
//! delay between two attempts holds no permit. The bulkhead comes before the breaker, because a full
//! bulkhead says nothing about the upstream. An upstream with nothing but a bulkhead limits any
//! future:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::classify::Always;
//! use resile::{Bulkhead, ResilienceExt, StopReason, Upstream};
//! use std::io;
//! use std::time::Duration;
//!
//! static STORE: Upstream =
//!     Upstream::new("store").with_bulkhead(Bulkhead::new(2).with_queue(1));
//!
//! async fn fetch() -> io::Result<()> {
//!     tokio::time::sleep(Duration::from_secs(1)).await;
//!     Ok(())
//! }
//! let call = || fetch().through(&STORE, Always);
//!
//! let (first, second, waits, refused) =
//!     tokio::join!(call(), call(), call(), call());
//! assert!(first.is_ok() && second.is_ok() && waits.is_ok());
//! let refused = refused.unwrap_err();
//! assert_eq!(refused.reason(), StopReason::Full);
//! assert_eq!(
//!     refused.to_string(),
//!     "store: gave up after 0 attempts, bulkhead full: 2 in flight, 1 queued",
//! );
//! # }
//! ```

mod bulkhead;
mod queue;
mod waiting;

pub use self::bulkhead::Bulkhead;
pub(crate) use waiting::Entry;
