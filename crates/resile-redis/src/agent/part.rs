use resile::quota::Dimension;

use super::learned::{Own, digits};
use crate::fail_mode::FailMode;

/// Names the part of the limits that each of so many members uses alone, and what stays in this process too. An
/// upstream without a quota has only a budget.
pub(super) fn part(mode: FailMode, members: u32, limits: &[Own], alone: &str) -> String {
    let is_whole = matches!((mode, members), (FailMode::Open, _) | (FailMode::Safe, 0 | 1));
    let share = if is_whole { 1.0 } else { 1.0 / f64::from(members.max(1)) };
    let limit = |own: &Own| {
        let ((used, period), units) = (own.used(), units(own.dimension));
        let whole = digits(used);
        if is_whole {
            format!("{whole} {units} per {period:?}")
        } else {
            format!("{} of {whole} {units} per {period:?}", digits(used * share))
        }
    };
    let noun = if limits.is_empty() { "retry budget" } else { "limit" };
    let numbers = limits.iter().map(limit).collect::<Vec<_>>().join(" and ");
    let words = match mode {
        FailMode::Closed => format!("nothing of the {noun}"),
        _ if is_whole && limits.is_empty() => format!("the whole {noun}"),
        _ if is_whole => format!("the whole {noun} of {numbers}"),
        _ if limits.is_empty() => format!("1/{members} of the {noun}"),
        _ => format!("1/{members} of the {noun}, which is {numbers}"),
    };
    words + alone
}

/// Returns what a limit counts.
pub(super) const fn units(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Requests => "requests",
        Dimension::Input => "input tokens",
        Dimension::Output => "output tokens",
        _ => "tokens",
    }
}

/// Names the number of members that a share assumes, if fewer are known.
pub(super) fn assumed(mode: FailMode, known: u32, divisor: u32) -> String {
    if mode == FailMode::Safe && known < divisor {
        format!(", at least {divisor} assumed (`with_least_members`)")
    } else {
        String::new()
    }
}

/// Returns the question of a process that has no answer of the store yet. In the other modes the number of members
/// divides nothing.
pub(super) const fn question(mode: FailMode) -> &'static str {
    match mode {
        FailMode::Safe => ". Is the fleet larger? Raise `with_least_members`",
        FailMode::Open | FailMode::Closed => "",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use resile::quota::Rate;

    use super::*;

    #[test]
    fn only_the_mode_that_divides_asks_for_the_number() {
        let modes = [FailMode::Safe, FailMode::Open, FailMode::Closed];
        assert_eq!(modes.map(|mode| question(mode).is_empty()), [false, true, true]);
    }

    #[test]
    fn a_part_follows_the_fail_mode() {
        let own = |dimension, rate| Own::new(dimension, rate, false);
        let requests = own(Dimension::Requests, Rate::per_second(40));
        let input = own(Dimension::Input, Rate::new(1_000, Duration::from_secs(60)));
        let parts = |mode| [1, 4].map(|members| part(mode, members, &[requests], "; holds"));
        let whole = "the whole limit of 40 requests per 1s; holds";
        let quarter = "1/4 of the limit, which is 10 of 40 requests per 1s; holds";
        assert_eq!(parts(FailMode::Safe), [whole, quarter]);
        assert_eq!(parts(FailMode::Open), [whole; 2]);
        assert_eq!(parts(FailMode::Closed), ["nothing of the limit; holds"; 2]);
        let both = "1/3 of the limit, which is 13.3 of 40 requests per 1s and 333 of 1000 input \
                    tokens per 60s";
        assert_eq!(part(FailMode::Safe, 3, &[requests, input], ""), both);
        let budget = |mode| [1, 4].map(|members| part(mode, members, &[], ""));
        let quarter = "1/4 of the retry budget";
        assert_eq!(budget(FailMode::Safe), ["the whole retry budget", quarter]);
        assert_eq!(budget(FailMode::Closed), ["nothing of the retry budget"; 2]);
    }
}
