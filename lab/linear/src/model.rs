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
    /// Free permits, or units that are left.
    Count {
        left: u32,
    },
    Cooldown {
        holds: bool,
    },
    Breaker(Breaker),
}

/// A breaker that opens after so many failures in a row.
///
/// A failure counts and then opens the breaker, in two steps. A success and an admission may come in
/// between.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    failed: u32,
    allowed: u32,
    /// The failures that have counted, and those of them that open the breaker.
    counted: Vec<u32>,
    opening: Vec<u32>,
    is_open: bool,
}

impl Breaker {
    pub(crate) const fn new(allowed: u32) -> Self {
        Self { failed: 0, allowed, counted: Vec::new(), opening: Vec::new(), is_open: false }
    }

    fn count(&mut self, failure: u32) {
        self.failed += 1;
        self.counted.push(failure);
        if self.failed >= self.allowed {
            self.opening.push(failure);
        }
    }
}

impl SequentialSpec for Model {
    type Op = Op;
    type Ret = Said;

    fn invoke(&mut self, op: &Op) -> Said {
        match self {
            Self::Budget { left, capacity } => match op {
                Op::Take => take(left, 2),
                Op::Give => give(left, 1, *capacity),
                _ => give(left, 2, *capacity),
            },
            Self::Count { left } => match op {
                Op::Take => take(left, 1),
                _ => give(left, 1, u32::MAX),
            },
            Self::Cooldown { holds } => match op {
                Op::Give => {
                    *holds = true;
                    Said::Done
                }
                _ => yes(!*holds),
            },
            Self::Breaker(breaker) => {
                match op {
                    Op::Take => return yes(!breaker.is_open),
                    Op::Give | Op::Back => breaker.failed = 0,
                    Op::Count(failure) => breaker.count(*failure),
                    Op::Open(failure) => breaker.is_open |= breaker.opening.contains(failure),
                }
                Said::Done
            }
        }
    }

    fn is_valid_step(&mut self, op: &Op, said: &Said) -> bool {
        // The halves of a failure come in their order.
        if let (Self::Breaker(breaker), Op::Open(failure)) = (&*self, op)
            && !breaker.counted.contains(failure)
        {
            return false;
        }
        self.invoke(op) == *said
    }
}

fn take(left: &mut u32, cost: u32) -> Said {
    let less = left.checked_sub(cost);
    *left = less.unwrap_or(*left);
    yes(less.is_some())
}

fn give(left: &mut u32, amount: u32, most: u32) -> Said {
    *left = (*left + amount).min(most);
    Said::Done
}

const fn yes(is_so: bool) -> Said {
    if is_so { Said::Yes } else { Said::No }
}
