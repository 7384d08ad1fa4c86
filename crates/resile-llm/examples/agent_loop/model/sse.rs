//! Decodes server-sent events as chat completions use them: the data of each event.

use std::mem;

/// A decoder that takes bytes and returns events.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The bytes of an incomplete line.
    rest: Vec<u8>,
    /// The data of an incomplete event.
    data: Option<String>,
}

impl Decoder {
    /// Adds the next bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// Returns the number of bytes in the buffers, so that the caller can limit it.
    pub(super) fn held(&self) -> usize {
        self.rest.len() + self.data.as_ref().map_or(0, String::len)
    }

    /// Returns the data of the next event, if the event is complete.
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
            } // ignores comments and other fields
        }
        None
    }
}
