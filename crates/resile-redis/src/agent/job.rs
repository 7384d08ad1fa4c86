use std::sync::Arc;
use std::time::Duration;

use resile::cooldown::Hold;

use super::Context;
use crate::keys::Keys;
use crate::lease::Ask;
use crate::meter::Meter;
use crate::scale::Scale;
use crate::scripts::{
    HoldReply, HoldRequest, Known, LearnedRequest, LeaseReply, LimitsRequest, MemberReply,
    MemberRequest, ProbeReply, ProbeRequest, ProbeStep, Report, ScriptError, SetLimit, VoteReply,
    VoteRequest,
};
use crate::store::Store;

/// One exchange with the server. Each has its own key.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// Listens to the holds of other members.
    Subscribe,
    /// Renews the membership. Zero leaves.
    Renew(Duration),
    /// Reads the shared hold, or publishes a hold.
    Hold(Option<Hold>),
    /// Exchanges a lease. `index` is its place in the agent.
    Lease { index: usize, key: String, scale: Scale, ask: Ask, ttl: Duration },
    /// Reads the limits that were set at run time, and tells those that this member has read.
    Limits(Vec<SetLimit>),
    /// Tells what this member has learned of the limits.
    Learn(Vec<Report>),
    /// Votes.
    Vote { calls: u64, failures: u64, is_open: bool, ttl: Duration },
    /// Acquires or releases the permission to probe.
    Probe { step: ProbeStep, ttl: Duration },
}

/// The answer to a job.
#[derive(Debug)]
pub(super) enum Answer {
    Subscribed(u64),
    Members(MemberReply),
    Hold(HoldReply),
    Lease(LeaseReply),
    Limits(Vec<SetLimit>),
    Learned(Vec<Known>),
    Votes(VoteReply),
    Probe(ProbeReply),
}

/// The names that every job needs.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    store: Store,
    keys: Keys,
    id: Arc<str>,
    weight: u32,
    pub(super) meter: Meter,
}

impl Desk {
    pub(super) fn new(context: &Context) -> Self {
        let Context { store, keys, id, plan, meter } = context;
        Self {
            store: store.clone(),
            keys: keys.clone(),
            id: id.clone(),
            weight: plan.weight,
            meter: meter.clone(),
        }
    }

    /// Does one job.
    pub(super) async fn run(&self, job: &Job) -> Result<Answer, ScriptError> {
        let Self { store, keys, id, weight, .. } = self;
        match job {
            Job::Subscribe => Ok(Answer::Subscribed(store.subscribe(&keys.holds()).await?)),
            Job::Renew(ttl) => {
                let request = MemberRequest { id, ttl: *ttl, channel: &keys.holds() };
                Ok(Answer::Members(store.run(&keys.members(), &request).await?))
            }
            Job::Hold(hold) => {
                let Hold { remaining, elapsed, hint } = hold.unwrap_or_default();
                let channel = &keys.holds();
                let request = HoldRequest { id, channel, remaining, elapsed, hint };
                Ok(Answer::Hold(store.run(&keys.cooldown(), &request).await?))
            }
            Job::Lease { key, scale, ask, ttl, .. } => {
                let request = ask.request(id, scale, *ttl, *weight);
                Ok(Answer::Lease(store.run(key, &request).await?))
            }
            Job::Limits(known) => {
                let request = LimitsRequest { known, change: None };
                Ok(Answer::Limits(store.run(&keys.limits(), &request).await?))
            }
            Job::Learn(reports) => {
                let request = LearnedRequest { id, reports };
                Ok(Answer::Learned(store.run(&keys.learned(), &request).await?))
            }
            Job::Vote { calls, failures, is_open, ttl } => {
                let (calls, failures, open, ttl) = (*calls, *failures, *is_open, *ttl);
                let request = VoteRequest { id, calls, failures, open, ttl };
                Ok(Answer::Votes(store.run(&keys.votes(), &request).await?))
            }
            Job::Probe { step, ttl } => {
                let request = ProbeRequest { id, ttl: *ttl, step: *step };
                Ok(Answer::Probe(store.run(&keys.probe(), &request).await?))
            }
        }
    }
}
