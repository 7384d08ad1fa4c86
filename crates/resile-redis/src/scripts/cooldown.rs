use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, Value};

use super::{Request, ScriptError, build, flag, from_micros, garbage, integers_and_texts, micros};

/// Reports a hold, or reads the shared one. See `cooldown.lua`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HoldRequest<'a> {
    /// The name of the member.
    pub(crate) id: &'a str,
    /// The channel on which a longer hold is published.
    pub(crate) channel: &'a str,
    /// The rest of the hold. 0 only reads.
    pub(crate) remaining: Duration,
    /// The time since the hold began.
    pub(crate) elapsed: Duration,
    /// The longest hint of the upstream during the hold.
    pub(crate) hint: Duration,
}

/// The shared hold, all 0 if there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HoldReply {
    /// The rest of the hold, 0 during the release after it.
    pub(crate) remaining: Duration,
    /// The time since the hold began.
    pub(crate) elapsed: Duration,
    /// The longest hint during the hold.
    pub(crate) hint: Duration,
    /// True if this request made the hold longer.
    pub(crate) grew: bool,
    /// The member that set the end of the hold. `None` if that is not known.
    pub(crate) by: Option<String>,
}

impl Request for HoldRequest<'_> {
    type Reply = HoldReply;
    const NAME: &'static str = "cooldown";
    const TEXT: &'static str = include_str!("cooldown.lua");

    fn script() -> &'static Script {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| build(HoldRequest::TEXT));
        &SCRIPT
    }

    fn args(&self) -> Vec<String> {
        let [remaining, elapsed, hint] = [self.remaining, self.elapsed, self.hint].map(micros);
        vec![remaining, elapsed, hint, self.channel.to_owned(), self.id.to_owned()]
    }

    fn parse(reply: &Value) -> Result<HoldReply, ScriptError> {
        let parsed = || {
            let ([remaining, elapsed, hint, grew], texts) = integers_and_texts(reply)?;
            let [by] = <[String; 1]>::try_from(texts).ok()?;
            Some(HoldReply {
                remaining: from_micros(remaining)?,
                elapsed: from_micros(elapsed)?,
                hint: from_micros(hint)?,
                grew: flag(grew)?,
                by: Some(by).filter(|by| !by.is_empty()),
            })
        };
        parsed().ok_or_else(|| garbage(Self::NAME, reply))
    }
}

/// A longer hold, as it is published to all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HoldNotice<'a> {
    /// The member that reported the hold.
    pub(crate) id: &'a str,
    /// The rest of the hold.
    pub(crate) remaining: Duration,
    /// The time since the hold began.
    pub(crate) elapsed: Duration,
    /// The longest hint during the hold.
    pub(crate) hint: Duration,
}

impl<'a> HoldNotice<'a> {
    /// Parses a message of the channel. Returns `None` for a message of another form.
    pub(crate) fn parse(message: &'a str) -> Option<Self> {
        // From the end, because an id may contain spaces.
        let mut parts = message.rsplitn(4, ' ');
        let mut next = || parts.next()?.parse().ok().map(Duration::from_micros);
        let (hint, elapsed, remaining) = (next()?, next()?, next()?);
        Some(Self { id: parts.next()?, remaining, elapsed, hint })
    }
}
