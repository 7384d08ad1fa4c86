//! The list of the claims. The program `storm` runs it in a terminal, and the page of `lab/browser`
//! runs it in a browser.

use crate::claims::{self, Check, Progress, Size};
use crate::plots::{self, Drawn};

/// A published claim and its models.
pub struct Claim {
    pub name: &'static str,
    pub title: &'static str,
    /// The lesson of the models.
    pub shows: &'static str,
    /// The action for a reader who makes such calls.
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
        shows: "Without jitter, clients that collided come back together and collide again, but \
                with full jitter they end their work in a twelfth of the time.",
        advice: "Keep the jitter of the default backoff, which is full.",
        run: |size, progress| {
            let lines = claims::jitter::measure(size, progress);
            Outcome::of(claims::jitter::checks(&lines, size), Some(plots::jitter(&lines)))
        },
    },
    Claim {
        name: "cap",
        title: "2  Delays at the cap",
        shows: "A formula that clips after the random draw sends 999 of 1,000 clients back in the \
                same tenth of a second, but the formulas of the crate spread them below the cap as \
                well.",
        advice: "Let the `Backoff` apply the cap, and do not clip delays in your own code.",
        run: |size, progress| {
            let spreads = claims::cap::measure(size, progress);
            Outcome::of(claims::cap::checks(&spreads), Some(plots::cap(&spreads)))
        },
    },
    Claim {
        name: "bucket",
        title: "3  A token bucket under rising failure (Brooker 2022)",
        shows: "While few requests fail, a bucket of tokens costs no success. When all fail, it \
                keeps the load near 100 %, but three retries without it send 400 %.",
        advice: "Share one `Budget` between all calls to an upstream.",
        run: |size, progress| {
            let measured = claims::bucket::measure(size, progress);
            Outcome::of(claims::bucket::checks(&measured, size), Some(plots::bucket(&measured)))
        },
    },
    Claim {
        name: "collapse",
        title: "4  Congestive collapse (Brooker 2022)",
        shows: "After a spike of 5 s, retries at once keep three servers of four down for good, \
                but with the default budget the same retries do no harm.",
        advice: "Add a `Budget` before you add attempts, because a delay with jitter does not \
                prevent the collapse.",
        run: |size, progress| {
            let measured = claims::collapse::measure(size, progress);
            Outcome::of(claims::collapse::checks(&measured, size), Some(plots::collapse(&measured)))
        },
    },
    Claim {
        name: "storm",
        title: "5  A retry storm that outlives its outage (Bronson et al. 2021)",
        shows: "One retry of each timeout keeps a server down after the cause is gone. With a \
                budget the server recovers as it does without retries, and with a breaker two \
                minutes sooner.",
        advice: "Give an `Upstream` both a `Budget` and a `Breaker`.",
        run: |size, progress| {
            let lines = claims::storm::measure(size, progress);
            Outcome::of(claims::storm::checks(&lines, size), Some(plots::storm(&lines)))
        },
    },
    Claim {
        name: "hedge",
        title: "6  The tail at scale (Dean and Barroso 2013)",
        shows: "A second request after 10 ms cuts the 90th percentile of a wide request from 171 \
                ms to 20 ms for 2 % more calls.",
        advice: "Hedge reads whose slow answers come from single machines, and bound the extra \
                load with a `Budget`.",
        run: |size, progress| {
            let lines = claims::hedge::measure(size, progress);
            Outcome::of(claims::hedge::checks(&lines, size), Some(plots::hedge(&lines)))
        },
    },
    Claim {
        name: "arithmetic",
        title: "7  Claims that follow by arithmetic",
        shows: "Retries in nested layers multiply: five layers of three attempts send 243 requests \
                for one call.",
        advice: "Retry in one layer only, and give each call a total timeout.",
        run: |size, _| Outcome::of(claims::exact::checks(size), None),
    },
    Claim {
        name: "fleet",
        title: "8  A fleet of agents at a rate limit",
        shows: "When each agent obeys `Retry-After` alone, a fleet gets ten refusals for each \
                success, but with a shared cooldown it gets one for six successes.",
        advice: "Share an `Upstream` with a `Cooldown` between all calls to one account.",
        run: |size, progress| {
            let lines = claims::fleet::measure(size, progress);
            Outcome::of(claims::fleet::checks(&lines, size), Some(plots::fleet(&lines)))
        },
    },
    Claim {
        name: "quota",
        title: "9  A limit of tokens",
        shows: "A quota uses 98 % of a limit of tokens with about one refusal in 1,000 calls. The \
                hint alone costs 24 refusals for each success, and a reservation of the maximum \
                wastes most of the limit.",
        advice: "Tell the `Quota` the limit and each call its cost, and let it read the headers of \
                the answers.",
        run: |size, progress| {
            let measured = claims::quota::measure(size, progress);
            Outcome::of(claims::quota::checks(&measured, size), Some(plots::quota(&measured)))
        },
    },
    Claim {
        name: "bedrock",
        title: "10  A request without a maximum of output",
        shows: "A provider that reserves the maximum of output admits 31 calls at once without a \
                stated maximum, and 1,333 with one of 1,000 tokens.",
        advice: "State a maximum of output tokens in each request.",
        run: |_, _| Outcome::of(claims::bedrock::checks(), None),
    },
    Claim {
        name: "priority",
        title: "11  More agents than a limit can serve",
        shows: "With equal shares none of 512 agents finishes its work in time, but if the most \
                advanced agents go first, 198 of them finish with the same calls.",
        advice: "Pass the progress of the work to `with_priority`.",
        run: |size, progress| {
            let lines = claims::priority::measure(size, progress);
            Outcome::of(claims::priority::checks(&lines), Some(plots::priority(&lines)))
        },
    },
    Claim {
        name: "neighbour",
        title: "12  A greedy user among ten",
        shows: "Without groups, one user of ten takes half of a shared quota, but with groups each \
                user gets a tenth.",
        advice: "Name the user, the job or the key with `with_group`.",
        run: |size, progress| {
            let shares = claims::neighbour::measure(size, progress);
            Outcome::of(claims::neighbour::checks(shares, size), None)
        },
    },
    Claim {
        name: "limit",
        title: "13  A limit that is learned",
        shows: "`Bulkhead::learned` finds the 50 slots of a server by itself, but Gradient2 drifts \
                above 80 and Vegas loses most of the goodput.",
        advice: "Use a learned limit if you do not know how many calls at once the server bears.",
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
