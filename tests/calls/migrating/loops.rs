//! A loop by hand and its call: the end of the call, its limits, and an error that is handled at once.

use std::future::ready;
use std::iter;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use resile::cancel::Cancel;
use resile::classify::{ClassifyExt, Cut};
use resile::time::{ManualTimer, Timer};
use resile::{
    Attempt, Backoff, Classify, Drain, GaveUp, Jitter, Never, RetryPolicy, StopReason, Verdict,
    retry,
};
use tokio_util::sync::CancellationToken;

use super::counted::GIVEN;
use super::{SECOND, failing};
use crate::script::{Down, Script, Step, clock, drive};

/// The error of the program for an attempt that was cut.
const TIMEOUT: Down = Down(0);

/// The error of the program for a call that its token stopped.
const STOPPED: Down = Down(u32::MAX);

/// Returns the error of the program, as the chapter does.
fn own(gave_up: GaveUp<Down>) -> Down {
    match (gave_up.reason(), gave_up.cut()) {
        (StopReason::Cancelled, _) => STOPPED,
        (_, Some(_)) => TIMEOUT,
        _ => gave_up.into_last().unwrap_or(TIMEOUT),
    }
}

/// Returns the last error of the service, as the chapter does in one line.
fn last(gave_up: GaveUp<Down>) -> Down {
    gave_up.into_last().unwrap_or(TIMEOUT)
}

impl From<GaveUp<Down>> for Down {
    fn from(gave_up: GaveUp<Down>) -> Self {
        own(gave_up)
    }
}

fn ended(steps: &'static [Step], policy: RetryPolicy) -> GaveUp<Down> {
    let (script, timer) = (Script::new(steps), ManualTimer::new());
    let call = retry(|_| script.play(), policy.with_classifier(|_: &Down| true), Never);
    drive(call.on(clock(&timer)), &timer).unwrap_err()
}

/// The reason says why no further attempt came. The error is that of an earlier attempt.
#[test]
fn a_cut_last_attempt_is_a_timeout_of_the_program() {
    let two = RetryPolicy::new().with_attempts(2);
    let policy = two.with_attempt_timeout(SECOND);
    let gave_up = ended(&[Step::Fail, Step::Hang], policy);
    assert_eq!(gave_up.reason(), StopReason::Attempts);
    assert_eq!(gave_up.cut(), Some(Cut::AttemptTimeout(SECOND)));
    assert_eq!(gave_up.last(), Some(&Down(1)));
    assert_eq!(own(gave_up), TIMEOUT);
    let gave_up = ended(&[Step::Fail, Step::Hang], two.with_total_timeout(SECOND));
    assert_eq!(gave_up.cut(), Some(Cut::Deadline));
    assert_eq!(own(gave_up), TIMEOUT);

    let gave_up = ended(&[Step::Hang, Step::Fail], policy);
    assert_eq!((gave_up.cut(), own(gave_up)), (None, Down(2)));
    assert_eq!(own(ended(&[Step::Hang], policy)), TIMEOUT);
}

#[test]
fn one_line_is_the_last_error_of_the_service() {
    let policy = RetryPolicy::new().with_attempts(2).with_attempt_timeout(SECOND);
    assert_eq!(last(ended(&[Step::Fail], policy)), Down(2));
    assert_eq!(last(ended(&[Step::Fail, Step::Hang], policy)), Down(1));
    assert_eq!(last(ended(&[Step::Hang], policy)), TIMEOUT);
}

/// `?` converts the end of a call into the error of the program.
#[test]
fn a_conversion_is_written_once() {
    fn call(steps: &'static [Step]) -> Result<u32, Down> {
        let policy = RetryPolicy::new().with_attempts(2).with_attempt_timeout(SECOND);
        Err(ended(steps, policy))?
    }
    assert_eq!(call(&[Step::Fail]), Err(Down(2)));
    assert_eq!(call(&[Step::Fail, Step::Hang]), Err(TIMEOUT));
}

/// `with_total_delay` of backon makes the last attempt if the delays together are not above its limit.
#[test]
fn a_delay_that_ends_at_the_total_timeout_does_not_begin() {
    let policy = RetryPolicy::new()
        .with_attempts(u32::MAX)
        .with_backoff(Backoff::fixed(Duration::from_millis(250)));
    for (limit, attempts) in [(SECOND, 4), (SECOND + Duration::from_millis(1), 5)] {
        let (_, gave_up) = failing(policy.with_total_timeout(limit), Verdict::transient());
        assert_eq!((gave_up.attempts(), gave_up.reason()), (attempts, StopReason::Deadline));
        // No time is left for the delay, and no attempt was cut.
        assert_eq!((gave_up.cut(), gave_up.last()), (None, Some(&"busy")));
    }
}

