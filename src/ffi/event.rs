//! Events, for programs that ask instead of being called.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::Ordering;

use super::boundary::{Context, check_place, guard, put, shield, span, wait};
use super::client::pl_client;
use super::error::{c_string, pl_error};
use super::handle::{get, make, opaque, take, with};
use super::lock::pl_lock;
use super::options::mode_of;
use super::status::{
    PL_LOST, PL_MODE_NONE, PL_OK, PL_WAIT_FOREVER, pl_loss_reason, pl_mode, pl_status,
};
use crate::callback::AcquiredCallback;
use crate::error::Result;
use crate::events::{Event, EventKind};
use crate::protocol::Mode;

/// What an event tells of: one of the `PL_EVENT_…` numbers. A later version may add some.
pub type pl_event_type = i32;

/// An acquire that was started with `pl_lock_acquire_start` has ended: `pl_event_status` says how.
pub const PL_EVENT_ACQUIRED: pl_event_type = 1;
/// A held lock is lost: `pl_event_loss_reason` says why.
pub const PL_EVENT_LOST: pl_event_type = 2;
/// An acquire of this lock has ended the connection of a member that did not answer: `pl_event_message`
/// is the member's holder id, or empty if it is one that names nobody.
pub const PL_EVENT_REAPED: pl_event_type = 3;
/// An acquire has trouble with the server and goes on trying. Told once for each kind of trouble.
pub const PL_EVENT_TROUBLE: pl_event_type = 4;
/// `pl_event_count` events were not kept, because nobody fetched them: see how every lock stands.
pub const PL_EVENT_OVERFLOW: pl_event_type = 5;

/// Something that has happened. Owned by whoever received it; free it with `pl_event_free`. Immutable, so
/// it may be read from several threads at once.
pub struct pl_event {
    _private: (),
}

/// An event with its texts as C wants them.
pub struct EventHandle {
    kind: pl_event_type,
    lock: usize,
    name: CString,
    status: pl_status,
    reason: pl_loss_reason,
    message: CString,
    count: u64,
}

opaque!(pl_event, EventHandle, 7);

impl EventHandle {
    fn new(event: Event) -> Self {
        let mut handle = Self {
            kind: 0,
            lock: event.tag,
            name: c_string(&event.name),
            status: PL_OK,
            reason: 0,
            message: CString::default(),
            count: 1,
        };
        match event.kind {
            EventKind::Acquired(outcome) => {
                handle.kind = PL_EVENT_ACQUIRED;
                if let Err(error) = outcome {
                    handle.status = error.status() as pl_status;
                    handle.message = c_string(error.message());
                }
            }
            EventKind::Lost(loss) => {
                handle.kind = PL_EVENT_LOST;
                handle.status = PL_LOST;
                handle.reason = loss.reason as pl_loss_reason;
                handle.message = c_string(&loss.message);
            }
            EventKind::Reaped(whom) => {
                handle.kind = PL_EVENT_REAPED;
                handle.message = c_string(whom.as_deref().unwrap_or_default());
            }
            EventKind::Trouble(error) => {
                handle.kind = PL_EVENT_TROUBLE;
                handle.status = error.status() as pl_status;
                handle.message = c_string(error.message());
            }
            EventKind::Overflow(missed) => {
                handle.kind = PL_EVENT_OVERFLOW;
                handle.count = missed;
            }
        }
        handle
    }
}

/// Begins to keep the events of all locks of a client, and gives a file descriptor for `poll`, `epoll` or
/// any event loop: it can be read as long as an event waits for `pl_client_next_event`. Nobody may read
/// it or close it; it is open until the client is freed. Close-on-exec. Works beside callbacks.
///
/// Up to 4096 events are kept; then the next ones are counted, and one of kind `PL_EVENT_OVERFLOW` takes
/// their place.
///
/// @param client  the client
/// @param fd      where the descriptor goes
/// @param error   where the error goes, or `NULL`
/// @return `PL_OK`; `PL_INVALID`; `PL_INTERNAL` where the process may open no more files; `PL_FORKED`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_event_fd(
    client: *const pl_client,
    fd: *mut c_int,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        check_place("fd", fd)?;
        put("fd", fd, get(client)?.event_descriptor()?)
    })
}

