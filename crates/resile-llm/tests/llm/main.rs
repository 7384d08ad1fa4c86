//! The laws of the classification of LLM failures, one file for each subject.

mod any_answer;
mod charge;
mod classifier;
mod codes;
mod dates;
mod diagnostics;
mod edges;
mod events;
mod evidence;
mod explain;
mod failure;
mod fields;
mod fixtures;
mod google;
mod limits;
mod numbers;
mod objects;
mod report;
mod reported;
mod sockets;
mod statements;
mod streams;
mod transport;
mod usage;
mod waits;
mod words;
