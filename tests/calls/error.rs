//! `GaveUp`, `Elapsed` and `Error<E>` as error types.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use resile::classify::{ClassifyExt, Cut};
use resile::time::ManualTimer;
use resile::timeout::{ClassifyOperation, Elapsed, Error};
use resile::{
    Backoff, Classify, GaveUp, Health, Never, ResilienceExt, RetryPolicy, StopReason, Verdict,
    retry,
};

use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, clock, drive};

const SECOND: Duration = Duration::from_secs(1);
type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// Returns the error of a call that gave up on errors made by `error`.
fn given_up<E>(error: impl Fn() -> E) -> GaveUp<E> {
    let (timer, policy) =
        (ManualTimer::new(), RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none()));
    drive(retry(|_| async { Err::<(), _>(error()) }, &policy, Never), &timer).unwrap_err()
}

fn elapsed() -> Elapsed {
    let timer = ManualTimer::new();
    let error =
        drive(std::future::pending::<io::Result<()>>().timeout(SECOND).on(clock(&timer)), &timer)
            .unwrap_err();
    *error.get_ref().unwrap().downcast_ref::<Elapsed>().unwrap()
}

#[derive(Debug, thiserror::Error)]
enum Own {
    #[error("connection")]
    Connection(#[source] io::Error),
    #[error("too slow")]
    Slow(#[from] Elapsed),
}

/// Each error prints only its own level, so the chain of sources has each level once.
#[test]
fn gave_up_prints_only_its_own_level() {
    let gave_up = given_up(|| Own::Connection(io::Error::other("reset by peer")));
    let mut chain = vec![gave_up.to_string()];
    let mut level = gave_up.source();
    while let Some(error) = level {
        chain.push(error.to_string());
        level = error.source();
    }
    assert_eq!(chain, ["gave up after 2 attempts", "connection", "reset by peer"]);
    assert_eq!(format!("{:#}", anyhow::Error::from(gave_up)), chain.join(": "));
}

/// A panic of `unwrap()` prints it, and so do errors that print their source by `Debug`.
#[test]
fn debug_has_only_the_facts_that_are_set() {
    let plain = given_up(|| Down(1));
    let verdict = "Verdict { again: true, health: Failing }";
    assert_eq!(
        format!("{plain:?}"),
        format!(
            "GaveUp {{ reason: Attempts, attempts: 2, elapsed: 0ns, verdict: {verdict}, \
             last: Down(1) }}"
        )
    );
    let (script, timer) = (Script::new(&[Step::Hang]), ManualTimer::new());
    let once = (|_: &Down| true).cut_is(Verdict::transient().not_again().at_least(SECOND));
    let policy = RetryPolicy::new().with_attempt_timeout(SECOND).with_classifier(once);
    let cut = drive(retry(|_| script.play(), policy, Never).on(clock(&timer)), &timer).unwrap_err();
    assert_eq!(
        format!("{cut:?}"),
        "GaveUp { reason: Fatal, attempts: 1, elapsed: 1s, retry_after: 1s, \
         verdict: Verdict { again: false, health: Failing, own_wait: true, wait: 1s }, \
         cut: AttemptTimeout(1s), in_doubt: true, upstream: \"script\" }"
    );
}

#[test]
fn debug_of_a_verdict_has_only_what_is_set() {
    let verdict = |verdict: Verdict| format!("{verdict:?}");
    assert_eq!(verdict(Verdict::fatal()), "Verdict { again: false, health: Unknown }");
    assert_eq!(
        verdict(Verdict::throttled().not_sent().idempotent().not_wanted().after(SECOND)),
        "Verdict { again: false, health: Throttling, idempotent: true, not_sent: true, \
         not_wanted: true, own_limit: true, wait: 1s }"
    );
    assert_eq!(
        verdict(Verdict::transient().not_repeatable()),
        "Verdict { again: false, health: Failing, not_repeatable: true }"
    );
    assert_eq!(
        verdict(Verdict::transient().with_base(SECOND)),
        "Verdict { again: true, health: Failing, base: 1s }"
    );
}

/// An error that passes its formatter on, as that of `reqwest-middleware` does.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Passed(#[from] anyhow::Error);

/// Under a reporter and under an error that passes its formatter on, each level comes once.
#[test]
fn one_line_of_a_reporter_names_each_error_once() {
    let timer = ManualTimer::new();
    let own = || async { Err::<(), _>(Own::Connection(io::Error::other("reset by peer"))) };
    let call = || {
        let call = retry(|_| own(), RetryPolicy::none(), Never).on(clock(&timer));
        drive(call, &timer).unwrap_err()
    };
    let line = "script: gave up after 1 attempt: connection: reset by peer";
    assert_eq!(format!("{:#}", call()), line);
    assert_eq!(format!("{:#}", anyhow::Error::from(call())), line);
    let context = anyhow::Error::from(call()).context("no answer");
    assert_eq!(format!("{context:#}"), format!("no answer: {line}"));
    let passed = || Passed::from(anyhow::Error::from(call()));
    assert_eq!(format!("{:#}", passed()), line);
    assert_eq!(format!("{:#}", anyhow::Error::from(passed())), line);
    // The last error keeps its place in the chain.
    let error = anyhow::Error::from(passed());
    assert!(error.chain().any(<dyn std::error::Error>::is::<Own>));
}

/// A layer boxes the error of its call, which may have had no name.
#[test]
fn the_one_line_of_a_boxed_error_is_that_of_its_call() {
    let timer = ManualTimer::new();
    let own = || async { Err::<(), _>(Own::Connection(io::Error::other("reset\nby peer"))) };
    let wait = |_: &Own| Verdict::throttled().not_again().idempotent().after(SECOND);
    let policy = RetryPolicy::none().with_classifier(wait);
    let call = || drive(retry(|_| own(), &policy, Never).on(clock(&timer)), &timer).unwrap_err();
    let line = "script: gave up after 1 attempt, the classifier forbids a retry, \
                the upstream asked for a wait of 1.0s: connection: reset\\nby peer";
    assert_eq!(format!("{:#}", call()), line);
    assert_eq!(format!("{:#}", call().into_boxed()), line);
    assert_eq!(format!("{:#}", call().map(|own| own).into_boxed()), line);
    assert_eq!(call().into_boxed().to_string(), call().to_string());
    let unnamed = drive(retry(|_| own(), &policy, Never), &timer).unwrap_err().into_boxed();
    assert_eq!(format!("script: {unnamed:#}"), line);
    // The log of a call around it names each error once.
    let outer = || async { Err::<(), _>(call().into_boxed()) };
    let outer = retry(|_| outer(), RetryPolicy::none(), Never).on(clock(&timer));
    let outer = format!("{:#}", drive(outer, &timer).unwrap_err());
    assert_eq!(outer, format!("script: gave up after 1 attempt: {line}"));
}

/// A layer gives its callers the type of error that they know, and the words of its log.
#[test]
fn an_error_that_is_replaced_keeps_its_words() {
    let timer = ManualTimer::new();
    let own = || async { Err::<(), _>(Own::Connection(io::Error::other("reset by peer"))) };
    let call = || {
        let call = retry(|_| own(), RetryPolicy::none(), Never);
        drive(call, &timer).unwrap_err().into_boxed().with_last(Down(1))
    };
    let line = "gave up after 1 attempt: connection: reset by peer";
    assert_eq!(format!("{:#}", call()), line);
    assert_eq!(call().source().unwrap().downcast_ref::<Down>().unwrap().0, 1);
    assert_eq!(format!("{:#}", call().with_last(Down(2))), line);
    // The log of a call around it does not add those of the other error, also not through an error between.
    let around = || async { Err::<(), _>(call()) };
    let around = retry(|_| around(), RetryPolicy::none(), Never).on(clock(&timer));
    let outer = format!("script: gave up after 1 attempt: {line}");
    assert_eq!(format!("{:#}", drive(around, &timer).unwrap_err()), outer);
    let around = || async { Err::<(), _>(io::Error::other(call())) };
    let around = retry(|_| around(), RetryPolicy::none(), Never).on(clock(&timer));
    assert_eq!(format!("{:#}", drive(around, &timer).unwrap_err()), outer);
    // Nothing to replace.
    let token = CancellationToken::new();
    token.cancel();
    let cancelled = drive(retry(|_| own(), RetryPolicy::none(), &token), &timer).unwrap_err();
    let cancelled = cancelled.into_boxed().with_last(Down(1));
    assert!(cancelled.source().is_none());
    assert_eq!(format!("{cancelled:#}"), "gave up after 0 attempts, cancelled");
}

#[test]
fn gave_up_prints_the_elapsed_time_and_the_hint() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let policy = RetryPolicy::new()
        .with_attempts(2)
        .with_backoff(Backoff::fixed(Duration::from_millis(1500)).with_jitter(resile::Jitter::None))
        .with_hint_cap(SECOND)
        .with_classifier(|error: &Down| {
            if error.0 == 1 { Verdict::transient() } else { Verdict::throttled().after(SECOND * 9) }
        });
    let words = |policy: &RetryPolicy<_>| {
        drive(retry(|_| script.play(), policy, Never).on(clock(&timer)), &timer)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(words(&policy), "script: gave up after 2 attempts in 1.5s, try again in 9.0s");
    assert_eq!(
        words(&policy),
        "script: gave up after 1 attempt, the upstream asks for a wait of 9.0s, \
         more than the hint cap of 1s (`with_hint_cap`)"
    );
}

/// A wait before "again" would contradict a request that must not be sent again. A getter has it.
#[test]
fn a_final_failure_names_no_wait_before_the_next_call() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let lines = std::cell::RefCell::new(Vec::new());
    let observer = |event: &resile::observe::Event<'_>| lines.borrow_mut().push(event.to_string());
    for (verdict, told) in [
        (Verdict::throttled().not_again().after(SECOND), ", the upstream asked for a wait of 1.0s"),
        (Verdict::throttled().not_again().at_least(SECOND), ""),
    ] {
        let policy = RetryPolicy::new().with_classifier(move |_: &Down| verdict);
        let upstream = super::script::upstream(&timer);
        let call = retry(|_| script.play(), &policy, Never).on(upstream.observed_by(&observer));
        let gave_up = drive(call, &timer).unwrap_err();
        let words = "the request may have been executed and must not be sent again";
        assert_eq!(gave_up.to_string(), format!("script: gave up after 1 attempt, {words}{told}"));
        assert_eq!(gave_up.retry_after(), Some(SECOND));
        let line = lines.borrow().last().cloned().unwrap();
        assert!(line.contains(words) && !line.contains("next call"), "{line}");
        let (line, _) = line.split_once(": down, ").unwrap();
        assert!(
            line.ends_with(&format!("sent again{told}")) && !line.contains("try again"),
            "{line}"
        );
    }
}

proptest::proptest! {
    /// The short form lacks the last error alone, so a wait that ended the call is in both, and in the line of the log.
    #[test]
    fn the_short_form_of_an_end_lacks_its_last_error_alone(
        health in 0..4_usize,
        is_again in proptest::bool::ANY,
        wait in proptest::option::of(0..12_u64),
        is_own in proptest::bool::ANY,
        is_wanted in proptest::bool::ANY,
        request in 0..3_usize,
        attempts in 1..3_u32,
        total in 1..20_u64,
        cap in 1..10_u64,
    ) {
        let verdict = [Verdict::transient(), Verdict::throttled(), Verdict::overloaded(), Verdict::fatal()][health];
        let verdict = if is_again { verdict } else { verdict.not_again() };
        let verdict = [verdict, verdict.idempotent(), verdict.keyed()][request];
        let verdict = match wait.map(|wait| SECOND * u32::try_from(wait).unwrap()) {
            Some(wait) if is_own => verdict.at_least(wait),
            Some(wait) => verdict.after(wait),
            None => verdict,
        };
        let verdict = if is_wanted { verdict } else { verdict.not_wanted() };
        let policy = RetryPolicy::new()
            .with_attempts(attempts)
            .with_total_timeout(Duration::from_secs(total))
            .with_hint_cap(Duration::from_secs(cap))
            .with_classifier(move |_: &Down| verdict);
        let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
        let lines = std::cell::RefCell::new(Vec::new());
        let observer = |event: &resile::observe::Event<'_>| lines.borrow_mut().push(event.to_string());
        let upstream = super::script::upstream(&timer);
        let call = retry(|_| script.play(), &policy, Never).on(upstream.observed_by(&observer));
        let gave_up = drive(call, &timer).unwrap_err();
        let (short, whole) = (gave_up.to_string(), format!("{gave_up:#}"));
        let last = whole.strip_prefix(&short).unwrap_or_else(|| panic!("{short}\n{whole}"));
        proptest::prop_assert!(last.starts_with(": down, "), "{}", whole);
        // Only the numbers of the attempts and the time differ in the log.
        let line = lines.borrow().last().cloned().unwrap();
        let (_, logged) = line.split_once(" attempts").unwrap();
        proptest::prop_assert!(whole.ends_with(logged), "{}\n{}", whole, line);
    }
}

/// Error types without `Error` pass through unchanged.
#[test]
fn operations_may_return_anyhow_and_boxed_errors() {
    let gave_up = given_up(|| anyhow::anyhow!("root").context("on top"));
    assert_eq!(format!("{:#}", gave_up.into_last().unwrap()), "on top: root");
    let gave_up = given_up(|| Boxed::from("a box"));
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Attempts, 2));
    assert_eq!(gave_up.last().unwrap().to_string(), "a box");
    assert_eq!(gave_up.into_last().unwrap().to_string(), "a box");
    let gave_up = given_up(|| "a word");
    assert_eq!(format!("{:?}", gave_up.clone()), format!("{gave_up:?}"));
}

