use std::time::Duration;

use super::{Attempt, Decision, StopReason};
use crate::verdict::Verdict;

/// What the engine asks of a policy, whichever it is.
pub(crate) trait Rules {
    /// What classifies errors.
    type Classifier;

    fn classifier(&self) -> &Self::Classifier;

    /// The limits on the whole call and on an attempt.
    fn timeouts(&self) -> (Option<Duration>, Option<Duration>);

    /// Whether the policy goes by what the upstream has learned.
    fn is_learned(&self) -> bool;

    /// How many attempts it allows.
    fn allowed(&self) -> u32;

    /// What follows from a failed attempt, where attempts count anew after `renewed`. By default the verdict alone decides.
    fn decide_renewed(&self, failed: Attempt, verdict: Option<Verdict>, renewed: u32) -> Decision {
        let _ = (failed, renewed);
        match verdict {
            None => Decision::Stop(StopReason::Unclassified),
            Some(verdict) if verdict.is_again() => Decision::Retry(Duration::ZERO),
            Some(_) => Decision::Stop(StopReason::Fatal),
        }
    }
}

/// The settings that all policies have.
macro_rules! common_settings {
    ($policy:ident, $attempt:literal $(, $learned:ident)?) => {
        impl<C> $policy<C> {
            /// Sets how long the whole call may take: every attempt and every wait. It cuts an attempt in flight, and is
            /// counted from the first poll.
            ///
            /// Zero gives the first attempt one poll.
            pub const fn with_total_timeout(mut self, limit: Duration) -> Self {
                self.total_timeout = Some(limit);
                self
            }

            /// Lets the call take as long as its attempts and waits do.
            pub const fn without_total_timeout(mut self) -> Self {
                self.total_timeout = None;
                self
            }

            #[doc = concat!("Sets how long each ", $attempt, " may take, counted from when it is first pending. One that takes longer is cut")]
            /// and classified by [`Classify::classify_cut`](crate::Classify::classify_cut). By default the request may then
            /// be sent again.
            ///
            /// Zero gives each one poll.
            pub const fn with_attempt_timeout(mut self, limit: Duration) -> Self {
                self.attempt_timeout = Some(limit);
                self
            }

            #[doc = concat!("Lets each ", $attempt, " take as long as it does.")]
            pub const fn without_attempt_timeout(mut self) -> Self {
                self.attempt_timeout = None;
                $(self.$learned = false;)?
                self
            }

            /// Returns how long the whole call may take.
            #[must_use]
            pub const fn total_timeout(&self) -> Option<Duration> {
                self.total_timeout
            }

            #[doc = concat!("Returns how long each ", $attempt, " may take.")]
            #[must_use]
            pub const fn attempt_timeout(&self) -> Option<Duration> {
                self.attempt_timeout
            }

            /// Returns the classifier of errors.
            #[must_use]
            pub const fn classifier(&self) -> &C {
                &self.classifier
            }
        }

        impl<C> $crate::policy::AsPolicy for $policy<C> {
            type Policy = Self;

            #[inline]
            fn as_policy(&self) -> &Self {
                self
            }
        }
    };
}

/// What the engine asks of a policy: that is `$is_learned`, and allows `$allowed` attempts.
macro_rules! rules {
    ($policy:ident, |$it:ident| $is_learned:expr, $allowed:expr $(, $decide:item)?) => {
        impl<C> $crate::policy::Rules for $policy<C> {
            type Classifier = C;

            #[inline]
            fn classifier(&self) -> &C {
                &self.classifier
            }

            #[inline]
            fn timeouts(&self) -> (Option<Duration>, Option<Duration>) {
                (self.total_timeout, self.attempt_timeout)
            }

            #[inline]
            fn is_learned(&self) -> bool {
                let $it = self;
                $is_learned
            }

            #[inline]
            fn allowed(&self) -> u32 {
                let $it = self;
                $allowed
            }

            $($decide)?
        }
    };
}

pub(crate) use {common_settings, rules};
