//! Options of clients and locks.

use std::ffi::c_char;
use std::sync::Mutex;

use super::boundary::{guard, invalid, put, shield, span, text, wait};
use super::error::pl_error;
use super::handle::{get, make, opaque, take};
use super::status::{PL_MODE_EXCLUSIVE, PL_MODE_SHARED, pl_mode, pl_status};
use crate::error::Result;
use crate::keeper::lock;
use crate::options::{ClientOptions, LockOptions};
use crate::protocol::Mode;

/// How a client connects. Make it, set what should differ from the defaults, pass it to
/// `pl_client_new`, and free it; the client keeps a copy. Thread-safe.
pub struct pl_client_options {
    _private: (),
}

/// How a lock is acquired and kept. Make it, set what should differ from the defaults, pass it to
/// `pl_lock_new`, and free it; the lock keeps a copy. Thread-safe.
pub struct pl_lock_options {
    _private: (),
}

opaque!(pl_client_options, Mutex<ClientOptions>, 2);
opaque!(pl_lock_options, Mutex<LockOptions>, 3);

pub(super) fn client_options(options: *const pl_client_options) -> Result<ClientOptions> {
    match options.is_null() {
        true => Ok(ClientOptions::new()),
        false => Ok(lock(&*get(options)?).clone()),
    }
}

pub(super) fn lock_options(options: *const pl_lock_options) -> Result<LockOptions> {
    match options.is_null() {
        true => Ok(LockOptions::new()),
        false => Ok(lock(&*get(options)?).clone()),
    }
}

pub(super) fn mode_of(mode: pl_mode) -> Result<Mode> {
    match mode {
        PL_MODE_SHARED => Ok(Mode::Shared),
        PL_MODE_EXCLUSIVE => Ok(Mode::Exclusive),
        _ => Err(invalid(format!("{mode} is neither PL_MODE_SHARED nor PL_MODE_EXCLUSIVE"))),
    }
}

fn set_client(
    options: *mut pl_client_options,
    error: *mut *mut pl_error,
    set: impl FnOnce(&mut ClientOptions) -> Result<()>,
) -> pl_status {
    guard(error, || set(&mut lock(&*get(options.cast_const())?)))
}

fn set_lock(
    options: *mut pl_lock_options,
    error: *mut *mut pl_error,
    set: impl FnOnce(&mut LockOptions) -> Result<()>,
) -> pl_status {
    guard(error, || set(&mut lock(&*get(options.cast_const())?)))
}

/// Makes a set of client options with the defaults.
///
/// @param options  where the handle goes; free it with `pl_client_options_free`
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK`, or `PL_INVALID` if `options` is `NULL`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_options_new(
    options: *mut *mut pl_client_options,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        super::boundary::check_place("options", options)?;
        put("options", options, make(Mutex::new(ClientOptions::new())))
    })
}

/// How long one attempt to connect and log in may take, and how long the server may leave a command
/// unanswered.
///
/// @param options  the options
/// @param ms       1 to 31622400000 (a year); 5000 unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_options_set_connect_timeout(
    options: *mut pl_client_options,
    ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    set_client(options, error, |options| {
        options.connect_timeout(span("the connect timeout", ms)?).map(drop)
    })
}

/// How many unused connections are kept open for later acquires.
///
/// @param options      the options
/// @param connections  0 to 1024; 8 unless set
/// @param error        where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_options_set_pool_size(
    options: *mut pl_client_options,
    connections: u32,
    error: *mut *mut pl_error,
) -> pl_status {
    set_client(options, error, |options| options.pool_size(connections as usize).map(drop))
}

/// Whether all locks of the client live on one connection. Many locks need few connections then, and the
/// loss of that connection is the loss of them all. Locks of the client that have the same name stand in
/// line among themselves, in the order of their acquires; readers hold together all the same. Health is
/// checked once for all, as often as the lock with the shortest interval wants it. Portalocker cannot end
/// such a connection when it falls silent, since its name tells nothing of the locks; members of this library
/// can.
///
/// @param options  the options
/// @param yes      `false` unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_options_set_shared_connection(
    options: *mut pl_client_options,
    yes: bool,
    error: *mut *mut pl_error,
) -> pl_status {
    set_client(options, error, |options| {
        options.shared_connection(yes);
        Ok(())
    })
}

/// The authorities whose certificates a server with a `rediss://` URL may show, instead of those that the
/// system trusts. This file and those of the other settings for TLS are read once, by `pl_client_new`, which
/// refuses what cannot be used with `PL_INVALID` and the file's name, as it does every setting for TLS with
/// another URL.
///
/// @param options  the options
/// @param file     the path of a PEM file, UTF-8; the system's authorities unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_options_set_tls_ca_file(
    options: *mut pl_client_options,
    file: *const c_char,
    error: *mut *mut pl_error,
) -> pl_status {
    set_client(options, error, |options| {
        options.tls_ca_file(text("the CA file", file)?);
        Ok(())
    })
}

/// What is shown to a server with a `rediss://` URL that asks for a certificate.
///
/// @param options      the options
/// @param certificate  the path of a PEM file with the certificate and what leads from it to an authority,
///                     UTF-8; none unless set
/// @param key          the path of a PEM file with its private key, without a passphrase
/// @param error        where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_options_set_tls_client_certificate(
    options: *mut pl_client_options,
    certificate: *const c_char,
    key: *const c_char,
    error: *mut *mut pl_error,
) -> pl_status {
    set_client(options, error, |options| {
        let (certificate, key) =
            (text("the certificate file", certificate)?, text("the key file", key)?);
        options.tls_client_certificate(certificate, key);
        Ok(())
    })
}

