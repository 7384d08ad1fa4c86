use std::error::Error;
use std::io::{self, ErrorKind};

/// The evidence of one error of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// No server took the connection.
    Refused,
    /// This machine has no port or no file left for a connection.
    UsedUp,
    /// The name of the upstream was not found, for now.
    NoAddress,
    /// The name of the upstream was not found, for good.
    NoSuchName,
    /// The network or the connection is gone.
    Lost,
    /// The peer did not answer in time.
    Silent,
    /// The socket of the upstream is missing, or a file.
    Missing,
    /// A signal ended a call to the system.
    Interrupted,
    /// Somebody else uses the file.
    Busy,
    /// The program or its machine is at fault.
    Local,
    /// The bytes are not what was expected.
    Garbled,
}

impl Told {
    /// Returns what the error tells by itself, without its sources.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let Some(error) = error.downcast_ref::<io::Error>() else {
            return by_words(&error.to_string());
        };
        if error.raw_os_error().is_some_and(is_used_up) {
            return Some(Self::UsedUp);
        }
        Some(match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::AddrNotAvailable => Self::UsedUp,
            ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            | ErrorKind::WriteZero => Self::Lost,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::Silent,
            ErrorKind::NotFound => Self::Missing,
            ErrorKind::Interrupted => Self::Interrupted,
            ErrorKind::ResourceBusy | ErrorKind::Deadlock | ErrorKind::StaleNetworkFileHandle => {
                Self::Busy
            }
            ErrorKind::PermissionDenied
            | ErrorKind::Unsupported
            | ErrorKind::InvalidInput
            | ErrorKind::AddrInUse
            | ErrorKind::OutOfMemory
            | ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::FileTooLarge
            | ErrorKind::ReadOnlyFilesystem => Self::Local,
            ErrorKind::InvalidData => Self::Garbled,
            _ => return by_words(&error.to_string()),
        })
    }

    /// Returns whether the upstream surely did not see the request.
    pub(super) const fn is_before_sending(self) -> bool {
        matches!(self, Self::Refused | Self::UsedUp | Self::NoAddress | Self::NoSuchName)
    }

    /// Returns whether the upstream may have seen the request.
    pub(super) const fn is_maybe_sent(self) -> bool {
        matches!(self, Self::Lost | Self::Silent | Self::Interrupted)
    }

    /// Returns a stable word for logs and metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::UsedUp => "used_up",
            Self::NoAddress | Self::NoSuchName => "name_lookup",
            Self::Lost => "connection_lost",
            Self::Silent => "timeout",
            Self::Missing => "not_found",
            Self::Interrupted => "interrupted",
            Self::Busy => "busy",
            Self::Local => "local",
            Self::Garbled => "invalid_data",
        }
    }
}

/// Returns whether the process or the machine has too many open files. `ErrorKind` has no word for
/// this.
const fn is_used_up(code: i32) -> bool {
    if cfg!(windows) {
        code == 10024 // WSAEMFILE
    } else {
        cfg!(unix) && matches!(code, 23 | 24) // ENFILE, EMFILE
    }
}

/// Reads the words of the standard library for a name that was not found. It keeps no code.
fn by_words(text: &str) -> Option<Told> {
    let reason = text.strip_prefix("failed to lookup address information: ")?;
    // The words of glibc and macOS, and those of musl, for EAI_AGAIN.
    let passes = ["Temporary failure in name resolution", "Try again"];
    Some(if passes.iter().any(|words| reason.starts_with(words)) {
        Told::NoAddress
    } else {
        Told::NoSuchName
    })
}
