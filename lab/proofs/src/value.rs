use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::term::Term;

/// The type of a number in the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    U32,
    U64,
    Usize,
    /// Up to half of its numbers: none that the sources have is larger.
    U128,
    I64,
    /// A `Duration`, in nanoseconds.
    Duration,
    /// A literal, which takes the type of what it meets.
    Literal,
}

impl Kind {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "u32" => Self::U32,
            "u64" => Self::U64,
            "usize" => Self::Usize,
            "u128" => Self::U128,
            "i64" => Self::I64,
            _ => return None,
        })
    }

    pub const fn least(self) -> i128 {
        match self {
            Self::I64 => i64::MIN as i128,
            _ => 0,
        }
    }

    pub const fn most(self) -> i128 {
        match self {
            Self::U32 => u32::MAX as i128,
            Self::U64 | Self::Usize => u64::MAX as i128,
            Self::I64 => i64::MAX as i128,
            Self::Duration => u64::MAX as i128 * 1_000_000_000 + 999_999_999,
            Self::U128 | Self::Literal => i128::MAX,
        }
    }

    /// Returns whether each number of this type is one of `other`.
    pub const fn is_part_of(self, other: Self) -> bool {
        self.least() >= other.least() && self.most() <= other.most()
    }

    /// The type of an operation on two numbers.
    pub fn with(self, other: Self) -> Self {
        if self == Self::Literal { other } else { self }
    }
}

/// A value of the walk.
#[derive(Clone, Debug)]
pub enum Value {
    Number(Term, Kind),
    Truth(Term),
    Unit,
    Range(Box<Value>, Box<Value>),
    Tuple(Vec<Value>),
    /// A variant of an enum, by its last name.
    Variant(String, Vec<Value>),
    Struct(String, BTreeMap<String, Value>),
    /// An atomic.
    Atomic(Rc<RefCell<Value>>),
    Closure(Rc<(syn::ExprClosure, Scope)>),
    /// A function that the law gives.
    Given(&'static str),
}

/// The names in scope.
pub type Scope = BTreeMap<String, Value>;

impl Value {
    pub const fn u64(term: Term) -> Self {
        Self::Number(term, Kind::U64)
    }

    pub const fn u32(term: Term) -> Self {
        Self::Number(term, Kind::U32)
    }

    pub fn atomic(term: Term) -> Self {
        Self::Atomic(Rc::new(RefCell::new(Self::u64(term))))
    }

    pub fn some(value: Self) -> Self {
        Self::Variant("Some".into(), vec![value])
    }

    pub fn none() -> Self {
        Self::Variant("None".into(), Vec::new())
    }

    pub fn record(name: &str, fields: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self::Struct(name.to_owned(), fields)
    }

    /// Returns the number or the truth value.
    pub fn term(&self) -> Term {
        match self {
            Self::Number(term, _) | Self::Truth(term) => term.clone(),
            Self::Atomic(cell) => cell.borrow().term(),
            other => panic!("{other:?} is no number"),
        }
    }

    pub fn field(&self, name: &str) -> Self {
        match self {
            Self::Struct(of, fields) => fields
                .get(name)
                .unwrap_or_else(|| panic!("`{of}` has no field `{name}` here"))
                .clone(),
            Self::Tuple(parts) => parts[name.parse::<usize>().expect("a place in a tuple")].clone(),
            other => panic!("{other:?} has no field `{name}`"),
        }
    }

    /// Returns true for a variant of this name.
    pub fn is_variant(&self, name: &str) -> bool {
        matches!(self, Self::Variant(own, _) if own == name)
    }
}
