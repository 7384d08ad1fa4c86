use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};

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

    /// Reads the setting `name`, one of [`NAMES`](Self::NAMES), from the next value of `map`.
    fn set<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;

    /// Builds the value.
    fn finish<E: Error>(self) -> Result<Self::Made, E>;
}

/// Reads settings from a map.
pub(super) fn read<'de, T: Settings, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T::Made, D::Error> {
    Reader::<T>::NEW.deserialize(deserializer)
}

/// The visitor of a map of settings.
pub(super) struct Reader<T>(PhantomData<T>);

impl<T> Reader<T> {
    pub(super) const NEW: Self = Self(PhantomData);
}

impl<'de, T: Settings> DeserializeSeed<'de> for Reader<T> {
    type Value = T::Made;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Made, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Settings> Visitor<'de> for Reader<T> {
    type Value = T::Made;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be a map of `{}`", T::WHAT, T::NAMES.join("`, `"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T::Made, A::Error> {
        let (mut settings, mut seen) = (T::start(), Vec::new());
        while let Some(name) = map.next_key::<String>()? {
            let Some(known) = T::NAMES.iter().find(|known| **known == name) else {
                return Err(A::Error::unknown_field(&name, T::NAMES));
            };
            if seen.contains(known) {
                return Err(A::Error::duplicate_field(known));
            }
            seen.push(known);
            settings.set(known, &mut map)?;
        }
        settings.finish()
    }
}

/// Implements `Deserialize` for a type from a map of optional settings.
///
/// The value begins as `start`. For each `"name": seed => |made, value| expression`, `seed` reads
/// the value of the setting. The expression applies the value to `made`.
macro_rules! settings {
    ($($(#[$doc:meta])* $made:ty, $what:literal, $start:expr, {
        $($name:literal: $seed:expr => |$it:ident, $value:ident| $set:expr),* $(,)?
    })*) => {$(
        $(#[$doc])*
        impl<'de> serde::Deserialize<'de> for $made {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Read($made);

                impl $crate::config::settings::Settings for Read {
                    type Made = $made;
                    const WHAT: &'static str = $what;
                    const NAMES: &'static [&'static str] = &[$($name),*];

                    fn start() -> Self {
                        Self($start)
                    }

                    fn set<'de, A: serde::de::MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
                        match name {
                            $($name => {
                                let $value = map.next_value_seed($seed)?;
                                let $it = std::mem::take(&mut self.0);
                                self.0 = $set;
                            })*
                            _ => {}
                        }
                        Ok(())
                    }

                    fn finish<E: serde::de::Error>(self) -> Result<$made, E> {
                        Ok(self.0)
                    }
                }

                $crate::config::settings::read::<Read, D>(deserializer)
            }
        }
    )*};
}
pub(super) use settings;
