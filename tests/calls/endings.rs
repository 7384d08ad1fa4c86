//! What the error and the event of a call that gave up say of its end.

use std::cell::RefCell;
use std::future::ready;
use std::time::Duration;

use resile::observe::Event;
use resile::quota::{Cost, Rate};
use resile::time::ManualTimer;
use resile::{Never, Quota, RetryPolicy, StopReason, Upstream, retry};

use super::script::{Down, drive};

const SECOND: Duration = Duration::from_secs(1);

fn feed(timer: &ManualTimer) -> Upstream<ManualTimer> {
    Upstream::new("feed").with_timer(timer.clone())
}

/// A call whose units come too late leaves at once. It is not counted as one in the queue.
#[test]
fn a_call_that_does_not_queue_is_not_counted_in_the_queue() {
    let timer = ManualTimer::new();
    let lines = RefCell::new(Vec::new());
    let note = |event: &Event<'_>| lines.borrow_mut().push(event.to_string());
    let quota = Quota::new().with_tokens(Rate::per_minute(60).with_burst(60));
    let upstream = feed(&timer).with_quota(quota);
    let call = |upstream| {
        let policy = RetryPolicy::new().with_total_timeout(SECOND * 8);
        drive(retry(|_| ready(Ok::<(), Down>(())), policy, Never).on(upstream), &timer)
    };
    call(upstream.at_cost(Cost::input(60)).observed_by(&note)).unwrap();
    lines.borrow_mut().clear();
    let gave_up = call(upstream.at_cost(Cost::input(30)).observed_by(&note)).unwrap_err();
    assert_eq!(gave_up.reason(), StopReason::Deadline);
    let lines = lines.into_inner();
    assert_eq!(lines[0], "feed: quota used up: 0 queued, further calls wait or are refused");
    assert_eq!(lines.len(), 2, "{lines:#?}");
}
