//! The shared state of a model, and a policy beside it.

use std::future::ready;
use std::sync::Arc;

use resile::classify::ClassifyExt;
use resile::{Classify, Never, RetryPolicy, Upstream, Verdict, retry};
use resile_llm::Failure;

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
