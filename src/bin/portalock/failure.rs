//! How a subcommand fails: what is said, and the exit status.

use std::fmt;

use portalock::{Error, Status};

use crate::{exit, secret};

/// What ends the command before it has done what it was to do.
#[derive(Debug)]
pub struct Failure {
    /// One of [`exit`]'s.
    pub code: u8,
    message: String,
}

/// The outcome of a subcommand: its exit status.
pub type Outcome = Result<u8, Failure>;

impl Failure {
    /// With words for the person; passwords of URLs in them are concealed.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: secret::conceal(&message.into()) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(code_of(error.status()), error.message())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The exit status for what the library says.
pub fn code_of(status: Status) -> u8 {
    use Status::*;
    match status {
        Ok => exit::OK,
        Timeout | Locked => exit::CONFLICT,
        Unclear => exit::UNCLEAR,
        Invalid | Unsupported => exit::USAGE,
        Fence => exit::DATA,
        Refused | Unreachable | Unresponsive | NotRedis | Server | Disconnected | Tls => {
            exit::UNAVAILABLE
        }
        Lost => exit::LOST,
        Auth | Denied => exit::NO_PERMISSION,
        Active | NotHeld | Cancelled | Forked | Internal => exit::SOFTWARE,
    }
}
