/// The numbers of LLM tokens that a provider named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tokens {
    pub(crate) prompt: Option<u64>,
    pub(crate) limit: Option<u64>,
}

impl Tokens {
    /// Returns the number of LLM tokens that the request had or asked for.
    #[must_use]
    pub const fn prompt(&self) -> Option<u64> {
        self.prompt
    }

    /// Returns the largest permitted number of LLM tokens.
    #[must_use]
    pub const fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Returns the number of LLM tokens above the limit. `None` if a number is unknown or the limit
    /// is larger.
    #[must_use]
    pub const fn excess(&self) -> Option<u64> {
        match (self.prompt, self.limit) {
            (Some(prompt), Some(limit)) => prompt.checked_sub(limit),
            _ => None,
        }
    }
}
