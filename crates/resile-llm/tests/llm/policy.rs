//! The shared state of a model.

use resile::Upstream;

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
