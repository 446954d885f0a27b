//! What can go wrong, as numbers that never change and words for people.

use std::fmt;

/// The outcome of a call. The numbers are part of the ABI and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Status {
    /// It worked.
    Ok = 0,
    /// The time given for waiting has passed while others held the lock.
    Timeout = 1,
    /// Somebody else holds the lock, and the caller did not want to wait.
    Locked = 2,
    /// This lock object is being acquired or is held already; locks are not reentrant.
    Active = 3,
    /// There is nothing to release.
    NotHeld = 4,
    /// The lock was held and has been lost.
    Lost = 5,
    /// The acquire was cancelled from elsewhere.
    Cancelled = 6,
    /// An argument is missing or out of range.
    Invalid = 7,
    /// Nothing listens at the server's address: the connection was refused.
    Refused = 8,
    /// The server's address leads nowhere: unknown host, no such socket, no route.
    Unreachable = 9,
    /// The server does not answer in time.
    Unresponsive = 10,
    /// The server does not accept the user or the password.
    Auth = 11,
    /// The user lacks the permission for a command, channel or key.
    Denied = 12,
    /// Whatever answers at the server's address is no Redis server.
    NotRedis = 13,
    /// The server answered with an error.
    Server = 14,
    /// The connection ended.
    Disconnected = 15,
    /// The handle was made before a fork, by the parent of this process.
    Forked = 16,
    /// The library was built without this, or does not know it.
    Unsupported = 17,
    /// A fault of the library itself.
    Internal = 18,
    /// Somebody is there and does not answer: what was asked cannot be told.
    Unclear = 19,
    /// The key of the fencing counter cannot be counted up.
    Fence = 20,
    /// TLS with the server cannot be agreed on: a certificate, a version, or no TLS at all.
    Tls = 21,
}

/// A status, what led to it, and whether trying again can help. Never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
}

/// The outcome of a fallible call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The kind of error.
    pub fn status(&self) -> Status {
        self.status
    }

    /// What happened, in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the same call can succeed later although nothing is changed.
    pub fn is_retryable(&self) -> bool {
        use Status::*;
        matches!(
            self.status,
            Timeout
                | Locked
                | Active
                | Lost
                | Refused
                | Unreachable
                | Unresponsive
                | Server
                | Disconnected
                | Unclear
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
