//! Reads the errors that gRPC clients print.

/// The codes of gRPC in normal form, each with the status that the HTTP mapping of `google.rpc.Code`
/// gives it.
const STATUSES: [(&str, u16); 13] = [
    ("invalidargument", 400),
    ("failedprecondition", 400),
    ("outofrange", 400),
    ("unauthenticated", 401),
    ("permissiondenied", 403),
    ("notfound", 404),
    ("aborted", 409),
    ("resourceexhausted", 429),
    ("internal", 500),
    ("dataloss", 500),
    ("unimplemented", 501),
    ("unavailable", 503),
    ("deadlineexceeded", 504),
];

/// An error of a gRPC client.
pub(super) struct Grpc<'t> {
    pub(super) status: u16,
    pub(super) message: &'t str,
}

/// Reads the text of a client in Python (`status = StatusCode.X … details = "…"`), in Go (`rpc
/// error: code = X desc = …`) or in Node and Java (`8 X: …`, `X: …`).
pub(super) fn read(text: &str) -> Option<Grpc<'_>> {
    let printed = || python(text).or_else(|| go(text));
    let grpc = text.contains('=').then(printed).flatten().or_else(|| numbered(text))?;
    // A message above the limit of a client or a server is no limit on a rate.
    let is_size = grpc.status == 429 && grpc.message.contains("larger than max");
    Some(if is_size { Grpc { status: 413, ..grpc } } else { grpc })
}

/// Returns the status that a text names by a code of gRPC: "got status: UNAVAILABLE".
pub(super) fn stated(text: &str) -> Option<u16> {
    let head = text.get(..crate::text::floor_char_boundary(text, 512))?;
    ["status: ", "status=", "status ", "code: ", "code = ", "code=", "StatusCode."].iter().find_map(
        |label| {
            let code = word(head.split_once(label)?.1);
            let is_code = code.len() > 4 && !code.contains(|c: char| c.is_ascii_lowercase());
            status(code).filter(|_| is_code)
        },
    )
}

fn python(text: &str) -> Option<Grpc<'_>> {
    let (_, rest) = text.split_once("StatusCode.")?;
    let status = status(word(rest))?;
    let (_, details) = rest.split_once("details = \"")?;
    let end = details.find("\"\n").or_else(|| details.find('"')).unwrap_or(details.len());
    Some(Grpc { status, message: details.get(..end)? })
}

fn go(text: &str) -> Option<Grpc<'_>> {
    let (_, rest) = text.split_once("rpc error: code = ")?;
    let (code, message) = rest.split_once(" desc = ")?;
    Some(Grpc { status: status(code)?, message })
}

fn numbered(text: &str) -> Option<Grpc<'_>> {
    let code = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    let name = word(code);
    let is_code = name.len() > 4 && !name.contains(|c: char| c.is_ascii_lowercase());
    let message = code.get(name.len()..)?.strip_prefix(": ")?;
    Some(Grpc { status: status(name).filter(|_| is_code)?, message })
}

/// Returns the letters and underscores at the start of `text`.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphabetic() && c != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

fn status(code: &str) -> Option<u16> {
    let is = |name: &str| {
        let letters =
            code.bytes().filter(|byte| *byte != b'_').map(|byte| byte.to_ascii_lowercase());
        letters.eq(name.bytes())
    };
    STATUSES.iter().find(|(name, _)| is(name)).map(|(_, status)| *status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_print_a_code_and_a_message() {
        for (text, want) in [
            (
                "<_InactiveRpcError of RPC with:\n\tstatus = StatusCode.RESOURCE_EXHAUSTED\n\tdetails = \"slow \"down\"\"\n\tdebug",
                Some((429, "slow \"down\"")),
            ),
            ("rpc error: code = ResourceExhausted desc = slow down", Some((429, "slow down"))),
            ("chat: rpc error: code = Unavailable desc = no", Some((503, "no"))),
            ("8 RESOURCE_EXHAUSTED: slow down", Some((429, "slow down"))),
            (
                "8 RESOURCE_EXHAUSTED: larger than max (5 vs. 4)",
                Some((413, "larger than max (5 vs. 4)")),
            ),
            ("UNAVAILABLE: é", Some((503, "é"))),
            ("INTERNAL: ", Some((500, ""))),
            ("Unavailable: no", None),
            ("OK: yes", None),
            ("é UNAVAILABLE: no", None),
            ("StatusCode.", None),
            ("rpc error: code = ", None),
            ("", None),
        ] {
            assert_eq!(read(text).map(|grpc| (grpc.status, grpc.message)), want, "{text}");
        }
    }
}
