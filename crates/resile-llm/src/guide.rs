// The text is in `docs/guide/`, one file for each chapter. Only rustdoc compiles this module.
//
// The chapters need the feature `reqwest`, since their programs do.
#![doc = include_str!("../docs/guide/guide.md")]

#[doc = include_str!("../docs/guide/failures.md")]
pub mod failures {}

#[doc = include_str!("../docs/guide/sdks.md")]
pub mod sdks {}

#[doc = include_str!("../docs/guide/quotas.md")]
pub mod quotas {}

#[doc = include_str!("../docs/guide/rules.md")]
pub mod rules {}

#[doc = include_str!("../DESIGN.md")]
pub mod design {}
