//! Laws of the circuit breaker.

mod advice;
mod advice_model;
mod calls;
mod counts;
mod edges;
mod laws;
mod limits;
mod panics;
