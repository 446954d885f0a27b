//! Error objects.

use std::ffi::{CString, c_char};

use super::boundary::shield;
use super::handle::{make, opaque, take, with};
use super::status::{PL_INVALID, PL_OK, pl_status};
use crate::error::Error;

/// What went wrong: a status, a message for people, and whether trying again can help. Never holds a
/// password. Owned by whoever received it; free it with `pl_error_free`. Immutable, so it may be read
/// from several threads at once.
pub struct pl_error {
    _private: (),
}

/// An error with its message as C wants it.
pub struct ErrorHandle {
    error: Error,
    message: CString,
}

opaque!(pl_error, ErrorHandle, 1);

/// A string for C. NUL bytes, which no message of ours has, would end it early: they are left out.
pub(super) fn c_string(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// Writes the error argument of a call, if there is one.
pub(super) fn store_error(place: *mut *mut pl_error, error: Option<Error>) {
    if place.is_null() {
        return;
    }
    let handle = error.map(|error| {
        let message = c_string(error.message());
        make::<pl_error>(ErrorHandle { error, message })
    });
    // SAFETY: not NULL, and the caller promises that it can be written.
    unsafe { place.write(handle.unwrap_or(std::ptr::null_mut())) };
}

/// The status of an error; `PL_OK` of `NULL`, `PL_INVALID` of an error that was freed before.
#[unsafe(no_mangle)]
pub extern "C" fn pl_error_status(error: *const pl_error) -> pl_status {
    if error.is_null() {
        return PL_OK;
    }
    shield(PL_INVALID, || {
        with(error, |handle| handle.error.status() as pl_status).unwrap_or(PL_INVALID)
    })
}

/// What happened, in one line of UTF-8, for people. An empty string for `NULL`.
///
/// The string lives until the error is freed.
#[unsafe(no_mangle)]
pub extern "C" fn pl_error_message(error: *const pl_error) -> *const c_char {
    let none = c"";
    shield(none.as_ptr(), || with(error, |e| e.message.as_ptr()).unwrap_or(none.as_ptr()))
}

/// Whether the same call can succeed later although nothing is changed.
#[unsafe(no_mangle)]
pub extern "C" fn pl_error_retryable(error: *const pl_error) -> bool {
    shield(false, || with(error, |handle| handle.error.is_retryable()).unwrap_or(false))
}

/// Frees an error. `NULL`, and an error that was freed before, are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn pl_error_free(error: *mut pl_error) {
    shield((), || drop(take(error)));
}