/// Fetches the oldest event. Thread-safe: each event is fetched once. A lock that was freed has no
/// events any more.
///
/// @param client      the client
/// @param timeout_ms  how long to wait for one: 0 for not at all, to 31622400000 (a year), or
///                    `PL_WAIT_FOREVER`
/// @param event       where the event goes; `NULL` if there was none in time. Free it with
///                    `pl_event_free`
/// @param error       where the error goes, or `NULL`
/// @return `PL_OK`, also if there is no event; `PL_INVALID`, also if the client is freed meanwhile;
///         `PL_INTERNAL`; `PL_FORKED`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_next_event(
    client: *const pl_client,
    timeout_ms: i64,
    event: *mut *mut pl_event,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        check_place("event", event)?;
        let timeout = match timeout_ms {
            PL_WAIT_FOREVER => None,
            _ => Some(span("the timeout", timeout_ms)?),
        };
        let next = get(client)?.next_event(timeout)?;
        let handle = next.map(|next| make::<pl_event>(EventHandle::new(next)));
        put("event", event, handle.unwrap_or(std::ptr::null_mut()))
    })
}

fn look<T>(event: *const pl_event, otherwise: T, what: impl FnOnce(&EventHandle) -> T) -> T {
    shield(None, || with(event, |handle| what(handle)).ok()).unwrap_or(otherwise)
}

/// What the event tells of: one of the `PL_EVENT_…` numbers; 0 of `NULL`.
#[unsafe(no_mangle)]
pub extern "C" fn pl_event_type_of(event: *const pl_event) -> pl_event_type {
    look(event, 0, |event| event.kind)
}

/// The lock that the event is of; `NULL` of an overflow. It may have been freed since by another thread:
/// functions that are given it say `PL_INVALID` then.
#[unsafe(no_mangle)]
pub extern "C" fn pl_event_lock(event: *const pl_event) -> *mut pl_lock {
    look(event, std::ptr::null_mut(), |event| event.lock as *mut pl_lock)
}

/// The name of that lock; an empty string of an overflow. Lives until the event is freed.
#[unsafe(no_mangle)]
pub extern "C" fn pl_event_name(event: *const pl_event) -> *const c_char {
    look(event, c"".as_ptr(), |event| event.name.as_ptr())
}

/// `PL_EVENT_ACQUIRED`: what `pl_lock_acquire` would have returned. `PL_EVENT_LOST`: `PL_LOST`.
/// `PL_EVENT_TROUBLE`: what is wrong. Otherwise `PL_OK`.
#[unsafe(no_mangle)]
pub extern "C" fn pl_event_status(event: *const pl_event) -> pl_status {
    look(event, PL_OK, |event| event.status)
}

/// `PL_EVENT_LOST`: why, one of the `PL_LOSS_…` numbers. Otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn pl_event_loss_reason(event: *const pl_event) -> pl_loss_reason {
    look(event, 0, |event| event.reason)
}

/// What happened, in one line of UTF-8; may be empty. Lives until the event is freed.
#[unsafe(no_mangle)]
pub extern "C" fn pl_event_message(event: *const pl_event) -> *const c_char {
    look(event, c"".as_ptr(), |event| event.message.as_ptr())
}

/// `PL_EVENT_OVERFLOW`: how many events were not kept. Otherwise 1; 0 of `NULL`.
#[unsafe(no_mangle)]
pub extern "C" fn pl_event_count(event: *const pl_event) -> u64 {
    look(event, 0, |event| event.count)
}

/// Frees an event. `NULL`, and an event that was freed before, are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn pl_event_free(event: *mut pl_event) {
    shield((), || drop(take(event)));
}

/// What is called when an acquire that was started has ended. As with `pl_lost_callback`: `call` runs on
/// the library's thread for callbacks, with no lock of the library held, and `drop` is called exactly once.
#[repr(C)]
pub struct pl_acquired_callback {
    /// Passed to the two functions. Must be usable from any thread.
    pub context: *mut c_void,
    /// Called once, with what `pl_lock_acquire` would have returned and a message that lives as long as
    /// the call, empty for `PL_OK`. `NULL`: the event queue is told instead.
    pub call:
        Option<extern "C" fn(context: *mut c_void, status: pl_status, message: *const c_char)>,
    /// Called when the context is not needed any more; may be `NULL`.
    pub drop: Option<extern "C" fn(context: *mut c_void)>,
}

