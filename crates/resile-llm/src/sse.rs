//! The decoder of server-sent events: bytes in any pieces, and events.

use crate::text::next_byte;

/// The largest event in bytes. An image in one event is some megabytes.
pub(crate) const LARGEST: usize = 16 * 1024 * 1024;

/// The fields of one event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) name: String,
    pub(crate) data: String,
    /// The event had a field `data`. Without one it is not dispatched.
    has_data: bool,
}

/// An event, or a line of one, is above [`LARGEST`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Decodes the format `text/event-stream` of the WHATWG standard for HTML. The fields `id` and `retry`
/// are left out because an answer of a model cannot be resumed.
///
/// The events do not depend on the borders of the pieces. The time is linear in the bytes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The bytes from the start of the last push that had a whole line.
    bytes: Vec<u8>,
    /// The start of the current line.
    start: usize,
    /// No line ends between `start` and this place.
    searched: usize,
    /// The last line ended with CR, so that an LF belongs to it.
    after_cr: bool,
    /// The first line was read. A byte order mark may stand before it.
    begun: bool,
    event: Fields,
}

impl Decoder {
    /// Adds the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next whole event, or `None` if more bytes are needed.
    pub(crate) fn next(&mut self) -> Result<Option<Fields>, TooLarge> {
        loop {
            if self.after_cr {
                if let Some(byte) = self.bytes.get(self.start) {
                    self.start += usize::from(*byte == b'\n');
                    self.searched = self.start;
                    self.after_cr = false;
                }
            }
            let end = next_byte(&self.bytes, self.searched, |byte| matches!(byte, b'\n' | b'\r'));
            let until = end.unwrap_or(self.bytes.len());
            let line = self.bytes.get(self.start..until).unwrap_or_default();
            if line.len() + self.event.data.len() > LARGEST {
                return Err(TooLarge);
            }
            self.searched = until;
            let Some(end) = end else { return Ok(None) };
            let line = if self.begun { line } else { line.strip_prefix(BOM).unwrap_or(line) };
            self.begun = true;
            let is_end = line.is_empty();
            if !is_end {
                self.event.add(line);
            }
            self.after_cr = self.bytes.get(end) == Some(&b'\r');
            self.start = end + 1;
            self.searched = self.start;
            if is_end {
                let event = std::mem::take(&mut self.event);
                if event.has_data {
                    return Ok(Some(event));
                }
            }
        }
    }

    /// Adds the end of the stream. The standard drops an event without an empty line behind it. But
    /// providers leave this line out behind their last event.
    pub(crate) fn finish(&mut self) {
        self.push(b"\n\n");
    }
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

impl Fields {
    /// Adds a line. Comments and unknown fields are left out.
    fn add(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.get(1..).unwrap_or_default();
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(&value);
            }
            b"event" => self.name = value.into_owned(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The name and the data of each event.
    type Events = Vec<(String, String)>;

    fn read(pieces: &[&[u8]]) -> Result<Events, TooLarge> {
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        for n in 0..=pieces.len() {
            match pieces.get(n) {
                Some(piece) => decoder.push(piece),
                None => decoder.finish(),
            }
            while let Some(Fields { name, data, .. }) = decoder.next()? {
                events.push((name, data));
            }
        }
        Ok(events)
    }

    /// Reads a whole text as the standard describes it, without any state between lines.
    fn model(text: &str) -> Events {
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let text = text.replace("\r\n", "\n").replace('\r', "\n") + "\n\n";
        let event = |block: &str| {
            let lines = block.split('\n').filter(|line| !line.starts_with(':'));
            let fields = lines.map(|line| line.split_once(':').unwrap_or((line, "")));
            let values = |name: &'static str| {
                let values = fields.clone().filter(move |(field, _)| *field == name);
                values.map(|(_, value)| value.strip_prefix(' ').unwrap_or(value))
            };
            let data: Vec<_> = values("data").collect();
            let name = values("event").next_back().unwrap_or_default().to_owned();
            (!data.is_empty()).then(|| (name, data.join("\n")))
        };
        text.split("\n\n").filter_map(event).collect()
    }

    #[test]
    fn the_fields_are_those_of_the_standard() {
        for (text, want) in [
            ("data: a\n\n", &[("", "a")][..]),
            ("data:a\n\n", &[("", "a")]),
            ("data:  a\n\n", &[("", " a")]),
            ("\u{FEFF}data: a\n\n", &[("", "a")]),
            ("data: \u{FEFF}\n\n\u{FEFF}data: b\n\n", &[("", "\u{FEFF}")]),
            ("event: x\rdata: a\r\rdata: b\r\r", &[("x", "a"), ("", "b")]),
            ("event: x\r\ndata: a\r\ndata\r\n\r\n", &[("x", "a\n")]),
            ("data\n\ndata\ndata\n\n", &[("", ""), ("", "\n")]),
            (": ping\n\nid: 7\nretry: 9\n\nevent: x\n\ndata: a\n\n", &[("", "a")]),
            ("Data: a\ndata : b\n\n", &[]),
            ("data: [DONE]", &[("", "[DONE]")]),
        ] {
            let want = want.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned()));
            assert_eq!(read(&[text.as_bytes()]), Ok(want.collect()), "{text:?}");
        }
    }

    #[test]
    fn one_event_has_a_limit_and_the_stream_has_none() {
        let half = vec![b'x'; LARGEST / 2];
        let lines = |count: usize| -> Vec<&[u8]> {
            [&b"data:"[..], &half, b"\n"].into_iter().cycle().take(3 * count).collect()
        };
        // The name of the field counts, so two halves are too large.
        assert_eq!(read(&lines(1)).map(|events| events.len()), Ok(1));
        assert_eq!(read(&lines(2)), Err(TooLarge));
        assert_eq!(read(&[&half, &half, b"x"]), Err(TooLarge), "no end of a line");
        let mut apart = lines(1);
        apart.push(b"\n");
        assert_eq!(read(&apart.repeat(3)).map(|events| events.len()), Ok(3));
    }

    proptest! {
        #[test]
        fn events_are_those_of_the_standard_in_any_pieces(
            start in "\u{FEFF}?",
            lines in prop::collection::vec("(data|event|id|: ?|dat)?:? ?[a:ü\u{FEFF}]{0,4}(\r\n|\n|\r)", 0..24),
            cuts in prop::collection::vec(0_usize..200, 0..12),
        ) {
            let text = start + &lines.concat();
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([bytes.len()]);
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let pieces: Vec<_> = starts.zip(ends).map(|(from, to)| &bytes[from..to]).collect();
            prop_assert_eq!(read(&pieces), Ok(model(&text)));
        }

        #[test]
        fn no_bytes_panic_and_no_piece_changes_them(bytes: Vec<u8>, size in 1_usize..9) {
            prop_assert_eq!(read(&bytes.chunks(size).collect::<Vec<_>>()), read(&[&bytes]));
        }
    }
}
