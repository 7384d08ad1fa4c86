//! A call that the program drops: the observer is told of an attempt in flight, once, and of nothing else.

use std::error::Error;
use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use resile::classify::ClassifyExt;
use resile::http::Failure;
use resile::observe::{Event, Observe};
use resile::time::ManualTimer;
use resile::{
    Attempt, Backoff, Classify, FallbackPolicy, HedgePolicy, Jitter, Never, ResilienceExt,
    RetryPolicy, Run, Upstream, Verdict, fallback, hedge, http, retry, retry_stream,
};

use super::script::{Down, Script, Step, poll};

const SECOND: Duration = Duration::from_secs(1);
const ORDER: &str = ", the request may have been executed and must not be sent again";

/// The events of one scene: their words and their lines.
#[derive(Default)]
struct Seen(Mutex<Vec<(&'static str, String)>>);

impl Observe for Seen {
    fn observe(&self, event: &Event<'_>) {
        self.0.lock().unwrap().push((event.kind.as_str(), event.to_string()));
    }
}

impl Seen {
    fn words(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().iter().map(|(word, _)| *word).collect()
    }

    fn dropped(&self) -> Vec<String> {
        let seen = self.0.lock().unwrap();
        seen.iter().filter(|(word, _)| *word == "dropped").map(|(_, line)| line.clone()).collect()
    }
}

/// Polls a call n times and drops it, for every n until it completes.
fn drop_at_every_await(
    call: &impl AsyncFn(&Script, &Upstream<ManualTimer>, &Seen) -> Result<u32, ()>,
) -> u32 {
    const SCRIPTS: &[&[Step]] = &[
        &[Step::Succeed],
        &[Step::Pend(3, true)],
        &[Step::Pend(2, false)],
        &[Step::Fail, Step::Pend(2, true)],
        &[Step::Pend(1, false), Step::Fail, Step::Pend(2, false), Step::Succeed],
        &[Step::Fail, Step::Fail, Step::Hang],
    ];
    let mut in_flight = 0;
    for steps in SCRIPTS {
        for polls in 0..40 {
            let (script, timer, seen) = (Script::new(steps), ManualTimer::new(), Seen::default());
            let upstream = Upstream::new("shop").with_timer(timer.clone());
            let mut call = Box::pin(call(&script, &upstream, &seen));
            let mut is_done = false;
            for _ in 0..polls {
                is_done = poll(call.as_mut()).is_ready();
                if is_done {
                    break;
                }
                if let Some(left) = timer.until_next() {
                    timer.advance(left.min(SECOND));
                }
            }
            let before = seen.words();
            drop(call);
            // An attempt is in flight if nothing has been told since its start.
            let expected = usize::from(!is_done && before.last() == Some(&"started"));
            let after = seen.words();
            assert_eq!(after.len(), before.len() + expected, "{polls} polls: {before:?} {after:?}");
            assert_eq!(seen.dropped().len(), expected, "{polls} polls: {before:?} {after:?}");
            in_flight += expected;
            if is_done {
                break;
            }
        }
    }
    u32::try_from(in_flight).unwrap()
}

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_total_timeout(Duration::from_secs(60))
    .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));

#[test]
fn a_retry_that_is_dropped_tells_of_an_attempt_in_flight_once() {
    for policy in [POLICY, POLICY.with_attempt_timeout(SECOND * 5), POLICY.without_total_timeout()]
    {
        let told =
            drop_at_every_await(&async |script: &Script, upstream: &Upstream<_>, seen: &Seen| {
                let upstream = upstream.observed_by(seen);
                retry(|_| script.play(), policy, Never).on(upstream).await.map_err(drop)
            });
        assert!(told > 8, "{told}");
    }
}

#[test]
fn a_single_call_that_is_dropped_tells_of_it_once() {
    let told =
        drop_at_every_await(&async |script: &Script, upstream: &Upstream<_>, seen: &Seen| {
            let upstream = upstream.observed_by(seen);
            script.play().through(upstream, |_: &Down| true).await.map_err(drop)
        });
    assert!(told > 5, "{told}");
}

#[test]
fn a_run_that_is_dropped_with_its_attempt_tells_of_it_once() {
    let told =
        drop_at_every_await(&async |script: &Script, upstream: &Upstream<_>, seen: &Seen| {
            let mut run = Run::new(POLICY, Never).on(upstream.observed_by(seen));
            loop {
                if let Some(value) = run.attempt(script.play()).await.map_err(drop)? {
                    return Ok(value);
                }
            }
        });
    assert!(told > 8, "{told}");
}

