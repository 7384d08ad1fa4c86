use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::{env, fs, process};

/// The most characters of a name. A longer one would fill the log with a list of votes.
const MOST: usize = 64;
/// The digits of the random number in an id.
const DIGITS: usize = 16;

/// Returns the name of this process: that of its host and its number, such as `web-2/4711`.
pub(crate) fn of_process() -> String {
    let number = process::id();
    host().map_or_else(|| number.to_string(), |host| format!("{host}/{number}"))
}

/// Returns the name of the host. In a container it is that of the container or of the pod.
fn host() -> Option<String> {
    let variables = ["HOSTNAME", "COMPUTERNAME"].into_iter().filter_map(|name| env::var(name).ok());
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"].into_iter();
    let mut names = variables.chain(files.filter_map(|path| fs::read_to_string(path).ok()));
    names.find_map(|name| cleaned(name.trim()))
}

/// Returns a name of at most 64 characters, without spaces and control characters. `None` if nothing
/// is left.
pub(crate) fn cleaned(name: &str) -> Option<String> {
    let is_wrong = |c: char| c.is_whitespace() || c.is_control();
    let name: String =
        name.trim().chars().take(MOST).map(|c| if is_wrong(c) { '_' } else { c }).collect();
    Some(name).filter(|name| !name.is_empty())
}

/// Returns an id that no other member has. It begins with the name of the process.
pub(crate) fn new_id(name: &str) -> Arc<str> {
    // The keys of a hasher are random. A number from the upstream's timer would not do: with a
    // seed, two members of one name would be one.
    let number = RandomState::new().build_hasher().finish();
    Arc::from(format!("{name}-{number:016x}"))
}

/// Returns the name of the process in the id of a member. An id of another form is a name itself.
pub(crate) fn of_id(id: &str) -> &str {
    let is_number =
        |text: &str| text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match id.rsplit_once('-') {
        Some((name, number)) if !name.is_empty() && is_number(number) => name,
        _ => id,
    }
}

/// Names a process in a sentence: "member web-2", or "another process" without a name.
pub(crate) fn in_words(name: Option<&str>) -> String {
    name.map_or_else(|| "another process".to_owned(), |name| format!("member {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_the_name_of_the_process() {
        let (id, other) = (new_id("web-2"), new_id("web-2"));
        assert_ne!(id, other);
        assert_eq!([of_id(&id), of_id(&other)], ["web-2"; 2]);
        for whole in ["web-2", "", "-0123456789abcdef", "a-0123456789abcdeg", "a-123"] {
            assert_eq!(of_id(whole), whole);
        }
    }

    #[test]
    fn a_name_fits_into_a_line() {
        assert_eq!(cleaned(" web 2\n").as_deref(), Some("web_2"));
        assert_eq!(cleaned(" \t"), None);
        assert_eq!(cleaned(&"ä".repeat(80)), Some("ä".repeat(64)));
        let name = of_process();
        assert!(name.ends_with(&process::id().to_string()), "{name}");
        assert_eq!(cleaned(&name).as_ref(), Some(&name));
    }
}
