//! The rows that a test provokes on a real server: family, code and the test in `tests/servers`.

pub(crate) const PROVOKED: &[[&str; 3]] = &[];
