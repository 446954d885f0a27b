//! Statuses and other constants.

use std::ffi::{CStr, c_char};

use super::boundary::shield;

/// The outcome of a call: `PL_OK` or one of the other `PL_…` statuses. Numbers are never reused, and a
/// later version may add some.
pub type pl_status = i32;

/// It worked.
pub const PL_OK: pl_status = 0;
/// The time given for waiting has passed while others held the lock.
pub const PL_TIMEOUT: pl_status = 1;
/// Somebody else holds the lock, and the caller did not want to wait.
pub const PL_LOCKED: pl_status = 2;
/// This lock object is being acquired or is held already; locks are not reentrant.
pub const PL_ACTIVE: pl_status = 3;
/// There is nothing to release.
pub const PL_NOT_HELD: pl_status = 4;
/// The lock was held and has been lost.
pub const PL_LOST: pl_status = 5;
/// The acquire was cancelled from elsewhere.
pub const PL_CANCELLED: pl_status = 6;
/// An argument is missing, out of range, or a handle that was freed before.
pub const PL_INVALID: pl_status = 7;
/// Nothing listens at the server's address: the connection was refused.
pub const PL_REFUSED: pl_status = 8;
/// The server's address leads nowhere: unknown host, no such socket, no route.
pub const PL_UNREACHABLE: pl_status = 9;
/// The server does not answer in time.
pub const PL_UNRESPONSIVE: pl_status = 10;
/// The server does not accept the user or the password.
pub const PL_AUTH: pl_status = 11;
/// The user lacks the permission for a command, channel or key.
pub const PL_DENIED: pl_status = 12;
/// Whatever answers at the server's address is no Redis server.
pub const PL_NOT_REDIS: pl_status = 13;
/// The server answered with an error.
pub const PL_SERVER: pl_status = 14;
/// The connection ended.
pub const PL_DISCONNECTED: pl_status = 15;
/// The handle was made before a fork, by the parent of this process.
pub const PL_FORKED: pl_status = 16;
/// The library was built without this, or does not know it.
pub const PL_UNSUPPORTED: pl_status = 17;
/// A fault of the library itself.
pub const PL_INTERNAL: pl_status = 18;
/// Somebody is there and does not answer: what was asked cannot be told.
pub const PL_UNCLEAR: pl_status = 19;
/// The key of the fencing counter cannot be counted up.
pub const PL_FENCE: pl_status = 20;
/// TLS with the server cannot be agreed on: a certificate, a version, or no TLS at all.
pub const PL_TLS: pl_status = 21;

/// As a timeout: wait without a bound.
pub const PL_WAIT_FOREVER: i64 = -1;
/// As a timeout: what the lock's options say (5000 ms unless set).
pub const PL_DEFAULT: i64 = -2;

/// The size of a buffer that takes every holder id with its NUL.
pub const PL_HOLDER_ID_SIZE: usize = 33;

/// How a lock is wanted or held: one of the `PL_MODE_…` numbers.
pub type pl_mode = i32;

/// Neither; of a member that waits.
pub const PL_MODE_NONE: pl_mode = 0;
/// Together with other readers.
pub const PL_MODE_SHARED: pl_mode = 1;
/// Alone.
pub const PL_MODE_EXCLUSIVE: pl_mode = 2;

/// Where a member of a lock's channel stands: one of the `PL_STATE_…` numbers.
pub type pl_state = i32;

/// Waits for the lock.
pub const PL_STATE_WAITING: pl_state = 1;
/// Holds it.
pub const PL_STATE_HELD: pl_state = 2;
/// Has left, and answers only because it was still counted.
pub const PL_STATE_LEAVING: pl_state = 3;

/// Why a held lock was lost: one of the `PL_LOSS_…` numbers.
pub type pl_loss_reason = i32;