/// Every error type converts by `?` into the error type of the caller.
#[test]
fn gave_up_converts_by_the_question_mark_operator() {
    fn into_anyhow<E>(error: impl Fn() -> E) -> anyhow::Result<()>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Err(given_up(error).into_boxed())?
    }
    fn into_box<E>(error: impl Fn() -> E) -> Result<(), Boxed>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Err(given_up(error).into_boxed())?
    }
    fn as_it_is() -> anyhow::Result<()> {
        Err(given_up(|| Down(1)))?
    }
    fn as_it_is_boxed() -> Result<(), Box<dyn std::error::Error>> {
        Err(given_up(|| Down(1)))?
    }
    fn chain(error: &(dyn std::error::Error + 'static)) -> Vec<String> {
        let (mut chain, mut level) = (Vec::new(), Some(error));
        while let Some(error) = level {
            chain.push(error.to_string());
            level = error.source();
        }
        chain
    }
    const TOP: &str = "gave up after 2 attempts";
    let own = || Own::Connection(io::Error::other("reset by peer"));
    // The box adds no level to the chain.
    for error in [
        into_anyhow(own),
        into_anyhow(|| anyhow::Error::from(own())),
        into_anyhow(|| Boxed::from(own())),
    ] {
        let error = error.unwrap_err();
        assert_eq!(chain(error.as_ref()), [TOP, "connection", "reset by peer"]);
        assert!(error.is::<GaveUp<resile::error::Boxed>>());
    }
    assert_eq!(chain(&*into_box(own).unwrap_err()), [TOP, "connection", "reset by peer"]);
    assert_eq!(chain(&*into_box(|| String::from("a word")).unwrap_err()), [TOP, "a word"]);
    assert_eq!(chain(as_it_is().unwrap_err().as_ref()), [TOP, "down, 1"]);
    assert_eq!(chain(&*as_it_is_boxed().unwrap_err()), [TOP, "down, 1"]);

    let boxed = given_up(own).into_boxed();
    assert_eq!((boxed.reason(), boxed.attempts()), (StopReason::Attempts, 2));
    let inner = boxed.into_last().unwrap().into_inner().downcast::<Own>().unwrap();
    assert!(matches!(*inner, Own::Connection(_)));
}

