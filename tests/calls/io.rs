//! The table of `io::Classifier`, and the chains of errors that it reads.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use resile::classify::{ClassifyExt, Cut};
use resile::io::{Classifier, never_sent};
use resile::{Classify, Health, Verdict};

const SAFE: Classifier = Classifier::idempotent();
const BOOKING: Classifier = Classifier::non_idempotent();

/// What a row of the table says: sent again under both classifiers, the health and the word.
type Row = (Option<(bool, bool, Health)>, &'static str);

const REFUSED: Row = (Some((true, true, Health::Failing)), "refused");
const USED_UP: Row = (Some((true, true, Health::Unknown)), "used_up");
const LOST: Row = (Some((true, false, Health::Failing)), "connection_lost");
const SILENT: Row = (Some((true, false, Health::Failing)), "timeout");
const LOCAL: Row = (Some((false, false, Health::Unknown)), "local");
const BUSY: Row = (Some((true, false, Health::Unknown)), "busy");
const NONE: Row = (None, "");

/// Every kind of the table, and some without a row.
const KINDS: &[(ErrorKind, Row)] = &[
    (ErrorKind::ConnectionRefused, REFUSED),
    (ErrorKind::AddrNotAvailable, USED_UP),
    (ErrorKind::HostUnreachable, LOST),
    (ErrorKind::NetworkUnreachable, LOST),
    (ErrorKind::NetworkDown, LOST),
    (ErrorKind::ConnectionReset, LOST),
    (ErrorKind::ConnectionAborted, LOST),
    (ErrorKind::NotConnected, LOST),
    (ErrorKind::BrokenPipe, LOST),
    (ErrorKind::UnexpectedEof, LOST),
    (ErrorKind::WriteZero, LOST),
    (ErrorKind::TimedOut, SILENT),
    (ErrorKind::WouldBlock, SILENT),
    (ErrorKind::NotFound, (Some((true, false, Health::Failing)), "not_found")),
    (ErrorKind::Interrupted, (Some((true, false, Health::Unknown)), "interrupted")),
    (ErrorKind::ResourceBusy, BUSY),
    (ErrorKind::Deadlock, BUSY),
    (ErrorKind::StaleNetworkFileHandle, BUSY),
    (ErrorKind::PermissionDenied, LOCAL),
    (ErrorKind::Unsupported, LOCAL),
    (ErrorKind::InvalidInput, LOCAL),
    (ErrorKind::AddrInUse, LOCAL),
    (ErrorKind::OutOfMemory, LOCAL),
    (ErrorKind::StorageFull, LOCAL),
    (ErrorKind::QuotaExceeded, LOCAL),
    (ErrorKind::FileTooLarge, LOCAL),
    (ErrorKind::ReadOnlyFilesystem, LOCAL),
    (ErrorKind::InvalidData, (Some((false, false, Health::Unknown)), "invalid_data")),
    (ErrorKind::Other, NONE),
    (ErrorKind::AlreadyExists, NONE),
    (ErrorKind::IsADirectory, NONE),
];

/// Returns what both classifiers say.
fn seen(error: &io::Error) -> (Option<(bool, bool, Health)>, String) {
    let (safe, booking) = (SAFE.classify(error), BOOKING.classify(error));
    let row = safe.zip(booking).map(|(safe, booking)| {
        assert_eq!(safe.health(), booking.health(), "{error:?}");
        assert_eq!((safe.wait(), booking.wait()), (None, None), "{error:?}");
        (safe.is_again(), booking.is_again(), safe.health())
    });
    assert_eq!((safe.is_none(), booking.is_none()), (row.is_none(), row.is_none()));
    let word = SAFE.error_type(error).unwrap_or_default().into_owned();
    (row, word)
}

fn assert_row(error: &io::Error, row: Row) {
    assert_eq!(seen(error), (row.0, row.1.to_owned()), "{error:?}");
}

/// An error of another crate, with a source.
#[derive(Debug)]
struct Wrapped(&'static str, Option<Box<dyn Error + Send + Sync>>);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Wrapped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

fn wrapped(words: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Wrapped {
    Wrapped(words, Some(source.into()))
}

#[test]
fn each_kind_has_the_verdicts_of_its_row() {
    for (kind, row) in KINDS {
        assert_row(&(*kind).into(), *row);
        // With words and with a source that tells nothing.
        assert_row(&io::Error::new(*kind, "words"), *row);
        assert_row(&io::Error::new(*kind, wrapped("words", io::Error::other("more"))), *row);
    }
}

#[test]
fn each_kind_has_the_same_row_inside_of_other_errors() {
    for (kind, row) in KINDS {
        let inner = || io::Error::from(*kind);
        assert_row(&io::Error::other(inner()), *row);
        assert_row(&io::Error::other(io::Error::other(inner())), *row);
        assert_row(&io::Error::other(Arc::new(inner())), *row);
        assert_row(&io::Error::other(Box::new(inner())), *row);
        let shared: Arc<dyn Error + Send + Sync> = Arc::new(inner());
        assert_row(&io::Error::other(wrapped("request failed", shared)), *row);
        assert_row(&io::Error::other(wrapped("request failed", inner())), *row);
        let deep = wrapped("a", wrapped("b", io::Error::other(wrapped("c", inner()))));
        assert_eq!(SAFE.verdict(&deep), SAFE.classify(&inner()), "{kind}");
        assert_eq!(BOOKING.verdict(&deep), BOOKING.classify(&inner()), "{kind}");
    }
}

#[cfg(unix)]
#[test]
fn too_many_open_files_are_no_fault_of_the_upstream() {
    for code in [23, 24] {
        assert_row(&io::Error::from_raw_os_error(code), USED_UP);
        assert_row(&io::Error::other(io::Error::from_raw_os_error(code)), USED_UP);
    }
    assert_row(&io::Error::from_raw_os_error(25), NONE);
}

/// The words of the standard library stand before those of the C library.
#[test]
fn the_words_of_a_name_lookup_say_whether_it_may_pass() {
    let lookup = |words| io::Error::other(format!("failed to lookup address information: {words}"));
    for words in ["Temporary failure in name resolution", "Try again"] {
        let passes = (Some((true, true, Health::Unknown)), "name_lookup");
        assert_row(&lookup(words), passes);
        assert_row(&io::Error::other(lookup(words)), passes);
        assert!(never_sent(&lookup(words)));
    }
    for words in [
        "Name or service not known",
        "Name does not resolve",
        "nodename nor servname provided, or not known",
        "Non-recoverable failure in name resolution",
    ] {
        assert_row(&lookup(words), (Some((false, false, Health::Unknown)), "name_lookup"));
        assert!(never_sent(&lookup(words)));
    }
    // The words of an answer are no proof.
    assert_row(&io::Error::other("502: failed to lookup address information: Try again"), NONE);
}

/// What happened inside of a connector happened before the request.
#[test]
fn a_connector_sends_nothing() {
    for words in ["client error (Connect)", "tcp connect error", "error trying to connect"] {
        for kind in [ErrorKind::TimedOut, ErrorKind::HostUnreachable, ErrorKind::ConnectionReset] {
            let error = io::Error::other(wrapped(words, io::Error::from(kind)));
            assert!(never_sent(&error), "{error:?}");
            let verdict = Some(Verdict::transient().not_sent());
            assert_eq!(BOOKING.classify(&error), verdict, "{error:?}");
        }
    }
    let cut = io::Error::new(ErrorKind::UnexpectedEof, "tls handshake eof");
    assert_row(&cut, (Some((true, true, Health::Failing)), "connection_lost"));
    let sending = wrapped("client error (SendRequest)", io::Error::from(ErrorKind::TimedOut));
    assert!(!never_sent(&sending));
    let prose = wrapped("client error (Connecting)", io::Error::from(ErrorKind::TimedOut));
    assert!(!never_sent(&prose));
}

/// A wrong certificate stays wrong, also if there was no connection yet.
#[test]
fn a_wrong_certificate_ends_the_call() {
    let tls = io::Error::new(ErrorKind::InvalidData, wrapped("UnknownIssuer", "certificate"));
    let error = io::Error::other(wrapped("client error (Connect)", io::Error::other(tls)));
    assert_eq!(SAFE.classify(&error), Some(Verdict::fatal().not_sent().idempotent()));
    assert_eq!(BOOKING.classify(&error), Some(Verdict::fatal().not_sent()));
}

#[test]
fn garbled_bytes_yield_to_a_deeper_error() {
    let error = io::Error::new(ErrorKind::InvalidData, io::Error::from(ErrorKind::ConnectionReset));
    assert_row(&error, LOST);
    let error = io::Error::new(ErrorKind::ConnectionReset, io::Error::from(ErrorKind::InvalidData));
    assert_row(&error, LOST);
}

#[test]
fn contradicting_evidence_is_no_proof() {
    let refused = || io::Error::from(ErrorKind::ConnectionRefused);
    for doubt in [ErrorKind::ConnectionReset, ErrorKind::TimedOut, ErrorKind::Interrupted] {
        assert!(!never_sent(&io::Error::new(doubt, refused())), "{doubt}");
        assert!(!never_sent(&io::Error::new(refused().kind(), io::Error::from(doubt))), "{doubt}");
    }
}

#[test]
fn a_cut_is_repeated_only_if_the_request_is_idempotent() {
    for cut in [Cut::Deadline, Cut::AttemptTimeout(Duration::from_secs(1)), Cut::Stream] {
        assert_eq!(SAFE.classify_cut(cut), Some(Verdict::transient().idempotent()));
        assert_eq!(BOOKING.classify_cut(cut), Some(Verdict::transient().not_again()));
    }
    // No composition loses the protection, and a timeout in an error is a cut too.
    let always = |_: &io::Error| true;
    let pair = (always, BOOKING);
    assert!(!pair.classify_cut(Cut::Deadline).unwrap().is_again());
    for kind in [ErrorKind::TimedOut, ErrorKind::WouldBlock] {
        assert!(!pair.classify(&kind.into()).unwrap().is_again());
    }
    let over = BOOKING.over(|io, error: &io::Error| io.verdict(error));
    assert_eq!(
        over.classify(&ErrorKind::TimedOut.into()),
        BOOKING.classify(&ErrorKind::TimedOut.into())
    );
    assert!(!Classify::<io::Error>::classify_cut(&over, Cut::Deadline).unwrap().is_again());
    let stated = BOOKING.cut_is(Verdict::transient());
    assert!(!Classify::<io::Error>::classify_cut(&stated, Cut::Deadline).unwrap().is_again());
}

/// One link of a chain: an `io::Error` by its kind, its words or its number, or a foreign error.
fn link(
    choice: usize,
    below: Option<Box<dyn Error + Send + Sync>>,
) -> Box<dyn Error + Send + Sync> {
    const WORDS: [&str; 6] = [
        "client error (Connect)",
        "tcp connect error",
        "request failed",
        "failed to lookup address information: Try again",
        "failed to lookup address information: Name or service not known",
        "tls handshake eof",
    ];
    let kinds = KINDS.len();
    match (choice, below) {
        (choice, Some(below)) if choice < kinds => io::Error::new(KINDS[choice].0, below).into(),
        (choice, None) if choice < kinds => io::Error::from(KINDS[choice].0).into(),
        (choice, below) if choice < kinds + WORDS.len() => {
            Wrapped(WORDS[choice - kinds], below).into()
        }
        (_, Some(below)) => io::Error::other(below).into(),
        (choice, None) => io::Error::from_raw_os_error(i32::try_from(choice).unwrap() - 40).into(),
    }
}

/// A cut attempt has no error that names its request, so the classifier does.
#[test]
fn what_contains_a_classifier_knows_the_place_of_its_request() {
    fn place(classifier: &dyn Classify<io::Error>) -> Option<String> {
        classifier.place().map(Cow::into_owned)
    }
    const RECEIPT: Classifier = BOOKING.with_place("an old one").with_place("print a receipt");
    let known = Some("print a receipt".to_owned());
    assert_eq!(place(&BOOKING), None);
    assert_eq!(place(&BOOKING.over(|io, error: &io::Error| io.classify(error))), None);
    assert_ne!(RECEIPT, BOOKING);

    assert_eq!(place(&RECEIPT), known);
    let over = RECEIPT.over(|io, error: &io::Error| io.classify(error));
    assert_eq!(place(&over), known);
    assert_eq!(place(&(|_: &io::Error| true, over)), known);
    assert_eq!(place(&over.cut_is(Verdict::transient())), known);
    assert_eq!(place(&Arc::new(RECEIPT)), known);
    for &(kind, _) in KINDS {
        assert_eq!(RECEIPT.classify(&kind.into()), BOOKING.classify(&kind.into()), "{kind:?}");
    }
}

proptest! {
    /// The one law that protects a booking: in doubt it is not sent again.
    #[test]
    fn a_booking_is_sent_again_only_if_it_was_never_sent(
        choices in proptest::collection::vec(0_usize..60, 1..=5),
    ) {
        let chain = choices.iter().fold(None, |below, choice| Some(link(*choice, below)));
        let error = io::Error::other(chain.unwrap());
        let (safe, booking) = (SAFE.classify(&error), BOOKING.classify(&error));
        prop_assert_eq!(safe.map(|it| it.health()), booking.map(|it| it.health()));
        if let (Some(safe), Some(booking)) = (safe, booking) {
            prop_assert_eq!(booking.is_again(), safe.is_again() && never_sent(&error), "{:?}", error);
        }
    }

    /// An error that may follow the request is never a proof, except inside of a connector.
    #[test]
    fn a_lost_connection_is_no_proof(
        lost in 2_usize..13, above in proptest::collection::vec(0_usize..31, 0..=4),
    ) {
        let bottom = link(lost, None);
        let chain = above.iter().fold(bottom, |below, choice| link(*choice, Some(below)));
        prop_assert!(!never_sent(&*chain));
        let verdict = BOOKING.verdict(&*chain);
        prop_assert!(verdict.is_none_or(|verdict| !verdict.is_again()), "{:?}", chain);
    }
}