/// The connection ended: killed, server gone, network gone.
pub const PL_LOSS_DISCONNECTED: pl_loss_reason = 1;
/// The server took the subscription away and kept the connection.
pub const PL_LOSS_UNSUBSCRIBED: pl_loss_reason = 2;
/// The server answered in a way that no sound server does, or refused to let us answer others.
pub const PL_LOSS_PROTOCOL: pl_loss_reason = 3;
/// The server does not answer.
pub const PL_LOSS_UNRESPONSIVE: pl_loss_reason = 4;
/// The keep-alive thread has died; nobody answers for the lock any more.
pub const PL_LOSS_INTERNAL: pl_loss_reason = 5;
/// The server is not the master any more, or not known to be: sentinels name another, or none.
pub const PL_LOSS_DEMOTED: pl_loss_reason = 6;

/// The name of a status, such as `"PL_TIMEOUT"`; `"PL_UNKNOWN"` for a number that is none.
///
/// Returns a string that lives for ever. Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn pl_status_name(status: pl_status) -> *const c_char {
    shield(c"PL_UNKNOWN", || name_of(status)).as_ptr()
}

fn name_of(status: pl_status) -> &'static CStr {
    match status {
        PL_OK => c"PL_OK",
        PL_TIMEOUT => c"PL_TIMEOUT",
        PL_LOCKED => c"PL_LOCKED",
        PL_ACTIVE => c"PL_ACTIVE",
        PL_NOT_HELD => c"PL_NOT_HELD",
        PL_LOST => c"PL_LOST",
        PL_CANCELLED => c"PL_CANCELLED",
        PL_INVALID => c"PL_INVALID",
        PL_REFUSED => c"PL_REFUSED",
        PL_UNREACHABLE => c"PL_UNREACHABLE",
        PL_UNRESPONSIVE => c"PL_UNRESPONSIVE",
        PL_AUTH => c"PL_AUTH",
        PL_DENIED => c"PL_DENIED",
        PL_NOT_REDIS => c"PL_NOT_REDIS",
        PL_SERVER => c"PL_SERVER",
        PL_DISCONNECTED => c"PL_DISCONNECTED",
        PL_FORKED => c"PL_FORKED",
        PL_UNSUPPORTED => c"PL_UNSUPPORTED",
        PL_INTERNAL => c"PL_INTERNAL",
        PL_UNCLEAR => c"PL_UNCLEAR",
        PL_FENCE => c"PL_FENCE",
        PL_TLS => c"PL_TLS",
        _ => c"PL_UNKNOWN",
    }
}

/// The version of the library that runs, such as `"0.1.0"`. That of the header is in the
/// `PORTALOCK_VERSION_…` macros.
///
/// Returns a string that lives for ever. Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn pl_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn statuses_have_one_number_in_both_languages() {
        let pairs = [
            (PL_OK, Status::Ok),
            (PL_TIMEOUT, Status::Timeout),
            (PL_LOCKED, Status::Locked),
            (PL_ACTIVE, Status::Active),
            (PL_NOT_HELD, Status::NotHeld),
            (PL_LOST, Status::Lost),
            (PL_CANCELLED, Status::Cancelled),
            (PL_INVALID, Status::Invalid),
            (PL_REFUSED, Status::Refused),
            (PL_UNREACHABLE, Status::Unreachable),
            (PL_UNRESPONSIVE, Status::Unresponsive),
            (PL_AUTH, Status::Auth),
            (PL_DENIED, Status::Denied),
            (PL_NOT_REDIS, Status::NotRedis),
            (PL_SERVER, Status::Server),
            (PL_DISCONNECTED, Status::Disconnected),
            (PL_FORKED, Status::Forked),
            (PL_UNSUPPORTED, Status::Unsupported),
            (PL_INTERNAL, Status::Internal),
            (PL_UNCLEAR, Status::Unclear),
            (PL_FENCE, Status::Fence),
            (PL_TLS, Status::Tls),
        ];
        for (number, (c, rust)) in (0..).zip(pairs) {
            assert_eq!((c, rust as i32), (number, number));
            assert_ne!(name_of(c), c"PL_UNKNOWN");
        }
        assert_eq!(name_of(22), c"PL_UNKNOWN");
    }
}
