//! Clients.

use std::ffi::c_char;

use super::boundary::{check_place, guard, put, put_optional, shield, span, text};
use super::error::pl_error;
use super::handle::{get, make, opaque, take};
use super::options::{client_options, pl_client_options};
use super::status::pl_status;
use crate::client::Client;

/// A Redis server to hold locks on: its address, the login, and warm connections to it. Thread-safe.
pub struct pl_client {
    _private: (),
}

opaque!(pl_client, Client, 4);

/// Makes a client. Nothing is connected yet.
///
/// @param url      `redis://[user[:password]@]host[:port][/db]`, with percent-encoded specials, or
///                 `unix:///path[?db=N&user=…&pass=…]`, or `rediss://…`, `redis-sentinel://…`,
///                 `redis-cluster://…` or `memory://name` as docs/connecting.md has it; copied
/// @param options  how to connect, or `NULL` for the defaults; copied
/// @param client   where the handle goes; free it with `pl_client_free`
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK`; `PL_INVALID` where an argument is none, or a file for TLS cannot be used; `PL_TLS` where
///         the system trusts nobody; `PL_UNSUPPORTED` for an unknown scheme; `PL_FORKED` for a `memory://`
///         name of which a parent of this process has a broker
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_new(
    url: *const c_char,
    options: *const pl_client_options,
    client: *mut *mut pl_client,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        check_place("client", client)?;
        let made = Client::new(text("the URL", url)?, client_options(options)?)?;
        put("client", client, make(made))
    })
}

/// Connects, logs in and waits for an answer, to find a wrong address or login early.
///
/// @param client      the client
/// @param timeout_ms  0 to 31622400000 (a year)
/// @param rtt_us      where the round-trip time goes, in microseconds, or `NULL`
/// @param error       where the error goes, or `NULL`
/// @return `PL_OK`, or what keeps the server from being used
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_ping(
    client: *const pl_client,
    timeout_ms: i64,
    rtt_us: *mut i64,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        let rtt = get(client)?.ping(span("the timeout", timeout_ms)?)?;
        put_optional(rtt_us, i64::try_from(rtt.as_micros()).unwrap_or(i64::MAX));
        Ok(())
    })
}

/// Frees a client. Locks made from it go on working and keep what they need of it, but there are no
/// events any more, and the descriptor of `pl_client_event_fd` is closed as soon as the last of them is
/// freed. `NULL`, and a client that was freed before, are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_free(client: *mut pl_client) {
    shield((), || {
        if let Some(client) = take(client) {
            client.close_events();
        }
    });
}