/// As `pl_lock_acquire`, and returns at once: the keep-alive thread does the work. The outcome goes to
/// the callback, or, without one, to the client's event queue as `PL_EVENT_ACQUIRED`. `pl_lock_cancel` ends
/// it with `PL_CANCELLED`; `pl_lock_free` ends it without a word.
///
/// @param lock        the lock
/// @param mode        `PL_MODE_SHARED`, `PL_MODE_EXCLUSIVE`, or `PL_MODE_NONE` for what the options say
/// @param timeout_ms  as of `pl_lock_acquire`
/// @param callback    what is called at the end; its `drop` is called also if this function fails
/// @param error       where the error goes, or `NULL`
/// @return `PL_OK`: it is under way. `PL_ACTIVE`; `PL_INVALID`, also where there is neither a callback nor
///         an event queue (`pl_client_event_fd`); `PL_INTERNAL`; `PL_FORKED`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_acquire_start(
    lock: *mut pl_lock,
    mode: pl_mode,
    timeout_ms: i64,
    callback: pl_acquired_callback,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        let context = Context::new(callback.context, callback.drop);
        let handle = get(lock.cast_const())?;
        let (mode, wait) = (mode_or_none(mode)?, wait(timeout_ms)?);
        let done = callback.call.map(|call| -> AcquiredCallback {
            Box::new(move |outcome| {
                let (status, message) = match outcome {
                    Ok(()) => (PL_OK, CString::default()),
                    Err(error) => (error.status() as pl_status, c_string(error.message())),
                };
                call(context.pointer(), status, message.as_ptr());
            })
        });
        handle.lock.start_acquire(mode, wait, done)
    })
}

fn mode_or_none(mode: pl_mode) -> Result<Option<Mode>> {
    match mode {
        PL_MODE_NONE => Ok(None),
        mode => mode_of(mode).map(Some),
    }
}

/// As `pl_lock_acquire_start` with the event queue, but the calling thread asks the server itself first, and
/// waits for its answer for 3 ms at the most. So a lock that is free costs no change of threads, and one
/// that is not is waited for elsewhere: what a binding to a language with threads of its own wants.
///
/// @param lock        the lock
/// @param mode        `PL_MODE_SHARED`, `PL_MODE_EXCLUSIVE`, or `PL_MODE_NONE` for what the options say
/// @param timeout_ms  as of `pl_lock_acquire`
/// @param held        where it goes whether the lock is held: otherwise the acquire is under way, and a
///                    `PL_EVENT_ACQUIRED` will tell of its end
/// @param error       where the error goes, or `NULL`
/// @return `PL_OK`; else what `pl_lock_acquire` returns, and there is no event then. `PL_INVALID` also
///         without an event queue (`pl_client_event_fd`)
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_acquire_begin(
    lock: *mut pl_lock,
    mode: pl_mode,
    timeout_ms: i64,
    held: *mut bool,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        check_place("held", held)?;
        let handle = get(lock.cast_const())?;
        let (mode, wait) = (mode_or_none(mode)?, wait(timeout_ms)?);
        put("held", held, handle.lock.begin_acquire(mode, wait)?)
    })
}

/// Sets a pointer of the application's own, for what it wants to find from the lock of an event. The
/// library does nothing with it. Thread-safe.
///
/// @return `PL_OK` or `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_set_data(
    lock: *mut pl_lock,
    data: *mut c_void,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        let handle = get(lock.cast_const())?;
        handle.data.store(data, Ordering::Release);
        Ok(())
    })
}

/// What `pl_lock_set_data` has set; `NULL` if nothing has, or for a lock that was freed.
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_data(lock: *const pl_lock) -> *mut c_void {
    let data = || with(lock, |handle| handle.data.load(Ordering::Acquire)).ok();
    shield(None, data).unwrap_or(std::ptr::null_mut())
}
