//! What every function does at the boundary: check what comes in, catch what must not get out.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::error::{pl_error, store_error};
use super::status::{PL_DEFAULT, PL_OK, PL_WAIT_FOREVER, pl_status};
use crate::error::{Error, Result, Status};
use crate::options::{MAX_SPAN, Wait};

/// Runs the body of a fallible function: turns its error, or its panic, into a status and an error
/// object.
pub(super) fn guard(error: *mut *mut pl_error, body: impl FnOnce() -> Result<()>) -> pl_status {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(panicked()));
    match outcome {
        Ok(()) => {
            store_error(error, None);
            PL_OK
        }
        Err(failure) => {
            let status = failure.status() as pl_status;
            store_error(error, Some(failure));
            status
        }
    }
}

/// Runs the body of a function that cannot fail: a panic becomes `otherwise`.
pub(super) fn shield<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

fn panicked() -> Error {
    Error::new(Status::Internal, "a fault of the library; please report it")
}

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Status::Invalid, message)
}

/// Reads a string argument.
pub(super) fn text<'a>(what: &str, pointer: *const c_char) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(invalid(format!("{what} is NULL")));
    }
    // SAFETY: not NULL, and the caller promises a NUL-terminated string that outlives the call.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| invalid(format!("{what} is not valid UTF-8")))
}

/// Writes an output argument that must not be NULL.
pub(super) fn put<T>(what: &str, place: *mut T, value: T) -> Result<()> {
    check_place(what, place)?;
    // SAFETY: not NULL, and the caller promises that it can be written.
    unsafe { place.write(value) };
    Ok(())
}

/// Refuses a NULL output argument before anything is done.
pub(super) fn check_place<T>(what: &str, place: *mut T) -> Result<()> {
    match place.is_null() {
        true => Err(invalid(format!("{what} is NULL"))),
        false => Ok(()),
    }
}

/// Writes an output argument that may be NULL.
pub(super) fn put_optional<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not NULL, and the caller promises that it can be written.
        unsafe { place.write(value) };
    }
}

/// Reads a span in milliseconds.
pub(super) fn span(what: &str, ms: i64) -> Result<Duration> {
    let span = u64::try_from(ms).ok().map(Duration::from_millis);
    span.filter(|span| *span <= MAX_SPAN)
        .ok_or_else(|| invalid(format!("{what} of {ms} ms is not between 0 and a year")))
}

/// Reads how long to wait.
pub(super) fn wait(ms: i64) -> Result<Wait> {
    match ms {
        PL_DEFAULT => Ok(Wait::Default),
        PL_WAIT_FOREVER => Ok(Wait::Forever),
        0 => Ok(Wait::Once),
        _ => span("the timeout", ms).map(Wait::For),
    }
}

/// The caller's context, passed from thread to thread. The contract of every callback says so.
pub(super) struct Context(*mut c_void, Option<extern "C" fn(*mut c_void)>);

// SAFETY: the library only carries it; what it points to is the caller's, who was told that callbacks
// run on another thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn new(context: *mut c_void, drop: Option<extern "C" fn(*mut c_void)>) -> Self {
        Self(context, drop)
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.0
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(drop) = self.1 {
            drop(self.0);
        }
    }
}
