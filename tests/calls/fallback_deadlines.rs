//! The deadline of a fallback and that of the call within its last alternative, which may coincide.

use std::time::Duration;

use ::tracing::Level;
use futures_util::{StreamExt, TryStreamExt, stream};
use resile::classify::Cut;
use resile::fallback::Alternative;
use resile::stream::Part;
use resile::time::{ManualTimer, Timer};
use resile::{
    Backoff, Bulkhead, FallbackPolicy, GaveUp, HedgePolicy, Jitter, Never, RetryPolicy, StopReason,
    Upstream, fallback, hedge, retry, retry_stream,
};

use super::script::{Down, Script, Step, drive};
use super::tracing::{capture, messages};

const SECOND: Duration = Duration::from_secs(1);
/// The timers of two calls may end in any order within this time.
const LAGS: [Duration; 4] =
    [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1), Duration::from_millis(30)];

/// The call of the last alternative, which never answers.
#[derive(Clone, Copy, Debug)]
enum Last {
    /// Fails once and hangs then.
    Retry,
    /// Hangs in both requests.
    Hedge,
    /// Yields a word and hangs then.
    Stream,
    /// Waits for a permit.
    Queued,
}

/// Makes a call with 20 s for two models. The first one fails at once. The call of the second one begins
/// `lag` after its alternative, so its deadline is as much later. Returns the error and the last line.
fn chat(lag: Duration, last: Last, limit: Option<Duration>) -> (GaveUp<GaveUp<Down>>, String) {
    capture();
    let timer = &ManualTimer::new();
    let upstream = |name: &'static str| Upstream::new(name).with_timer(timer);
    let (big, chat) = (&upstream("big"), &upstream("chat"));
    let permits = if matches!(last, Last::Queued) { 1 } else { 2 };
    let small = &upstream("small").with_bulkhead(Bulkhead::new(permits));
    let _permit = matches!(last, Last::Queued).then(|| small.try_admit().unwrap());
    let ask = async |it: Alternative<'_, u8>| {
        if !it.is_last() {
            let fails = |_| async { Err::<(), _>(Down(1)) };
            return retry(fails, RetryPolicy::none(), Never).on(big).await;
        }
        timer.advance(lag);
        let total = limit.unwrap_or(it.share());
        let backoff = Backoff::fixed(SECOND).with_jitter(Jitter::None);
        let policy = RetryPolicy::new().with_backoff(backoff).with_total_timeout(total);
        let script = Script::new(match last {
            Last::Retry => &[Step::Fail, Step::Hang],
            _ => &[Step::Hang],
        });
        match last {
            Last::Retry | Last::Queued => {
                retry(|_| script.play(), policy, Never).on(small).await.map(drop)
            }
            Last::Hedge => {
                let policy = HedgePolicy::new().with_delay(SECOND).with_total_timeout(total);
                hedge(|_| script.play(), policy, Never).on(small).await.map(drop)
            }
            Last::Stream => {
                let open = async |_| Ok(stream::iter([Ok::<_, Down>(1)]).chain(stream::pending()));
                retry_stream(open, policy, Never)
                    .with_parts(|_: &u8| Part::Content)
                    .with_whole_timeout(total)
                    .on(small)
                    .try_for_each(|_| std::future::ready(Ok(())))
                    .await
            }
        }
    };
    let any = |_: &GaveUp<Down>| true;
    let policy = FallbackPolicy::new().with_total_timeout(SECOND * 20).with_classifier(any);
    let call = fallback(&[1, 2], ask, policy, Never).on(chat);
    let gave_up = drive(call, timer).unwrap_err();
    assert_eq!(timer.now(), SECOND * 20, "{last:?} {lag:?}");
    let (level, line) = messages().pop().unwrap();
    // The queue has refused the call, unless the fallback has cut it.
    let is_refused = matches!(last, Last::Queued) && limit.is_none();
    assert_eq!(level, if is_refused { Level::DEBUG } else { Level::WARN });
    (gave_up, line)
}

/// The end is that of the last call, in its words, whichever timer ends first.
#[test]
fn coinciding_deadlines_end_the_call_within_in_its_own_words() {
    let cut = "did not finish before the deadline of the call after 20s";
    let whole =
        "the stream did not end before the limit on the whole (`with_whole_timeout`) after 20s";
    let left = format!("{cut}; an earlier attempt failed");
    for (last, attempts, ends) in [
        (Last::Retry, "2 attempts", format!(" (last failure{{}}: {left}: down, 1)")),
        (Last::Hedge, "2 attempts", format!(" (last failure{{}}: {cut})")),
        (
            Last::Stream,
            "1 attempt",
            format!(", part of the answer was already delivered (last failure: {whole})"),
        ),
    ] {
        for lag in LAGS {
            let (gave_up, line) = chat(lag, last, None);
            let end = ends.replace("{}", "");
            let expected = format!(
                "chat: gave up after 2 of 2 alternatives: small: gave up after {attempts} in 20.0s{end}"
            );
            assert_eq!(line, expected, "{lag:?}");
            let small = gave_up.last().unwrap();
            assert_eq!((small.upstream(), small.cut()), (Some("small"), Some(Cut::Deadline)));
            let flat = gave_up.flatten();
            let end = ends.replace("{}", ", of small");
            let name = if end == ends { " (the last one: small)" } else { "" };
            let expected = format!("chat: gave up after 2 alternatives in 20.0s{name}{end}");
            assert_eq!(format!("{flat:#}"), expected, "{lag:?}");
        }
    }
}

/// No request was sent, and the words are those of the queue.
#[test]
fn coinciding_deadlines_end_a_wait_within_in_its_own_words() {
    let (_, expected) = chat(Duration::ZERO, Last::Queued, None);
    assert!(expected.contains("small: gave up after 0 attempts in 20.0s, "), "{expected}");
    for lag in LAGS {
        let (gave_up, line) = chat(lag, Last::Queued, None);
        assert_eq!(line, expected);
        let small = gave_up.last().unwrap();
        assert_eq!((small.upstream(), small.reason()), (Some("small"), StopReason::Deadline));
    }
}

/// The fallback cuts the call, which has more time. Its name is told, and whose the earlier error is.
#[test]
fn a_call_that_the_fallback_cuts_is_named() {
    let cut = "did not finish before the deadline of the call after 20s";
    for last in [Last::Retry, Last::Hedge, Last::Stream, Last::Queued] {
        for limit in [SECOND * 21, SECOND * 60] {
            let (gave_up, line) = chat(Duration::ZERO, last, Some(limit));
            let expected = format!(
                "chat: gave up after 2 of 2 alternatives: small: {cut}; an earlier alternative failed: \
                 big: gave up after 1 attempt: down, 1"
            );
            let part = ", part of the answer was already delivered";
            assert_eq!(line.replace(part, ""), expected);
            let start = "chat: gave up after 2 alternatives in 20.0s (last failure, of small";
            let words = gave_up.to_string().replace(part, "");
            assert_eq!(words, format!("{start}: {cut}; an earlier alternative failed)"));
            let flat = gave_up.flatten();
            let words = format!("{flat:#}").replace(part, "");
            assert_eq!(
                words,
                format!("{start}: {cut}; an earlier alternative (big) failed: down, 1)")
            );
        }
    }
}
