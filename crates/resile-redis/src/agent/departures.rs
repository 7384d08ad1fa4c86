use std::time::Duration;

use crate::name;

/// The members that have gone since operators were last told the number of members. Pure: time is an argument.
#[derive(Clone, Debug, Default)]
pub(super) struct Departures {
    /// The names of the first eight that have said that they leave.
    left: Vec<String>,
    /// The number of those that have said so.
    count: u32,
    /// The last eight that the server counts no more because they are silent, each with the time of the
    /// message.
    silent: Vec<(Duration, String)>,
}

/// The most names in a line.
const NAMED: usize = 8;
/// The time for which a silent member is known before the smaller number counts: that until the next
/// renewal, and that of the doubt in it.
const KEPT: Duration = Duration::from_secs(5);

impl Departures {
    /// Notes that the member with this id has left.
    pub(super) fn left(&mut self, id: &str) {
        self.count = self.count.saturating_add(1);
        if self.left.len() < NAMED {
            self.left.push(name::of_id(id).to_owned());
        }
    }

    /// Notes that the member with this id is silent.
    pub(super) fn fell_silent(&mut self, id: &str, now: Duration) {
        if self.silent.len() >= NAMED {
            self.silent.remove(0);
        }
        self.silent.push((now, name::of_id(id).to_owned()));
    }

    /// Notes that the number of members is the one that was told: as many have joined as have left, or
    /// those that are silent still count.
    pub(super) fn settle(&mut self, now: Duration) {
        (self.left, self.count) = (Vec::new(), 0);
        self.silent.retain(|(at, _)| now < *at + KEPT);
    }

    /// Words a new number of members, and forgets who has gone: "3 processes, 4 before: web-4 left".
    /// Those that have gone without a word have stopped reporting. `before` is 0 if it is not known.
    pub(super) fn tell(&mut self, members: u32, before: u32) -> String {
        let Self { left, count, silent } = std::mem::take(self);
        let now = processes(members);
        if before == 0 {
            return now;
        }
        let missing = before.saturating_sub(members).saturating_sub(count);
        // One that was silent before may be back.
        let most = usize::try_from(missing).unwrap_or(usize::MAX);
        let known = &silent[silent.len().saturating_sub(most)..];
        let known: Vec<_> = known.iter().map(|(_, name)| name).collect();
        let left = (count > 0).then(|| format!("{} left", list(&left, u64::from(count))));
        let silent = match &*known {
            [] => missing.to_string(),
            names => list(names, u64::from(missing)),
        };
        let silent = (missing > 0).then(|| format!("{silent} stopped reporting"));
        let why: Vec<_> = [left, silent].into_iter().flatten().collect();
        let colon = if why.is_empty() { "" } else { ": " };
        format!("{now}, {before} before{colon}{}", why.join(", "))
    }
}

/// Names a number of members: "1 process", "3 processes".
pub(super) fn processes(members: u32) -> String {
    format!("{members} process{}", if members == 1 { "" } else { "es" })
}

/// Lists names of which the first ones are known: "a, b and 2 more".
pub(super) fn list(names: &[impl AsRef<str>], all: u64) -> String {
    let known: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    let more = all.saturating_sub(u64::try_from(names.len()).unwrap_or(u64::MAX));
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_members_is_told_with_who_left_and_who_fell_silent() {
        let mut departures = Departures::default();
        assert_eq!(departures.tell(4, 0), "4 processes");
        assert_eq!(departures.tell(5, 4), "5 processes, 4 before");
        departures.left("web-4-0123456789abcdef");
        assert_eq!(departures.tell(4, 5), "4 processes, 5 before: web-4 left");
        assert_eq!(departures.tell(3, 4), "3 processes, 4 before: 1 stopped reporting");
        departures.left("web-1");
        let both = "1 process, 3 before: web-1 left, 1 stopped reporting";
        assert_eq!(departures.tell(1, 3), both);
        (0..10).for_each(|number| departures.left(&number.to_string()));
        let many = "2 processes, 12 before: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more left";
        assert_eq!(departures.tell(2, 12), many);
        departures.left("web-9");
        assert_eq!(
            departures.tell(4, 3),
            "4 processes, 3 before: web-9 left",
            "others have joined"
        );
        let at = Duration::from_secs;
        departures.fell_silent("web-7-0123456789abcdef", at(1));
        departures.settle(at(5));
        assert_eq!(departures.tell(3, 4), "3 processes, 4 before: web-7 stopped reporting");
        departures.left("web-5");
        departures.fell_silent("web-6", at(1));
        assert_eq!(
            departures.tell(1, 4),
            "1 process, 4 before: web-5 left, web-6 and 1 more stopped reporting"
        );
        departures.fell_silent("web-8", at(1));
        departures.left("web-9");
        assert_eq!(departures.tell(3, 4), "3 processes, 4 before: web-9 left", "web-8 is back");
        (0..9).for_each(|number| departures.fell_silent(&number.to_string(), at(number)));
        departures.settle(at(8));
        assert_eq!(departures.tell(3, 5), "3 processes, 5 before: 7, 8 stopped reporting");
        departures.fell_silent("web-8", at(1));
        departures.left("web-9");
        departures.settle(at(6));
        assert_eq!(departures.tell(3, 4), "3 processes, 4 before: 1 stopped reporting");
    }
}
