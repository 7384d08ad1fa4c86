use std::time::Duration;

use crate::time::nanos;
use crate::verdict::Cut;

/// The cut of the last attempt that has finished, or none if it returned an error. One word.
///
/// A [`Cut::Deadline`] is not kept, because it closes the call.
#[derive(Clone, Copy)]
pub(super) struct LastCut(u64);

const NONE: u64 = u64::MAX;
const STREAM: u64 = NONE - 1;

impl LastCut {
    #[inline]
    pub(super) const fn new(cut: Option<Cut>) -> Self {
        Self(match cut {
            None | Some(Cut::Deadline) => NONE,
            Some(Cut::Stream) => STREAM,
            Some(Cut::AttemptTimeout(limit)) => {
                let limit = nanos(limit);
                if limit < STREAM { limit } else { STREAM - 1 }
            }
        })
    }

    pub(super) const fn get(self) -> Option<Cut> {
        match self.0 {
            NONE => None,
            STREAM => Some(Cut::Stream),
            limit => Some(Cut::AttemptTimeout(Duration::from_nanos(limit))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cut_between_attempts_is_found_again_in_one_word() {
        let timeouts = [0, 1, STREAM - 1].map(Duration::from_nanos).map(Cut::AttemptTimeout);
        for cut in timeouts.into_iter().chain([Cut::Stream]).map(Some).chain([None]) {
            assert_eq!(LastCut::new(cut).get(), cut);
        }
        let longest = Some(Cut::AttemptTimeout(Duration::from_nanos(STREAM - 1)));
        assert_eq!(LastCut::new(Some(Cut::AttemptTimeout(Duration::MAX))).get(), longest);
        assert_eq!(LastCut::new(Some(Cut::Deadline)).get(), None);
        assert_eq!(size_of::<LastCut>(), 8);
    }
}