/// The delays of `ExponentialBuilder` of backon, which are products in `f32`.
fn exponential_of_backon(base: Duration) -> impl Iterator<Item = Duration> {
    let twice = |delay: &Duration| Duration::try_from_secs_f32(2.0 * delay.as_secs_f32()).ok();
    iter::successors(Some(base), twice)
}

/// A delay of backon that ends at the limit begins, but rounding may lift the sum above the limit.
#[test]
fn a_limit_at_a_sum_of_five_delays_allows_six_attempts_of_backon_or_five() {
    for (base, old) in [(1_000, 6), (250, 6), (100, 5), (200, 5)] {
        let base = Duration::from_millis(base);
        let sum = base * 31;
        let mut waited = Duration::ZERO;
        let fits = |delay: &Duration| {
            waited += *delay;
            waited <= sum
        };
        assert_eq!(exponential_of_backon(base).take_while(fits).count() + 1, old, "{base:?}");
        let backoff = Backoff::exponential(base).with_jitter(Jitter::None);
        let attempts = |number: u32, limit: Duration| {
            let policy = RetryPolicy::new().with_attempts(number).with_total_timeout(limit);
            failing(policy.with_backoff(backoff), Verdict::transient()).1.attempts()
        };
        assert_eq!(attempts(u32::MAX, sum), 5);
        assert_eq!(attempts(u32::MAX, sum + Duration::from_millis(1)), 6);
        // The number decides if the limit is far above the sum.
        assert_eq!([5, 6].map(|number| attempts(number, 2 * sum)), [5, 6]);
    }
}

#[test]
fn a_hint_has_a_random_part_unless_the_policy_says_none() {
    let hint = 3 * SECOND;
    let backoff = Backoff::exponential(Duration::from_millis(100));
    let policy = RetryPolicy::new().with_attempts(4).with_backoff(backoff);
    let (waits, _) = failing(policy, Verdict::transient().after(hint));
    assert!(waits.iter().all(|wait| *wait >= hint), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait > hint), "{waits:?}");
    let exact = policy.with_backoff(backoff.with_jitter(Jitter::None));
    assert_eq!(failing(exact, Verdict::transient().after(hint)).0, [hint; 3]);
}

/// The part is at most the delay of the curve, or a tenth of the hint if that is more. A curve without
/// jitter has it too, unless `None` is given.
#[test]
fn a_hint_has_a_random_part_on_a_curve_without_jitter_too() {
    const SHORT: Backoff = Backoff::custom(|_| Duration::from_millis(100));
    const LONG: Backoff = Backoff::steps(&[SECOND]);
    let hint = 2 * SECOND;
    for (backoff, most) in [(SHORT, hint / 10), (LONG, SECOND)] {
        assert_eq!(backoff.jitter(), Jitter::None);
        let policy = RetryPolicy::new().with_attempts(50).with_backoff(backoff);
        let (waits, _) = failing(policy, Verdict::transient().after(hint));
        assert!(waits.iter().all(|wait| (hint..=hint + most).contains(wait)), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait > hint + most / 2), "{waits:?}");
        let exact = policy.with_backoff(backoff.with_jitter(Jitter::None));
        assert_eq!(failing(exact, Verdict::transient().after(hint)).0, [hint; 49]);
    }
}

/// The operation refreshes its token and sends again, so the policy sees one attempt without a delay.
#[test]
fn an_error_that_is_handled_within_the_operation_has_no_delay() {
    let (script, timer) = (Script::new(&[Step::Fail, Step::Succeed]), ManualTimer::new());
    let operation = async |attempt: Attempt| {
        assert!(attempt.is_first());
        match script.play().await {
            Err(Down(1)) => {
                ready(()).await; // the new token
                script.play().await
            }
            other => other,
        }
    };
    let call = retry(operation, RetryPolicy::new(), Never);
    assert_eq!(drive(call.on(clock(&timer)), &timer), Ok(2));
    assert_eq!(timer.now(), Duration::ZERO);
}

/// One attempt timeout covers both requests of an operation that renews its token.
#[test]
fn the_attempt_timeout_covers_all_that_the_operation_does() {
    let timer = ManualTimer::new();
    let (request, renewal) = (Duration::from_millis(400), Duration::from_millis(300));
    let operation = async |_: Attempt| {
        timer.sleep(request).await;
        timer.sleep(renewal).await;
        timer.sleep(request).await;
        Ok::<_, Down>(())
    };
    let once = RetryPolicy::new().with_attempts(1);
    let ended = |limit| {
        let call = retry(operation, once.with_attempt_timeout(limit), Never);
        drive(call.on(clock(&timer)), &timer).map_err(|gave_up| gave_up.cut())
    };
    assert_eq!(ended(SECOND), Err(Some(Cut::AttemptTimeout(SECOND))));
    assert_eq!(ended(2 * SECOND), Ok(()));
}

