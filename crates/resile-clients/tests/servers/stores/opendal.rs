//! Errors of `opendal`.

use std::io;

use opendal_core::services::Memory;
use opendal_core::{Error, ErrorKind, Operator};
use resile_clients::opendal::error;
use resile_clients::resile::Health;

use crate::data::{Says, classified, rows, says, word};

fn seen(failed: &Error) -> Option<Says> {
    says(|it| error(failed, it))
}

/// Each kind as a store makes it, temporary or not.
#[test]
fn each_kind_has_the_verdict_of_its_row() {
    let kinds = [
        ErrorKind::Unexpected,
        ErrorKind::Unsupported,
        ErrorKind::ConfigInvalid,
        ErrorKind::NotFound,
        ErrorKind::PermissionDenied,
        ErrorKind::IsADirectory,
        ErrorKind::NotADirectory,
        ErrorKind::AlreadyExists,
        ErrorKind::RateLimited,
        ErrorKind::IsSameFile,
        ErrorKind::ConditionNotMatch,
        ErrorKind::RangeNotSatisfied,
        ErrorKind::Conflict,
    ];
    let rows: Vec<_> = rows().into_iter().filter(|row| row.family == "opendal").collect();
    assert_eq!(rows.len(), 2 * kinds.len());
    for kind in kinds {
        for (word, is_temporary) in [("", false), ("+temporary", true)] {
            let code = format!("{kind}{word}");
            let row = rows.iter().find(|row| row.code == code).unwrap();
            let made = Error::new(kind, "words").with_temporary(is_temporary);
            assert_eq!(seen(&made), Some(row.says), "{code}");
            assert_eq!(classified(&made), Some(row.says), "{code}");
            assert_eq!(self::word(&made), kind.into_static());
            // A layer below has tried it.
            let (again, booking, health, own) = row.says;
            let gave_up = seen(&made.set_persistent()).unwrap();
            assert!(!gave_up.0 && !gave_up.1, "{code}");
            assert!(!(again || booking) || (gave_up.2, gave_up.3) == (health, own), "{code}");
        }
    }
}

#[tokio::test]
async fn an_object_that_is_missing_is_missing_again() {
    let store = Operator::new(Memory::default()).unwrap();
    let missing = store.read("missing").await.unwrap_err();
    assert_eq!(seen(&missing), Some((false, false, Health::Healthy, false)), "{missing:?}");
}

/// The source proves that the write was not executed, or it does not.
#[test]
fn a_write_that_was_never_sent_is_sent_again() {
    let of = |kind: io::ErrorKind| {
        let made = Error::new(ErrorKind::Unexpected, "words").set_temporary();
        seen(&made.set_source(io::Error::from(kind)))
    };
    assert_eq!(of(io::ErrorKind::ConnectionRefused), Some((true, true, Health::Failing, false)));
    assert_eq!(of(io::ErrorKind::ConnectionReset), Some((true, false, Health::Failing, false)));
}
