//! Laws of quotas.

mod calls;
mod config;
mod estimate;
mod extremes;
mod forecast;
mod headers;
mod laws;
mod learning;
mod model;
mod order;
mod overload;
mod settlement;
mod shadow;
mod shells;
mod stress;
mod values;

use resile::quota::Charge;

/// The most output is charged at the start, and nothing is given back.
const NOT_REFUNDED: Charge = Charge::ACTUAL.with_maximum_reserved(true).with_refund(false);

/// The most output is charged at the start, and the actual usage at the end.
const RESERVED: Charge = Charge::ACTUAL
    .with_maximum_reserved(true)
    .with_default_maximum(64_000)
    .with_cache_read_weight(0.0);

/// The actual usage is charged, without input read from a cache.
const FREE_READS: Charge = Charge::ACTUAL.with_cache_read_weight(0.0);
