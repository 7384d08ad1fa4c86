//! Durations as text in a configuration: `#[serde(with = "resile::config::duration")]` on your own field.
//!
//! The text uses hours and smaller units: `"1.5s"`, `"500ms"`, `"2m 30s"`. For an
//! `Option<Duration>` use [`option`], which reads `"none"` and null as `None`.
//!
//! An error has the value, the right form and the place in the file. Serde does not tell the name of the
//! field, and the crate `serde_path_to_error` adds it.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//!
//! #[derive(serde::Deserialize)]
//! struct Settings {
//!     #[serde(with = "resile::config::duration")]
//!     connect: Duration,
//!     #[serde(default, with = "resile::config::duration::option")]
//!     idle: Option<Duration>,
//! }
//! let settings: Settings = serde_json::from_str(r#"{ "connect": "1.5s" }"#)?;
//! assert_eq!(settings.connect, Duration::from_millis(1500));
//! assert_eq!(settings.idle, None);
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::time::Duration;

use jiff::fmt::friendly::SpanPrinter;
use serde::{Deserializer, Serializer};

use super::visit::DurationVisitor;

/// Reads a duration.
///
/// # Errors
///
/// Returns an error if the value is not text, not a duration or negative. The error names the value
/// and the valid form.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let visitor = DurationVisitor::unnamed(false);
    Ok(deserializer.deserialize_str(visitor)?.unwrap_or_default())
}

/// Writes a duration. It reads back exactly to the nanosecond.
///
/// # Errors
///
/// Returns the errors of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*duration))
}

/// Formats a duration, such as `2m 30s`. Every duration reads back exactly to the nanosecond.
pub(super) fn text(duration: Duration) -> String {
    SpanPrinter::new().unsigned_duration_to_string(&duration)
}

/// Formats a limit. No limit is written as `none` because not every format has a null.
pub(super) fn text_or_none(limit: Duration) -> String {
    if limit == Duration::MAX { "none".into() } else { text(limit) }
}

/// Durations as text for fields of type `Option<Duration>`.
pub mod option {
    use super::{Deserializer, Duration, DurationVisitor, Serializer, text};

    /// Reads a duration. Reads `"none"` and null as `None`.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not text, not a duration or negative. The error names the
    /// value and the valid form.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let visitor = DurationVisitor::unnamed(true);
        deserializer.deserialize_option(visitor)
    }

    /// Writes the duration or, for `None`, the null of the format.
    ///
    /// # Errors
    ///
    /// Returns the errors of the serializer.
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
