//! The text of a view.

use std::fmt::Write as _;

use super::view::{Account, Upstream, View};

/// Returns one paragraph for each upstream.
pub(crate) fn of(view: &View) -> String {
    if view.upstreams.is_empty() {
        return "no upstream of this prefix".to_owned();
    }
    let mut text = String::new();
    for (name, upstream) in &view.upstreams {
        paragraph(&mut text, name, upstream);
        text.push('\n');
    }
    text
}

// Writing into a text never fails.
fn paragraph(text: &mut String, name: &str, upstream: &Upstream) {
    let members = upstream.members.len();
    let _ = writeln!(text, "{name}  {members} member{}", if members == 1 { "" } else { "s" });
    if let Some(hold) = &upstream.hold {
        let (began, ends) = (seconds(-hold.began), seconds(hold.ends));
        let by = hold.by.as_ref().map_or_else(String::new, |member| format!(", by {member}"));
        let _ = writeln!(text, "  held for {ends}, since {began}{by}");
    }
    for account in &upstream.accounts {
        lines(text, account, upstream);
    }
    for (member, calls, failures, is_open) in &upstream.votes {
        let words = if *is_open {
            "open".to_owned() // its calls are those after the opening
        } else {
            format!("closed, {failures} of {calls} calls failed")
        };
        let _ = writeln!(text, "  vote {member}  {words}");
    }
    if let Some((member, ends)) = &upstream.probe {
        let _ = writeln!(text, "  probe {member}  for {}", seconds(*ends));
    }
    if let Some((by, rest)) = &upstream.pause {
        let by = by.as_ref().map_or_else(String::new, |by| format!(", the probe of {by} failed"));
        let _ = writeln!(text, "  pause for {}{by}", seconds(*rest));
    }
    if !upstream.turns.is_empty() {
        let _ = writeln!(text, "  next to probe: {}", upstream.turns.join(", "));
    }
}

fn lines(text: &mut String, account: &Account, upstream: &Upstream) {
    let units =
        |units: i64| if account.limit == "budget" { tokens(units) } else { units.to_string() };
    let (limit, level) = (&account.limit, units(account.level));
    let _ = writeln!(text, "  {limit}  level {level}, {} ago", seconds(-account.at));
    if let Some((member, amount, ends)) = &account.claim {
        let _ = writeln!(text, "    claim {member}  {} for {}", units(*amount), seconds(*ends));
    }
    if !account.leases.is_empty() {
        let (held, granted, spent) = ("held", "granted", "spent");
        let _ = writeln!(text, "    {:28} {held:>10} {granted:>12} {spent:>12}  ends", "member");
    }
    for lease in &account.leases {
        let is_present = upstream.members.iter().any(|(member, _)| *member == lease.member);
        let ends = if lease.ends > 0 {
            format!("in {}", seconds(lease.ends))
        } else {
            format!("{} ago{}", seconds(-lease.ends), if is_present { "" } else { ", gone" })
        };
        let held = units(lease.granted - lease.spent);
        let (granted, spent) = (units(lease.granted), units(lease.spent));
        let _ =
            writeln!(text, "    {:28} {held:>10} {granted:>12} {spent:>12}  {ends}", lease.member);
    }
}

/// Returns microseconds as seconds.
fn seconds(micros: i64) -> String {
    format!("{}.{} s", micros / 1_000_000, (micros / 100_000 % 10).abs())
}

/// Returns millionths of a token as tokens.
fn tokens(millionths: i64) -> String {
    let sign = if millionths < 0 { "-" } else { "" };
    let hundredths = millionths.unsigned_abs() / 10_000;
    format!("{sign}{}.{:02}", hundredths / 100, hundredths % 100)
}
