//! Errors that a real server gives: what the functions say of them, and whether the work was done.
//! Each part is a feature, so that it runs alone.

#[path = "../clients/data.rs"]
mod data;
mod row;
#[cfg(feature = "sql")]
mod sql;
