/// The state of a quota. A negative level is a debt. A level without a limit is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Levels {
    /// The number of requests left.
    pub requests: Option<i64>,
    /// The number of input tokens left.
    pub input: Option<i64>,
    /// The number of output tokens left.
    pub output: Option<i64>,
    /// The number of tokens left.
    pub tokens: Option<i64>,
    /// The output tokens that attempts in flight have reserved.
    pub reserved: u64,
    /// The number of attempts in flight. `None` without a limit of concurrency.
    pub in_flight: Option<u32>,
    /// The number of calls in the queue.
    pub waiting: u32,
}