/// Starts a call, drops it after three seconds and returns the lines that tell of it.
fn lines<T>(call: impl AsyncFnOnce(&Upstream<ManualTimer>, &Seen) -> T) -> Vec<String> {
    let (seen, timer) = (Seen::default(), ManualTimer::new());
    let upstream = Upstream::new("shop").with_timer(timer.clone());
    let mut call = Box::pin(call(&upstream, &seen));
    for _ in 0..3 {
        assert!(poll(call.as_mut()).is_pending());
        timer.advance(SECOND);
    }
    drop(call);
    seen.dropped()
}

/// Returns the lines that tell of a request without an answer.
fn hangs<E: Error + 'static>(classifier: impl Classify<E>) -> Vec<String> {
    lines(async |upstream, seen| {
        let hang = |_| pending::<Result<(), E>>();
        let policy = POLICY.with_classifier(classifier);
        retry(hang, policy, Never).on(upstream.observed_by(seen)).await.map_err(drop)
    })
}

/// An order that nobody may send again has the words that its cut would have. A read has none.
#[test]
fn the_words_are_those_of_the_classifier_on_a_cut() {
    for (verdict, words) in [
        (Verdict::transient().not_again(), ORDER),
        (Verdict::transient(), ""),
        (Verdict::transient().keyed(), ""),
    ] {
        let told = hangs((|_: &Down| true).cut_is(verdict));
        assert_eq!(told, [format!("shop: dropped in flight in attempt 1 after 3.0s{words}")]);
    }
}

/// The retry before has waited for a second.
#[test]
fn the_attempt_and_the_time_are_those_of_the_call() {
    let told = lines(async |upstream, seen| {
        let once = async |attempt: Attempt| match attempt.number() {
            1 => Err::<(), _>(Down(1)),
            _ => pending().await,
        };
        retry(once, POLICY, Never).on(upstream.observed_by(seen)).await
    });
    assert_eq!(told, ["shop: dropped in flight in attempt 2 after 3.0s"]);
}

/// Drops an attempt of a run in flight, does this with the run and then drops the run.
fn run_after(step: &str) -> Vec<String> {
    lines(async |upstream, seen| {
        let mut run = Run::new(POLICY, Never).on(upstream.observed_by(seen));
        let mut attempt = Box::pin(run.attempt(pending::<Result<(), Down>>()));
        assert!(poll(attempt.as_mut()).is_pending());
        drop(attempt);
        match step {
            "attempt" => assert_eq!(run.attempt(ready(Ok(7))).await.unwrap(), Some(7)),
            "next" => assert_eq!(run.next().await.unwrap().number(), 2),
            "blocking_next" => assert_eq!(run.blocking_next().unwrap().number(), 2),
            "failed" => run.failed(Down(1)).unwrap(),
            "succeeded" => run.succeeded(()),
            _ => assert_eq!(step, "nothing"),
        }
        pending::<()>().await;
    })
}

/// Another attempt or a report tells more of the run than the drop of the attempt before.
#[test]
fn a_run_that_goes_on_after_a_dropped_attempt_has_no_line_of_it() {
    assert_eq!(run_after("nothing"), ["shop: dropped in flight in attempt 1 after 3.0s"]);
    for step in ["attempt", "next", "blocking_next", "failed", "succeeded"] {
        assert_eq!(run_after(step), [""; 0], "{step}");
    }
}

/// The run does not poll such an attempt, so it does not know whether it is in flight.
#[test]
fn an_attempt_by_hand_has_no_line() {
    let told = lines(async |upstream, seen| {
        let mut run = Run::<Down, _, _>::new(POLICY, Never).on(upstream.observed_by(seen));
        run.next().await.unwrap();
        pending::<()>().await;
    });
    assert_eq!(told, [""; 0]);
}

#[test]
fn a_stream_tells_of_a_drop_before_its_first_content_only() {
    for (items, expected) in [(0, 1), (2, 0)] {
        let told = lines(async |upstream, seen| {
            let open = |_| {
                let items = (0..items).map(Ok::<_, Down>);
                ready(Ok(futures_util::stream::iter(items).chain(futures_util::stream::pending())))
            };
            let answer = retry_stream(open, POLICY, Never).on(upstream.observed_by(seen));
            answer.collect::<Vec<_>>().await
        });
        assert_eq!(told.len(), expected, "{told:?}");
    }
}

