//! The members, leases and holds of a fleet, as the server knows them.

use std::collections::BTreeMap;

use redis::{Commands, Connection, RedisResult, pipe};

/// The upstreams of a prefix, by name.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) upstreams: BTreeMap<String, Upstream>,
}

/// One upstream. All times are microseconds from now, and negative in the past.
#[derive(Debug, Default)]
pub(crate) struct Upstream {
    /// The members, with the end of their presence.
    pub(crate) members: Vec<(String, i64)>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) hold: Option<Hold>,
    /// The votes of the breakers: the member, its calls and failures, and whether it is open.
    pub(crate) votes: Vec<(String, i64, i64, bool)>,
    /// The member that may probe, and until when.
    pub(crate) probe: Option<(String, i64)>,
    /// The member whose probe failed, if that is known, and the end of the pause in which nobody probes.
    pub(crate) pause: Option<(Option<String>, i64)>,
    /// The members that wait for their turn to probe, in its order.
    pub(crate) turns: Vec<String>,
}

/// The account of one limit.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The limit: `quota:requests`, `quota:tokens`, `budget`.
    pub(crate) limit: String,
    /// The units left as of the last exchange, and its time. Negative units are a debt.
    pub(crate) level: i64,
    pub(crate) at: i64,
    pub(crate) leases: Vec<Lease>,
    /// The member for which units are saved, how many, and until when.
    pub(crate) claim: Option<(String, i64, i64)>,
}

/// The lease of one member.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) member: String,
    pub(crate) granted: i64,
    pub(crate) spent: i64,
    pub(crate) ends: i64,
}

/// A hold of the cooldown.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) began: i64,
    pub(crate) ends: i64,
    /// The member that set the end.
    pub(crate) by: Option<String>,
}

/// The version of the stored form.
const VERSION: u32 = 1;

impl View {
    /// Reads all keys of a prefix. Changes nothing.
    ///
    /// # Errors
    ///
    /// Returns the error of the server.
    pub(crate) fn read(connection: &mut Connection, prefix: &str) -> RedisResult<Self> {
        let start = format!("{prefix}:{VERSION}:{{");
        let mut keys: Vec<String> = connection
            .scan_match::<_, String>(format!("{}*", literal(&start)))?
            .collect::<RedisResult<_>>()?;
        keys.sort();
        keys.dedup(); // a scan may return a key twice
        let mut view = Self::default();
        for key in keys {
            let Some((name, part)) = key[start.len()..].split_once("}:") else { continue };
            let upstream = view.upstreams.entry(decoded(name)).or_default();
            upstream.read(connection, &key, part)?;
        }
        Ok(view)
    }
}

impl Upstream {
    fn read(&mut self, connection: &mut Connection, key: &str, part: &str) -> RedisResult<()> {
        let mut read = pipe();
        read.cmd("TIME");
        let now = |(seconds, micros): (i64, i64)| seconds * 1_000_000 + micros;
        match part {
            "members" => {
                read.cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES");
                let (time, all): (_, Vec<(String, f64)>) = read.query(connection)?;
                #[expect(clippy::cast_possible_truncation, reason = "times are whole")]
                let members = all.into_iter().filter_map(|(field, expiry)| {
                    Some((field.strip_prefix("m:")?.to_owned(), expiry as i64 - now(time)))
                });
                self.members = members.filter(|(_, ends)| *ends > 0).collect();
            }
            "probe" => {
                read.cmd("GET").arg(key);
                let (time, text): (_, Option<String>) = read.query(connection)?;
                text.and_then(|text| self.add_probe(&text, now(time)));
            }
            _ => {
                read.cmd("HGETALL").arg(key);
                let (time, fields): (_, BTreeMap<String, Vec<u8>>) = read.query(connection)?;
                // The list `r` of the members that lack units is packed. Their records have the same.
                let fields = fields.into_iter().filter_map(|(field, value)| {
                    String::from_utf8(value).ok().map(|text| (field, text))
                });
                self.add(part, &Fields { fields: fields.collect(), now: now(time) });
            }
        }
        Ok(())
    }

