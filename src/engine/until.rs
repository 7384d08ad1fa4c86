/// The latest time that is kept. Later readings are cut to this value: elapsed times are then unknown.
pub(super) const LATEST: u64 = u64::MAX - 1;

/// The end of a wait: that of a delay between attempts, or the limit of the attempt in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Nothing: no delay comes before the next attempt, or the attempt in flight was never pending.
    Nothing,
    /// The end of a delay, on the timer. It is kept apart from the sleep: a caller's loop may drop the
    /// wait and resume it.
    Delay(u64),
    /// A cut of the attempt in flight at its timeout, which has this length.
    Timeout(u64),
    /// A cut of the attempt in flight at the call's deadline.
    Deadline,
    /// The end of the attempt in flight, which no limit cuts.
    Finish,
}

/// An [`Until`] in one word.
///
/// The lowest fifteen sixteenths are the ends of delays, for 547 years. A later end counts as
/// [`LATEST`], and a longer timeout than 36 years counts as one of 36 years. Only an error states the
/// timeout: the sleep has the time of the cut.
pub(super) struct Packed(u64);

const NOTHING: u64 = 0;
const LAST_DELAY: u64 = TIMEOUTS - 1;
const TIMEOUTS: u64 = 0b1111 << 60;
const LONGEST: u64 = DEADLINE - 1 - TIMEOUTS;
const DEADLINE: u64 = u64::MAX - 1;
const FINISH: u64 = u64::MAX;

impl Packed {
    #[inline]
    pub(super) const fn new(until: Until) -> Self {
        Self(match until {
            Until::Nothing => NOTHING,
            Until::Delay(0) => 1,
            Until::Delay(at) if at > LAST_DELAY => LAST_DELAY,
            Until::Delay(at) => at,
            Until::Timeout(limit) if limit > LONGEST => TIMEOUTS + LONGEST,
            Until::Timeout(limit) => TIMEOUTS + limit,
            Until::Deadline => DEADLINE,
            Until::Finish => FINISH,
        })
    }

    #[inline]
    pub(super) const fn get(&self) -> Until {
        match self.0 {
            NOTHING => Until::Nothing,
            LAST_DELAY => Until::Delay(LATEST),
            at @ ..LAST_DELAY => Until::Delay(at),
            DEADLINE => Until::Deadline,
            FINISH => Until::Finish,
            limit => Until::Timeout(limit - TIMEOUTS),
        }
    }

    #[inline]
    pub(super) const fn set(&mut self, until: Until) {
        *self = Self::new(until);
    }

    /// Returns the value and leaves nothing.
    #[inline]
    pub(super) const fn take(&mut self) -> Until {
        let until = self.get();
        self.set(Until::Nothing);
        until
    }

    /// Returns whether an attempt is in flight that was pending.
    #[inline]
    pub(super) const fn is_in_flight(&self) -> bool {
        self.0 >= TIMEOUTS
    }

    #[inline]
    pub(super) const fn is_nothing(&self) -> bool {
        self.0 == NOTHING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_found_again_in_one_word() {
        let delays = [1, 2, LAST_DELAY - 1].map(Until::Delay);
        let timeouts = [0, 1, LONGEST].map(Until::Timeout);
        let others = [Until::Nothing, Until::Deadline, Until::Finish];
        for until in delays.into_iter().chain(timeouts).chain(others) {
            let packed = Packed::new(until);
            assert_eq!((packed.get(), packed.is_nothing()), (until, until == Until::Nothing));
            let is_between = matches!(until, Until::Nothing | Until::Delay(_));
            assert_eq!(packed.is_in_flight(), !is_between);
        }
        assert_eq!(size_of::<Packed>(), 8);
    }

    #[test]
    fn a_value_out_of_range_is_the_nearest_one() {
        let get = |until| Packed::new(until).get();
        assert_eq!(get(Until::Delay(0)), Until::Delay(1));
        assert_eq!(get(Until::Timeout(u64::MAX)), Until::Timeout(LONGEST));
        for at in [LAST_DELAY, TIMEOUTS, LATEST, u64::MAX] {
            assert_eq!(get(Until::Delay(at)), Until::Delay(LATEST));
        }
    }
}
