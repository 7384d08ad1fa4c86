//! The failures that events of a stream mean.

use serde_json::Value;

use crate::body::MESSAGE;
use crate::event::Event;
use crate::failure::Failure;
use crate::kind::Phase;
use crate::rule::Rule;
use crate::text;

/// Returns the failure that an event means.
pub(crate) fn failure(event: &Event, phase: Phase) -> Option<Failure> {
    let (name, data) = (event.name(), event.data().trim());
    if data == "[DONE]" {
        return None;
    }
    let is_error = name == "error";
    let fault = match data.as_bytes().first() {
        Some(b'{' | b'[') => serde_json::from_str::<Value>(data).err(),
        // Words are a failure, but a provider may send its content as words in events of a name.
        _ if is_error || matches!(name, "" | "message") => {
            let mut failure = Failure::from_event(data, phase);
            if is_error {
                failure.0.message = Some(text::clip(data, MESSAGE));
            }
            return Some(failure);
        }
        _ => return None,
    };
    let found = Failure::find_in_event(data, phase);
    match fault {
        // Half an error may still say what it is. Half of another event is content, which has no place
        // in a log.
        Some(fault) if found.as_ref().is_none_or(|it| it.rule() == Rule::Truncated) => {
            let mut failure = Failure::truncated(phase);
            failure.0.message =
                Some(format!("an event of the stream is not a whole JSON: {fault}"));
            Some(failure)
        }
        None if is_error && found.is_none() => {
            Some(Failure::from_event(&format!("{{\"error\":{data}}}"), phase))
        }
        _ => found,
    }
}
