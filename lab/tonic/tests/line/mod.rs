/// Returns a line without what differs from run to run: the time before it, the fields of the log behind
/// it, the delay, and the time of a call.
pub(crate) fn line(line: &str) -> String {
    let line = line.find("WARN").map_or(line, |at| &line[at..]);
    let line = line.split(" upstream=").next().unwrap();
    let line = without(line, "retrying in ", ':');
    without(&line, " attempt in ", ',')
}

/// Replaces what is between `before` and `after`.
fn without(line: &str, before: &str, after: char) -> String {
    let Some((start, rest)) = line.split_once(before) else { return line.to_owned() };
    let (_, end) = rest.split_once(after).unwrap();
    format!("{start}{before}…{after}{end}")
}