/// Outcomes can be compared, if the errors of the operation can.
#[tokio::test(start_paused = true)]
async fn outcomes_can_be_compared() {
    let policy = || RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none());
    assert_eq!(retry(|_| async { Ok::<_, Down>(7) }, policy(), Never).await, Ok(7));
    let call = |number| retry(move |_| async move { Err::<u32, _>(Down(number)) }, policy(), Never);
    let (one, two) = (call(1).await.unwrap_err(), call(2).await.unwrap_err());
    assert_eq!(one, one.clone());
    assert_ne!(one, two);
    assert_eq!(one.clone().map(|_| Down(2)), two);
    assert_ne!(call(1).on("named").await.unwrap_err(), one);
    let other = retry(|_| async { Err::<u32, _>(Down(1)) }, policy().with_attempts(1), Never);
    assert_ne!(other.await.unwrap_err(), one);
}

/// `GaveUp` also has the verdict on the last error and the name of the upstream.
#[test]
fn gave_up_has_the_verdict_and_the_upstream() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let verdict = Verdict::throttled().after(SECOND * 9).not_again();
    let policy = RetryPolicy::new().with_classifier(move |_: &Down| verdict);
    let gave_up =
        drive(retry(|_| script.play(), policy, Never).on(clock(&timer)), &timer).unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.verdict(), gave_up.cut()),
        (StopReason::Fatal, Some(verdict), None)
    );
    assert_eq!((gave_up.upstream(), gave_up.retry_after()), (Some("script"), Some(SECOND * 9)));
    let named =
        drive(retry(|_| script.play(), policy, Never).on("a name alone"), &timer).unwrap_err();
    assert_eq!(named.upstream(), Some("a name alone"));
    let alone = drive(retry(|_| script.play(), policy, Never), &timer).unwrap_err();
    assert_eq!(alone.upstream(), None);
    assert!(!alone.to_string().contains("script"));
}

