//! Classification of [`std::io::Error`]: repeatability and health of the upstream.
//!
//! A connection fails before or after the upstream has the request. A refused connection was never
//! one, so any request may be sent again. After a reset nobody knows: the upstream may have executed
//! the request, and only the answer was lost. [`Classifier`] is this rule as a table:
//!
//! | error | sent again, idempotent | sent again, not idempotent | health | why |
//! |---|---|---|---|---|
//! | `ConnectionRefused` | yes | yes | failing | no server took the connection |
//! | `AddrNotAvailable`, too many open files | yes | yes | unknown | the machine has no port or no file left, so there was no connection |
//! | name lookup, for now | yes | yes | unknown | there was no address to send to |
//! | name lookup, for good | no | no | unknown | the name does not exist |
//! | `HostUnreachable`, `NetworkUnreachable`, `NetworkDown` | yes | only if [never sent](never_sent) | failing | a connection that is open fails so too, if its host disappears after the request |
//! | `ConnectionReset`, `ConnectionAborted`, `NotConnected`, `BrokenPipe`, `UnexpectedEof`, `WriteZero` | yes | only if [never sent](never_sent) | failing | the request may have been executed |
//! | `TimedOut`, `WouldBlock` | yes | only if [never sent](never_sent) | failing | the request may still be executed. A socket with a read timeout says `WouldBlock` on Unix |
//! | `NotFound` | yes | only if [never sent](never_sent) | failing | the upstream's Unix socket is missing. A missing file looks the same |
//! | `Interrupted` | yes | only if [never sent](never_sent) | unknown | a signal ended a call to the system, maybe while it waited for the answer |
//! | `ResourceBusy`, `Deadlock`, `StaleNetworkFileHandle` | yes | only if [never sent](never_sent) | unknown | a file or its lock |
//! | `PermissionDenied`, `Unsupported`, `InvalidInput`, `AddrInUse` | no | no | unknown | nothing changes by itself. A firewall may say `PermissionDenied` |
//! | `OutOfMemory`, `StorageFull`, `QuotaExceeded`, `FileTooLarge`, `ReadOnlyFilesystem` | no | no | unknown | this machine is at fault |
//! | `InvalidData` | no | no | unknown | often TLS: a wrong certificate stays wrong |
//! | any other | no opinion | no opinion | | |
//!
//! An error may be wrapped: TLS puts one `io::Error` into another. So the classifier follows the
//! chain of sources. The first error that the table knows decides, but `InvalidData` yields to an
//! error deeper in the chain. [`never_sent`] reads the same chain.
//!
//! # When not
//!
//! * The operation writes a file and then calls an upstream. An error does not tell which of the
//!   two failed, so classify by an error type of your own.
//! * The client has an error type with better evidence, such as `reqwest`. Classify that one.
//! * The operation only opens a connection. It sends nothing, so it is
//!   [idempotent](Classifier::idempotent).
//!
//! # Examples
//!
//! ```
//! use std::io;
//! use std::time::Duration;
//!
//! use resile::io::Classifier;
//! use resile::{Attempt, Never, RetryPolicy, retry};
//!
//! const POLICY: RetryPolicy<Classifier> = RetryPolicy::new()
//!     .with_attempt_timeout(Duration::from_secs(5))
//!     .with_total_timeout(Duration::from_secs(20))
//!     .with_classifier(Classifier::idempotent());
//!
//! # async fn read(attempt: Attempt) -> io::Result<u32> {
//! #     if attempt.is_first() { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(7) }
//! # }
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // The first attempt ends with a reset.
//! assert_eq!(retry(read, POLICY, Never).await.unwrap(), 7);
//! # }
//! ```

mod chain;
mod classifier;
mod told;

pub use chain::{error_type, never_sent};
pub use classifier::Classifier;
