//! Errors of the client `sqlx`, made by its own constructors. Those of its drivers come from servers.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::{fmt, io};

use resile_clients::Classifier;
use resile_clients::resile::classify::Over;
use resile_clients::resile::{Classify, Health, Verdict};
use sqlx::Error;
use sqlx::error::{DatabaseError, ErrorKind};

use super::data::{classified, word};
use super::rows::{Says, rows, says};

fn seen(error: &Error) -> Option<Says> {
    says(|it| resile_clients::sqlx::error(error, it))
}

/// An error of a database whose driver is unknown here.
#[derive(Debug)]
struct Foreign(Option<String>);

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("words")
    }
}

impl StdError for Foreign {}

impl DatabaseError for Foreign {
    fn message(&self) -> &'static str {
        "words"
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        self.0.as_deref().map(Cow::Borrowed)
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

fn foreign(code: &str) -> Error {
    Foreign(Some(code.to_owned())).into()
}

#[test]
fn each_code_of_sqlite_has_the_verdict_of_its_row() {
    for row in rows().into_iter().filter(|row| row.family == "sqlite") {
        let code = row.code.trim_end_matches('*');
        assert_eq!(seen(&foreign(code)), Some(row.says), "{}", row.code);
        assert_eq!(classified(&foreign(code)), Some(row.says), "{}", row.code);
        assert_eq!(word(&foreign(code)), code);
    }
}

/// Two databases share an SQLSTATE, and 40001 of MySQL is not that of PostgreSQL.
#[test]
fn a_code_of_an_unknown_database_has_no_verdict() {
    for code in ["40001", "00005", "12345", "HY000", "", "0", "-1", "99999999999", "BUSY", "5 "] {
        assert_eq!(seen(&foreign(code)), None, "{code:?}");
    }
    assert_eq!(seen(&Foreign(None).into()), None);
}

#[test]
fn an_io_error_is_read() {
    let of = |kind: io::ErrorKind| seen(&Error::Io(kind.into())).unwrap();
    let failing = |booking| (true, booking, Health::Failing, false);
    assert_eq!(of(io::ErrorKind::ConnectionRefused), failing(true));
    for kind in [
        io::ErrorKind::TimedOut,
        io::ErrorKind::WouldBlock,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::Other,
    ] {
        assert_eq!(of(kind), failing(false), "{kind}");
    }
    assert_eq!(of(io::ErrorKind::PermissionDenied), (false, false, Health::Unknown, false));
}

/// No connection was made, so a lost one is sent again, and a wrong certificate is not.
#[test]
fn a_handshake_of_tls_sends_nothing() {
    let reset = io::Error::from(io::ErrorKind::ConnectionReset);
    assert_eq!(seen(&Error::Tls(reset.into())), Some((true, true, Health::Failing, false)));
    assert_eq!(word(&Error::Tls(io::Error::from(io::ErrorKind::TimedOut).into())), "timeout");
    let wrong = Error::Tls("invalid peer certificate".into());
    assert_eq!(word(&wrong), "Tls");
    assert_eq!(seen(&wrong), Some((false, false, Health::Unknown, false)));
}

#[test]
fn each_variant_has_a_verdict() {
    let index = || String::from("a");
    for (error, says) in [
        (Error::PoolTimedOut, (true, true, Health::Unknown, false)),
        (Error::WorkerCrashed, (false, false, Health::Failing, false)),
        (Error::Protocol(index()), (false, false, Health::Failing, false)),
        (Error::PoolClosed, (false, false, Health::Unknown, false)),
        (Error::Configuration("a".into()), (false, false, Health::Unknown, false)),
        (Error::InvalidArgument(index()), (false, false, Health::Unknown, false)),
        (Error::Encode("a".into()), (false, false, Health::Unknown, false)),
        (Error::AnyDriverError("a".into()), (false, false, Health::Unknown, false)),
        (Error::InvalidSavePointStatement, (false, false, Health::Unknown, false)),
        (Error::BeginFailed, (false, false, Health::Unknown, false)),
        (Error::RowNotFound, (false, false, Health::Healthy, false)),
        (Error::TypeNotFound { type_name: index() }, (false, false, Health::Healthy, false)),
        (Error::ColumnNotFound(index()), (false, false, Health::Healthy, false)),
        (Error::Decode("a".into()), (false, false, Health::Healthy, false)),
        (
            Error::ColumnIndexOutOfBounds { index: 1, len: 1 },
            (false, false, Health::Healthy, false),
        ),
        (
            Error::ColumnDecode { index: index(), source: "a".into() },
            (false, false, Health::Healthy, false),
        ),
    ] {
        assert_eq!(seen(&error), Some(says), "{error:?}");
        assert_eq!(classified(&error), Some(says), "{error:?}");
        let kind = format!("{error:?}");
        let kind = kind.split(|it: char| !it.is_alphanumeric()).next().unwrap();
        assert_eq!(word(&error), kind);
    }
}

enum CallError {
    Sql(Error),
    NoToken,
}

type Map = fn(&Classifier, &CallError) -> Option<Verdict>;

const BOOKING: Over<Classifier, Map> = Classifier::non_idempotent().over(ask as Map);

#[expect(clippy::trivially_copy_pass_by_ref, reason = "`over` passes the classifier so")]
fn ask(clients: &Classifier, error: &CallError) -> Option<Verdict> {
    match error {
        CallError::Sql(error) => clients.verdict(error),
        CallError::NoToken => None,
    }
}

#[test]
fn over_keeps_the_word_of_the_code() {
    let word = |error| BOOKING.error_type(&error).map(Cow::into_owned);
    assert_eq!(word(CallError::Sql(foreign("5"))).as_deref(), Some("5"));
    assert_eq!(word(CallError::Sql(Error::PoolTimedOut)).as_deref(), Some("PoolTimedOut"));
    assert_eq!(word(CallError::NoToken), None);
}