/// A call inside a call becomes one level, with the inner reason and the outer name and number of
/// attempts.
#[test]
fn flatten_makes_one_level_of_two() {
    let (timer, inner_policy) =
        (ManualTimer::new(), RetryPolicy::new().with_backoff(Backoff::fixed(SECOND)));
    let outer_policy =
        inner_policy.with_attempts(2).with_classifier(|gave_up: &GaveUp<Down>| gave_up.verdict());
    let script = Script::new(&[Step::Fail]);
    let inner = |_| retry(|_| script.play(), inner_policy, Never).on(clock(&timer));
    let outer = resile::Upstream::new("outer").with_timer(timer.clone());
    let gave_up = drive(flat(retry(inner, outer_policy, Never).on(&outer)), &timer);
    assert_eq!(
        (gave_up.reason(), gave_up.last(), gave_up.attempts()),
        (StopReason::Attempts, Some(&Down(6)), 2)
    );
    assert_eq!(
        (gave_up.upstream(), gave_up.verdict()),
        (Some("outer"), Some(Verdict::transient()))
    );
    let at_once = outer_policy.with_backoff(Backoff::none());
    let nameless = drive(flat(retry(inner, at_once, Never)), &timer);
    assert_eq!((nameless.upstream(), nameless.attempts()), (Some("script"), 2));

    // No inner call has ended, so the outer reason stays.
    let token = tokio_util::sync::CancellationToken::new();
    token.cancel();
    let gave_up = drive(flat(retry(inner, outer_policy, &token).on(&outer)), &timer);
    assert_eq!(
        (gave_up.reason(), gave_up.last(), gave_up.attempts()),
        (StopReason::Cancelled, None, 0)
    );
    assert_eq!(gave_up.upstream(), Some("outer"));
}

