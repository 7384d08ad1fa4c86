//! Errors of the client `sqlx`, made by its own constructors. Those of its drivers come from servers.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::{fmt, io};

use resile_clients::Classifier;
use resile_clients::resile::classify::Over;
use resile_clients::resile::{Classify, Health, Verdict};
use resile_clients::sqlx::{BeforeCommit, TransactionError, queued};
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

/// Without the feature of its driver 40001 is a rollback all the same, and other databases have no codes such
/// as 40P01. They may share the others with PostgreSQL, so a request that is not idempotent ends there.
#[test]
fn an_sqlstate_of_an_unknown_database_has_a_verdict() {
    let passes = |booking| Some((true, booking, Health::Healthy, false));
    assert_eq!(seen(&foreign("40001")), passes(true));
    assert_eq!(classified(&foreign("40001")), passes(true));
    assert_eq!(word(&foreign("40001")), "40001");
    assert_eq!(seen(&foreign("72000")), passes(false));
    assert_eq!(seen(&foreign("08001")), Some((true, false, Health::Failing, false)));
    assert_eq!(seen(&foreign("23000")), Some((false, false, Health::Healthy, false)));
    for row in rows().into_iter().filter(|row| row.family == "postgres") {
        let Some((safe, booking, health, own)) = seen(&foreign(row.code)) else {
            assert!(row.code.ends_with('*') || row.code.len() != 5, "{}", row.code);
            continue;
        };
        let is_own = row.code == "40001" || row.code.as_bytes()[2] == b'P';
        let says = (safe, if is_own { booking } else { row.says.1 }, health, own);
        assert_eq!(says, row.says, "{}", row.code);
        assert!(is_own || !booking, "{}", row.code);
    }
}

#[test]
fn an_unknown_code_of_an_unknown_database_has_no_verdict() {
    for code in
        ["00005", "12345", "HY000", "\u{e4}\u{e4}P", "", "0", "-1", "99999999999", "BUSY", "5 "]
    {
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

/// Nothing is sent without a connection.
#[test]
fn a_pool_without_a_connection_sends_nothing() {
    for (error, is_not_sent) in
        [(Error::PoolTimedOut, true), (Error::PoolClosed, true), (Error::WorkerCrashed, false)]
    {
        let verdict = Classifier::idempotent().verdict(&error).unwrap();
        assert_eq!(verdict.is_not_sent(), is_not_sent, "{error:?}");
    }
}

enum CallError {
    Sql(Error),
    NoToken,
}

type Map = fn(&Classifier, &CallError) -> Option<Verdict>;

const BOOKING: Over<Classifier, Map> = Classifier::non_idempotent().over(ask as Map);

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

/// `?` in the part of a transaction before `COMMIT`, and the error of the whole transaction.
#[test]
fn the_error_of_a_part_is_one_before_the_commit() {
    fn part(error: Error) -> Result<(), BeforeCommit<Foreign>> {
        Err(error)?;
        Ok(())
    }
    let sale = Classifier::non_idempotent();
    let lost = || io::Error::from(io::ErrorKind::ConnectionReset);
    let error = part(lost().into()).unwrap_err();
    assert_eq!(error.to_string(), Error::from(lost()).to_string());
    assert_eq!(error.source().unwrap().to_string(), lost().to_string());
    let failed = TransactionError::from(error);
    assert!(matches!(failed, TransactionError::Before(Error::Io(_))), "{failed:?}");
    let verdict = sale.verdict(&failed).unwrap();
    assert!(verdict.is_again() && verdict.is_without_effect());

    let error = BeforeCommit::Own(Foreign(None));
    assert_eq!((error.to_string(), error.source().is_none()), ("words".to_owned(), true));
    let failed = TransactionError::from(error);
    assert!(matches!(failed, TransactionError::Own(Foreign(None))), "{failed:?}");
    let verdict = sale.verdict(&failed).unwrap();
    assert!(!verdict.is_again() && verdict.is_without_effect());
}

/// A statement that PostgreSQL canceled is sent again only before `COMMIT`, and with it nothing else.
#[test]
fn a_statement_that_stood_in_a_queue_is_made_again() {
    let pair = (queued, Classifier::keyed());
    let before = |code| TransactionError::Before(foreign(code));
    let verdict: Verdict = pair.classify(&before("57014")).unwrap();
    assert!(verdict.is_again() && verdict.is_without_effect() && verdict.is_keyed());
    assert_eq!(verdict.health(), Health::Unknown);
    assert_eq!(pair.error_type(&before("57014")).as_deref(), Some("57014"));

    let others: [TransactionError; 4] = [
        before("57P01"),
        TransactionError::Commit(foreign("57014")),
        TransactionError::Before(Error::PoolTimedOut),
        TransactionError::Before(Foreign(None).into()),
    ];
    for other in others {
        assert_eq!(queued(&other), None, "{other:?}");
    }
}

/// The database answered, and the program decided. So such an error ends a streak of failures, as a 404 does,
/// and the alert on calls that fail leaves it out.
#[test]
fn an_error_of_your_own_is_that_of_a_healthy_database() {
    for classifier in [Classifier::non_idempotent(), Classifier::idempotent(), Classifier::keyed()]
    {
        let poor = TransactionError::Own(Foreign(None));
        assert_eq!(classifier.verdict(&poor).unwrap().health(), Health::Healthy);
        // The error of `sqlx` that nobody knows says nothing of the database.
        let unknown: TransactionError = TransactionError::Before(foreign("0"));
        let verdict = classifier.verdict(&unknown).unwrap();
        assert_eq!((verdict.health(), verdict.is_again()), (Health::Unknown, false));
    }
}

/// PostgreSQL refuses a session by these codes before it has begun. At `COMMIT` only a pooler gives them, and nobody
/// knows what the server has done.
#[test]
fn a_code_of_the_start_of_a_session_is_in_doubt_at_commit() {
    for code in ["53300", "57P03"] {
        let verdict = |classifier: Classifier, failed: TransactionError| {
            classifier.verdict(&failed).map(|it| (it.is_again(), it.is_without_effect()))
        };
        let (sale, keyed) = (Classifier::non_idempotent(), Classifier::keyed());
        assert_eq!(verdict(sale, TransactionError::Before(foreign(code))), Some((true, true)));
        assert_eq!(verdict(sale, TransactionError::Commit(foreign(code))), Some((false, false)));
        assert_eq!(verdict(keyed, TransactionError::Commit(foreign(code))), Some((true, false)));
    }
}