/// The call with the limit tells of it, and so does a hedge of the attempts that it drops.
#[test]
fn a_call_that_another_call_drops_has_no_line() {
    let (seen, timer) = (Seen::default(), ManualTimer::new());
    let upstream = Upstream::new("shop").with_timer(timer.clone());
    let inner = || async {
        let hang = |_| pending::<Result<(), Down>>();
        let call = retry(hang, RetryPolicy::new(), Never).on(upstream.observed_by(&seen));
        call.await.map_err(|_| Down(1))
    };
    let limits = POLICY.with_attempts(1).with_attempt_timeout(SECOND);
    let outer = retry(|_| inner(), limits, Never).on(upstream.observed_by(&seen));
    super::script::drive(outer, &timer).unwrap_err();
    let policy = FallbackPolicy::new().with_total_timeout(SECOND);
    let models = ["first"];
    let outer = fallback(&models, |_| inner(), policy, Never).on(upstream.observed_by(&seen));
    super::script::drive(outer, &timer).unwrap_err();
    let policy = HedgePolicy::new().with_delay(SECOND);
    let second = async |attempt: Attempt| match attempt.number() {
        1 => inner().await,
        _ => Ok(()),
    };
    let outer = hedge(second, policy, Never).on(upstream.observed_by(&seen));
    super::script::drive(outer, &timer).unwrap();
    assert_eq!(seen.dropped(), [""; 0]);
    assert!(seen.words().contains(&"lost"), "{:?}", seen.words());
}

/// Drops an order by the attempt timeout of a call around it, and returns the lines of the drop.
fn dropped_by(outer: RetryPolicy<impl Classify<Down>>) -> Vec<String> {
    let (seen, timer) = (Seen::default(), ManualTimer::new());
    let upstream = Upstream::new("shop").with_timer(timer.clone());
    let inner = || async {
        let hang = |_| pending::<Result<(), Down>>();
        let order = (|_: &Down| true).cut_is(Verdict::transient().not_again());
        let policy = POLICY.with_classifier(order);
        let call = retry(hang, policy, Never).on(upstream.observed_by(&seen));
        call.await.map_err(|_| Down(1))
    };
    let outer = outer.with_attempts(1).with_attempt_timeout(SECOND);
    let outer = retry(|_| inner(), outer, Never).on(upstream.observed_by(&seen));
    super::script::drive(outer, &timer).unwrap_err();
    seen.dropped()
}

/// A call that knows nothing of the order within it cannot tell of the doubt.
#[test]
fn an_order_that_an_outer_call_drops_is_told_if_the_outer_call_does_not_tell_it() {
    let line = format!("shop: dropped in flight in attempt 1 after 1.0s{ORDER}");
    assert_eq!(dropped_by(POLICY), std::slice::from_ref(&line));
    assert_eq!(
        dropped_by(POLICY.with_classifier((|_: &Down| true).cut_is(Verdict::transient()))),
        [line]
    );
    let order = (|_: &Down| true).cut_is(Verdict::transient().not_again());
    assert_eq!(dropped_by(POLICY.with_classifier(order)), [""; 0]);
}

/// The classifier is asked for the place while the attempt runs.
#[test]
fn the_line_of_an_order_has_its_place() {
    for (order, line) in [
        (http::Classifier::non_idempotent(), format!("{ORDER} (request: POST /orders)")),
        (http::Classifier::idempotent(), String::new()),
    ] {
        let told = hangs::<Failure>(order.with_place("POST /orders"));
        assert_eq!(told, [format!("shop: dropped in flight in attempt 1 after 3.0s{line}")]);
    }
}

/// A second panic would end the process, so an observer is not called in a panic.
#[test]
fn a_call_that_a_panic_drops_is_not_told() {
    let (seen, timer) = (Seen::default(), ManualTimer::new());
    let upstream = Upstream::new("shop").with_timer(timer);
    let panics = AssertUnwindSafe(|| {
        let hang = |_| pending::<Result<(), Down>>();
        let mut call = Box::pin(retry(hang, POLICY, Never).on(upstream.observed_by(&seen)));
        assert!(poll(call.as_mut()) == Poll::Pending);
        panic!("the program");
    });
    assert!(catch_unwind(panics).is_err());
    assert_eq!(seen.words(), ["started"]);
}

/// How far an attempt has come when its call is dropped.
#[derive(Clone, Copy)]
enum Stage {
    Connecting,
    Sent,
    Committing,
    Unknown,
}

async fn comes_to(stage: Stage) -> Result<(), Failure> {
    match stage {
        Stage::Connecting => pending::<()>().before_sending().await,
        Stage::Sent => {
            let mut before = pin!(ready(()).before_sending());
            before.as_mut().await;
            pending::<()>().await;
        }
        Stage::Committing => {
            let mut before = pin!(ready(()).before_sending().of_commit());
            before.as_mut().await;
            pending::<()>().await;
        }
        Stage::Unknown => pending::<()>().await,
    }
    Ok(())
}

const NONE: &str = ", without effect (request: POST /orders)";

