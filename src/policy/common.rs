use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Attempt, Decision, StopReason};
use crate::verdict::Verdict;

/// The rules that a call reads from its policy.
pub(crate) trait Rules {
    /// The classifier of errors.
    type Classifier;

    fn classifier(&self) -> &Self::Classifier;

    /// Returns the total timeout and the attempt timeout.
    fn timeouts(&self) -> (Option<Duration>, Option<Duration>);

    /// Returns whether the total timeout is what a caller had left, and not a limit of the policy.
    #[inline]
    fn is_shortened(&self) -> bool {
        false
    }

    /// Returns whether the policy uses the latencies learned by the upstream.
    fn is_learned(&self) -> bool;

    /// Returns the number of attempts allowed.
    fn allowed(&self) -> u32;

    /// Returns the longest wait that the upstream may ask for. `None` means no limit.
    fn hint_cap(&self) -> Option<Duration> {
        None
    }

    /// Decides the next step after a failed attempt as if the call had no deadline. The first `renewed`
    /// attempts do not count.
    ///
    /// The default reads only the verdict, and draws nothing.
    fn decide_renewed(
        &self,
        failed: Attempt,
        verdict: Option<Verdict>,
        renewed: u32,
        draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Decision {
        let _ = (failed, renewed, draw);
        match verdict {
            None => Decision::Stop(StopReason::Unclassified),
            Some(verdict) if verdict.is_again() => Decision::Retry(Duration::ZERO),
            Some(_) => Decision::Stop(StopReason::Fatal),
        }
    }
}

/// Defines the settings common to all policies. `$shortened` is true while the total timeout is the one of a caller.
macro_rules! common_settings {
    ($policy:ident, $attempt:literal $(, $shortened:ident)?) => {
        impl<C> $policy<C> {
            /// Sets the total timeout: the limit on the whole call, with all attempts and waits.
            ///
            /// The time counts from the call's first poll, and an attempt in flight is dropped at
            /// the limit. Zero allows the first attempt one poll.
            pub const fn with_total_timeout(mut self, limit: Duration) -> Self {
                self.total_timeout = Some(limit);
                $(self.$shortened = false;)?
                self
            }

            /// Removes the total timeout.
            pub const fn without_total_timeout(mut self) -> Self {
                self.total_timeout = None;
                $(self.$shortened = false;)?
                self
            }

            #[doc = concat!("Sets the timeout of each ", $attempt, ".")]
            ///
            /// The time counts from the first pending poll. At the limit the attempt is dropped and
            /// classified by [`classify_cut`](crate::Classify::classify_cut): see the
            /// [table](crate::Classify#cut-attempts). Zero allows one poll. An attempt timeout
            /// above the total timeout has no effect, because the call ends at its total timeout
            /// first.
            pub const fn with_attempt_timeout(mut self, limit: Duration) -> Self {
                self.attempt_timeout = Some(limit);
                self
            }

            /// Returns the total timeout. `None` means no limit.
            #[must_use]
            pub const fn total_timeout(&self) -> Option<Duration> {
                self.total_timeout
            }

            #[doc = concat!("Returns the timeout of each ", $attempt, ". `None` means no limit.")]
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

/// Implements [`Rules`] with the given `is_learned`, `allowed` and further items.
macro_rules! rules {
    ($policy:ident, |$it:ident| $is_learned:expr, $allowed:expr $(, { $($item:item)+ })?) => {
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

            $($($item)+)?
        }
    };
}

pub(crate) use {common_settings, rules};
