//! The data file and the functions say the same.

mod laws;
mod redis;
mod rows;
mod sweep;
mod tonic;
