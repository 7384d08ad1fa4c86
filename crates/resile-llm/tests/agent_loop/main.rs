//! The example `agent_loop`: its lifecycle on a paused clock, and the program as a process.

#[path = "../../examples/agent_loop/agent/mod.rs"]
#[allow(dead_code, unused_imports)] // the example uses what the tests do not
mod agent;
mod failures;
mod fakes;
mod lifecycle;
mod program;
mod scenarios;
#[cfg(unix)]
mod signals;
mod sse_decoder;

#[path = "../../examples/agent_loop/model/sse.rs"]
#[allow(dead_code)]
mod sse;

#[path = "../../examples/terminal/mod.rs"]
mod terminal;
mod wrap;