    /// Adds the turns to probe: the time, the end of the permission, that of the pause, two more numbers and
    /// the member with the permission, if there is one. A second line has the member whose probe failed, and
    /// each further one a member that waits, with the time at which it asked.
    fn add_probe(&mut self, text: &str, now: i64) -> Option<()> {
        let mut lines = text.lines();
        let words: Vec<_> = lines.next()?.splitn(6, ' ').collect();
        let &[_, ends, closed, .., member] = &words[..] else { return None };
        let rest = |end: &str| Some(end.parse::<i64>().ok()? - now).filter(|rest| *rest > 0);
        let of = |member: &str| Some(member.to_owned()).filter(|member| !member.is_empty());
        self.probe = of(member).zip(rest(ends));
        let failed = lines.next().and_then(of);
        self.pause = rest(closed).map(|rest| (failed, rest));
        self.turns = lines.filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect();
        Some(())
    }

    fn add(&mut self, part: &str, fields: &Fields) {
        match part {
            "cooldown" => {
                let times = fields.number("s").zip(fields.number("u"));
                let by = fields.fields.get("i").filter(|id| !id.is_empty());
                let hold = times.map(|(s, u)| Hold {
                    began: s - fields.now,
                    ends: u - fields.now,
                    by: by.cloned(),
                });
                self.hold = hold.filter(|hold| hold.ends > 0);
            }
            "votes" => self.votes.extend(fields.of_members().filter_map(|(member, words)| {
                let &[calls, failures, open, expiry, ..] = &words[..] else { return None };
                (expiry > fields.now).then(|| (member.to_owned(), calls, failures, open == 1))
            })),
            limit => self.accounts.extend(fields.account(limit)),
        }
    }
}

/// The fields of a hash, and the time of the server.
struct Fields {
    fields: BTreeMap<String, String>,
    now: i64,
}

impl Fields {
    fn number(&self, field: &str) -> Option<i64> {
        self.fields.get(field)?.parse().ok()
    }

    /// Returns the numbers that a hash has for each member.
    fn of_members(&self) -> impl Iterator<Item = (&str, Vec<i64>)> {
        self.fields.iter().filter_map(|(field, text)| {
            let numbers = text.split(' ').map_while(|word| word.parse().ok()).collect();
            Some((field.strip_prefix("m:")?, numbers))
        })
    }

    fn account(&self, limit: &str) -> Option<Account> {
        let parts = self.number("s")?.max(1);
        let leases = self.of_members().filter_map(|(member, words)| {
            let &[granted, spent, expiry, ..] = &words[..] else { return None };
            Some(Lease { member: member.to_owned(), granted, spent, ends: expiry - self.now })
        });
        let claim = self.fields.get("c").and_then(|text| {
            let mut words = text.rsplitn(3, ' ');
            let ends = words.next()?.parse::<i64>().ok()? - self.now;
            let units = words.next()?.parse().ok()?;
            words.next().filter(|_| ends > 0).map(|member| (member.to_owned(), units, ends))
        });
        Some(Account {
            limit: limit.to_owned(),
            level: self.number("l")?.div_euclid(parts),
            at: self.number("t")? - self.now,
            leases: leases.collect(),
            claim,
        })
    }
}

/// Returns a pattern that matches only this text.
fn literal(text: &str) -> String {
    let escaped = |character: char| {
        let is_special = matches!(character, '*' | '?' | '[' | ']' | '\\');
        is_special.then_some('\\').into_iter().chain([character])
    };
    text.chars().flat_map(escaped).collect()
}

/// Returns the name of an upstream from its hash tag.
fn decoded(tag: &str) -> String {
    if tag == "%" {
        return String::new();
    }
    tag.replace("%7D", "}").replace("%7B", "{").replace("%25", "%")
}
