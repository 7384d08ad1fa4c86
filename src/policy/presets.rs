use std::time::Duration;

use super::RetryPolicy;
use crate::backoff::{Backoff, Jitter};

impl RetryPolicy {
    /// Creates a policy of ten attempts within half an hour for unattended work.
    pub const fn patient() -> Self {
        Self::new()
            .with_attempts(10)
            .with_total_timeout(Duration::from_secs(30 * 60))
            .with_backoff(
                Backoff::exponential(Duration::from_secs(1)).with_cap(Duration::from_secs(60)),
            )
            .with_hint_cap(Duration::from_secs(5 * 60))
    }

    /// Creates a policy of ten attempts for work that collides with other work: a serialisation failure, a
    /// lock that was not available, a version that changed.
    ///
    /// | setting | value |
    /// |---|---|
    /// | attempts | 10 |
    /// | healthy backoff: after a collision | exponential from 5 ms, cap 200 ms, full jitter |
    /// | backoff: after all other errors | exponential from 500 ms, cap 1 s, equal jitter |
    /// | other settings | as in [`new`](Self::new) |
    ///
    /// The other work ends within milliseconds, so a longer delay wins nothing, while the jitter
    /// spreads the calls that collided. After collisions all delays together last at most 915 ms, and half
    /// of that on average.
    ///
    /// The upstream works, so the classifier returns a verdict with
    /// [`Health::Healthy`](crate::Health::Healthy) and no breaker opens. Without this health a collision has
    /// the longer delays of the other errors. A database transaction is repeated from its beginning, with
    /// its reads.
    ///
    /// Other errors need longer delays because a server that is down may end each connection at once. Each
    /// of these delays is at least 250 ms and from the second on at least 500 ms. So the ten attempts of an
    /// outage last at least 4.25 s.
    ///
    /// # Many writers of one row
    ///
    /// Ten attempts are enough for few writers. Here tasks write one row again and again without a pause,
    /// each transaction takes 3 ms, and all that overlap with a commit fail:
    ///
    /// | tasks | transactions that give up | attempts that suffice for all |
    /// |---|---|---|
    /// | 2 | none | 8 |
    /// | 5 | 1.0 % | 18 |
    /// | 10 | 2.7 % | 34 |
    /// | 20 | 5.5 % | 70 |
    /// | 50 | 13.7 % | 155 |
    /// | 100 | 24.9 % | 310 |
    ///
    /// Longer transactions need more. So with many writers set `with_attempts(u32::MAX)` and let the total
    /// timeout be the limit. The unluckiest transaction still waits until the load ends, because those that have
    /// just begun have shorter delays. If the load never ends, let the writers wait for one another instead,
    /// as an `UPDATE` under `READ COMMITTED` does.
    ///
    /// # Budget
    ///
    /// Begin without a [budget](crate::Budget): the ten attempts are the limit, and a pool of
    /// connections limits the work in flight. A budget counts these retries like all others, because
    /// each is load on the database and may collide again. Its capacity pays for a burst: with a pool of
    /// `n` connections `9 * n` tokens pay for all retries of one collision of all. Its deposit pays in
    /// the long run: 0.1 token per success is one retry for ten calls, whatever the capacity is. Where
    /// most calls want one row, most of them would end with a spent budget. To protect the database
    /// in an outage all the same, set the deposit to the retries that a success needs on that row,
    /// such as [`with_deposit(3.0)`](crate::Budget::with_deposit). Without successes the retries still
    /// end with the capacity.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::{Health, RetryPolicy, Verdict};
    ///
    /// /// 40001 is a serialisation failure: the transaction was rolled back.
    /// fn classify(sqlstate: &&str) -> Option<Verdict> {
    ///     let conflict = Verdict::transient().with_health(Health::Healthy);
    ///     (*sqlstate == "40001").then_some(conflict)
    /// }
    /// let policy = RetryPolicy::contention().with_classifier(classify);
    /// assert_eq!(policy.attempts(), 10);
    /// ```
    pub const fn contention() -> Self {
        Self::new()
            .with_attempts(10)
            .with_backoff(
                Backoff::exponential(Duration::from_millis(500))
                    .with_cap(Duration::from_secs(1))
                    .with_jitter(Jitter::Equal),
            )
            .with_healthy_backoff(
                Backoff::exponential(Duration::from_millis(5)).with_cap(Duration::from_millis(200)),
            )
    }

    /// Creates a policy of one attempt without retries. Its timeouts still apply if set.
    pub const fn none() -> Self {
        Self::new().with_attempts(1)
    }

    /// Creates the policy of the AWS SDKs: their standard mode in version 2.1, the default from
    /// November 2026. Use it with [`Budget::aws`](crate::Budget::aws).
    ///
    /// | setting | value |
    /// |---|---|
    /// | attempts | 3 |
    /// | backoff | exponential from 50 ms, cap 20 s, full jitter |
    /// | throttled backoff | exponential from 1 s, cap 20 s, full jitter |
    /// | hint | cut to the backoff's delay and 5 s more. No hint is too long |
    ///
    /// The SDKs read the hint from the header `x-amz-retry-after`. `DynamoDB` has four attempts and
    /// a backoff from 25 ms. Two details differ from the SDKs: a budget smaller than the cost of a
    /// retry still pays for one retry, and a long poll, such as `ReceiveMessage` of SQS, ends at
    /// once when the budget is spent. So let the loop around such polls sleep after
    /// [`StopReason::Budget`](crate::StopReason::Budget). The limit on the hint has no setting: it
    /// is neither read from a configuration nor written to one.
    ///
    /// Source: AWS SDKs and Tools Reference Guide, "Retry behavior" (2026).
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::{Backoff, Budget, RetryPolicy, Upstream};
    /// use std::time::Duration;
    ///
    /// static DYNAMO_DB: Upstream = Upstream::new("DynamoDB").with_budget(Budget::aws());
    /// static POLICY: RetryPolicy = RetryPolicy::aws().with_attempts(4).with_backoff(
    ///     Backoff::exponential(Duration::from_millis(25)).with_cap(Duration::from_secs(20)),
    /// );
    /// assert_eq!(DYNAMO_DB.budget().unwrap().capacity(), 500);
    /// assert_eq!(POLICY.throttled_backoff(), RetryPolicy::aws().throttled_backoff());
    /// ```
    pub const fn aws() -> Self {
        const CAP: Duration = Duration::from_secs(20);
        let mut policy = Self::new()
            .with_backoff(Backoff::exponential(Duration::from_millis(50)).with_cap(CAP))
            .with_throttled_backoff(Backoff::exponential(Duration::from_secs(1)).with_cap(CAP))
            .with_hint_cap(Duration::MAX);
        policy.hint_margin = Some(Duration::from_secs(5));
        policy
    }
}
