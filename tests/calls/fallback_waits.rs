//! The wait that a fallback recommends: the smallest one of its alternatives.

use std::fmt;
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use resile::classify::ClassifyExt;
use resile::fallback::Alternative;
use resile::observe::{Event, EventKind};
use resile::{
    FallbackPolicy, GaveUp, Never, RetryPolicy, StopReason, Upstream, Verdict, fallback, retry,
};

const SECOND: Duration = Duration::from_secs(1);

/// An error that is its own verdict.
#[derive(Clone, Copy, Debug)]
struct Fails(Verdict);

impl fmt::Display for Fails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("busy")
    }
}

impl std::error::Error for Fails {}

fn verdict_of(fails: &Fails) -> Verdict {
    fails.0
}

/// Makes a call whose alternatives end like this: the seconds that each takes, and the wait that it asks
/// for in seconds. The classifier sees only whether another alternative may help.
async fn ask_for_waits(all: &[(u32, Option<u32>)]) -> GaveUp<GaveUp<Fails>> {
    let ask = async |it: Alternative<'_, (u32, Option<u32>)>| {
        let (takes, wait) = *it.value();
        let fails = move |_| async move {
            if takes > 0 {
                tokio::time::sleep(SECOND * takes).await;
            }
            let busy = Verdict::throttled();
            Err::<(), _>(Fails(wait.map_or(busy, |wait| busy.after(SECOND * wait))))
        };
        let policy = RetryPolicy::new().with_attempts(1).with_classifier(verdict_of);
        retry(fails, policy, Never).await
    };
    let policy = FallbackPolicy::new()
        .with_total_timeout(SECOND * 100)
        .with_classifier(|gave_up: &GaveUp<Fails>| gave_up.reason() != StopReason::Fatal);
    fallback(all, ask, policy, Never).await.unwrap_err()
}

/// The next call asks the first alternative again, so the smallest wait of all counts.
#[tokio::test(start_paused = true)]
async fn the_smallest_wait_of_all_alternatives_is_that_of_the_flat_error() {
    for (all, flat) in [
        (&[(0, Some(22)), (0, Some(86_400))][..], Some(22)),
        (&[(0, Some(86_400)), (0, Some(22))], Some(22)),
        (&[(0, Some(30)), (0, Some(22)), (0, Some(40))], Some(22)),
        (&[(0, Some(22)), (0, None)], Some(22)),
        (&[(0, None), (0, Some(22))], Some(22)),
        (&[(0, None), (0, None)], None),
        // A wait counts from the failure of its alternative.
        (&[(1, Some(22)), (5, Some(86_400))], Some(17)),
        (&[(1, Some(22)), (5, None), (5, Some(30))], Some(12)),
        // The first alternative may be asked at once.
        (&[(0, Some(4)), (5, Some(30))], None),
        // The deadline of the fallback cuts the second one.
        (&[(0, Some(122)), (200, None)], Some(22)),
        (&[(0, Some(130)), (1, Some(121)), (200, None)], Some(22)),
        (&[(0, Some(122)), (1, Some(129)), (200, None)], Some(22)),
    ] {
        let gave_up = ask_for_waits(all).await;
        let own = gave_up.last().unwrap().retry_after();
        let last = if all.last().unwrap().0 < 100 { all.last() } else { all.get(all.len() - 2) };
        assert_eq!(own.map(|own| own.as_secs()), last.unwrap().1.map(u64::from), "{all:?}");
        let merged = gave_up.flatten();
        let words = merged.to_string();
        let told = flat.map(|flat| (flat, words.contains(&format!("again in {flat}.0s"))));
        assert!(told.is_none_or(|(_, is_told)| is_told), "{all:?}: {words}");
        let is_of_another = flat.is_some() && own != merged.retry_after();
        assert_eq!(words.contains(", an alternative can be tried again in "), is_of_another);
        assert_eq!(merged.retry_after(), flat.map(|flat| SECOND * flat), "{all:?}");
        if merged.reason() != StopReason::Deadline {
            let verdict = merged.verdict().unwrap();
            assert!(verdict.is_again());
            let wait = verdict.wait().filter(|wait| !wait.is_zero());
            assert_eq!(wait, merged.retry_after(), "{all:?}");
        }
    }
}

/// The words are those of the last alternative, and the wait may be that of another one.
#[tokio::test(start_paused = true)]
async fn a_flat_error_names_one_alternative_in_a_sentence() {
    let ask = async |it: Alternative<'_, &'static str>| {
        let large = *it.value() == "large";
        let fails = move |_| async move {
            if large {
                Err::<(), _>(Fails(Verdict::throttled().after(SECOND * 43)))
            } else {
                pending().await
            }
        };
        let policy = RetryPolicy::new()
            .with_attempts(1)
            .with_total_timeout(SECOND * 4)
            .with_classifier(verdict_of.cut_is(Verdict::transient()));
        retry(fails, policy, Never).on(*it.value()).await
    };
    let policy = FallbackPolicy::new()
        .with_classifier(|gave_up: &GaveUp<Fails>| gave_up.reason() != StopReason::Fatal);
    let flat =
        fallback(&["large", "small"], ask, policy, Never).on("chat").await.unwrap_err().flatten();
    assert_eq!(
        flat.to_string(),
        "chat: gave up after 2 alternatives in 4.0s, an alternative can be tried again in 39.0s \
         (last failure, of small: did not finish before the deadline of the call after 4s)"
    );
}

