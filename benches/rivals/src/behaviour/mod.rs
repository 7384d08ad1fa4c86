//! What each does in the traps.

pub fn table() -> String {
    String::new()
}
