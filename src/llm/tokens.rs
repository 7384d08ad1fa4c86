/// The numbers of tokens that a provider named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tokens {
    pub(super) prompt: Option<u64>,
    pub(super) limit: Option<u64>,
}

impl Tokens {
    /// How many the request had, or asked for.
    #[must_use]
    pub const fn prompt(&self) -> Option<u64> {
        self.prompt
    }

    /// How many there may be.
    #[must_use]
    pub const fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// How many are too many, where both numbers are known.
    #[must_use]
    pub const fn excess(&self) -> Option<u64> {
        match (self.prompt, self.limit) {
            (Some(prompt), Some(limit)) => prompt.checked_sub(limit),
            _ => None,
        }
    }
}
