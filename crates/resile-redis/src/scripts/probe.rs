use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, Value};

use super::{Request, ScriptError, build, flag, garbage, integers, rounded_up};

/// Acquires, renews or releases the lease of the probe. See `probe.lua`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeRequest<'a> {
    /// The name of the member.
    pub(crate) id: &'a str,
    /// The length of the lease, in whole milliseconds.
    pub(crate) ttl: Duration,
    /// The step to take with the lease.
    pub(crate) step: ProbeStep,
}

/// A step of a member with the lease of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeStep {
    /// Takes the lease if it is free, or makes it last longer.
    Acquire,
    /// Frees the lease if this member holds it.
    Release,
}

/// The lease of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbeReply {
    /// True if the member that asks holds the lease.
    pub(crate) held: bool,
    /// The rest of the lease, of any holder. 0 if it is free.
    pub(crate) remaining: Duration,
}

impl Request for ProbeRequest<'_> {
    type Reply = ProbeReply;
    const NAME: &'static str = "probe";
    const TEXT: &'static str = include_str!("probe.lua");

    fn script() -> &'static Script {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| build(ProbeRequest::TEXT));
        &SCRIPT
    }

    fn args(&self) -> Vec<String> {
        let step = match self.step {
            ProbeStep::Acquire => "1",
            ProbeStep::Release => "0",
        };
        vec![self.id.to_owned(), rounded_up(self.ttl, 1_000_000), step.to_owned()]
    }

    fn parse(reply: &Value) -> Result<ProbeReply, ScriptError> {
        let parsed = || {
            let [held, remaining] = integers(reply)?;
            let remaining = Duration::from_millis(remaining.try_into().ok()?);
            Some(ProbeReply { held: flag(held)?, remaining })
        };
        parsed().ok_or_else(|| garbage(Self::NAME, reply))
    }
}
