//! The decoder of server-sent events: its events do not depend on the boundaries of the received
//! pieces.

use proptest::prelude::*;

use crate::sse::Decoder;

fn read(pieces: &[&[u8]]) -> Vec<String> {
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        events.extend(std::iter::from_fn(|| decoder.next()));
    }
    events
}

#[test]
fn an_event_yields_its_data() {
    let stream = ": ping\r\n\r\nevent: message\r\ndata: one\r\n\r\ndata:two\ndata:  lines\n\nid: 7\n\ndata: unfinished\n";
    assert_eq!(read(&[stream.as_bytes()]), ["one", "two\n lines"]);
}

proptest! {
    #[test]
    fn piece_boundaries_change_nothing(lines in prop::collection::vec("(data: ?|: |event: )?[a-zü]{0,6}(\r\n|\n)", 0..30), cut in 1_usize..7) {
        let stream = lines.concat().into_bytes();
        let pieces: Vec<&[u8]> = stream.chunks(cut).collect();
        prop_assert_eq!(read(&pieces), read(&[&stream]));
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        read(&[&bytes]);
    }
}
