//! URLs in the texts of errors. Their secrets do not belong in a log.

use std::borrow::Cow;

/// Cuts the user, the query and the fragment of each URL in `text`:
/// `https://…@host/path?…`. A text without `://` is returned as it is.
pub(super) fn without_secrets(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        kept.push_str(before);
        let end = url.find(ends_url).unwrap_or(url.len());
        let (url, after) = url.split_at(end);
        push_url(&mut kept, url);
        rest = after;
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// Appends a URL, which begins behind its `://`. Another URL may stand in its path or after a comma,
/// as in a list of nodes.
fn push_url(kept: &mut String, mut url: &str) {
    while let Some(at) = url.find("://") {
        if url[..at].contains(['?', '#']) && !is_torn(url) {
            break; // it is a part of the query
        }
        let (first, second) = url.split_at(at + 3);
        // The scheme of the second URL ends the first one.
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let (first, scheme) = first.split_at(first[..at].trim_end_matches(is_scheme).len());
        push_one(kept, first);
        kept.push_str(scheme);
        url = second;
    }
    push_one(kept, url);
}

/// Returns true if a password with an unescaped `/`, `?` or `#` seems to end the authority. A port
/// has digits only.
fn is_torn(url: &str) -> bool {
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    let after = authority.split_once(':').map_or("", |(_, after)| after);
    !authority.contains('@') && after.contains(|c: char| !c.is_ascii_digit()) && url.contains('@')
}

/// Appends a URL without another one in it.
fn push_one(kept: &mut String, url: &str) {
    let from = if is_torn(url) { url.rfind('@').unwrap_or(0) } else { 0 };
    let of_host = url[from..].find(['/', '?', '#']).map_or(url.len(), |at| from + at);
    let (authority, path) = url.split_at(of_host);
    match authority.rsplit_once('@') {
        Some((_, host)) => {
            kept.push_str("…@");
            kept.push_str(host);
        }
        None => kept.push_str(authority),
    }
    let Some(at) = path.find(['?', '#']) else {
        kept.push_str(path);
        return;
    };
    let (path, secret) = path.split_at(at);
    kept.push_str(path);
    kept.push_str(&secret[..1]);
    let cut = secret[1..].trim_end_matches(is_punctuation);
    if !cut.is_empty() {
        kept.push('…');
    }
    kept.push_str(&secret[1 + cut.len()..]);
}

/// Returns true for a character that no URL contains.
fn ends_url(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>' | '`' | '\\')
}

/// Returns true for a character that may follow a URL in a sentence.
fn is_punctuation(c: char) -> bool {
    matches!(c, ')' | ']' | '}' | ',' | '.' | ';' | ':' | '!' | '?' | '\'')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::without_secrets;

    #[test]
    fn the_user_the_query_and_the_fragment_of_a_url_are_cut() {
        let cases = [
            ("no URL", "no URL"),
            ("https://host/path", "https://host/path"),
            ("https://host/path?api_key=s", "https://host/path?…"),
            ("for url (https://host/a?k=s): refused", "for url (https://host/a?…): refused"),
            ("https://user:s@host:8/a", "https://…@host:8/a"),
            ("redis://:s@host?k=s, and more", "redis://…@host?…, and more"),
            ("https://host/a#token=s", "https://host/a#…"),
            ("https://host?a=s#b", "https://host?…"),
            ("https://registry/@scope/name", "https://registry/@scope/name"),
            ("is https://host/a?", "is https://host/a?"),
            ("\"https://h/?k=s\" and <https://h/?k=s>", "\"https://h/?…\" and <https://h/?…>"),
            ("https://proxy/?u=https://h/?k=s x", "https://proxy/?… x"),
            ("amqp://u:s@a,amqp://u:s@b:5672", "amqp://…@a,amqp://…@b:5672"),
            ("https://proxy/https://u:s@h/x", "https://proxy/https://…@h/x"),
            ("invalid: redis://:s/s@host", "invalid: redis://…@host"),
            ("invalid: redis://:s#s@host:1/0", "invalid: redis://…@host:1/0"),
            ("://", "://"),
            ("a://b://c://", "a://b://c://"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_secrets(text), expected);
        }
    }

    proptest! {
        /// No secret of letters and digits survives, whatever stands around it.
        #[test]
        fn no_secret_survives(
            before in ".{0,12}", user in "[a-z]{0,3}", path in "(/[a-z@]{1,4}){0,2}",
            more in "[^\\s\"<>`\\\\]{0,6}", after in "[ \"<>].{0,12}",
        ) {
            prop_assume!(!more.chars().any(char::is_control));
            let text = format!("{before}https://{user}:s3cret@host{path}?k={more}s3cret{after}");
            let kept = without_secrets(&text);
            prop_assert!(!kept.contains("s3cret"), "{kept}");
            let at = format!("https://…@host{path}?…");
            prop_assert!(kept.contains(&at) || before.contains("://"), "{kept}");
        }

        /// No password of a list of nodes survives.
        #[test]
        fn no_password_of_a_list_survives(hosts in proptest::collection::vec("[a-z]{1,5}(:[0-9]{1,4})?", 1..4)) {
            let nodes: Vec<_> = hosts.iter().map(|host| format!("redis://u:s3cret@{host}")).collect();
            let kept = without_secrets(&nodes.join(",")).into_owned();
            prop_assert!(!kept.contains("s3cret"), "{kept}");
            prop_assert!(hosts.iter().all(|host| kept.contains(host.as_str())), "{kept}");
        }

        #[test]
        fn a_second_cut_changes_nothing(text in ".{0,40}(://.{0,20}){0,2}") {
            let once = without_secrets(&text).into_owned();
            prop_assert_eq!(&*without_secrets(&once), &*once);
        }
    }
}
