//! Proofs of the arithmetic in the shared words of the crate.
//!
//! A law is about functions of the sources. [`source`] reads them, [`machine`] runs them with unknown
//! inputs along each of their paths, and [`solver`] asks z3 for inputs that break the law. So a change
//! of a constant or of a comparison in the sources changes what is proved. [`mutant`] makes such
//! changes, to show that a proof fails if the source is wrong.

pub mod law;
pub mod laws;
pub mod machine;
pub mod mutant;
pub mod solver;
pub mod source;
pub mod term;
pub mod value;
