//! What the command's exit statuses mean. Also read by the build script, for the pages.

/// It worked; a lock that was asked about is free.
pub const OK: u8 = 0;
/// Somebody else holds the lock: it was not to be waited for, or not for longer.
pub const CONFLICT: u8 = 1;
/// Some members of a lock do not answer: who holds it cannot be told.
pub const UNCLEAR: u8 = 2;
/// What was looked at is in danger.
pub const DANGER: u8 = 3;
/// The command line, or the server's URL, is wrong.
pub const USAGE: u8 = 64;
/// The key of the fencing counter holds something else.
pub const DATA: u8 = 65;
/// The file with the server's URL cannot be read.
pub const NO_INPUT: u8 = 66;
/// The server cannot be used: nothing listens there, or it does not answer, or answers with an error.
pub const UNAVAILABLE: u8 = 69;
/// A fault of portalock's own.
pub const SOFTWARE: u8 = 70;
/// Standard output cannot be written to.
pub const NO_OUTPUT: u8 = 74;
/// The lock was lost while the command ran.
pub const LOST: u8 = 75;
/// The server refuses the user, the password, or a command.
pub const NO_PERMISSION: u8 = 77;
/// The command was found and could not be run.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub const NOT_FOUND: u8 = 127;
/// To this the number of a signal is added.
pub const SIGNALLED: u8 = 128;
