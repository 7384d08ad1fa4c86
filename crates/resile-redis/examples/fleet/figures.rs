//! The figures of a run, as a row of a table.

use std::fmt;

use crate::plan::{LIMIT, Scheme, WARM_UP};
use crate::provider::{SLOT, Slot};
use crate::run::Outcome;

/// The figures of a run after its first second.
pub(crate) struct Figures {
    title: &'static str,
    accepted_per_second: f64,
    /// The refusals per 1,000 accepted requests.
    refused: f64,
    /// The requests in the worst second.
    worst: u32,
    /// The share of the calls that were answered in time, in percent.
    answered: f64,
    scripts_per_second: Option<f64>,
}

impl Figures {
    /// The names of the columns, in two lines.
    pub(crate) fn header() -> String {
        let names = [
            ["", "accepted", "of the", "429s per", "requests in", "calls", "scripts"],
            ["", "a second", "limit", "1,000", "the worst s", "answered", "a second"],
        ];
        let lines = names.map(|[title, a, b, c, d, e, g]| {
            format!("{title:28} {a:>8} {b:>7} {c:>9} {d:>12} {e:>9} {g:>9}")
        });
        lines.join("\n")
    }

    /// Returns the title of a panel.
    pub(crate) fn title(&self) -> String {
        let (used, refused) = (self.used(), self.refused);
        format!("{}: {used:.0} % used, {refused:.0} refusals per 1,000", self.title)
    }

    /// Returns the used share of the limit, in percent.
    fn used(&self) -> f64 {
        100.0 * self.accepted_per_second / f64::from(LIMIT)
    }

    pub(crate) fn of(outcome: &Outcome) -> Self {
        let warm_up = (WARM_UP.as_millis() / SLOT.as_millis()) as usize;
        let slots = outcome.slots.get(warm_up..).unwrap_or_default();
        let seconds = slots.len() as f64 * SLOT.as_secs_f64();
        let accepted = f64::from(slots.iter().map(Slot::all_accepted).sum::<u32>());
        let refused = f64::from(slots.iter().map(Slot::all_refused).sum::<u32>());
        let in_a_second = slots.windows((1.0 / SLOT.as_secs_f64()).round() as usize);
        let requests =
            |slots: &[Slot]| slots.iter().map(|it| it.all_accepted() + it.all_refused()).sum();
        let made: u64 = outcome.told.iter().map(|told| told.made).sum();
        let answered: u64 = outcome.told.iter().map(|told| told.answered).sum();
        let scripts = outcome.scripts.filter(|_| outcome.plan.scheme.shares());
        Self {
            title: outcome.plan.scheme.title(),
            accepted_per_second: accepted / seconds,
            refused: 1000.0 * refused / accepted.max(1.0),
            worst: in_a_second.map(requests).max().unwrap_or(0),
            answered: 100.0 * answered as f64 / made.max(1) as f64,
            scripts_per_second: scripts
                .map(|scripts| scripts as f64 / outcome.plan.length.as_secs_f64()),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scripts = self.scripts_per_second.map(|scripts| format!("{scripts:.0}"));
        write!(
            f,
            "{:28} {:>8.0} {:>5.0} % {:>9.0} {:>12} {:>7.0} % {:>9}",
            self.title,
            self.accepted_per_second,
            self.used(),
            self.refused,
            self.worst,
            self.answered,
            scripts.unwrap_or_default()
        )
    }
}

/// Returns whether the fleet used more of the limit than fixed shares, with fewer refusals than
/// processes that each take the whole limit.
pub(crate) fn is_better(outcomes: &[Outcome]) -> bool {
    let of = |scheme| outcomes.iter().find(|it| it.plan.scheme == scheme).map(Figures::of);
    let (Some(alone), Some(split), Some(fleet)) =
        (of(Scheme::Alone), of(Scheme::Split), of(Scheme::Fleet))
    else {
        return false;
    };
    fleet.accepted_per_second > 1.1 * split.accepted_per_second && fleet.refused < alone.refused
}