async fn flat(call: impl Future<Output = Result<u32, GaveUp<GaveUp<Down>>>>) -> GaveUp<Down> {
    call.await.map_err(GaveUp::flatten).unwrap_err()
}

/// A cut attempt is retried, and counts as a failure of the upstream.
#[test]
fn a_cut_attempt_is_retried() {
    for on_upstream in [true, false] {
        let (script, timer) = (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new());
        let backoff = Backoff::fixed(SECOND);
        let policy = RetryPolicy::new().with_backoff(backoff).with_attempt_timeout(SECOND * 30);
        let call = retry(|_| script.play(), policy, Never);
        let (gave_up, name) = if on_upstream {
            (drive(call.on(clock(&timer)), &timer).unwrap_err(), "script: ")
        } else {
            let paused = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build();
            (paused.unwrap().block_on(call).unwrap_err(), "")
        };
        assert_eq!(
            (gave_up.reason(), gave_up.attempts(), script.drops()),
            (StopReason::Attempts, 3, 3)
        );
        assert_eq!(
            (gave_up.cut(), gave_up.last()),
            (Some(Cut::AttemptTimeout(SECOND * 30)), Some(&Down(1)))
        );
        assert_eq!(
            (gave_up.verdict(), gave_up.elapsed()),
            (Some(Verdict::transient()), SECOND * 62)
        );
        assert_eq!(
            gave_up.to_string(),
            format!(
                "{name}gave up after 3 attempts in 62.0s (last failure: did not finish within 30s; an \
                 earlier attempt failed)"
            )
        );
    }
}

