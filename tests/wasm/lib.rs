//! The package has tests alone.
