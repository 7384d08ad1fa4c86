use redis::ConnectionAddr;

/// Which server has a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Map {
    /// One server has all keys.
    One(ConnectionAddr),
    /// Each server of a cluster has some of the slots.
    Slots(Vec<Range>),
}

/// A range of slots on one server, both ends included.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) address: ConnectionAddr,
}

/// The number of slots of a cluster.
const SLOTS: u16 = 16_384;

impl Map {
    /// Returns the server that has a key. `None` if no server serves its slot.
    pub(super) fn address(&self, key: &str) -> Option<&ConnectionAddr> {
        match self {
            Self::One(address) => Some(address),
            Self::Slots(ranges) => {
                let slot = slot(key);
                let range = ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
                range.map(|range| &range.address)
            }
        }
    }

    /// Notes that a slot is on another server now.
    pub(super) fn moves(&mut self, slot: u16, address: ConnectionAddr) {
        if let Self::Slots(ranges) = self {
            // The first range that has the slot counts. The next search replaces all of them.
            ranges.insert(0, Range { first: slot, last: slot, address });
        }
    }

    /// Returns all servers.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &ConnectionAddr> {
        let (one, ranges) = match self {
            Self::One(address) => (Some(address), &[][..]),
            Self::Slots(ranges) => (None, ranges.as_slice()),
        };
        one.into_iter().chain(ranges.iter().map(|range| &range.address))
    }
}

/// Returns the slot of a key: the checksum of its hash tag, or of the whole key without one.
pub(super) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let tag = tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key);
    // CRC16 as XMODEM has it.
    let checksum = tag.bytes().fold(0_u16, |checksum, byte| {
        (0..8).fold(checksum ^ (u16::from(byte) << 8), |sum, _| {
            if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ 0x1021 }
        })
    });
    checksum % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> ConnectionAddr {
        ConnectionAddr::Tcp("host".to_owned(), port)
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        // From the documentation of Redis: the checksum of these digits is 0x31C3.
        assert_eq!(slot("123456789"), 0x31C3);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("resile:1:{foo}:members"), slot("foo"));
        assert_eq!(slot("a{foo}b{bar}"), slot("foo"), "the first tag counts");
        for key in ["{}foo", "{}{foo}", "{foo", "foo}"] {
            assert_ne!(slot(key), slot("foo"), "{key} has no tag");
        }
    }

    #[test]
    fn a_slot_that_moves_counts_before_its_range() {
        let range = |first, last, port| Range { first, last, address: at(port) };
        let mut map = Map::Slots(vec![range(0, 8_000, 1), range(8_001, 16_000, 2)]);
        assert_eq!(map.address("foo"), Some(&at(2)));
        map.moves(slot("foo"), at(3));
        assert_eq!(map.address("foo"), Some(&at(3)));
        let unserved = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];
        for key in unserved {
            assert_eq!(map.address(key).is_none(), slot(key) > 16_000);
        }
        assert_eq!(Map::One(at(4)).address("foo"), Some(&at(4)));
    }
}
