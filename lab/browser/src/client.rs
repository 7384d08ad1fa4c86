//! The settings of a client, and the clients that the page has ready.

use resile::{Backoff, Budget, RetryPolicy};

/// The policy of the calls, and the parts that they share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    pub(crate) policy: RetryPolicy,
    /// The capacity of the budget.
    pub(crate) budget: Option<u32>,
    /// The share of failures at which the breaker opens.
    pub(crate) breaker: Option<f64>,
    /// The most attempts in flight of a bulkhead that learns its limit.
    pub(crate) learned: Option<u32>,
}

pub(crate) const NO_RETRY: Client = Client {
    name: "No retry",
    policy: RetryPolicy::none(),
    budget: None,
    breaker: None,
    learned: None,
};
pub(crate) const NAIVE: Client = Client {
    name: "Naive retries",
    policy: RetryPolicy::new().with_backoff(Backoff::none()),
    ..NO_RETRY
};

/// Returns a client with the defaults of the crate.
pub(crate) fn defaults() -> Client {
    let [.., defaults] = ready();
    defaults
}

/// Returns the clients of the buttons. Each after the second adds a remedy to the default policy.
pub(crate) fn ready() -> [Client; 7] {
    let jitter = Client { name: "Jitter", policy: RetryPolicy::new(), ..NO_RETRY };
    let (budget, breaker) = (Some(Budget::new().capacity()), Some(0.5));
    [
        NO_RETRY,
        NAIVE,
        jitter,
        Client { name: "Budget", budget, ..jitter },
        Client { name: "Breaker", breaker, ..jitter },
        Client { name: "Learned limit", learned: Some(300), ..jitter },
        Client { name: "All defaults", budget, breaker, ..jitter },
    ]
}