/// The classifier may forbid the retry of a cut attempt. The verdict still counts as a failure of
/// the upstream.
#[test]
fn a_cut_attempt_is_not_retried_if_the_classifier_forbids_it() {
    let (script, timer) = (Script::new(&[Step::Hang]), ManualTimer::new());
    let once = (|_: &Down| true).cut_is(Verdict::transient().not_again());
    let policy = RetryPolicy::new().with_attempt_timeout(SECOND).with_classifier(once);
    let gave_up =
        drive(retry(|_| script.play(), policy, Never).on(clock(&timer)), &timer).unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.last()),
        (StopReason::Fatal, 1, None)
    );
    assert_eq!(gave_up.cut(), Some(Cut::AttemptTimeout(SECOND)));
    assert_eq!(gave_up.verdict().map(|verdict| verdict.health()), Some(Health::Failing));
    assert!(gave_up.to_string().ends_with("(last failure: did not finish within 1s)"), "{gave_up}");
}

/// The earlier of the two timeouts cuts the attempt, and the error names it.
#[test]
fn the_earlier_timeout_cuts_the_attempt() {
    for (total, cut, reason, elapsed) in [
        (SECOND * 5, Cut::AttemptTimeout(SECOND * 2), StopReason::Attempts, SECOND * 2),
        (SECOND * 2, Cut::Deadline, StopReason::Deadline, SECOND * 2),
        (SECOND, Cut::Deadline, StopReason::Deadline, SECOND),
    ] {
        let (script, timer) = (Script::new(&[Step::Hang]), ManualTimer::new());
        let policy = RetryPolicy::none().with_attempt_timeout(SECOND * 2).with_total_timeout(total);
        let gave_up =
            drive(retry(|_| script.play(), policy, Never).on(clock(&timer)), &timer).unwrap_err();
        assert_eq!(
            (gave_up.cut(), gave_up.reason(), gave_up.elapsed()),
            (Some(cut), reason, elapsed)
        );
        assert_eq!((timer.sleepers(), script.drops()), (0, 1));
    }
}

#[test]
fn elapsed_converts_into_common_error_types() {
    let elapsed = elapsed();
    assert_eq!(elapsed.limit(), SECOND);
    assert!(anyhow::Error::from(elapsed).is::<Elapsed>());
    assert!(Boxed::from(elapsed).is::<Elapsed>());
    assert!(matches!(Own::from(elapsed), Own::Slow(inner) if inner == elapsed));
    assert_eq!(Error::<io::Error>::from(elapsed).to_string(), "did not finish within 1s");
    assert!(elapsed.source().is_none());
}

/// A timeout returns the operation's own error type, for every common error type.
#[test]
fn timeouts_work_with_every_error_type() {
    async fn hangs<E>() -> Result<(), E> {
        std::future::pending().await
    }
    let timer = ManualTimer::new();
    let anyhow =
        drive(hangs::<anyhow::Error>().timeout(SECOND).on(clock(&timer)), &timer).unwrap_err();
    let boxed = drive(hangs::<Boxed>().timeout(SECOND).on(clock(&timer)), &timer).unwrap_err();
    let own = drive(hangs::<Own>().timeout(SECOND).on(clock(&timer)), &timer).unwrap_err();
    let union =
        drive(hangs::<Error<io::Error>>().timeout(SECOND).on(clock(&timer)), &timer).unwrap_err();
    assert_eq!(anyhow.to_string(), boxed.to_string());
    assert!(matches!((own, union), (Own::Slow(_), Error::Elapsed(_))));
}

#[test]
fn error_is_transparent() {
    let inner = || Own::Connection(io::Error::other("reset by peer"));
    let union = Error::Operation(inner());
    assert_eq!(union.to_string(), inner().to_string());
    assert_eq!(union.source().unwrap().to_string(), "reset by peer");
    assert!(matches!(union.into_operation(), Some(Own::Connection(_))));
    let refused = Error::<Own>::from(elapsed());
    assert!(refused.source().is_none());
    assert!(refused.into_operation().is_none());
}

#[test]
fn classify_operation_classifies_the_operation_and_a_missed_limit() {
    let lifted = ClassifyOperation(|error: &Down| (error.0 > 1).then(Verdict::throttled));
    assert_eq!(lifted.classify(&Error::Operation(Down(2))), Some(Verdict::throttled()));
    assert_eq!(lifted.classify(&Error::Operation(Down(1))), None);
    assert_eq!(lifted.classify(&elapsed().into()), Some(Verdict::transient().not_again()));
    assert_eq!(
        lifted.cut_is(Verdict::transient()).classify(&elapsed().into()),
        Some(Verdict::transient())
    );
    let plain = ClassifyOperation(|error: &Down| error.0 > 1);
    assert_eq!(plain.classify(&elapsed().into()), Some(Verdict::transient()));
}

