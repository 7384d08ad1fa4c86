//! The list of the claims. The program `storm` runs it in a terminal, and the page of `lab/browser`
//! runs it in a browser.

use crate::claims::{self, Check, Progress, Size};
use crate::plots::{self, Drawn};

/// A published claim and its models.
pub struct Claim {
    pub name: &'static str,
    pub title: &'static str,
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

pub const CLAIMS: [Claim; 18] = [
    Claim {
        name: "jitter",
        title: "1  Jitter while 100 clients change one row (Brooker 2015)",
        run: |size, progress| {
            let lines = claims::jitter::measure(size, progress);
            Outcome::of(claims::jitter::checks(&lines, size), Some(plots::jitter(&lines)))
        },
    },
    Claim {
        name: "cap",
        title: "2  Delays at the cap",
        run: |size, progress| {
            let spreads = claims::cap::measure(size, progress);
            Outcome::of(claims::cap::checks(&spreads), Some(plots::cap(&spreads)))
        },
    },
    Claim {
        name: "bucket",
        title: "3  A token bucket under rising failure (Brooker 2022)",
        run: |size, progress| {
            let measured = claims::bucket::measure(size, progress);
            Outcome::of(claims::bucket::checks(&measured, size), Some(plots::bucket(&measured)))
        },
    },
    Claim {
        name: "collapse",
        title: "4  Congestive collapse (Brooker 2022)",
        run: |size, progress| {
            let measured = claims::collapse::measure(size, progress);
            Outcome::of(claims::collapse::checks(&measured, size), Some(plots::collapse(&measured)))
        },
    },
    Claim {
        name: "storm",
        title: "5  A retry storm that outlives its outage (Bronson et al. 2021)",
        run: |size, progress| {
            let lines = claims::storm::measure(size, progress);
            Outcome::of(claims::storm::checks(&lines, size), Some(plots::storm(&lines)))
        },
    },
    Claim {
        name: "hedge",
        title: "6  The tail at scale (Dean and Barroso 2013)",
        run: |size, progress| {
            let lines = claims::hedge::measure(size, progress);
            Outcome::of(claims::hedge::checks(&lines, size), Some(plots::hedge(&lines)))
        },
    },
    Claim {
        name: "arithmetic",
        title: "7  Claims that follow by arithmetic",
        run: |size, _| Outcome::of(claims::exact::checks(size), None),
    },
    Claim {
        name: "fleet",
        title: "8  A fleet of agents at a rate limit",
        run: |size, progress| {
            let lines = claims::fleet::measure(size, progress);
            Outcome::of(claims::fleet::checks(&lines, size), Some(plots::fleet(&lines)))
        },
    },
    Claim {
        name: "quota",
        title: "9  A limit of tokens",
        run: |size, progress| {
            let measured = claims::quota::measure(size, progress);
            Outcome::of(claims::quota::checks(&measured, size), Some(plots::quota(&measured)))
        },
    },
    Claim {
        name: "bedrock",
        title: "10  A request without a maximum of output",
        run: |_, _| Outcome::of(claims::bedrock::checks(), None),
    },
    Claim {
        name: "priority",
        title: "11  More agents than a limit can serve",
        run: |size, progress| {
            let lines = claims::priority::measure(size, progress);
            Outcome::of(claims::priority::checks(&lines), Some(plots::priority(&lines)))
        },
    },
    Claim {
        name: "neighbour",
        title: "12  A greedy user among ten",
        run: |size, progress| {
            let shares = claims::neighbour::measure(size, progress);
            Outcome::of(claims::neighbour::checks(shares, size), None)
        },
    },
    Claim {
        name: "limit",
        title: "13  A limit that is learned",
        run: |size, progress| {
            let measured = claims::limit::measure(size, progress);
            Outcome::of(claims::limit::checks(&measured, size), Some(plots::limit(&measured)))
                .with_table(claims::limit::table(&measured))
        },
    },
    Claim {
        name: "moving",
        title: "14  A learned limit while the server changes",
        run: |size, progress| {
            Outcome::of(claims::moving::checks(&claims::moving::measure(size, progress)), None)
        },
    },
    Claim {
        name: "crowd",
        title: "15  Fifty clients that learn the limit of one server",
        run: |size, progress| {
            let lines = claims::crowd::measure(size, progress);
            Outcome::of(claims::crowd::checks(&lines), None)
                .with_table(claims::crowd::table(&lines))
        },
    },
    Claim {
        name: "freeze",
        title: "16  A long hint that freezes a limit",
        run: |size, progress| {
            Outcome::of(claims::freeze::checks(&claims::freeze::measure(size, progress)), None)
        },
    },
    Claim {
        name: "ramp",
        title: "17  A learned limit on the server that collapses",
        run: |size, progress| {
            let measured = claims::ramp::measure(size, progress);
            Outcome::of(claims::ramp::checks(&measured, size), None)
        },
    },
    Claim {
        name: "pairs",
        title: "18  Pairs of parts after a shock",
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
