/// The part of a limit that a process may use while Redis is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailMode {
    /// Its share: the limit divided by the members last known. The default.
    #[default]
    Safe,
    /// The whole limit. All members together may then exceed the limit.
    Open,
    /// Nothing new. Calls wait in the queue of the quota, up to their deadlines.
    Closed,
}

impl FailMode {
    /// Returns the part of a limit that each of `members` processes may use.
    pub(crate) fn share(self, members: u32) -> f64 {
        match self {
            Self::Safe => 1.0 / f64::from(members.max(1)),
            Self::Open => 1.0,
            Self::Closed => 0.0,
        }
    }
}
