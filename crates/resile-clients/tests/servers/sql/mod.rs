//! SQL databases.