/// No wait helps a request that no alternative accepts, and a call that was cancelled has none.
#[tokio::test(start_paused = true)]
async fn a_wait_of_an_earlier_alternative_does_not_help_a_final_error() {
    let ask = async |it: Alternative<'_, Verdict>| {
        let policy = RetryPolicy::new().with_attempts(1).with_classifier(verdict_of);
        let verdict = *it.value();
        retry(move |_| async move { Err::<(), _>(Fails(verdict)) }, policy, Never).await
    };
    let all = [Verdict::throttled().after(SECOND * 22), Verdict::fatal()];
    let policy = FallbackPolicy::new()
        .with_classifier(|gave_up: &GaveUp<Fails>| gave_up.reason() != StopReason::Fatal);
    let flat = fallback(&all, ask, policy, Never).await.unwrap_err().flatten();
    assert_eq!((flat.reason(), flat.retry_after()), (StopReason::Fatal, None));
}

/// Only the errors of the alternatives count, and not those that an alternative has dropped itself.
#[tokio::test(start_paused = true)]
async fn an_error_that_an_alternative_drops_has_no_say() {
    let busy = |seconds: u32| async move {
        let verdict = Verdict::throttled().after(SECOND * seconds);
        let fails = move |_| async move { Err::<(), _>(Fails(verdict)) };
        let policy = RetryPolicy::new().with_attempts(1).with_classifier(verdict_of);
        retry(fails, policy, Never).await
    };
    let ask = async |it: Alternative<'_, u32>| {
        drop(busy(1).await);
        busy(*it.value()).await
    };
    let flat = fallback(&[30, 20], ask, FallbackPolicy::new(), Never).await.unwrap_err().flatten();
    assert_eq!(flat.retry_after(), Some(SECOND * 20));
}

/// Makes a call with a name whose alternatives fail at once with these verdicts. Returns its last line with
/// the wait in it, and its flat error.
async fn last_line(all: &[Verdict]) -> (String, Option<Duration>, GaveUp<Fails>) {
    let lines = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::GaveUp { retry_after, .. } = event.kind {
            lines.lock().unwrap().push((event.to_string(), retry_after));
        }
    };
    let ask = async |it: Alternative<'_, Verdict>| {
        let verdict = *it.value();
        let policy = RetryPolicy::new().with_attempts(1).with_classifier(verdict_of);
        let call = retry(move |_| async move { Err::<(), _>(Fails(verdict)) }, policy, Never);
        call.on("model").await
    };
    let policy = FallbackPolicy::new().with_classifier(|_: &GaveUp<Fails>| true);
    let chat = Upstream::new("chat");
    let gave_up = fallback(all, ask, policy, Never).on(chat.observed_by(&note)).await.unwrap_err();
    let (line, retry_after) = lines.into_inner().unwrap().pop().unwrap();
    (line, retry_after, gave_up.flatten())
}

/// The last alternative fails for good, and another one only asks for a wait.
#[tokio::test(start_paused = true)]
async fn a_final_error_of_one_alternative_hides_no_wait_of_another() {
    let busy = Verdict::throttled().after(SECOND * 22);
    let (line, retry_after, flat) = last_line(&[busy, Verdict::fatal()]).await;
    assert_eq!((flat.reason(), flat.retry_after()), (StopReason::Fatal, Some(SECOND * 22)));
    assert_eq!(
        flat.to_string(),
        "chat: gave up after 2 alternatives (the last one: model), the error is final, \
         an alternative can be tried again in 22.0s"
    );
    assert_eq!(retry_after, flat.retry_after());
    assert_eq!(
        line,
        "chat: gave up after 2 of 2 alternatives, an alternative can be tried again in 22.0s: \
         model: gave up after 1 attempt, the error is final: busy"
    );
}

/// The last line of a fallback has the wait of its flat error. The error of the last alternative says its own.
#[tokio::test(start_paused = true)]
async fn the_last_line_of_a_fallback_has_the_wait_of_its_error() {
    let (short, long) = (Verdict::throttled().after(SECOND * 22), Verdict::throttled());
    for (all, told) in [
        (&[short, long.after(SECOND * 90)][..], ", an alternative can be tried again in 22.0s: "),
        (&[long.after(SECOND * 90), short], ", try again in 22.0s: busy"),
        (&[long, long], ""),
        (&[long, Verdict::fatal().after(SECOND * 5)], "the error is final"),
    ] {
        let (line, retry_after, flat) = last_line(all).await;
        assert_eq!(retry_after, flat.retry_after(), "{line}");
        assert!(line.contains(told), "{line}");
        assert_eq!(line.contains("an alternative can"), told.contains("an alternative can"));
    }
}
