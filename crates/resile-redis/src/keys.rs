use resile::quota::Dimension;
use resile::upstream::Resource;

/// The names of the keys of one upstream: `prefix:1:{upstream}:part`.
///
/// The number is the version of the stored form. The braces are a hash tag: a cluster keeps all keys
/// of an upstream on one node.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    start: String,
}

const VERSION: u32 = 1;

impl Keys {
    pub(crate) fn new(prefix: &str, upstream: &str) -> Self {
        // A hash tag ends at the first closing brace, and an empty tag is none.
        let tag = upstream.replace('%', "%25").replace('{', "%7B").replace('}', "%7D");
        let tag = if tag.is_empty() { "%" } else { &tag };
        Self { start: format!("{prefix}:{VERSION}:{{{tag}}}:") }
    }

    fn part(&self, part: &str) -> String {
        format!("{}{part}", self.start)
    }

    pub(crate) fn members(&self) -> String {
        self.part("members")
    }

    pub(crate) fn cooldown(&self) -> String {
        self.part("cooldown")
    }

    /// The limits that were set at run time.
    pub(crate) fn limits(&self) -> String {
        self.part("limits")
    }

    /// Returns the key of the limits that the members have learned.
    pub(crate) fn learned(&self) -> String {
        self.part("learned")
    }

    /// The channel of new holds, and of members that leave.
    pub(crate) fn holds(&self) -> String {
        self.part("holds")
    }

    pub(crate) fn votes(&self) -> String {
        self.part("votes")
    }

    pub(crate) fn probe(&self) -> String {
        self.part("probe")
    }

    pub(crate) fn lease(&self, resource: Resource) -> String {
        match resource {
            Resource::Quota(dimension) => self.part(&format!("quota:{}", word(dimension))),
            _ => self.part("budget"),
        }
    }
}

/// Returns a stable word for a dimension.
pub(crate) const fn word(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Requests => "requests",
        Dimension::Input => "input",
        Dimension::Output => "output",
        Dimension::Tokens => "tokens",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_prefix_the_version_and_one_hash_tag() {
        let keys = Keys::new("shop", "openai");
        assert_eq!(keys.cooldown(), "shop:1:{openai}:cooldown");
        assert_eq!(keys.lease(Resource::Budget), "shop:1:{openai}:budget");
        let tokens = Resource::Quota(Dimension::Tokens);
        assert_eq!(keys.lease(tokens), "shop:1:{openai}:quota:tokens");
        assert_eq!(Keys::new("a", "b}{c").members(), "a:1:{b%7D%7Bc}:members");
        assert_eq!(Keys::new("a", "").members(), "a:1:{%}:members");
    }
}
