//! A channel of `tonic` 0.14 with retries.
//!
//! [`RetryChannel`] is all that a generated client needs. It puts these parts of the crate together, which
//! are there for special cases such as a function that [judges](crate::RetryLayer::judging) answers:
//!
//! ```text
//! generated client ▶ to_status ▶ answer_to_error ▶ RetryLayer::grpc, keeping ▶ TimeLeftLayer ▶ channel
//! ```
//!
//! | part | what it does |
//! |---|---|
//! | [`to_status`](resile_clients::grpc::to_status) | an open breaker is `UNAVAILABLE`, a timeout is `DEADLINE_EXCEEDED` |
//! | [`answer_to_error`](crate::grpc::answer_to_error) | the status of a server has the end of the call as its source too |
//! | [`RetryLayer::grpc`](crate::RetryLayer::grpc) | makes the attempts |
//! | [`keeping`](crate::RetryLayer::keeping) | keeps the body of a request for the next attempt |
//! | [`TimeLeftLayer`](crate::deadline::TimeLeftLayer) | tells the server when the attempt ends |

mod channel;
mod end;
mod future;
mod plain;

pub use channel::RetryChannel;
pub use end::gave_up;
pub use future::RetryChannelFuture;
