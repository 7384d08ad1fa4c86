//! The data file and the functions say the same.

mod data;
mod evidence;
mod laws;
mod provoked;
mod redis;
mod rows;
mod sweep;
mod tonic;
