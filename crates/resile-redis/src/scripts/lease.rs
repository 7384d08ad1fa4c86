use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, Value};

use super::{Request, ScriptError, build, flag, from_micros, garbage, integers, micros};

/// Asks for units of an account, and reports the units that were spent. See `lease.lua`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseRequest<'a> {
    /// The name of the member.
    pub(crate) id: &'a str,
    /// The most that the account holds, in parts, at most 2^52.
    pub(crate) capacity: i64,
    /// The parts that arrive in a microsecond, at most 2^52. 0 for an account without refill.
    pub(crate) rate: i64,
    /// The parts in a unit, at least 1.
    pub(crate) scale: i64,
    /// The time after which the lease of a silent member ends. 0 leaves the account.
    pub(crate) ttl: Duration,
    /// The sum that counts as granted if the server does not know the member. The safe value is the
    /// lowest `spent` that the member sent since its last reply, or got a reply for.
    pub(crate) base: i64,
    /// The sum of all units that this member ever spent.
    pub(crate) spent: i64,
    /// The least that the member can use, counted with the units that it holds. It gets nothing
    /// until so much is there.
    pub(crate) least: i64,
    /// The units that the member wants to hold. It gives back what it holds beyond that.
    pub(crate) want: i64,
    /// The last level that the member knows, in units, if it knows one.
    pub(crate) memory: Option<i64>,
    /// The lowest level that the provider has reported since the last exchange, in units.
    pub(crate) told: Option<u64>,
    /// The time for which nothing arrives: the rest of the hold after a refusal. It counts only with a told
    /// level.
    pub(crate) pause: Duration,
    /// The units that the member gave itself in safe mode since the last answer.
    pub(crate) own: i64,
    /// The most parts that the account keeps while no member lacks units.
    pub(crate) calm: i64,
    /// The units that the member may hold of its own deposits, even if the others hold all that an
    /// account without a refill has.
    pub(crate) floor: i64,
    /// The weight of the member among those that lack units, from 1 to 100.
    pub(crate) weight: u32,
    /// The number of members by which this one has divided the limit since its last answer, or 0.
    pub(crate) away: u32,
}

/// The answer to a [`LeaseRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseReply {
    /// The sum of all units that were ever granted to the member. It holds this minus the sum that
    /// it spent.
    pub(crate) granted: i64,
    /// The units that are left in the account, negative in debt.
    pub(crate) level: i64,
    /// The time until the least (or without a least, the want) fits. `None` if it never does.
    pub(crate) wait: Option<Duration>,
    /// True if the server did not know the member.
    pub(crate) is_new: bool,
    /// The step by which the clock of the server ran back since the last exchange.
    pub(crate) stepped: Duration,
    /// The units that the account has room for, beside its level and what the members hold.
    pub(crate) room: i64,
}

impl Request for LeaseRequest<'_> {
    type Reply = LeaseReply;
    const NAME: &'static str = "lease";
    const TEXT: &'static str = include_str!("lease.lua");

    fn script() -> &'static Script {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| build(LeaseRequest::TEXT));
        &SCRIPT
    }

    fn args(&self) -> Vec<String> {
        vec![
            self.id.to_owned(),
            self.capacity.to_string(),
            self.rate.to_string(),
            self.scale.to_string(),
            micros(self.ttl),
            self.base.to_string(),
            self.spent.to_string(),
            self.least.to_string(),
            self.want.to_string(),
            self.memory.map_or_else(String::new, |level| level.to_string()),
            self.told.map_or_else(String::new, |level| level.to_string()),
            self.own.to_string(),
            self.calm.to_string(),
            self.weight.to_string(),
            self.away.to_string(),
            self.floor.to_string(),
            micros(self.pause),
        ]
    }

    fn parse(reply: &Value) -> Result<LeaseReply, ScriptError> {
        let parsed = || {
            let [granted, level, wait, is_new, stepped, room] = integers(reply)?;
            let wait = if wait == -1 { None } else { Some(from_micros(wait)?) };
            let (is_new, stepped) = (flag(is_new)?, from_micros(stepped)?);
            Some(LeaseReply { granted, level, wait, is_new, stepped, room })
        };
        parsed().ok_or_else(|| garbage(Self::NAME, reply))
    }
}
