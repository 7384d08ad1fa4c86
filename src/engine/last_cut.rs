use std::time::Duration;

use crate::policy::{Doubt, Sending};
use crate::time::nanos;
use crate::verdict::Cut;

/// Seven facts about the attempts of a call, in one word:
///
/// * the cut of the last one that has finished, or none if it returned an error
/// * what is known of the request of the one that was dropped last, and whether it was asked for since the last begin
/// * whether any of them may have had an effect, and whether the one that began last is one of these
/// * whether any of them failed other than by an error of a healthy upstream
/// * whether the verdict on any of them states a key of the request
/// * the doubt that a drop of the one in flight would leave
///
/// A [`Cut::Deadline`] is not kept, because it closes the call.
#[derive(Clone, Copy)]
pub(super) struct LastCut(u64);

const UNSENT: u64 = 1 << 63;
const EFFECT: u64 = 1 << 62;
const BEGUN: u64 = 1 << 61;
const COMMIT: u64 = UNSENT | BEGUN;
const DOUBT: u64 = 1 << 60;
const ASKED: u64 = 1 << 59;
const FAILED: u64 = 1 << 58;
const LATEST: u64 = 1 << 57;
const KEYED: u64 = 1 << 56;
const UNSTATED: u64 = 1 << 55;
const NONE: u64 = UNSTATED - 1;
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

    /// Returns the cut of the next attempt that has finished. An effect remains.
    #[inline]
    pub(super) const fn then(self, cut: Option<Cut>) -> Self {
        Self(Self::new(cut).0 | self.0 & (COMMIT | EFFECT | LATEST | FAILED | KEYED))
    }

    /// Returns this cut, after an attempt that may have had an effect.
    #[inline]
    pub(super) const fn with_effect(self) -> Self {
        Self(self.0 | EFFECT | LATEST)
    }

    /// Returns this cut, while the next attempt begins.
    #[inline]
    pub(super) const fn begins(self) -> Self {
        Self(self.with(Sending::Unasked).0 & !LATEST)
    }

    /// Returns this cut, after an attempt that failed other than by an error of a healthy upstream.
    #[inline]
    pub(super) const fn with_failure(self) -> Self {
        Self(self.0 | FAILED)
    }

    /// Returns true if any attempt failed other than by an error of a healthy upstream.
    #[inline]
    pub(super) const fn has_failed(self) -> bool {
        self.0 & FAILED != 0
    }

    /// Returns this cut, after a verdict that states a key of the request.
    #[inline]
    pub(super) const fn with_key(self) -> Self {
        Self(self.0 | KEYED)
    }

    /// Returns true if any verdict states a key of the request.
    #[inline]
    pub(super) const fn is_keyed(self) -> bool {
        self.0 & KEYED != 0
    }

    /// Returns true if any attempt may have had an effect.
    #[inline]
    pub(super) const fn has_effect(self) -> bool {
        self.0 & EFFECT != 0
    }

    /// Returns true if an attempt may have had an effect, and the one that began last had none.
    #[inline]
    pub(super) const fn has_earlier_effect(self) -> bool {
        self.0 & (EFFECT | LATEST) == EFFECT
    }

    /// Returns this cut, while an attempt is in flight whose drop leaves this doubt.
    #[inline]
    pub(super) const fn with_doubt(self, doubt: Doubt) -> Self {
        let bits = match doubt {
            Doubt::No => 0,
            Doubt::Unstated => UNSTATED,
            Doubt::Stated => DOUBT,
        };
        Self(self.0 & !(DOUBT | UNSTATED) | bits)
    }

    /// Returns the doubt that a drop of the attempt in flight leaves.
    #[inline]
    pub(super) const fn doubt(self) -> Doubt {
        match self.0 & (DOUBT | UNSTATED) {
            0 => Doubt::No,
            UNSTATED => Doubt::Unstated,
            _ => Doubt::Stated,
        }
    }

    /// Returns true if a drop of the attempt in flight leaves a doubt that the classifier states.
    #[inline]
    pub(super) const fn leaves_doubt(self) -> bool {
        self.0 & DOUBT != 0
    }

    /// Returns this cut, but of an attempt of whose request this is known.
    #[inline]
    pub(super) const fn with(self, sending: Sending) -> Self {
        let bits = match sending {
            Sending::NotSent => ASKED | UNSENT,
            Sending::Begun => ASKED | BEGUN,
            Sending::CommitBegun => ASKED | COMMIT,
            Sending::Unknown | Sending::Sent => ASKED,
            Sending::Unasked => 0,
        };
        Self(self.0 & !(ASKED | COMMIT) | bits)
    }

    /// Returns what is known of the request of the attempt in flight, if it was dropped before its call.
    #[inline]
    pub(super) const fn asked(self) -> Option<Sending> {
        if self.0 & ASKED == 0 { None } else { Some(self.sending()) }
    }

    /// Returns what is known of the request of the attempt that was dropped last.
    #[inline]
    pub(super) const fn sending(self) -> Sending {
        match self.0 & COMMIT {
            UNSENT => Sending::NotSent,
            BEGUN => Sending::Begun,
            COMMIT => Sending::CommitBegun,
            _ => Sending::Unknown,
        }
    }

    /// Returns true if the request of the attempt that was dropped last was surely not sent.
    #[inline]
    pub(super) const fn is_unsent(self) -> bool {
        self.0 & COMMIT == UNSENT
    }

    pub(super) const fn get(self) -> Option<Cut> {
        match self.0 & NONE {
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
            let last = LastCut::new(cut);
            assert_eq!((last.get(), last.is_unsent()), (cut, false));
            let unsent = last.with(Sending::NotSent);
            assert_eq!((unsent.get(), unsent.is_unsent()), (cut, true));
            for sending in
                [Sending::Begun, Sending::CommitBegun, Sending::NotSent, Sending::Unknown]
            {
                let other = unsent.with(sending);
                assert_eq!(other.is_unsent(), sending == Sending::NotSent);
                assert_eq!((other.get(), other.then(cut).sending()), (cut, sending));
                assert!(!other.has_effect());
            }
            let after = unsent.with_effect().then(None).with(Sending::Unknown).then(cut);
            assert_eq!((after.get(), after.is_unsent(), after.has_effect()), (cut, false, true));
        }
        let keyed = LastCut::new(None).with_key().begins().then(Some(Cut::Stream));
        assert!(keyed.is_keyed() && keyed.get() == Some(Cut::Stream) && !keyed.has_failed());
        assert!(!LastCut::new(None).with_effect().with_failure().is_keyed());
        let in_flight = LastCut::new(None).with_doubt(Doubt::Stated).with(Sending::NotSent);
        assert!(in_flight.leaves_doubt() && in_flight.get().is_none() && !in_flight.has_effect());
        assert!(
            !in_flight.then(None).leaves_doubt() && !in_flight.with_doubt(Doubt::No).leaves_doubt()
        );
        for doubt in [Doubt::No, Doubt::Unstated, Doubt::Stated] {
            let in_flight = LastCut::new(None).with_key().with_doubt(doubt);
            assert_eq!((in_flight.doubt(), in_flight.get()), (doubt, None));
            assert_eq!(in_flight.leaves_doubt(), doubt == Doubt::Stated);
            assert_eq!(in_flight.then(None).doubt(), Doubt::No);
        }
        let longest = Some(Cut::AttemptTimeout(Duration::from_nanos(STREAM - 1)));
        assert_eq!(LastCut::new(Some(Cut::AttemptTimeout(Duration::MAX))).get(), longest);
        assert_eq!(LastCut::new(Some(Cut::Deadline)).get(), None);
        assert_eq!(size_of::<LastCut>(), 8);
    }
}
