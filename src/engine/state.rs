use super::engine::Engine;
use super::policy::CallPolicy;
use super::until::Until;
use crate::adaptive::AdaptiveTimeout;
use crate::observe::CallKind;
use crate::policy::{Rules, Sending};
use crate::upstream::{NoUpstream, Target, drops, drops_in_flight};
use std::panic::Location;

/// The state of a call, apart from its attempts.
///
/// What depends on the type of the policy, the token or the error is here, and the rest is in its
/// [`Engine`].
pub(crate) struct CallState<E, P, K, X: Target, const N: usize = 1> {
    pub(crate) policy: P,
    pub(crate) token: K,
    pub(crate) engine: Engine<X, N>,
    pub(super) last: Option<E>,
}

impl<E, P, K> CallState<E, P, K, NoUpstream> {
    #[inline]
    #[track_caller]
    pub(crate) fn new(kind: CallKind, policy: P, token: K) -> Self {
        let engine = Engine::new(NoUpstream, kind, Location::caller());
        Self { policy, token, engine, last: None }
    }
}

impl<E, P, K, X: Target, const N: usize> CallState<E, P, K, X, N> {
    /// Sends the call to `target`, before its first attempt.
    #[inline]
    pub(crate) fn on<Y: Target, const M: usize>(self, target: Y) -> CallState<E, P, K, Y, M> {
        let Self { policy, token, engine, .. } = self;
        let engine = Engine::new(target, engine.guard.progress.kind(), engine.site);
        CallState { policy, token, engine, last: None }
    }

    /// Replaces the token, before the first attempt.
    #[inline]
    pub(crate) fn with_token<L>(self, token: L) -> CallState<E, P, L, X, N> {
        let Self { policy, engine, last, .. } = self;
        CallState { policy, token, engine, last }
    }

    /// Replaces the policy.
    #[inline]
    pub(crate) fn with_policy<Q>(self, policy: Q) -> CallState<E, Q, K, X, N> {
        let Self { token, engine, last, .. } = self;
        CallState { policy, token, engine, last }
    }

    /// Returns the number of attempts begun.
    #[inline]
    pub(crate) const fn attempts(&self) -> u32 {
        self.engine.guard.progress.attempts
    }

    /// Sets the delay before the next attempt.
    pub(crate) const fn set_delay(&mut self, delay: u64) {
        self.engine.delay = delay;
    }

    /// Leaves the queue after the caller dropped the wait for an attempt. A delay continues.
    pub(crate) fn leave_queue(&mut self, slot: usize) {
        self.engine.guard.leave_queue(slot);
    }

    /// Drops the attempt in flight by `drop`, because the caller drops it, and releases what it holds. The upstream
    /// does not count it. Its limit stays, so a drop of the call tells of the attempt unless the call
    /// [goes on](Self::go_on).
    pub(crate) fn drop_attempt(&mut self, slot: usize, drop: impl FnOnce()) {
        let sending = drops_in_flight(drop);
        self.set_sending(sending);
        if sending != Sending::NotSent {
            self.engine.note_effect();
        }
        self.engine.guard.release_dropped(slot);
    }

    /// Forgets the attempt that the caller dropped last, because the caller asks for another one.
    #[inline]
    pub(crate) const fn go_on(&mut self) {
        if self.engine.until.is_in_flight() {
            self.engine.until.set(Until::Nothing);
        }
    }

    /// Drops the future of the attempt in `slot` by `drop`, before its finish is reported.
    /// A call within the attempt then gives its admission back. `is_cut` is true if a limit or the token
    /// ended the attempt.
    #[inline]
    pub(crate) fn dropping(&mut self, slot: usize, is_cut: bool, drop: impl FnOnce()) {
        if is_cut {
            let tells_doubt = self.engine.last_cut.leaves_doubt();
            let sending = drops(tells_doubt, || self.drop_in(slot, is_cut, drop));
            self.set_sending(sending);
        } else {
            self.drop_in(slot, is_cut, drop);
        }
    }

    #[inline]
    fn drop_in(&mut self, slot: usize, is_cut: bool, drop: impl FnOnce()) {
        if X::ALONE {
            drop();
        } else {
            self.engine.guard.dropping(slot, is_cut, drop);
        }
    }

    /// Notes that an attempt that another one overtook may have had an effect.
    pub(crate) const fn note_effect(&mut self) {
        self.engine.note_effect();
    }

    /// Sets what is known of the request of the attempt that was dropped.
    pub(crate) const fn set_sending(&mut self, sending: Sending) {
        self.engine.last_cut = self.engine.last_cut.with(sending);
    }

    /// Returns what is known of the request of the attempt that was dropped last.
    pub(crate) const fn sending(&self) -> Sending {
        self.engine.last_cut.sending()
    }

    /// Returns whether the request of the attempt that was dropped last was surely not sent.
    pub(crate) const fn is_unsent(&self) -> bool {
        self.engine.last_cut.is_unsent()
    }
}

impl<E, P: CallPolicy, K, X: Target, const N: usize> CallState<E, P, K, X, N> {
    /// Returns the deadline of the call on the timer, or `NO_LIMIT`.
    #[inline]
    pub(crate) fn ends_at(&self) -> u64 {
        self.engine.ends_at(self.policy.total_timeout())
    }

    /// Returns the upstream's adaptive timeout if the policy uses learned limits.
    #[inline]
    pub(crate) fn learns(&self) -> Option<&AdaptiveTimeout> {
        self.engine.learns(self.policy.rules().is_learned())
    }
}
