use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, Value};

use super::{Request, ScriptError, build, garbage, integers_and_texts, micros};

/// Replaces the vote of a member. See `votes.lua`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VoteRequest<'a> {
    /// The name of the member.
    pub(crate) id: &'a str,
    /// The calls in the window of its breaker.
    pub(crate) calls: u64,
    /// The failures among these calls.
    pub(crate) failures: u64,
    /// True if its breaker is open.
    pub(crate) open: bool,
    /// The time after which the vote no longer counts. 0 takes it back.
    pub(crate) ttl: Duration,
}

/// The votes of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VoteReply {
    /// The members that had calls.
    pub(crate) members: u64,
    /// The members of these whose breaker would open.
    pub(crate) open: u64,
    /// The ids of the latter, in their order: the first eight.
    pub(crate) ids: Vec<String>,
}

/// The most ids in a reply.
const NAMED: u64 = 8;

impl Request for VoteRequest<'_> {
    type Reply = VoteReply;
    const NAME: &'static str = "votes";
    const TEXT: &'static str = include_str!("votes.lua");

    fn script() -> &'static Script {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| build(VoteRequest::TEXT));
        &SCRIPT
    }

    fn args(&self) -> Vec<String> {
        vec![
            self.id.to_owned(),
            self.calls.to_string(),
            self.failures.to_string(),
            u8::from(self.open).to_string(),
            micros(self.ttl),
        ]
    }

    fn parse(reply: &Value) -> Result<VoteReply, ScriptError> {
        let parsed = || {
            let ([members, open], ids) = integers_and_texts(reply)?;
            let (members, open) = (u64::try_from(members).ok()?, u64::try_from(open).ok()?);
            let named = u64::try_from(ids.len()).ok()?;
            (open <= members && named == open.min(NAMED)).then_some(VoteReply {
                members,
                open,
                ids,
            })
        };
        parsed().ok_or_else(|| garbage(Self::NAME, reply))
    }
}