/// A closure that returns a `Verdict` has no opinion on a cut, and one that returns a `bool` has.
#[test]
fn a_cut_attempt_is_made_again_under_a_bool_or_with_cut_is() {
    fn end(classifier: impl Classify<Down>) -> Result<u32, (StopReason, u32)> {
        let (script, timer) = (Script::new(&[Step::Hang, Step::Succeed]), ManualTimer::new());
        let policy = RetryPolicy::new().with_attempt_timeout(SECOND).with_classifier(classifier);
        drive(retry(|_| script.play(), policy, Never).on(clock(&timer)), &timer)
            .map_err(|gave_up| (gave_up.reason(), gave_up.attempts()))
    }
    let verdict = |_: &Down| Verdict::transient();
    assert_eq!(end(|_: &Down| true), Ok(2));
    assert_eq!(end(verdict), Err((StopReason::Unclassified, 1)));
    assert_eq!(end(verdict.cut_is(Verdict::transient())), Ok(2));
}

/// `select!` around the loop drops an attempt in flight, and `select!` around its delays does not.
#[test]
fn a_stopped_call_is_an_error_of_the_program() {
    fn stopped<K: Cancel>(
        token: &CancellationToken,
        second: &'static [Step],
        passed: K,
    ) -> Result<u32, Down> {
        let (script, timer) = (Script::new(second), ManualTimer::new());
        let operation = |attempt: Attempt| {
            if !attempt.is_first() {
                token.cancel();
            }
            script.play()
        };
        let policy = RetryPolicy::new().with_classifier(|_: &Down| true);
        drive(retry(operation, policy, passed).on(clock(&timer)), &timer).map_err(own)
    }
    let token = CancellationToken::new;
    let (now, drained) = (token(), token());
    let slow = &[Step::Fail, Step::Pend(1, true)];
    assert_eq!(stopped(&now, slow, &now), Err(STOPPED));
    assert_eq!(stopped(&drained, slow, Drain(&drained)), Ok(2));
    // No further attempt begins.
    let failing = &[Step::Fail, Step::Pend(1, false)];
    let drained = token();
    assert_eq!(stopped(&drained, failing, Drain(&drained)), Err(STOPPED));
}

/// The log has the health of the verdict as a field.
#[test]
fn a_throttled_error_is_made_again_like_a_transient_one() {
    let policy = RetryPolicy::new().with_backoff(Backoff::none().with_jitter(Jitter::None));
    let [throttled, transient] =
        [Verdict::throttled(), Verdict::transient()].map(|verdict| verdict.after(SECOND));
    assert_eq!(failing(policy, throttled).0, failing(policy, transient).0);
    let words = [throttled, transient].map(|verdict| verdict.health().as_str());
    assert_eq!(words, ["throttling", "failing"]);
}

/// Makes a call whose attempts fail with these verdicts in turn. Returns its delays in milliseconds.
pub(super) fn delays(policy: RetryPolicy, classify: impl Fn(u32) -> Verdict) -> Vec<u128> {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let waits = Mutex::new(vec![]);
    let operation = |attempt: Attempt| {
        waits.lock().unwrap().push(attempt.delay().as_millis());
        script.play()
    };
    let policy = policy.with_classifier(|error: &Down| classify(error.0));
    drive(retry(operation, policy, Never).on(clock(&timer)), &timer).unwrap_err();
    waits.into_inner().unwrap().split_off(1)
}

/// The errors 2 and 4 ask for fewer requests.
#[test]
fn a_delay_that_grows_after_some_errors_only_has_two_forms() {
    let base = Duration::from_millis(100);
    let is_busy = |error: u32| error % 2 == 0;
    let policy = RetryPolicy::new().with_attempts(6);
    // Both curves count all retries.
    let growing = Backoff::exponential(base).with_jitter(Jitter::None);
    let two = policy.with_backoff(Backoff::fixed(base)).with_throttled_backoff(growing);
    let verdict = |error| if is_busy(error) { Verdict::throttled() } else { Verdict::transient() };
    assert_eq!(delays(two, verdict), [100, 200, 100, 800, 100]);
    // The classifier of one call counts its own errors.
    let busy = AtomicU32::new(0);
    let counted = |error| {
        if is_busy(error) {
            Verdict::throttled().with_base(base * 2_u32.pow(busy.fetch_add(1, SeqCst) + 1))
        } else {
            Verdict::transient().with_base(base)
        }
    };
    assert_eq!(delays(policy.with_backoff(GIVEN), counted), [100, 200, 100, 400, 100]);
}
