// A page in Markdown defines its links for readers of the file, and the first definition of a label
// counts. So rustdoc takes the definitions before the page.
#![doc = include_str!("front.md")]
#![cfg_attr(feature = "http", doc = "[`RetryLayer::http`]: crate::RetryLayer::http")]
#![cfg_attr(not(feature = "http"), doc = "[`RetryLayer::http`]: #features")]
#![cfg_attr(feature = "http", doc = "[keeping]: crate::RetryLayer::keeping")]
#![cfg_attr(not(feature = "http"), doc = "[keeping]: #features")]
#![cfg_attr(feature = "http", doc = "[`RefusalLayer`]: crate::server::RefusalLayer")]
#![cfg_attr(not(feature = "http"), doc = "[`RefusalLayer`]: #features")]
#![cfg_attr(feature = "http", doc = "[`DeadlineLayer`]: crate::deadline::DeadlineLayer")]
#![cfg_attr(not(feature = "http"), doc = "[`DeadlineLayer`]: #features")]
#![cfg_attr(feature = "http", doc = "[`TimeLeftLayer`]: crate::deadline::TimeLeftLayer")]
#![cfg_attr(not(feature = "http"), doc = "[`TimeLeftLayer`]: #features")]
#![cfg_attr(feature = "grpc", doc = "[call_page]: crate::resile_clients#a-call-with-tonic")]
#![cfg_attr(not(feature = "grpc"), doc = "[call_page]: #features")]
#![cfg_attr(feature = "grpc", doc = "[stream_page]: crate::resile_clients#a-stream-of-answers")]
#![cfg_attr(not(feature = "grpc"), doc = "[stream_page]: #features")]
#![cfg_attr(feature = "grpc", doc = "[codes_page]: crate::grpc::Grpc")]
#![cfg_attr(not(feature = "grpc"), doc = "[codes_page]: #features")]
#![cfg_attr(feature = "grpc", doc = "[`RetryLayer::grpc`]: crate::RetryLayer::grpc")]
#![cfg_attr(not(feature = "grpc"), doc = "[`RetryLayer::grpc`]: #features")]
#![cfg_attr(feature = "tonic-0_14", doc = "[`RetryChannel`]: crate::tonic_0_14::RetryChannel")]
#![cfg_attr(not(feature = "tonic-0_14"), doc = "[`RetryChannel`]: #features")]
#![cfg_attr(
    feature = "reqwest-middleware-0_5",
    doc = "[`RetryMiddleware`]: crate::reqwest_middleware_0_5::RetryMiddleware"
)]
#![cfg_attr(not(feature = "reqwest-middleware-0_5"), doc = "[`RetryMiddleware`]: #features")]
#![doc = ""]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub use resile;
#[cfg(feature = "grpc")]
pub use resile_clients;

mod attempt;
#[cfg(feature = "http")]
mod below;
pub mod deadline;
mod ended;
mod failed;
#[cfg(feature = "http")]
mod foreign;
#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "http")]
pub mod http;
pub mod judge;
pub mod replay;
#[cfg(feature = "reqwest-middleware-0_5")]
pub mod reqwest_middleware_0_5;
pub mod retry;
#[cfg(feature = "http")]
pub mod server;
#[cfg(feature = "tonic-0_14")]
pub mod tonic_0_14;
pub mod upstream;

/// An error of any type, as the services of `tower` have it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub use failed::Failed;
pub use retry::layer::RetryLayer;
pub use upstream::layer::UpstreamLayer;
