//! Who is on a lock's channel.

use std::ffi::{CString, c_char};

use super::boundary::{check_place, guard, invalid, put, put_optional, shield, span, text};
use super::client::pl_client;
use super::error::{c_string, pl_error};
use super::handle::{get, make, opaque, take, with};
use super::status::*;
use crate::inspect::Holder;
use crate::protocol::{Mode, State};

/// The members of a lock's channel at one moment: holders first, then waiters in their order.
/// Immutable, so it may be read from several threads at once.
pub struct pl_holders {
    _private: (),
}

/// One member, as it describes itself. A later version may add fields at the end: never make or copy
/// one yourself. All strings live until the list is freed.
#[repr(C)]
pub struct pl_holder {
    /// 32 hex digits, or `legacy-N` for a member that sends no id.
    pub id: *const c_char,
    /// What it holds; `PL_MODE_NONE` while it waits.
    pub mode: pl_mode,
    /// What it wants or holds; `PL_MODE_NONE` if it does not say.
    pub wants: pl_mode,
    /// Where it stands. Of a foreign reader it cannot be told whether it holds already.
    pub state: pl_state,
    /// Whether it has won an election among foreign waiters: 1, 0, or -1 if it does not say.
    pub elected: i32,
    /// It is a portalocker 3.2.0 or older, which sends no record and always holds exclusively.
    pub legacy: bool,
    /// It knows nothing of the queue: any portalocker.
    pub foreign: bool,
    /// Its host's name, or `NULL` if it does not say.
    pub host: *const c_char,
    /// Its label, or `NULL` if it has none or does not say.
    pub label: *const c_char,
    /// Its process id, or -1 if it does not say.
    pub pid: i64,
    /// Since when it is in this state, in milliseconds since the Unix epoch by its own clock, or -1 if
    /// it does not say.
    pub since_ms: i64,
}

/// A list, and the strings that it points to.
pub struct HolderList {
    entries: Vec<pl_holder>,
    _strings: Vec<CString>,
}

// SAFETY: the pointers lead into the list's own strings, which nobody changes.
unsafe impl Send for HolderList {}
// SAFETY: as above.
unsafe impl Sync for HolderList {}

opaque!(pl_holders, HolderList, 6);

impl HolderList {
    fn new(holders: Vec<Holder>) -> Self {
        let mut strings = Vec::new();
        let entries = holders.into_iter().map(|holder| entry(holder, &mut strings)).collect();
        Self { entries, _strings: strings }
    }
}

fn entry(holder: Holder, strings: &mut Vec<CString>) -> pl_holder {
    let mut keep = |text: Option<&str>| {
        let Some(text) = text else {
            return std::ptr::null();
        };
        // The string's bytes stay where they are when the vector grows.
        strings.push(c_string(text));
        strings.last().map_or(std::ptr::null(), |text| text.as_ptr())
    };
    let number = |value: Option<u64>| value.and_then(|v| i64::try_from(v).ok()).unwrap_or(-1);
    pl_holder {
        id: keep(Some(&holder.id)),
        mode: mode_number(holder.mode),
        wants: mode_number(holder.wants),
        state: match holder.state {
            State::Waiting => PL_STATE_WAITING,
            State::Held => PL_STATE_HELD,
            State::Leaving => PL_STATE_LEAVING,
        },
        elected: holder.elected.map_or(-1, i32::from),
        legacy: holder.legacy,
        foreign: holder.foreign,
        host: keep(holder.host.as_deref()),
        label: keep(holder.label.as_deref()),
        pid: number(holder.pid),
        since_ms: number(holder.since_ms),
    }
}

fn mode_number(mode: Option<Mode>) -> pl_mode {
    match mode {
        None => PL_MODE_NONE,
        Some(Mode::Shared) => PL_MODE_SHARED,
        Some(Mode::Exclusive) => PL_MODE_EXCLUSIVE,
    }
}

/// Asks who is on a lock's channel, over a connection of its own. Reads and changes nothing. Blocks.
///
/// @param client      the client
/// @param channel     the lock's name
/// @param timeout_ms  how long to wait for answers: 0 to 31622400000 (a year)
/// @param holders     where the list goes, empty if nobody is there; free it with `pl_holders_free`
/// @param error       where the error goes, or `NULL`
/// @return `PL_OK`; `PL_UNCLEAR` if somebody is there who does not answer in time, which is not the same
///         as nobody; `PL_INVALID`; `PL_FORKED`; or what keeps the server from being used
#[unsafe(no_mangle)]
pub extern "C" fn pl_probe_holders(
    client: *const pl_client,
    channel: *const c_char,
    timeout_ms: i64,
    holders: *mut *mut pl_holders,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        check_place("holders", holders)?;
        let channel = text("the channel", channel)?;
        let found = get(client)?.holders(channel, span("the timeout", timeout_ms)?)?;
        put("holders", holders, make(HolderList::new(found)))
    })
}

/// How many members a list has; 0 for `NULL`.
#[unsafe(no_mangle)]
pub extern "C" fn pl_holders_count(holders: *const pl_holders) -> usize {
    shield(0, || with(holders, |list| list.entries.len()).unwrap_or(0))
}

/// A member of the list, or `NULL` if `index` is not less than the count. Lives until the list is freed.
#[unsafe(no_mangle)]
pub extern "C" fn pl_holders_at(holders: *const pl_holders, index: usize) -> *const pl_holder {
    let none = std::ptr::null();
    shield(none, || {
        with(holders, |list| list.entries.get(index).map_or(none, std::ptr::from_ref))
            .unwrap_or(none)
    })
}

/// Frees a list. `NULL`, and a list that was freed before, are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn pl_holders_free(holders: *mut pl_holders) {
    shield((), || drop(take(holders)));
}

/// Pings a lock's channel and ends the connections of those members that do not answer in time, by their
/// exact names. An acquire does this by itself where it has to; this is for people. Blocks.
///
/// @param client      the client
/// @param channel     the lock's name
/// @param timeout_ms  1 to 31622400000 (a year); members have four fifths of it to answer
/// @param alive       where the number of members that answered goes, or `NULL`
/// @param killed      where the number of connections that were ended goes, or `NULL`
/// @param error       where the error goes, or `NULL`
/// @return `PL_OK`; `PL_DENIED` where the user may not list or end connections; `PL_INVALID`;
///         `PL_FORKED`; or what keeps the server from being used
#[unsafe(no_mangle)]
pub extern "C" fn pl_reap_silent(
    client: *const pl_client,
    channel: *const c_char,
    timeout_ms: i64,
    alive: *mut u32,
    killed: *mut u32,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        let channel = text("the channel", channel)?;
        let timeout = span("the timeout", timeout_ms)?;
        if timeout.is_zero() {
            return Err(invalid("the timeout is at least 1 ms: nobody could answer in none"));
        }
        let done = get(client)?.reap_silent(channel, timeout)?;
        put_optional(alive, u32::try_from(done.alive).unwrap_or(u32::MAX));
        put_optional(killed, u32::try_from(done.killed).unwrap_or(u32::MAX));
        Ok(())
    })
}
