use stateright::semantics::SequentialSpec;

use crate::subject::{Op, Said};

/// The sequential model of a subject: one step after the other.
#[derive(Clone, Debug)]
pub(crate) enum Model {
    /// Halves of a token.
    Budget {
        left: u32,
        capacity: u32,
    },
    /// Free permits.
    Bulkhead {
        free: u32,
    },
    /// Units that are left, of at most so many.
    Quota {
        left: u32,
    },
    Cooldown {
        holds: bool,
    },
    /// Failures in a row, and whether the breaker is open. Answers count only while it is closed.
    Breaker {
        failed: u32,
        allowed: u32,
    },
}

impl SequentialSpec for Model {
    type Op = Op;
    type Ret = Said;

    fn invoke(&mut self, op: &Op) -> Said {
        match (self, op) {
            (Self::Budget { left, .. }, Op::Take) => match left.checked_sub(2) {
                Some(less) => {
                    *left = less;
                    Said::Yes
                }
                None => Said::No,
            },
            (Self::Budget { left, capacity }, Op::Give) => {
                *left = (*left + 1).min(*capacity);
                Said::Done
            }
            (Self::Budget { left, capacity }, Op::Back) => {
                *left = (*left + 2).min(*capacity);
                Said::Done
            }
            (Self::Bulkhead { free: left } | Self::Quota { left }, Op::Take) => {
                match left.checked_sub(1) {
                    Some(less) => {
                        *left = less;
                        Said::Yes
                    }
                    None => Said::No,
                }
            }
            (Self::Bulkhead { free: left } | Self::Quota { left }, Op::Back) => {
                *left += 1;
                Said::Done
            }
            (Self::Cooldown { holds }, Op::Give) => {
                *holds = true;
                Said::Done
            }
            (Self::Cooldown { holds }, Op::Take | Op::Back) => yes(!*holds),
            (Self::Breaker { failed, allowed }, Op::Take) => yes(*failed < *allowed),
            (Self::Breaker { failed, allowed }, Op::Give) => {
                if *failed < *allowed {
                    *failed = 0;
                }
                Said::Done
            }
            (Self::Breaker { failed, allowed }, Op::Back) => {
                *failed = (*failed + 1).min(*allowed);
                Said::Done
            }
            (Self::Bulkhead { .. } | Self::Quota { .. }, Op::Give) => Said::Done,
        }
    }
}

const fn yes(is_so: bool) -> Said {
    if is_so { Said::Yes } else { Said::No }
}
