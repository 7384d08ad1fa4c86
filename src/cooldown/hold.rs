use std::time::Duration;

/// A hold of a cooldown, in times relative to one moment.
///
/// It describes a hold to another process, which has another clock. See
/// [`Shared`](crate::upstream::Shared).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// The time since the hold began.
    pub elapsed: Duration,
    /// The time until the hold ends. The release follows.
    pub remaining: Duration,
    /// The longest wait that the upstream asked for. It bounds the release.
    pub hint: Duration,
}
