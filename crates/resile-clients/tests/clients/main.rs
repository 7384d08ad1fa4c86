//! The data file and the functions say the same.

mod laws;
mod rows;
mod sweep;
