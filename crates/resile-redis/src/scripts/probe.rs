use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, Value};

use super::{Request, ScriptError, build, flag, garbage, integers_and_texts, rounded_up};

/// Acquires, renews or releases the lease of the probe, or tells its result. See `probe.lua`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeRequest<'a> {
    /// The name of the member.
    pub(crate) id: &'a str,
    /// The length of the lease, or of the pause after a failed probe, in whole milliseconds.
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
    /// Only reads.
    Look,
    /// A probe failed.
    Failed,
    /// A probe passed.
    Passed,
}

/// The lease of the probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeReply {
    /// True if the member that asks holds the lease.
    pub(crate) held: bool,
    /// The time for which the member that asks must not probe.
    pub(crate) remaining: Duration,
    /// The time since a probe of any member passed, if none has failed since.
    pub(crate) passed: Option<Duration>,
    /// The time for which nobody may probe because a probe failed.
    pub(crate) pause: Duration,
    /// The member whose probe failed, while nobody may probe because of that.
    pub(crate) failed_by: Option<String>,
    /// Another member that holds the lease, or whose turn comes first. It probes, or it does so when nobody
    /// has to wait any more.
    pub(crate) prober: Option<String>,
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
            ProbeStep::Release => "0",
            ProbeStep::Acquire => "1",
            ProbeStep::Look => "2",
            ProbeStep::Failed => "3",
            ProbeStep::Passed => "4",
        };
        vec![self.id.to_owned(), rounded_up(self.ttl, 1_000_000), step.to_owned()]
    }

    fn parse(reply: &Value) -> Result<ProbeReply, ScriptError> {
        let parsed = || {
            let ([held, remaining, passed, pause], texts) = integers_and_texts(reply)?;
            let [failed_by, prober] =
                <[String; 2]>::try_from(texts).ok()?.map(|id| Some(id).filter(|id| !id.is_empty()));
            let millis = |millis: i64| Some(Duration::from_millis(millis.try_into().ok()?));
            let passed = if passed == -1 { None } else { Some(millis(passed)?) };
            let (held, remaining, pause) = (flag(held)?, millis(remaining)?, millis(pause)?);
            Some(ProbeReply { held, remaining, passed, pause, failed_by, prober })
        };
        parsed().ok_or_else(|| garbage(Self::NAME, reply))
    }
}
