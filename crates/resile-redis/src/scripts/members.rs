use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, Value};

use super::{Request, ScriptError, build, from_micros, garbage, integers, micros};

/// Renews the presence of a member. See `members.lua`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberRequest<'a> {
    /// The name of the member.
    pub(crate) id: &'a str,
    /// The time after which a silent member no longer counts. 0 leaves.
    pub(crate) ttl: Duration,
    /// The channel on which a member that joins or leaves is published.
    pub(crate) channel: &'a str,
}

/// The size of the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemberReply {
    /// The members alive, with the one that asks.
    pub(crate) members: u64,
    /// The step by which the clock of the server ran back since the last renewal of any member.
    pub(crate) stepped: Duration,
}

impl Request for MemberRequest<'_> {
    type Reply = MemberReply;
    const NAME: &'static str = "members";
    const TEXT: &'static str = include_str!("members.lua");

    fn script() -> &'static Script {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| build(MemberRequest::TEXT));
        &SCRIPT
    }

    fn args(&self) -> Vec<String> {
        vec![self.id.to_owned(), micros(self.ttl), self.channel.to_owned()]
    }

    fn parse(reply: &Value) -> Result<MemberReply, ScriptError> {
        let parsed = || {
            let [members, stepped] = integers(reply)?;
            Some(MemberReply { members: members.try_into().ok()?, stepped: from_micros(stepped)? })
        };
        parsed().ok_or_else(|| garbage(Self::NAME, reply))
    }
}

/// A member that has left, as it is published to all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaveNotice<'a> {
    /// The member that has left.
    pub(crate) id: &'a str,
    /// The members alive after it.
    pub(crate) members: u32,
}

impl<'a> LeaveNotice<'a> {
    /// Parses a message of the channel. Returns `None` for a message of another form. The message of a
    /// hold begins with an id, which is never this word.
    pub(crate) fn parse(message: &'a str) -> Option<Self> {
        let (members, id) = message.strip_prefix("left ")?.split_once(' ')?;
        Some(Self { id, members: members.parse().ok()? })
    }
}

/// A member that has joined, as it is published to all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JoinNotice<'a> {
    /// The new member.
    pub(crate) id: &'a str,
}

impl<'a> JoinNotice<'a> {
    /// Parses a message of the channel. Returns `None` for a message of another form.
    pub(crate) fn parse(message: &'a str) -> Option<Self> {
        message.strip_prefix("joined ").map(|id| Self { id })
    }
}

/// A member that no longer counts because it is silent, as it is published to all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SilenceNotice<'a> {
    /// The silent member.
    pub(crate) id: &'a str,
}

impl<'a> SilenceNotice<'a> {
    /// Parses a message of the channel. Returns `None` for a message of another form.
    pub(crate) fn parse(message: &'a str) -> Option<Self> {
        message.strip_prefix("silent ").map(|id| Self { id })
    }
}
