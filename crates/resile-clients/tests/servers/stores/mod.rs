//! Stores: `opendal`, and `object_store` with a server of S3.

mod opendal;
mod s3;
mod upload;
