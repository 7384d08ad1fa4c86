use std::fmt;

/// The place of a setting: its name, and the place of the map that has it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) name: &'static str,
    pub(super) around: Option<&'a Place<'a>>,
}

impl Place<'static> {
    /// Creates the place of a value that no map of settings has.
    pub(super) const fn alone(name: &'static str) -> Self {
        Self { name, around: None }
    }
}

/// Formats the place from the inside out, such as `` `share` of `failure_rate` of `breaker` ``.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name)?;
        self.around.map_or(Ok(()), |around| write!(f, " of {around}"))
    }
}
