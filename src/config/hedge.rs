use std::marker::PhantomData;

use super::settings::settings;
use super::visit::{Time, Whole};
use crate::fallback::FallbackPolicy;
use crate::hedge::HedgePolicy;

settings! {
    /// Every setting may be left out, and is then as in [`HedgePolicy::new`]: `delay`, `learned_delay` (true or false),
    /// `hedges`, `total_timeout`, `attempt_timeout`.
    HedgePolicy, "a hedge policy", HedgePolicy::new(), {
        "delay": Time::required("delay") => |policy, delay| policy.with_delay(delay.unwrap_or_default()),
        "learned_delay": PhantomData::<bool> => |policy, learned| if learned { policy.with_learned_delay() } else { policy },
        "hedges": Whole::of("`hedges`", 0) => |policy, hedges| policy.with_hedges(hedges),
        "total_timeout": Time::optional("total_timeout") => |policy, limit| match limit {
            Some(limit) => policy.with_total_timeout(limit),
            None => policy.without_total_timeout(),
        },
        "attempt_timeout": Time::optional("attempt_timeout") => |policy, limit| match limit {
            Some(limit) => policy.with_attempt_timeout(limit),
            None => policy.without_attempt_timeout(),
        },
    }

    /// Every setting may be left out, and is then as in [`FallbackPolicy::new`]: `total_timeout`, `attempt_timeout`.
    FallbackPolicy, "a fallback policy", FallbackPolicy::new(), {
        "total_timeout": Time::optional("total_timeout") => |policy, limit| match limit {
            Some(limit) => policy.with_total_timeout(limit),
            None => policy.without_total_timeout(),
        },
        "attempt_timeout": Time::optional("attempt_timeout") => |policy, limit| match limit {
            Some(limit) => policy.with_attempt_timeout(limit),
            None => policy.without_attempt_timeout(),
        },
    }
}
