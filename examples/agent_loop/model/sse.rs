//! Server-sent events, as far as chat completions use them: the data of each event.

use std::mem;

#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// What has come and is not yet a line.
    rest: Vec<u8>,
    /// The data of the event that is not yet over.
    data: Option<String>,
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// How much is held: for a bound on it.
    pub(super) fn held(&self) -> usize {
        self.rest.len() + self.data.as_ref().map_or(0, String::len)
    }

    /// The data of the next event, if it has come whole.
    pub(super) fn next(&mut self) -> Option<String> {
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                if let Some(data) = mem::take(&mut self.data) {
                    return Some(data);
                }
            } else if let Some(data) = line.strip_prefix("data:") {
                let data = data.strip_prefix(' ').unwrap_or(data);
                match &mut self.data {
                    Some(before) => {
                        before.push('\n');
                        before.push_str(data);
                    }
                    none => *none = Some(data.to_owned()),
                }
            } // else a comment, or a field that says nothing here
        }
        None
    }
}