/// An order that has sent nothing is not in doubt, and one that was sent says so.
#[test]
fn the_attempt_says_whether_it_has_sent_its_request() {
    let order = http::Classifier::non_idempotent().with_place("POST /orders");
    let doubt = format!("{ORDER} (request: POST /orders)");
    for (stage, line, read) in [
        (Stage::Connecting, NONE.into(), ""),
        (Stage::Sent, format!(", its request was sent{doubt}"), ", its request was sent"),
        (Stage::Committing, format!(", its COMMIT was sent{doubt}"), ", its COMMIT was sent"),
        (Stage::Unknown, doubt.clone(), ""),
    ] {
        let front = "shop: dropped in flight in attempt 1 after 3.0s";
        let retried = |classifier: http::Classifier| {
            lines(async |upstream, seen| {
                let policy = POLICY.with_classifier(classifier);
                let upstream = upstream.observed_by(seen);
                retry(|_| comes_to(stage), policy, Never).on(upstream).await.map_err(drop)
            })
        };
        assert_eq!(retried(order), [format!("{front}{line}")]);
        assert_eq!(retried(http::Classifier::idempotent()), [format!("{front}{read}")]);
        let single = lines(async |upstream, seen| {
            let call = comes_to(stage).through(upstream.observed_by(seen), order);
            call.with_total_timeout(SECOND * 60).await.map_err(drop)
        });
        assert_eq!(single, [format!("{front}{line}")]);
        let stream = lines(async |upstream, seen| {
            let open = |_| async move {
                comes_to(stage).await?;
                Ok(futures_util::stream::pending::<Result<(), Failure>>())
            };
            let policy = POLICY.with_classifier(order);
            let answer = retry_stream(open, policy, Never).on(upstream.observed_by(seen));
            answer.collect::<Vec<_>>().await.len()
        });
        assert_eq!(stream, [format!("{front}{line}")]);
        assert_eq!(run_that_comes_to(stage), [format!("{front}{line}")]);
    }
}

fn run_that_comes_to(stage: Stage) -> Vec<String> {
    let order = http::Classifier::non_idempotent().with_place("POST /orders");
    lines(async |upstream, seen| {
        let policy = POLICY.with_classifier(order);
        let mut run = Run::new(policy, Never).on(upstream.observed_by(seen));
        run.attempt(comes_to(stage)).await.map_err(drop)
    })
}

/// An attempt that panics before its request is sent says nothing of a run that is dropped later.
#[test]
fn a_run_has_no_answer_of_a_call_that_has_panicked() {
    let upstream = Upstream::new("shop").with_timer(ManualTimer::new());
    let panics = |_| async {
        let mut before = pin!(pending::<()>().before_sending());
        assert!(poll(before.as_mut()).is_pending());
        panic!("the program");
    };
    let fails = retry::<_, _, (), Failure, _, _, _>(panics, POLICY, Never).on(&upstream);
    let mut call = Box::pin(fails);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(call.as_mut()))).is_err());
    drop(call);
    let doubt = format!("{ORDER} (request: POST /orders)");
    let line = format!("shop: dropped in flight in attempt 1 after 3.0s{doubt}");
    assert_eq!(run_that_comes_to(Stage::Unknown), [line]);
}

/// The answer is that of the attempt in flight, whatever was dropped before on this thread.
#[test]
fn an_order_has_no_answer_of_another_call() {
    let order = http::Classifier::non_idempotent().with_place("POST /orders");
    let told = lines(async |upstream, seen| {
        let nested = async |_| {
            let other = || upstream.observed_by(seen);
            let policy = POLICY.with_classifier(order);
            let connecting = retry(|_| comes_to(Stage::Connecting), policy, Never).on(other());
            let sent = retry(|_| comes_to(Stage::Unknown), policy, Never).on(other());
            tokio::join!(connecting, sent).1.map_err(|_| Failure::unanswered("lost"))
        };
        let policy = POLICY.with_classifier(order);
        retry(nested, policy, Never).on(upstream.observed_by(seen)).await.map_err(drop)
    });
    let line = |words: &str| format!("shop: dropped in flight in attempt 1 after 3.0s{words}");
    let doubt = format!("{ORDER} (request: POST /orders)");
    assert_eq!(told, [line(NONE), line(&doubt), line(NONE)]);
}

/// An earlier attempt may have had an effect, and it was made again all the same.
#[test]
fn an_earlier_attempt_may_have_had_an_effect() {
    let order = http::Classifier::non_idempotent().with_place("POST /orders");
    let again = (|_: &Failure| Some(Verdict::transient()), order);
    let told = lines(async |upstream, seen| {
        let once = async |attempt: Attempt| match attempt.number() {
            1 => Err(Failure::unanswered("lost")),
            _ => comes_to(Stage::Connecting).await,
        };
        let policy = POLICY.with_classifier(again);
        retry(once, policy, Never).on(upstream.observed_by(seen)).await.map_err(drop)
    });
    let words = ", without effect, but an earlier attempt may have had one (request: POST /orders)";
    assert_eq!(told, [format!("shop: dropped in flight in attempt 2 after 3.0s{words}")]);
}
