//! The data file and the functions say the same.

mod codes;
mod data;
mod effects;
mod evidence;
mod grpc_end;
mod grpc_failure;
mod grpc_only_call;
mod hyper;
mod laws;
mod provoked;
mod redis;
mod rows;
#[cfg(feature = "sqlx-0_9")]
mod sqlx;
mod sweep;
mod tokio_postgres;
mod tonic;
