use crate::name;

/// The members that have said that they leave, since operators were last told the number of members.
#[derive(Clone, Debug, Default)]
pub(super) struct Departures {
    /// The names of the first eight of them.
    names: Vec<String>,
    count: u32,
}

/// The most names in a line.
const NAMED: usize = 8;

impl Departures {
    /// Notes that the member with this id has left.
    pub(super) fn note(&mut self, id: &str) {
        self.count = self.count.saturating_add(1);
        if self.names.len() < NAMED {
            self.names.push(name::of_id(id).to_owned());
        }
    }

    /// Words a new number of members, and forgets who has left: "3 processes, 4 before: web-4 left".
    /// Those that have gone without a word have stopped reporting. `before` is 0 if it is not known.
    pub(super) fn tell(&mut self, members: u32, before: u32) -> String {
        let Self { names, count } = std::mem::take(self);
        let now = processes(members);
        if before == 0 {
            return now;
        }
        let silent = before.saturating_sub(members).saturating_sub(count);
        let left = (count > 0).then(|| format!("{} left", list(&names, u64::from(count))));
        let silent = (silent > 0).then(|| format!("{silent} stopped reporting"));
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
        departures.note("web-4-0123456789abcdef");
        assert_eq!(departures.tell(4, 5), "4 processes, 5 before: web-4 left");
        assert_eq!(departures.tell(3, 4), "3 processes, 4 before: 1 stopped reporting");
        departures.note("web-1");
        let both = "1 process, 3 before: web-1 left, 1 stopped reporting";
        assert_eq!(departures.tell(1, 3), both);
        (0..10).for_each(|number| departures.note(&number.to_string()));
        let many = "2 processes, 12 before: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more left";
        assert_eq!(departures.tell(2, 12), many);
        departures.note("web-9");
        assert_eq!(
            departures.tell(4, 3),
            "4 processes, 3 before: web-9 left",
            "others have joined"
        );
    }
}
