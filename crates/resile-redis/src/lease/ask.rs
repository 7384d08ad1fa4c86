use std::time::Duration;

use crate::scale::Scale;
use crate::scripts::LeaseRequest;

/// The units and times of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) base: i64,
    pub(crate) spent: i64,
    pub(crate) least: i64,
    pub(crate) want: i64,
    pub(crate) memory: Option<i64>,
    pub(crate) told: Option<u64>,
    pub(crate) pause: Duration,
    pub(crate) own: i64,
    pub(crate) away: u32,
    pub(crate) floor: i64,
}

impl Ask {
    /// Returns the request of the member `id` for a limit of this scale.
    pub(crate) const fn request<'a>(
        &self,
        id: &'a str,
        scale: &Scale,
        ttl: Duration,
        weight: u32,
    ) -> LeaseRequest<'a> {
        let Self { base, spent, least, want, memory, told, pause, own, away, floor } = *self;
        let Scale { capacity, calm, rate, parts, .. } = *scale;
        LeaseRequest {
            id,
            capacity,
            rate,
            scale: parts,
            ttl,
            base,
            spent,
            least,
            want,
            memory,
            told,
            pause,
            own,
            calm,
            weight,
            away,
            floor,
        }
    }
}
