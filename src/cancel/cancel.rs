/// A token that stops a call from outside.
///
/// The call checks the token before each attempt and before each wait, and also polls it during
/// attempts and waits. A result that is ready at the same time takes precedence.
///
/// With the feature `tokio`, `CancellationToken` of `tokio-util` and `&CancellationToken` are
/// tokens. An `Option` of a token is a token too, of which `None` never stops the call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a cancellation token: pass `Never`, a `CancellationToken`, a `&CancellationToken` or `Drain` of one",
    note = "or implement `resile::cancel::Cancel` for a token of your own"
)]
pub trait Cancel {
    /// The future returned by [`cancelled`](Cancel::cancelled).
    type Cancelled: Future<Output = ()>;

    /// Returns whether the call must stop now.
    fn is_cancelled(&self) -> bool;

    /// Returns a future that completes once the call must stop. `None` never stops the call.
    ///
    /// A call only asks for this future when it has to wait.
    fn cancelled(&self) -> Option<Self::Cancelled>;

    /// Returns whether the token also cancels an attempt in flight. See [`Drain`].
    #[inline]
    fn stops_attempts(&self) -> bool {
        true
    }
}

/// A token that never stops the call and costs nothing.
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

/// A token that lets an attempt in flight finish.
///
/// The inner token ends waits and prevents new attempts but does not cancel an attempt in flight.
/// Use it for a graceful shutdown: the work in progress ends and no new work begins.
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
