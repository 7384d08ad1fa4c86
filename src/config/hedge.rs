use std::marker::PhantomData;

use super::settings::settings;
use super::visit::{DurationVisitor, IntegerVisitor};
use crate::fallback::FallbackPolicy;
use crate::hedge::HedgePolicy;

settings! {
    /// Reads `delay`, `learned_delay` (true or false), `hedges`, `total_timeout` and
    /// `attempt_timeout`. A missing setting keeps its value from [`HedgePolicy::new`].
    HedgePolicy, "a hedge policy", HedgePolicy::new(), {
        "delay": DurationVisitor::required("delay")
            => |policy, delay| policy.with_delay(delay.unwrap_or_default()),
        "learned_delay": PhantomData::<bool>
            => |policy, learned| if learned { policy.with_learned_delay() } else { policy },
        "hedges": IntegerVisitor::of("`hedges`", 0) => |policy, hedges| policy.with_hedges(hedges),
        "total_timeout": DurationVisitor::optional("total_timeout") => |policy, limit| match limit {
            Some(limit) => policy.with_total_timeout(limit),
            None => policy.without_total_timeout(),
        },
        "attempt_timeout": DurationVisitor::optional("attempt_timeout")
            => |policy, limit| match limit {
            Some(limit) => policy.with_attempt_timeout(limit),
            None => policy.without_attempt_timeout(),
        },
    }

    /// Reads `total_timeout` and `attempt_timeout`. A missing setting keeps its value from
    /// [`FallbackPolicy::new`].
    FallbackPolicy, "a fallback policy", FallbackPolicy::new(), {
        "total_timeout": DurationVisitor::optional("total_timeout") => |policy, limit| match limit {
            Some(limit) => policy.with_total_timeout(limit),
            None => policy.without_total_timeout(),
        },
        "attempt_timeout": DurationVisitor::optional("attempt_timeout")
            => |policy, limit| match limit {
            Some(limit) => policy.with_attempt_timeout(limit),
            None => policy.without_attempt_timeout(),
        },
    }
}