/// Under `ClassifyOperation` a classifier keeps its opinion on cut attempts.
#[test]
fn classify_operation_asks_the_classifier_about_cuts() {
    use resile::http::{Classifier, StatusError};

    type Union = Error<StatusError>;
    let error: Union = elapsed().into();
    let once = Verdict::transient().not_again();
    let no_opinion = |_: &StatusError| None::<Verdict>;
    assert_eq!(ClassifyOperation(Classifier::non_idempotent()).classify(&error), Some(once));
    assert_eq!(
        ClassifyOperation(Classifier::idempotent()).classify(&error),
        Some(Verdict::transient().idempotent())
    );
    assert_eq!(
        ClassifyOperation((no_opinion, Classifier::non_idempotent())).classify(&error),
        Some(once)
    );
    assert_eq!(
        ClassifyOperation(std::sync::Arc::new(Classifier::non_idempotent())).classify(&error),
        Some(once)
    );
    assert_eq!(ClassifyOperation(no_opinion).classify(&error), Some(once));
    for cut in [Cut::AttemptTimeout(SECOND), Cut::Deadline, Cut::Stream] {
        let of = |classifier: &dyn Classify<Union>| classifier.classify_cut(cut);
        assert_eq!(of(&ClassifyOperation(Classifier::non_idempotent())), Some(once));
        assert_eq!(of(&ClassifyOperation((no_opinion, Classifier::non_idempotent()))), Some(once));
        assert_eq!(of(&ClassifyOperation(no_opinion)), Some(once));
    }
}

/// An attempt timeout may come from the policy or from the operation itself with
/// `ClassifyOperation`. Both behave alike.
#[test]
fn a_non_idempotent_request_that_times_out_is_sent_once() {
    use resile::http::{Classifier, StatusError};

    for (classifier, times, reason) in [
        (Classifier::non_idempotent(), 1, StopReason::Fatal),
        (Classifier::idempotent(), 3, StopReason::Attempts),
    ] {
        let (timer, sent) = (ManualTimer::new(), std::cell::Cell::new(0));
        let policy = RetryPolicy::new().with_classifier(ClassifyOperation(classifier));
        let post = |_| {
            sent.set(sent.get() + 1);
            std::future::pending::<Result<(), Error<StatusError>>>()
                .timeout(SECOND)
                .on(clock(&timer))
        };
        let gave_up = drive(retry(post, &policy, Never).on(clock(&timer)), &timer).unwrap_err();
        assert_eq!((sent.take(), gave_up.reason(), gave_up.cut()), (times, reason, None));

        let policy = RetryPolicy::new().with_attempt_timeout(SECOND).with_classifier(classifier);
        let post = |_| {
            sent.set(sent.get() + 1);
            std::future::pending::<Result<(), StatusError>>()
        };
        let gave_up = drive(retry(post, &policy, Never).on(clock(&timer)), &timer).unwrap_err();
        let cut = Some(Cut::AttemptTimeout(SECOND));
        assert_eq!((sent.take(), gave_up.reason(), gave_up.cut()), (times, reason, cut));
    }
}

#[test]
fn a_name_with_a_line_break_stays_one_line() {
    let timer = ManualTimer::new();
    let upstream = resile::Upstream::named("web\nWARN forged").with_timer(timer.clone());
    let call = retry(|_| async { Err::<(), _>("down") }, RetryPolicy::none(), Never).on(&upstream);
    let gave_up = super::script::drive(call, &timer).unwrap_err();
    assert_eq!(gave_up.upstream(), Some("web\nWARN forged"));
    assert!(gave_up.to_string().starts_with(r"web\nWARN forged: gave up"), "{gave_up}");
}

/// A call on a name can be spawned, and the name need not live for ever.
#[tokio::test(start_paused = true)]
async fn a_call_on_a_name_can_be_spawned() {
    let down = |_| std::future::ready(Err::<u32, _>(Down(1)));
    let call = async move { retry(down, RetryPolicy::none(), Never).on("store").await };
    let gave_up = tokio::spawn(call).await.unwrap().unwrap_err();
    assert_eq!(gave_up.upstream(), Some("store"));
    let name = String::from("weather of Oslo");
    let gave_up = retry(down, RetryPolicy::none(), Never).on(&*name).await.unwrap_err();
    drop(name);
    assert_eq!(gave_up.upstream(), Some("weather of Oslo"));
}
