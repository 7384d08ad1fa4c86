//! The sources of the bucket, compiled here too. Its pace is off.

#[path = "../../../../src/quota/bucket.rs"]
pub mod bucket;
#[path = "../../../../src/quota/lease.rs"]
pub mod lease;
#[path = "../../../../src/quota/rate.rs"]
pub mod rate;

pub mod pace {
    use super::rate::Rate;

    #[derive(Clone, Copy)]
    pub(super) struct Moment {
        pub(super) now: u64,
        pub(super) gap: u64,
    }

    pub(super) struct Pace;

    #[allow(clippy::unused_self, reason = "as the pace of the sources")]
    impl Pace {
        pub(super) const fn new() -> Self {
            Self
        }

        pub(super) fn is_on(&self) -> bool {
            false
        }

        pub(super) fn moment(&self, _: &Rate, now: u64, _: impl FnOnce(u64)) -> Moment {
            Moment { now, gap: 0 }
        }

        pub(super) fn forecast(&self, _: &Rate, later: u64) -> Moment {
            Moment { now: later, gap: 0 }
        }

        pub(super) fn when(&self, own: u64) -> u64 {
            own
        }
    }
}

/// A step on a bucket.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Take(u32),
    GiveBack(u32),
    Change(u64, u64),
    LowerTo(i64),
    FitsAt(u64),
}

/// Runs a step of the compiled bucket. Returns what it says, as a number.
pub fn run(bucket: &Bucket, step: Step, now: u64) -> i128 {
    match step {
        Step::Take(units) => match bucket.0.take(units, now) {
            bucket::Take::Refused => 0,
            bucket::Take::Taken => 1,
            bucket::Take::Last => 2,
        },
        Step::GiveBack(units) => {
            bucket.0.give_back(units);
            0
        }
        Step::Change(from, to) => {
            bucket.0.change(from, to, now);
            0
        }
        Step::LowerTo(units) => {
            bucket.0.lower_to(units, now);
            0
        }
        Step::FitsAt(units) => bucket.0.fits_at(units, now).into(),
    }
}

pub struct Bucket(bucket::Bucket);

impl Bucket {
    pub fn new(rate: rate::Rate) -> Self {
        Self(bucket::Bucket::new(rate))
    }
}
