//! The list of the claims. The program `storm` runs it in a terminal, and the page of `lab/browser`
//! runs it in a browser.

use crate::claims::{self, Check, Progress, Size};
use crate::plots::{self, Drawn};

/// A published claim and its models.
pub struct Claim {
    pub name: &'static str,
    pub title: &'static str,
    /// What the claim shows, in a sentence.
    pub shows: &'static str,
    /// What to do with it, in a sentence.
    pub advice: &'static str,
    pub run: fn(Size, Progress<'_>) -> Outcome,
}

/// The result of a claim.
pub struct Outcome {
    pub checks: Vec<Check>,
    /// The picture as SVG.
    pub picture: Option<Drawn<String>>,
    /// Lines of further figures.
    pub table: Option<String>,
}

pub const CLAIMS: [Claim; 20] = [
    Claim {
        name: "jitter",
        title: "1  Jitter while 100 clients change one row (Brooker 2015)",
        shows: "Retries of clients that change one row collide again, and random delays need the least time and writes.",
        advice: "Keep the jitter that a policy has by default.",
        run: |size, progress| {
            let lines = claims::jitter::measure(size, progress);
            Outcome::of(claims::jitter::checks(&lines, size), Some(plots::jitter(&lines)))
        },
    },
    Claim {
        name: "cap",
        title: "2  Delays at the cap",
        shows: "With the usual forms of jitter some or all long delays end at the cap together, and full jitter spreads them.",
        advice: "Set a cap as you need it, and leave the jitter as it is.",
        run: |size, progress| {
            let spreads = claims::cap::measure(size, progress);
            Outcome::of(claims::cap::checks(&spreads), Some(plots::cap(&spreads)))
        },
    },
    Claim {
        name: "bucket",
        title: "3  A token bucket under rising failure (Brooker 2022)",
        shows: "Three retries add their load exactly when most requests fail, and a budget lets them pass only while failures are few.",
        advice: "Give every upstream with retries a budget.",
        run: |size, progress| {
            let measured = claims::bucket::measure(size, progress);
            Outcome::of(claims::bucket::checks(&measured, size), Some(plots::bucket(&measured)))
        },
    },
    Claim {
        name: "collapse",
        title: "4  Congestive collapse (Brooker 2022)",
        shows: "Retries turn a spike of five seconds into an outage that lasts, and a budget ends it with the spike.",
        advice: "Give every upstream a budget, and a learned bulkhead too if the server gets slower under load.",
        run: |size, progress| {
            let measured = claims::collapse::measure(size, progress);
            Outcome::of(claims::collapse::checks(&measured, size), Some(plots::collapse(&measured)))
        },
    },
    Claim {
        name: "storm",
        title: "5  A retry storm that outlives its outage (Bronson et al. 2021)",
        shows: "After a standstill of ten seconds one retry keeps a busy server down for ever, and a budget with a breaker brings it back at once.",
        advice: "Set a budget that is filled by successes, never by requests, and a breaker.",
        run: |size, progress| {
            let lines = claims::storm::measure(size, progress);
            Outcome::of(claims::storm::checks(&lines, size), Some(plots::storm(&lines)))
        },
    },
    Claim {
        name: "hedge",
        title: "6  The tail at scale (Dean and Barroso 2013)",
        shows: "A second request after the usual latency removes most of the tail for a few percent of load.",
        advice: "Hedge reads with a learned delay, and pay for the hedges from a budget.",
        run: |size, progress| {
            let lines = claims::hedge::measure(size, progress);
            Outcome::of(claims::hedge::checks(&lines, size), Some(plots::hedge(&lines)))
        },
    },
    Claim {
        name: "arithmetic",
        title: "7  Claims that follow by arithmetic",
        shows: "Nested retries multiply, and the figures of published rules follow from their formulas.",
        advice: "Retry at one level only.",
        run: |size, _| Outcome::of(claims::exact::checks(size), None),
    },
    Claim {
        name: "fleet",
        title: "8  A fleet of agents at a rate limit",
        shows: "At a rate limit a fleet that follows only its own hints sends many times what the provider serves, and a cooldown keeps it near the limit.",
        advice: "Give all calls to one provider one upstream with a cooldown.",
        run: |size, progress| {
            let lines = claims::fleet::measure(size, progress);
            Outcome::of(claims::fleet::checks(&lines, size), Some(plots::fleet(&lines)))
        },
    },
    Claim {
        name: "quota",
        title: "9  A limit of tokens",
        shows: "Reserving by a learned estimate uses nearly all of a limit of tokens with almost no refusals, and the usual ways waste or exceed it.",
        advice: "Set a quota with the limits and the charge of your provider.",
        run: |size, progress| {
            let measured = claims::quota::measure(size, progress);
            Outcome::of(claims::quota::checks(&measured, size), Some(plots::quota(&measured)))
        },
    },
    Claim {
        name: "bedrock",
        title: "10  A request without a maximum of output",
        shows: "A request without a maximum of output reserves a whole window of tokens, so few calls fit into the limit.",
        advice: "Always send a maximum of output tokens.",
        run: |_, _| Outcome::of(claims::bedrock::checks(), None),
    },
    Claim {
        name: "priority",
        title: "11  More agents than a limit can serve",
        shows: "Under fair sharing agents beyond the limit all starve, and more of them finish if progress goes first.",
        advice: "Pass the progress of an agent with the cost of its calls.",
        run: |size, progress| {
            let lines = claims::priority::measure(size, progress);
            Outcome::of(claims::priority::checks(&lines), Some(plots::priority(&lines)))
        },
    },
    Claim {
        name: "neighbour",
        title: "12  A greedy user among ten",
        shows: "Of ten users on one quota the greedy one takes more than half, and groups give each of them a tenth.",
        advice: "Name a group for the calls of each user.",
        run: |size, progress| {
            let shares = claims::neighbour::measure(size, progress);
            Outcome::of(claims::neighbour::checks(shares, size), None)
        },
    },
    Claim {
        name: "limit",
        title: "13  A limit that is learned",
        shows: "Limits that compare latencies drift, dip or collapse on a server that queues, and one that moves itself on purpose stays near the best.",
        advice: "Use a learned bulkhead, set its most to what your program can bear, and tune nothing else.",
        run: |size, progress| {
            let measured = claims::limit::measure(size, progress);
            Outcome::of(claims::limit::checks(&measured, size), Some(plots::limit(&measured)))
                .with_table(claims::limit::table(&measured))
        },
    },
    Claim {
        name: "moving",
        title: "14  A learned limit while the server changes",
        shows: "A learned limit follows a server that loses machines within a minute, and neither bursts nor another mix of calls mislead it.",
        advice: "Leave a learned limit alone while the upstream changes.",
        run: |size, progress| {
            Outcome::of(claims::moving::checks(&claims::moving::measure(size, progress)), None)
        },
    },
    Claim {
        name: "crowd",
        title: "15  Fifty clients that learn the limit of one server",
        shows: "Fifty clients share a server that refuses fairly, but on a server that only queues their limits grow far beyond its slots.",
        advice: "Set fixed limits if many clients load a server that never refuses, or let that server refuse.",
        run: |size, progress| {
            let lines = claims::crowd::measure(size, progress);
            Outcome::of(claims::crowd::checks(&lines, size), None)
                .with_table(claims::crowd::table(&lines))
        },
    },
    Claim {
        name: "freeze",
        title: "16  A long hint that freezes a limit",
        shows: "A rule whose cuts wait for the hint cuts once in half an hour, and the refusals go on all that time.",
        advice: "Take a hint as the wait of one call, and never as a pause of what learns.",
        run: |size, progress| {
            Outcome::of(claims::freeze::checks(&claims::freeze::measure(size, progress)), None)
        },
    },
    Claim {
        name: "ramp",
        title: "17  A learned limit on the server that collapses",
        shows: "A server that collapses beyond its limit keeps nine tenths of its capacity under a learned limit, and falls to nothing without one.",
        advice: "Put a learned bulkhead in front of a server that gets slower with each request.",
        run: |size, progress| {
            let measured = claims::ramp::measure(size, progress);
            Outcome::of(claims::ramp::checks(&measured, size), None)
        },
    },
    Claim {
        name: "throttle",
        title: "18  The throttle of a client (Beyer et al. 2016)",
        shows: "A client that refuses itself by chance sends twice what the server accepts, whatever the demand is.",
        advice: "Add a throttle if many clients call a server that tells of its overload.",
        run: |size, progress| {
            Outcome::of(claims::throttle::checks(&claims::throttle::measure(size, progress)), None)
        },
    },
    Claim {
        name: "partition",
        title: "19  Priorities while low calls come twelvefold (Netflix 2024)",
        shows: "Calls of high priority pass while twelve times as many low ones come, and without priorities they fail like all others.",
        advice: "Set a priority where the work comes in.",
        run: |size, progress| {
            let measured = claims::partition::measure(size, progress);
            Outcome::of(claims::partition::checks(&measured), None)
        },
    },
    Claim {
        name: "pairs",
        title: "20  Pairs of parts after a shock",
        shows: "A retry or a hedge may keep a server down after a shock, and a pair with a budget or a learned limit recovers within half a minute.",
        advice: "Never retry without a budget, a breaker or a learned bulkhead, and never hedge without a budget or a learned bulkhead.",
        run: |size, progress| {
            let pairs = claims::pairs::measure(size, progress);
            Outcome::of(claims::pairs::checks(&pairs), None)
                .with_table(claims::pairs::table(&pairs))
        },
    },
];

impl Outcome {
    fn with_table(self, table: String) -> Self {
        Self { table: Some(table), ..self }
    }

    fn of(checks: Vec<Check>, picture: Option<Drawn<String>>) -> Self {
        Self { checks, picture, table: None }
    }
}
