use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, Unexpected, Visitor};

use super::place::Place;
use crate::quota::Learning;

/// Reads the name of a [`Learning`].
pub(super) struct LearningVisitor<'a>(pub(super) Place<'a>);

impl<'de> DeserializeSeed<'de> for LearningVisitor<'_> {
    type Value = Learning;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Learning, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for LearningVisitor<'_> {
    type Value = Learning;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be \"off\", \"lower\" or \"both\"", self.0)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Learning, E> {
        let all = [Learning::Off, Learning::Lower, Learning::Both];
        let named = all.into_iter().find(|learning| learning.as_str() == name);
        named.ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
    }
}
