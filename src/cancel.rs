//! What may stop us: a token that the caller holds, or nothing.

use std::fmt;
use std::future::{Pending, pending};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What may stop a call from outside.
///
/// It is asked before an attempt starts and before a wait, and raced against both. A result in hand beats it.
pub trait Cancel {
    /// Completes once the call must stop.
    type Cancelled: Future<Output = ()>;

    /// Whether it can ever stop the call. Where it says that it cannot, [`cancelled`](Self::cancelled) is not waited for;
    /// [`is_cancelled`](Self::is_cancelled) is asked all the same. A wrapper hands the question on.
    #[inline]
    fn stops(&self) -> bool {
        true
    }

    /// Whether the call must stop now.
    fn is_cancelled(&self) -> bool;

    /// Completes once the call must stop; made only when something has to be waited for.
    fn cancelled(&self) -> Self::Cancelled;
}

/// Nothing stops the call. Costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Never;

impl Cancel for Never {
    type Cancelled = Pending<()>;

    #[inline]
    fn stops(&self) -> bool {
        false
    }

    #[inline]
    fn is_cancelled(&self) -> bool {
        false
    }

    #[inline]
    fn cancelled(&self) -> Pending<()> {
        pending()
    }
}

/// Ready once `token` says stop. Its future is made in `slot` the first time that it has to be waited for.
#[inline]
pub(crate) fn poll_cancelled<K: Cancel>(
    token: &K,
    mut slot: Pin<&mut Option<K::Cancelled>>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if !token.stops() {
        return Poll::Pending;
    }
    if slot.is_none() {
        slot.set(Some(token.cancelled()));
    }
    slot.as_pin_mut().map_or(Poll::Pending, |cancelled| cancelled.poll(cx))
}

/// A wait ended because the token said stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cancelled")
    }
}

impl std::error::Error for Cancelled {}

#[cfg(feature = "tokio")]
mod token {
    use super::Cancel;
    use tokio_util::sync::{CancellationToken, WaitForCancellationFuture, WaitForCancellationFutureOwned};

    impl<'a> Cancel for &'a CancellationToken {
        type Cancelled = WaitForCancellationFuture<'a>;

        #[inline]
        fn is_cancelled(&self) -> bool {
            CancellationToken::is_cancelled(self)
        }

        fn cancelled(&self) -> WaitForCancellationFuture<'a> {
            CancellationToken::cancelled(self)
        }
    }

    impl Cancel for CancellationToken {
        type Cancelled = WaitForCancellationFutureOwned;

        #[inline]
        fn is_cancelled(&self) -> bool {
            CancellationToken::is_cancelled(self)
        }

        fn cancelled(&self) -> WaitForCancellationFutureOwned {
            self.clone().cancelled_owned()
        }
    }
}
