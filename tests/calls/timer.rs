//! Timers: the end of their sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use resile::cancel::Cancel;
use resile::time::{ManualTimer, Timer, TokioTimer};
use resile::{Backoff, Drain, Never, RetryPolicy, Upstream, retry};

use super::script::{Script, Step, poll};

const SECOND: Duration = Duration::from_secs(1);

/// A timer with the provided `sleep_until`.
struct Plain(ManualTimer);

impl Timer for Plain {
    type Sleep = <ManualTimer as Timer>::Sleep;

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        self.0.sleep(delay)
    }
}

/// Calls `sleep_until` on any timer, including a reference.
fn sleep_until<M: Timer>(timer: M, at: Duration) -> M::Sleep {
    timer.sleep_until(at)
}

proptest! {
    #[test]
    fn a_sleep_until_a_reading_ends_at_that_reading(start in 0_u64..100, at in 0_u64..200) {
        let timer = Plain(ManualTimer::new());
        timer.0.advance(SECOND * u32::try_from(start).unwrap());
        let at = Duration::from_secs(at);
        let mut sleep = Box::pin(sleep_until(&timer, at));
        while timer.now() < at {
            prop_assert_eq!(poll(sleep.as_mut()), Poll::Pending);
            timer.0.advance(SECOND);
        }
        prop_assert_eq!(poll(sleep.as_mut()), Poll::Ready(()));
    }
}

#[tokio::test(start_paused = true)]
async fn tokio_timer_sleeps_until_its_own_readings() {
    let timer = TokioTimer::new();
    let began = timer.now();
    for at in [began + SECOND * 5, began + SECOND * 9] {
        timer.sleep_until(at).await;
        let late = timer.now().checked_sub(at).expect("the sleep did not end early");
        assert!(late <= Duration::from_millis(1), "{late:?}");
    }
    timer.sleep_until(began).await;
    timer.sleep_until(Duration::ZERO).await;
    assert!(
        timer.now() <= began + SECOND * 9 + Duration::from_millis(4),
        "a sleep until a past reading ends at once"
    );
    let mut for_ever = Box::pin(timer.sleep_until(Duration::MAX));
    assert_eq!(poll(for_ever.as_mut()), Poll::Pending);
}

/// A token that can never cancel creates nothing to wait on. `cancelled` is called only when an
/// attempt is pending.
#[test]
fn a_token_that_never_cancels_is_not_waited_on() {
    struct Idle(AtomicU32);
    impl Cancel for &Idle {
        type Cancelled = std::future::Pending<()>;

        fn is_cancelled(&self) -> bool {
            false
        }

        fn cancelled(&self) -> Option<Self::Cancelled> {
            self.0.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
    assert!(
        Never.cancelled().is_none()
            && None::<Never>.cancelled().is_none()
            && Drain(Never).cancelled().is_none()
    );
    let (policy, timer, idle) = (RetryPolicy::new(), ManualTimer::new(), Idle(AtomicU32::new(0)));
    let upstream = Upstream::new("slow").with_timer(&timer);
    let script = Script::new(&[Step::Succeed, Step::Pend(2, true)]);
    let mut call = Box::pin(retry(|_| script.play(), &policy, &idle).on(&upstream));
    assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(1))));
    assert_eq!(idle.0.load(Ordering::Relaxed), 0, "`cancelled` was not called");
    let mut call = Box::pin(retry(|_| script.play(), &policy, &idle).on(&upstream));
    assert!(poll(call.as_mut()).is_pending());
    assert!(poll(call.as_mut()).is_pending());
    assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(2))));
    assert_eq!(timer.sleepers(), 0);
}

/// A delay needs a runtime. The text of the panic names what to do without one.
#[test]
fn a_retry_outside_of_a_runtime_panics_with_the_remedy() {
    let call = std::thread::spawn(|| {
        let script = Script::new(&[Step::Fail]);
        // A drawn delay may be zero, which needs no timer.
        let policy = RetryPolicy::new().with_backoff(Backoff::fixed(SECOND));
        let mut call = Box::pin(retry(|_| script.play(), policy, Never));
        let _ = poll(call.as_mut());
    });
    let panic = call.join().unwrap_err();
    let text = panic.downcast_ref::<&str>().copied().unwrap_or_default();
    assert!(text.contains("ThreadTimer") && text.contains("with_timer"), "{text}");
    assert!(text.contains("needs a tokio runtime"), "{text}");
}
