use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::place::Place;

/// A set of named settings. Each setting may appear once.
pub(super) trait Settings: Sized {
    /// The type built from the settings.
    type Made;
    /// The name of this type in error messages.
    const WHAT: &'static str;
    /// The names of the settings.
    const NAMES: &'static [&'static str];

    /// Creates the state in which all settings are missing.
    fn start() -> Self;

    /// Reads the setting at a place with one of the [`NAMES`](Self::NAMES), from the next value of
    /// `map`.
    fn set<'de, A: MapAccess<'de>>(&mut self, at: Place<'_>, map: &mut A) -> Result<(), A::Error>;

    /// Builds the value. Returns an error if a setting is missing or contradicts another one.
    fn finish<E: Error>(self, found: &Found<'_>) -> Result<Self::Made, E>;
}

/// The settings of a map that was read.
pub(super) struct Found<'a> {
    around: Option<Place<'a>>,
    names: Vec<&'static str>,
}

impl Found<'_> {
    /// Returns whether the map has all of these settings. A default contradicts nothing.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.names.contains(name))
    }

    pub(super) const fn at(&self, name: &'static str) -> Place<'_> {
        Place { name, around: self.around.as_ref() }
    }

    /// Returns the value of a setting without a default.
    pub(super) fn required<V, E: Error>(
        &self,
        name: &'static str,
        value: Option<V>,
    ) -> Result<V, E> {
        value.ok_or_else(|| match self.around {
            // Some formats have an error of their own for this.
            None => E::missing_field(name),
            Some(_) => E::custom(format_args!("missing field {}", self.at(name))),
        })
    }

    /// Creates the error of two settings that contradict each other. `right` ends the sentence
    /// "expected …".
    pub(super) fn contradiction<E: Error>(
        &self,
        (one, value): (&'static str, &str),
        (other, against): (&'static str, &str),
        right: &str,
    ) -> E {
        E::custom(format_args!(
            "contradictory settings: {} is {value} and {} is {against}, expected {right}",
            self.at(one),
            self.at(other),
        ))
    }
}

/// Reads settings from a map.
pub(super) fn read<'de, T: Settings, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T::Made, D::Error> {
    Reader::<T> { around: None, settings: PhantomData }.deserialize(deserializer)
}

/// The visitor of a map of settings.
pub(super) struct Reader<'a, T> {
    /// The place of the map, if another map has it.
    around: Option<Place<'a>>,
    settings: PhantomData<T>,
}

impl<T> Clone for Reader<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Reader<'_, T> {}

impl<'a, T: Settings> Reader<'a, T> {
    pub(super) const fn at(place: Place<'a>) -> Self {
        Self { around: Some(place), settings: PhantomData }
    }

    /// Creates the error of a `fault`: its setting, the maps around it, and `more`.
    fn fault<E: Error>(&self, fault: &str, name: &str, more: &str) -> E {
        let around = self.around.map_or_else(String::new, |around| format!(" of {around}"));
        E::custom(format_args!("{fault} `{name}`{around}{more}"))
    }
}

impl<'de, T: Settings> DeserializeSeed<'de> for Reader<'_, T> {
    type Value = T::Made;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Made, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Settings> Visitor<'de> for Reader<'_, T> {
    type Value = T::Made;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.around {
            None => f.write_str(T::WHAT)?,
            Some(place) => write!(f, "{place}")?,
        }
        match T::NAMES {
            [] => f.write_str(" to be an empty map"),
            names => write!(f, " to be a map of `{}`", names.join("`, `")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T::Made, A::Error> {
        let (mut settings, mut names) = (T::start(), Vec::new());
        while let Some(known) = map.next_key_seed(Name(self))? {
            if names.contains(&known) {
                return Err(self.fault("duplicate field", known, ""));
            }
            names.push(known);
            settings.set(Place { name: known, around: self.around.as_ref() }, &mut map)?;
        }
        settings.finish(&Found { around: self.around, names })
    }
}

/// The name of the next setting. A format that knows where the name stands adds this place to the
/// error of an unknown one, because the error is raised while the name is read.
struct Name<'a, T>(Reader<'a, T>);

impl<'de, T: Settings> DeserializeSeed<'de> for Name<'_, T> {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let name = String::deserialize(deserializer)?;
        if let Some(known) = T::NAMES.iter().find(|known| **known == name) {
            return Ok(known);
        }
        if self.0.around.is_none() {
            return Err(D::Error::unknown_field(&name, T::NAMES));
        }
        let right = match T::NAMES {
            [] => ", expected none".to_owned(),
            [name] => format!(", expected `{name}`"),
            names => format!(", expected one of `{}`", names.join("`, `")),
        };
        Err(self.0.fault("unknown field", &name, &right))
    }
}

/// The settings of a value that begins with its defaults. Made by [`settings!`].
pub(super) struct Changed<T>(pub(super) T);

/// Implements `Deserialize` for a type from a map of optional settings.
///
/// The value begins as `start`. For each `"name": seed => |made, value| expression`, `seed` makes
/// the reader of the setting at its place. The expression applies the value to `made`. At the end
/// `|made, found| { … }` checks the whole and returns it.
macro_rules! settings {
    ($($(#[$doc:meta])* $made:ty, $what:literal, $start:expr, {
        $($name:literal: $seed:expr => |$it:ident, $value:ident| $set:expr),* $(,)?
    } $(, |$all:ident, $found:ident| $check:block)?)*) => {$(
        $(#[$doc])*
        impl<'de> serde::Deserialize<'de> for $made {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::config::settings::read::<$crate::config::settings::Changed<$made>, D>(deserializer)
            }
        }

        impl $crate::config::settings::Settings for $crate::config::settings::Changed<$made> {
            type Made = $made;
            const WHAT: &'static str = $what;
            const NAMES: &'static [&'static str] = &[$($name),*];

            fn start() -> Self {
                Self($start)
            }

            fn set<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                at: $crate::config::place::Place<'_>,
                map: &mut A,
            ) -> Result<(), A::Error> {
                let _ = &map; // unused by a part with nothing to set
                match at.name {
                    $($name => {
                        let $value = map.next_value_seed($seed(at))?;
                        let $it = std::mem::take(&mut self.0);
                        self.0 = $set;
                    })*
                    _ => {}
                }
                Ok(())
            }

            fn finish<E: serde::de::Error>(
                self,
                found: &$crate::config::settings::Found<'_>,
            ) -> Result<$made, E> {
                let (made, _) = (self.0, found);
                $(
                    let ($all, $found) = (made, found);
                    let made: $made = { let checked: Result<$made, E> = $check; checked? };
                )?
                Ok(made)
            }
        }
    )*};
}
pub(super) use settings;
