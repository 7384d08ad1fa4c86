//! The shared state of a model, and a policy beside it.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use resile::classify::ClassifyExt;
use resile::{
    Budget, Classify, Cooldown, GaveUp, Never, RetryPolicy, StopReason, Upstream, Verdict, retry,
};
use resile_llm::Failure;
use tokio::time::Instant;

/// An owned name changes nothing else.
#[test]
fn an_upstream_with_an_owned_name_has_the_same_parts() {
    let parts = |model: &Upstream| format!("{model:?}");
    let (fixed, owned) =
        (resile_llm::upstream("m-1"), resile_llm::upstream_named("m-1".to_owned()));
    assert_eq!(fixed.name(), owned.name());
    assert_eq!(parts(&fixed), parts(&owned));
    assert!(owned.budget().is_some() && owned.cooldown().is_some());
    assert_ne!(parts(&owned), parts(&Upstream::named("m-1".to_owned())));
}

type Shared = Arc<dyn Classify<Failure> + Send + Sync>;

/// A struct as in the chapter `failures`, with a classifier that owns the name of its model.
struct Model {
    upstream: Upstream,
    policy: RetryPolicy<Shared>,
}

fn model(name: String) -> Model {
    let upstream = resile_llm::upstream_named(name.clone());
    let again = move |failure: &Failure| match name.as_str() {
        "draft" => failure.verdict().not_again(),
        _ => failure.verdict(),
    };
    let classifier: Shared = Arc::new(again.cut_is(Verdict::transient()));
    Model { upstream, policy: resile_llm::interactive().with_classifier(classifier) }
}

#[tokio::test(start_paused = true)]
async fn a_policy_in_a_struct_can_own_the_name_of_its_model() {
    for (name, attempts) in [("draft", 1), ("final", 4)] {
        let Model { upstream, policy } = model(name.to_owned());
        let send = |_| ready(Err::<(), _>(Failure::from_text(529, "overloaded")));
        let gave_up = retry(send, &policy, Never).on(&upstream).await.unwrap_err();
        assert_eq!((gave_up.upstream(), gave_up.attempts()), (Some(name), attempts));
    }
}

/// The ends of ten items of a job with this budget. The provider restarts for 20 s and refuses connections.
async fn items_in_a_restart(budget: Budget) -> Vec<Result<(), GaveUp<Failure>>> {
    let model =
        Upstream::new("model").with_budget(budget).with_cooldown(Cooldown::new()).with_seed(1);
    let began = Instant::now();
    let send = |_| {
        let is_down = began.elapsed() < Duration::from_secs(20);
        let refused = || Failure::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        ready(if is_down { Err(refused()) } else { Ok(()) })
    };
    join_all((0..10).map(|_| retry(send, resile_llm::batch(), Never).on(&model))).await
}

/// The program of the chapter `quotas`. The policy allows nine retries for each item, and a budget of 8 tokens pays
/// eight for all of them.
#[tokio::test(start_paused = true)]
async fn a_job_survives_a_restart_if_its_budget_pays_for_the_retries_of_its_policy() {
    let page = include_str!("../../docs/guide/quotas.md");
    assert!(page.contains("    .with_budget(Budget::new().with_capacity(90))\n"));
    assert_eq!(resile_llm::batch().attempts(), 1 + 90 / 10);
    let enough = items_in_a_restart(Budget::new().with_capacity(90)).await;
    assert!(enough.iter().all(Result::is_ok), "{enough:?}");

    let few = items_in_a_restart(Budget::new()).await;
    assert!(few.iter().all(|it| it.as_ref().is_err_and(|it| it.reason() == StopReason::Budget)));
}