/// Whom the certificate of a server with a `rediss://` URL has to be for.
///
/// @param options  the options
/// @param name     a host name or an IP address; the URL's host unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_options_set_tls_server_name(
    options: *mut pl_client_options,
    name: *const c_char,
    error: *mut *mut pl_error,
) -> pl_status {
    set_client(options, error, |options| {
        options.tls_server_name(text("the server name", name)?);
        Ok(())
    })
}

/// Whether any certificate of a server with a `rediss://` URL is accepted. Whoever is on the way to the server
/// can then read and change everything, the password first: for trials only.
///
/// @param options  the options
/// @param yes      `false` unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_options_set_tls_insecure_no_verification(
    options: *mut pl_client_options,
    yes: bool,
    error: *mut *mut pl_error,
) -> pl_status {
    set_client(options, error, |options| {
        options.tls_insecure_no_verification(yes);
        Ok(())
    })
}

/// Frees client options. `NULL`, and options that were freed before, are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_options_free(options: *mut pl_client_options) {
    shield((), || drop(take(options)));
}

/// Makes a set of lock options with the defaults.
///
/// @param options  where the handle goes; free it with `pl_lock_options_free`
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK`, or `PL_INVALID` if `options` is `NULL`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_new(
    options: *mut *mut pl_lock_options,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        super::boundary::check_place("options", options)?;
        put("options", options, make(Mutex::new(LockOptions::new())))
    })
}

/// The mode of acquires that do not name one.
///
/// @param options  the options
/// @param mode     `PL_MODE_EXCLUSIVE` (unless set) or `PL_MODE_SHARED`
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_set_mode(
    options: *mut pl_lock_options,
    mode: pl_mode,
    error: *mut *mut pl_error,
) -> pl_status {
    set_lock(options, error, |options| {
        options.mode(mode_of(mode)?);
        Ok(())
    })
}

/// How long an acquire with `PL_DEFAULT` waits.
///
/// @param options  the options
/// @param ms       1 to 31622400000 (a year), 0 for one attempt, or `PL_WAIT_FOREVER`; 5000 unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_set_timeout(
    options: *mut pl_lock_options,
    ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    set_lock(options, error, |options| options.timeout(wait(ms)?).map(drop))
}

/// How long a waiter stays off the channel at most when a foreign writer comes first: once to three times
/// this. It comes back at once when the channel is empty. Without portalocker on the channel it plays no
/// part.
///
/// @param options  the options
/// @param ms       1 to 31622400000 (a year); 250 unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_set_check_interval(
    options: *mut pl_lock_options,
    ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    set_lock(options, error, |options| {
        options.check_interval(span("the check interval", ms)?).map(drop)
    })
}

/// How long a member of the channel may stay silent before it is taken for dead and its connection is
/// ended.
///
/// @param options  the options
/// @param ms       1 to 31622400000 (a year); 1000 unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_set_unavailable_timeout(
    options: *mut pl_lock_options,
    ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    set_lock(options, error, |options| {
        options.unavailable_timeout(span("the unavailable timeout", ms)?).map(drop)
    })
}

/// How often a held lock is checked, by a message that has to come back from the server within the
/// interval or the unavailable timeout, whichever is shorter. If it does not, the lock is lost.
///
/// @param options  the options
/// @param ms       100 to 31622400000 (a year), or 0 for never; 10000 unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_set_health_check_interval(
    options: *mut pl_lock_options,
    ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    set_lock(options, error, |options| {
        options.health_check_interval(span("the health check interval", ms)?).map(drop)
    })
}

/// Whether every exclusive grant draws a fencing token: see `pl_lock_fencing_token`.
///
/// @param options  the options
/// @param yes      `false` unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_set_fencing(
    options: *mut pl_lock_options,
    yes: bool,
    error: *mut *mut pl_error,
) -> pl_status {
    set_lock(options, error, |options| {
        options.fencing(yes);
        Ok(())
    })
}

/// Whether an acquire gives up with `PL_LOCKED` at once when somebody else holds the lock, whatever its
/// timeout.
///
/// @param options  the options
/// @param yes      `false` unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_set_fail_when_locked(
    options: *mut pl_lock_options,
    yes: bool,
    error: *mut *mut pl_error,
) -> pl_status {
    set_lock(options, error, |options| {
        options.fail_when_locked(yes);
        Ok(())
    })
}

/// A text that is shown to whoever asks who holds the lock.
///
/// @param options  the options
/// @param label    at most 256 bytes of UTF-8; none unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_set_label(
    options: *mut pl_lock_options,
    label: *const c_char,
    error: *mut *mut pl_error,
) -> pl_status {
    set_lock(options, error, |options| options.label(text("the label", label)?).map(drop))
}

/// Whether host name, process id, label and time are shown to whoever asks who holds the lock.
///
/// @param options  the options
/// @param yes      `true` unless set
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_set_disclose(
    options: *mut pl_lock_options,
    yes: bool,
    error: *mut *mut pl_error,
) -> pl_status {
    set_lock(options, error, |options| {
        options.disclose(yes);
        Ok(())
    })
}

/// Frees lock options. `NULL`, and options that were freed before, are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_options_free(options: *mut pl_lock_options) {
    shield((), || drop(take(options)));
}
