//! What stops a call from outside: a token that the caller holds, or nothing.

/// Stops a call from outside.
///
/// It is asked before an attempt begins and before a wait, and raced against both. A result in hand beats it.
///
/// `&CancellationToken` and `CancellationToken` of `tokio-util` are tokens with the feature `tokio`. An `Option` of a
/// token is one too: `None` never stops the call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no token that can stop a call",
    note = "give `Never`, a `CancellationToken` or a reference to one"
)]
pub trait Cancel {
    /// Completes once the call must stop.
    type Cancelled: Future<Output = ()>;

    /// Returns whether the call must stop now.
    fn is_cancelled(&self) -> bool;

    /// Returns what completes once the call must stop. `None`: it never will.
    ///
    /// It is made only when something has to be waited for.
    fn cancelled(&self) -> Option<Self::Cancelled>;

    /// Returns whether the token also stops an attempt in flight. See [`Drain`].
    #[inline]
    fn stops_attempts(&self) -> bool {
        true
    }
}

/// Never stops the call. Costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Never;

impl Cancel for Never {
    type Cancelled = std::future::Pending<()>;

    #[inline]
    fn is_cancelled(&self) -> bool {
        false
    }

    #[inline]
    fn cancelled(&self) -> Option<Self::Cancelled> {
        None
    }
}

/// Lets an attempt in flight finish: the token inside stops waits and keeps new attempts from beginning, and no more.
///
/// For a graceful shutdown, which ends what was begun and begins nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drain<K>(pub K);

impl<K: Cancel> Cancel for Drain<K> {
    type Cancelled = K::Cancelled;

    #[inline]
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    #[inline]
    fn cancelled(&self) -> Option<Self::Cancelled> {
        self.0.cancelled()
    }

    #[inline]
    fn stops_attempts(&self) -> bool {
        false
    }
}

impl<K: Cancel> Cancel for Option<K> {
    type Cancelled = K::Cancelled;

    #[inline]
    fn is_cancelled(&self) -> bool {
        self.as_ref().is_some_and(K::is_cancelled)
    }

    #[inline]
    fn cancelled(&self) -> Option<Self::Cancelled> {
        self.as_ref().and_then(K::cancelled)
    }

    #[inline]
    fn stops_attempts(&self) -> bool {
        self.as_ref().is_none_or(K::stops_attempts)
    }
}

#[cfg(feature = "tokio")]
mod token {
    use super::Cancel;
    use tokio_util::sync::{
        CancellationToken, WaitForCancellationFuture, WaitForCancellationFutureOwned,
    };

    impl<'a> Cancel for &'a CancellationToken {
        type Cancelled = WaitForCancellationFuture<'a>;

        #[inline]
        fn is_cancelled(&self) -> bool {
            CancellationToken::is_cancelled(self)
        }

        fn cancelled(&self) -> Option<WaitForCancellationFuture<'a>> {
            Some(CancellationToken::cancelled(self))
        }
    }

    impl Cancel for CancellationToken {
        type Cancelled = WaitForCancellationFutureOwned;

        #[inline]
        fn is_cancelled(&self) -> bool {
            CancellationToken::is_cancelled(self)
        }

        fn cancelled(&self) -> Option<WaitForCancellationFutureOwned> {
            Some(self.clone().cancelled_owned())
        }
    }
}
