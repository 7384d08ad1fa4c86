//! What is put together does what its parts do, each in its place.

mod pairs;
mod stacks;
