//! The classifier beside the rest of the engine: its words, its floor and its opinion on cuts.

use std::future::ready;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::stream::{iter, pending};
use futures_util::{Stream, StreamExt, TryStreamExt};
use proptest::prelude::*;
use resile::classify::{ClassifyExt, Cut};
use resile::fallback::Alternative;
use resile::observe::Event;
use resile::stream::Resumption;
use resile::timeout::Elapsed;
use resile::{
    Attempt, Backoff, Classify, FallbackPolicy, GaveUp, Jitter, Never, RetryPolicy, StopReason,
    Upstream, Verdict, fallback, http, retry, retry_stream, timeout,
};
use resile_llm::{Classifier, Failure, Phase, Reply};
use static_assertions::assert_impl_all;

const SECOND: Duration = Duration::from_secs(1);

assert_impl_all!(Failure: Clone, std::error::Error, Eq);
assert_impl_all!(Reply<'static>: Copy, Eq);

/// The classifier around another type has the word of the failure that its closure asked about.
#[tokio::test(start_paused = true)]
async fn over_keeps_the_word_of_the_failure() {
    let refused = Failure::from_text(401, "Incorrect API key provided");
    let by_verdict = Classifier::new().over(|llm, _: &u8| llm.verdict(&refused));
    assert_eq!(by_verdict.error_type(&0).as_deref(), Some("auth"));
    let by_type = Classifier::new().over(|llm, error: &(Failure,)| llm.classify(&error.0));
    assert_eq!(by_type.error_type(&(refused.clone(),)).as_deref(), Some("auth"));
    let elapsed = elapsed().await;
    let late = Classifier::new().over(|llm, _: &u8| llm.classify_dyn(&elapsed));
    assert_eq!(late.error_type(&0).as_deref(), Some("timeout"));
    let down = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let word = Classifier::new().error_type(&down).unwrap();
    let lost = Classifier::new().over(|llm, _: &u8| llm.classify_dyn(&down));
    assert_eq!(lost.error_type(&0), Some(word));
    let none = Classifier::new().over(|_, _: &u8| None);
    assert_eq!(none.error_type(&0), None);
}

#[test]
fn the_classifier_names_the_types_of_errors() {
    let by_kind = Classifier::new();
    let failure = Failure::from_text(401, "Incorrect API key provided");
    assert_eq!(by_kind.error_type(&failure).as_deref(), Some("auth"));
    assert_eq!(by_kind.error_type(&std::fmt::Error), None);
}

/// The provider of this failure asked for nothing. The wait of two seconds is the classifier's.
#[tokio::test(start_paused = true)]
async fn nobody_is_said_to_have_asked_for_a_floor() {
    let failure = Failure::from_text(529, "overloaded");
    assert_eq!(failure.wait(), None);
    let seen = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| {
        if matches!(event.kind.as_str(), "waiting" | "gave_up") {
            seen.lock().unwrap().push(event.to_string());
        }
    };
    let upstream = Upstream::new("model");
    let backoff = Backoff::fixed(SECOND / 4).with_jitter(Jitter::None);
    let policy = RetryPolicy::new().with_attempts(2).with_backoff(backoff);
    let policy = policy.with_hint_cap(SECOND * 9).with_classifier(Classifier::new());
    let op = |_| ready(Err::<(), _>(failure.clone()));
    let gave_up = retry(op, policy, Never).on(upstream.observed_by(&observer)).await.unwrap_err();
    assert_eq!(
        seen.into_inner().unwrap(),
        [
            "model: attempt 1 of 2 failed, retrying in 2.0s, \
             as set for this error: the provider is overloaded (status 529)",
            "model: gave up after 2 of 2 attempts, wait at least 2.0s before the next call: \
             the provider is overloaded (status 529)",
        ]
    );
    assert_eq!(
        gave_up.to_string(),
        "model: gave up after 2 attempts in 2.0s, wait at least 2.0s before the next call"
    );
}

proptest! {
    /// The floor of the classifier for an overload counts only if the provider asked for nothing.
    #[test]
    fn the_overload_floor_yields_to_a_hint(seconds in 1..100_u32, floor in 1..100_u32) {
        let classifier = Classifier::new().with_overload_floor(SECOND * floor);
        let told = Failure::from_text(529, &format!("overloaded, try again in {seconds}s"));
        let verdict = classifier.verdict(&told);
        prop_assert_eq!((verdict.hint(), verdict.wait()), (Some(SECOND * seconds), Some(SECOND * seconds)));
        let verdict = classifier.verdict(&Failure::from_text(529, "overloaded"));
        prop_assert_eq!((verdict.hint(), verdict.wait()), (None, Some(SECOND * floor)));
    }
}

/// Returns the timeout of an operation, as an error of another type.
async fn elapsed() -> Elapsed {
    use resile::ResilienceExt;
    let never = std::future::pending::<Result<(), Elapsed>>();
    never.timeout(SECOND).await.unwrap_err()
}

/// The answer to a stream has begun, so the words do not say that there was none.
#[tokio::test(start_paused = true)]
async fn a_silence_of_a_stream_is_told_apart_from_no_answer() {
    use resile::{ResilienceExt, StreamResilienceExt};
    let words = iter([Ok::<_, Failure>("A ")]).chain(pending()).idle_timeout(SECOND * 2);
    let silence = words.try_collect::<Vec<_>>().await.unwrap_err();
    let told = "the provider fell silent: no item within 2s (`idle_timeout`)";
    assert_eq!(silence.to_string(), told);
    let never = std::future::pending::<Result<(), Failure>>();
    let late = never.timeout(SECOND * 2).await.unwrap_err();
    let told = "the provider did not answer in time: did not finish within 2s";
    assert_eq!(late.to_string(), told);
}

/// A classifier for requests that must not be repeated counts, before and behind this one.
#[tokio::test(start_paused = true)]
async fn a_cut_request_is_not_repeated_against_another_classifier() {
    let llm = Classifier::new();
    let post = http::Classifier::non_idempotent();
    let post = post.over(|post, _: &Failure| post.unanswered());
    let cut = Failure::from(elapsed().await);
    let asked: [&dyn Classify<Failure>; 2] = [&(llm, post), &(post, llm)];
    for both in asked {
        assert!(!both.classify_cut(Cut::Deadline).unwrap().is_again());
    }
    assert!(!(post, llm).classify(&cut).unwrap().is_again());
    assert!(llm.classify(&cut).unwrap().is_again());
    assert!(
        llm.over(|llm, e: &Failure| llm.verdict(e)).classify_cut(Cut::Stream).unwrap().is_again()
    );
}

/// `cut_is` replaces the opinion on an error that tells of a cut, and on no other error.
#[tokio::test(start_paused = true)]
async fn an_elapsed_error_tells_of_a_cut() {
    let never = Classifier::new().cut_is(Verdict::fatal());
    let elapsed = elapsed().await;
    assert_eq!(Classifier::new().classify(&elapsed), Some(Verdict::transient()));
    assert_eq!(never.classify(&elapsed), Some(Verdict::fatal()));
    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    assert!(never.classify(&reset).unwrap().is_again());
}

#[tokio::test(start_paused = true)]
async fn another_model_is_asked_unless_the_request_is_wrong_or_nobody_waits() {
    for (status, is_asked) in [(400, false), (401, true), (404, true), (429, true), (529, true)] {
        let policy = resile_llm::interactive().with_attempts(1);
        let fail = |_| async move { Err::<(), _>(Failure::from_text(status, "")) };
        let gave_up = resile::retry(fail, policy, resile::Never).await.unwrap_err();
        assert_eq!(resile_llm::another_model(&gave_up), is_asked, "{status}");
        let token = tokio_util::sync::CancellationToken::new();
        token.cancel();
        let gave_up = resile::retry(fail, policy, &token).await.unwrap_err();
        assert!(!resile_llm::another_model(&gave_up), "{status}");
    }
}

/// The next model would have the same limit and charge for its tokens too.
#[tokio::test]
async fn no_other_model_is_asked_behind_the_token_limit() {
    for (reason, is_asked) in [
        ("length", false),
        ("max_tokens", false),
        ("max_output_tokens", false),
        ("content_filter", true),
        ("model_context_window_exceeded", true),
        ("malformed_function_call", true),
    ] {
        let body = format!(r#"{{"choices":[{{"finish_reason":"{reason}"}}]}}"#);
        let failure = Failure::find_in_event(&body, Phase::Preamble).unwrap();
        let fail = |_| ready(Err::<(), _>(failure.clone()));
        let call = resile::retry(fail, resile_llm::interactive(), Never);
        let gave_up = call.await.unwrap_err();
        assert_eq!(resile_llm::another_model(&gave_up), is_asked, "{reason}");
    }
}

/// The request does not ask for a stream, and the next model would charge its answer too.
#[tokio::test]
async fn no_other_model_is_asked_for_a_stream_that_the_request_does_not_ask_for() {
    let whole = r#"{"choices":[{"message":{"content":"A scarf."},"finish_reason":"stop"}]}"#;
    let open = async |_| Ok(resile_llm::events(::http::Response::new(whole.to_owned())));
    let call = retry_stream(open, resile_llm::interactive(), Never).try_collect::<Vec<_>>();
    let gave_up = call.await.unwrap_err();
    assert_eq!(gave_up.last().map(Failure::rule), Some(resile_llm::Rule::NotStream));
    assert!(!resile_llm::another_model(&gave_up));
}

/// The classifier of a retry is about the same model: it stops a fallback where the next model may help.
#[tokio::test]
async fn the_classifier_of_a_retry_is_not_that_of_a_fallback() {
    let empty = |_| ready(Err::<(), _>(Failure::from_text(402, "insufficient_quota")));
    let gave_up = resile::retry(empty, resile_llm::interactive(), Never).await.unwrap_err();
    assert!(resile_llm::another_model(&gave_up));
    assert!(!Classifier::new().classify(&gave_up).unwrap().is_again());
}

/// A stream that restarts ends for want of attempts. The word of an attempt is still there, also if the
/// last attempt has shown none.
#[tokio::test(start_paused = true)]
async fn no_other_model_answers_behind_a_word() {
    for second in [vec![Ok("A "), Err(529)], vec![Err(529)]] {
        let open = |attempt: Attempt| {
            let items = if attempt.is_first() { vec![Ok("A "), Err(529)] } else { second.clone() };
            let busy = |status| Failure::from_text(status, "overloaded");
            ready(Ok(iter(items).map_err(busy)))
        };
        let policy = resile_llm::interactive().with_attempts(2);
        let call = retry_stream(open, policy, Never)
            .with_resumption(|_| Resumption::Restart("(again)"))
            .try_collect::<Vec<_>>();
        let gave_up = call.await.unwrap_err();
        assert_eq!(gave_up.reason(), StopReason::Attempts);
        assert!(gave_up.is_partial() && !resile_llm::another_model(&gave_up));
    }
}

/// The items of a stream, and then silence or its end.
fn talk(items: &[Result<&'static str, u16>], is_silent: bool) -> impl Stream<Item = Talk> + use<> {
    let items: Vec<_> = items.to_vec();
    let items = iter(items).map_err(|status| Failure::from_text(status, "overloaded"));
    items.chain(pending().take(usize::from(is_silent)))
}

type Talk = Result<&'static str, Failure>;

/// The failure of a stream that has shown a word may pass, also if it is that of the attempt before. But
/// the words of the next model would stand behind those of this one.
#[tokio::test(start_paused = true)]
async fn the_classifier_of_a_retry_appends_no_answer_to_a_part_of_one() {
    for breaks_off in [true, false] {
        let shown = Mutex::new(String::new());
        let ask = async |model: Alternative<'_, &str>| {
            let is_small = *model.value() == "small";
            let open = async |attempt: Attempt| {
                Ok(match (is_small, breaks_off) {
                    (true, _) => talk(&[Ok("A scarf.")], false),
                    (_, true) => talk(&[Ok("A "), Err(529)], false),
                    _ if attempt.is_first() => talk(&[Err(529)], false),
                    _ => talk(&[Ok("A ")], true),
                })
            };
            retry_stream(open, resile_llm::interactive(), Never)
                .with_whole_timeout(SECOND * 60)
                .try_for_each(|word| {
                    shown.lock().unwrap().push_str(word);
                    ready(Ok(()))
                })
                .await
        };
        let next = FallbackPolicy::new().with_classifier(Classifier::new());
        let gave_up =
            fallback(&["large", "small"], ask, next, Never).await.map_err(GaveUp::flatten);
        assert_eq!(*shown.lock().unwrap(), "A ", "{breaks_off}");
        let gave_up = gave_up.unwrap_err();
        assert!(gave_up.is_partial() && gave_up.last().is_some(), "{gave_up:#}");
        assert!(!Classifier::new().classify(&gave_up).unwrap().is_again());
        let wrapped = anyhow::Error::new(gave_up.clone()).context("the model failed");
        assert!(!Classifier::new().classify_dyn(wrapped.as_ref()).unwrap().is_again());
        let boxed = gave_up.into_boxed();
        assert!(!Classifier::new().classify(&boxed).unwrap().is_again());
    }
    let items = [Ok("A "), Err(timeout::Error::Operation(Failure::from_text(529, "")))];
    let call = retry_stream(|_| ready(Ok(iter(items.clone()))), resile_llm::interactive(), Never);
    let gave_up = call.try_collect::<Vec<_>>().await.unwrap_err();
    assert!(!Classifier::new().classify(&gave_up).unwrap().is_again());
}

/// The limit of a fallback drops the stream of the second model in the middle of its answer. The last
/// error is that of the first model.
#[tokio::test(start_paused = true)]
async fn a_fallback_with_a_part_of_an_answer_is_not_asked_again() {
    let ask = async |model: Alternative<'_, &str>| {
        let is_small = *model.value() == "small";
        let words = if is_small { talk(&[Ok("A ")], true) } else { talk(&[Err(529)], false) };
        let mut words = Some(words);
        let open = |_| ready(words.take().ok_or_else(|| Failure::from_text(529, "overloaded")));
        retry_stream(open, resile_llm::interactive(), Never).try_for_each(|_| ready(Ok(()))).await
    };
    let next = FallbackPolicy::new()
        .with_total_timeout(SECOND * 120)
        .with_classifier(resile_llm::another_model);
    let gave_up = fallback(&["large", "small"], ask, next, Never).await.unwrap_err();
    assert_eq!(gave_up.reason(), StopReason::Deadline);
    assert!(gave_up.is_partial() && !gave_up.last().unwrap().is_partial());
    assert!(!Classifier::new().classify(&gave_up).unwrap().is_again());
}
