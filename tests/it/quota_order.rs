//! The order of the waiters of a quota.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::{join, join_all};
use resile::quota::{Cost, Quota, Rate};
use resile::{Never, RetryPolicy, Upstream, retry};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn old_waiters_of_one_group_leave_the_others_their_share() {
    let quota = Quota::new().with_requests(Rate::per_second(1).with_burst(1));
    let upstream = Upstream::new("model").with_quota(quota);
    let (began, late) = (Instant::now(), Cell::new(0));
    let call = |group: u8| {
        let left = Duration::from_secs(1_200).saturating_sub(began.elapsed());
        let policy = RetryPolicy::new().with_total_timeout(left);
        let target = upstream.at_cost(Cost::new()).with_group(group);
        async move {
            let answer = retry(async |_| Ok::<_, std::io::Error>(()), policy, Never).on(target);
            answer.await.is_ok()
        }
    };
    let crowd = join_all((0..1_000).map(|_| call(1)));
    let other = join_all((0..5).map(async |_| {
        while call(2).await {
            if began.elapsed().as_secs() >= 620 {
                late.set(late.get() + 1);
            }
        }
    }));
    join(crowd, other).await;
    // 580 calls fit. Half of them are the share, and an eighth may go to old waiters first.
    assert!(late.get() >= 200, "{} of 580 calls", late.get());
}
