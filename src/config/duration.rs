//! Durations in a configuration, as people write them: `#[serde(with = "resile::duration")]` on a field of your own.
//!
//! They are text in hours and smaller units: `"1.5s"`, `"500ms"`, `"2m 30s"`. For an `Option<Duration>` take
//! [`option`]: `"none"` and null are `None`.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//!
//! #[derive(serde::Deserialize)]
//! struct Settings {
//!     #[serde(with = "resile::duration")]
//!     connect: Duration,
//!     #[serde(default, with = "resile::duration::option")]
//!     idle: Option<Duration>,
//! }
//! let settings: Settings = serde_json::from_str(r#"{ "connect": "1.5s" }"#)?;
//! assert_eq!((settings.connect, settings.idle), (Duration::from_millis(1500), None));
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::time::Duration;

use jiff::fmt::friendly::SpanPrinter;
use serde::{Deserializer, Serializer};

use super::visit::Time;

/// Reads a duration.
///
/// # Errors
///
/// What is no text, no duration, or negative; the error says what would be right.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let read = deserializer.deserialize_str(Time { setting: "the value", optional: false })?;
    Ok(read.unwrap_or_default())
}

/// Writes a duration. It reads back as the same, to the nanosecond.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*duration))
}

/// `2m 30s`. Reads back as the same duration, to the nanosecond, for every duration that there is.
pub(super) fn text(duration: Duration) -> String {
    SpanPrinter::new().unsigned_duration_to_string(&duration)
}

/// As [`text`], but what stands for "no limit" in its own word: not every format has a null.
pub(super) fn text_or_none(limit: Duration) -> String {
    if limit == Duration::MAX { "none".into() } else { text(limit) }
}

/// The same for an `Option<Duration>`.
pub mod option {
    use super::{Deserializer, Duration, Serializer, Time, text};

    /// Reads a duration; `"none"` and null are `None`.
    ///
    /// # Errors
    ///
    /// What is no text, no duration, or negative; the error says what would be right.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        deserializer.deserialize_option(Time { setting: "the value", optional: true })
    }

    /// Writes a duration, or nothing.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_some(&text(*duration)),
            None => serializer.serialize_none(),
        }
    }
}
