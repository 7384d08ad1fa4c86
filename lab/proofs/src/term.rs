use std::fmt;
use std::rc::Rc;

/// A number or a truth value, known or unknown. Numbers are those of mathematics and have no limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    Int(i128),
    Bool(bool),
    Unknown(Rc<str>),
    /// An operation of SMT-LIB.
    App(&'static str, Rc<[Term]>),
}

use Term::{Bool, Int};

fn app(op: &'static str, args: impl Into<Rc<[Term]>>) -> Term {
    Term::App(op, args.into())
}

/// Operations. What is known is computed at once, so a walk with known inputs is a run.
impl Term {
    pub fn unknown(name: &str) -> Self {
        Self::Unknown(name.into())
    }

    fn numbers(
        self,
        op: &'static str,
        other: Self,
        known: impl Fn(i128, i128) -> Option<i128>,
    ) -> Self {
        match (&self, &other) {
            (Int(a), Int(b)) => Int(known(*a, *b).expect("a known number fits in 128 bits")),
            _ => app(op, [self, other]),
        }
    }

    pub fn plus(self, other: Self) -> Self {
        match (&self, &other) {
            (Int(0), _) => other,
            (_, Int(0)) => self,
            _ => self.numbers("+", other, i128::checked_add),
        }
    }

    pub fn minus(self, other: Self) -> Self {
        if other == Int(0) { self } else { self.numbers("-", other, i128::checked_sub) }
    }

    pub fn times(self, other: Self) -> Self {
        match (&self, &other) {
            (Int(1), _) => other,
            (_, Int(1)) => self,
            _ => self.numbers("*", other, i128::checked_mul),
        }
    }

    /// The quotient, for a number that is not negative and a positive one.
    pub fn quotient(self, other: Self) -> Self {
        match self.upper_part(&other) {
            Some((upper, lower)) => upper.plus(lower.quotient(other)),
            None => self.numbers("div", other, i128::checked_div_euclid),
        }
    }

    pub fn remainder(self, other: Self) -> Self {
        match self.upper_part(&other) {
            Some((_, lower)) => lower.remainder(other),
            None => self.numbers("mod", other, i128::checked_rem_euclid),
        }
    }

    /// Returns `a` and `b` of `a * unit + b`.
    fn upper_part(&self, unit: &Self) -> Option<(Self, Self)> {
        let upper = |term: &Self| match term {
            Self::App("*", args) if args[1] == *unit => Some(args[0].clone()),
            _ => None,
        };
        match self {
            Self::App("+", args) => Some((upper(&args[0])?, args[1].clone())),
            product => Some((upper(product)?, Int(0))),
        }
    }

    pub fn lt(self, other: Self) -> Self {
        match (&self, &other) {
            (Int(a), Int(b)) => Bool(a < b),
            _ => app("<", [self, other]),
        }
    }

    pub fn le(self, other: Self) -> Self {
        match (&self, &other) {
            (Int(a), Int(b)) => Bool(a <= b),
            _ => app("<=", [self, other]),
        }
    }

    pub fn is(self, other: Self) -> Self {
        match (&self, &other) {
            (Int(a), Int(b)) => Bool(a == b),
            (Bool(a), Bool(b)) => Bool(a == b),
            _ if self == other => Bool(true),
            _ => app("=", [self, other]),
        }
    }

    pub fn and(self, other: Self) -> Self {
        match (&self, &other) {
            (Bool(false), _) | (_, Bool(true)) => self,
            (Bool(true), _) | (_, Bool(false)) => other,
            _ => app("and", [self, other]),
        }
    }

    pub fn or(self, other: Self) -> Self {
        self.negated().and(other.negated()).negated()
    }

    pub fn negated(self) -> Self {
        match self {
            Bool(known) => Bool(!known),
            Self::App("not", args) => args[0].clone(),
            _ => app("not", [self]),
        }
    }

    pub fn implies(self, other: Self) -> Self {
        self.negated().or(other)
    }

    pub fn choose(self, yes: Self, no: Self) -> Self {
        match self {
            Bool(true) => yes,
            Bool(false) => no,
            _ if yes == no => yes,
            _ => app("ite", [self, yes, no]),
        }
    }

    pub fn min(self, other: Self) -> Self {
        self.clone().le(other.clone()).choose(self, other)
    }

    pub fn max(self, other: Self) -> Self {
        self.clone().le(other.clone()).choose(other, self)
    }

    /// Returns that the number is in a range, with its ends.
    pub fn within(self, least: i128, most: i128) -> Self {
        Int(least).le(self.clone()).and(self.le(Int(most)))
    }

    /// Applies a function that only the law knows.
    pub fn apply(function: &'static str, arg: Self) -> Self {
        app(function, [arg])
    }

    /// Calls `found` for each unknown.
    pub fn each_unknown(&self, found: &mut impl FnMut(&str)) {
        match self {
            Self::Unknown(name) => found(name),
            Self::App(_, args) => args.iter().for_each(|arg| arg.each_unknown(found)),
            Int(_) | Bool(_) => {}
        }
    }
}

/// Prints SMT-LIB.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Int(known) if *known < 0 => write!(f, "(- {})", known.unsigned_abs()),
            Int(known) => write!(f, "{known}"),
            Bool(known) => write!(f, "{known}"),
            Self::Unknown(name) => f.write_str(name),
            Self::App(op, args) => {
                write!(f, "({op}")?;
                args.iter().try_for_each(|arg| write!(f, " {arg}"))?;
                f.write_str(")")
            }
        }
    }
}
