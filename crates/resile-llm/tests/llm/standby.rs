//! An overloaded model beside another one that stands by.

use std::future::ready;
use std::time::Duration;

use futures_util::future::join_all;
use resile::breaker::State;
use resile::fallback::Alternative;
use resile::{Breaker, Cooldown, FallbackPolicy, GaveUp, Never, Upstream, fallback, retry};
use resile_llm::{Failure, Kind, another_model};
use tokio::time::{Instant, sleep};

/// Questions in one overload of the first model: their number, the time between two of them and the limit of each.
#[derive(Clone, Copy, Debug)]
struct Scene {
    count: u32,
    gap: Duration,
    limit: Duration,
}

const fn scene(count: u32, gap: u64, limit: u64) -> Scene {
    Scene { count, gap: Duration::from_millis(gap), limit: Duration::from_secs(limit) }
}

/// Those of the chapter `streams`: one question each half a second, thirty at once, and the limit of its program.
const SCENES: [Scene; 3] = [scene(40, 500, 40), scene(30, 0, 40), scene(40, 500, 240)];

const BUSY: &str = r#"{"error":{"type":"overloaded_error"}}"#;

/// Returns the median and the longest time until the answer in seconds. The first model answers with 529 and
/// these words.
async fn took(scene: Scene, words: &str, model: fn(&'static str) -> Upstream) -> (f64, f64) {
    let models = [model("large"), model("small")];
    let ask = async |it: Alternative<'_, Upstream>| {
        let (model, share) = (it.value(), it.share());
        let is_busy = model.name() == "large";
        let busy = || Failure::from_text(529, words);
        let send = |_| ready(if is_busy { Err(busy()) } else { Ok(()) });
        retry(send, resile_llm::interactive().with_total_timeout(share), Never).on(model).await
    };
    let question = async |number: u32| {
        sleep(scene.gap * number).await;
        let began = Instant::now();
        let next = FallbackPolicy::new().with_total_timeout(scene.limit);
        let answer = fallback(&models, ask, next.with_classifier(another_model), Never).await;
        answer.map_err(GaveUp::flatten).unwrap();
        began.elapsed()
    };
    let mut took = join_all((0..scene.count).map(question)).await;
    took.sort();
    (took[took.len() / 2].as_secs_f64(), took[took.len() - 1].as_secs_f64())
}

fn stands_by(name: &'static str) -> Upstream {
    resile_llm::upstream(name).with_breaker(resile_llm::breaker())
}

/// The cooldown lets out one attempt after each wait, so each question has the time of its share.
#[tokio::test(start_paused = true)]
async fn an_overloaded_model_keeps_questions_unless_its_breaker_counts_overloads() {
    for scene in SCENES {
        let default = |name| resile_llm::upstream(name).with_breaker(Breaker::new());
        let before = Box::pin(took(scene, BUSY, default)).await;
        let after = Box::pin(took(scene, BUSY, stands_by)).await;
        println!("{scene:?}: median and longest {before:.1?}, with `breaker()` {after:.1?}");
        assert!(before.0 > 10.0, "{scene:?}: {before:?}");
        assert!(after.1 < 10.0, "{scene:?}: {after:?}");
        assert!(after.0 < 3.0 || scene.gap.is_zero(), "{scene:?}: {after:?}");
    }
}

/// Each attempt would hold the others for the wait of the provider.
#[tokio::test(start_paused = true)]
async fn a_short_cap_of_the_cooldown_helps_against_long_waits_of_an_overloaded_model() {
    let words = "overloaded, try again in 10s";
    let capped =
        |name| stands_by(name).with_cooldown(Cooldown::new().with_cap(Duration::from_secs(2)));
    let before = Box::pin(took(SCENES[0], words, stands_by)).await;
    let after = Box::pin(took(SCENES[0], words, capped)).await;
    println!("median and longest {before:.1?}, with the cap {after:.1?}");
    assert!(before.0 > 8.0, "{before:?}");
    // A call that was refused itself, such as a probe, waits as long as it was asked to.
    assert!(after.0 < 3.0, "{after:?}");
}

/// Four failures of one question open the breaker. The cooldown answers a rate limit of the account.
#[tokio::test(start_paused = true)]
async fn the_breaker_of_a_model_counts_overloads_and_no_rate_limits() {
    for (status, body, kind, state) in [
        (529, "overloaded_error", Kind::Overloaded, State::Open),
        (503, "overloaded, try again in 1s", Kind::Overloaded, State::Open),
        (500, "server_error", Kind::Server, State::Open),
        (429, "rate limit reached, try again in 1s", Kind::RateLimit, State::Closed),
        (402, "insufficient_quota", Kind::QuotaExhausted, State::Closed),
    ] {
        let model = resile_llm::upstream("model").with_breaker(resile_llm::breaker());
        let send = |_| ready(Err::<(), _>(Failure::from_text(status, body)));
        let gave_up = retry(send, resile_llm::interactive(), Never).on(&model).await.unwrap_err();
        assert_eq!(gave_up.last().map(Failure::kind), Some(kind));
        assert_eq!(model.breaker().map(Breaker::state), Some(state), "{status}");
    }
}
