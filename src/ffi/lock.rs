//! Locks.

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;
use std::time::Duration;

use super::boundary::{Context, check_place, guard, invalid, put, shield, span, text, wait};
use super::client::pl_client;
use super::error::{c_string, pl_error};
use super::handle::{get, make, opaque, take, with};
use super::options::{lock_options, mode_of, pl_lock_options};
use super::status::{pl_loss_reason, pl_mode, pl_status};
use crate::error::{Error, Result, Status};
use crate::lock::{Lock, Loss};
use crate::protocol::Mode;

/// A lock: a channel, its options, and at most one acquire at a time. Thread-safe.
pub struct pl_lock {
    _private: (),
}

/// A lock with its name as C wants it.
pub struct LockHandle {
    pub(super) lock: Lock,
    name: CString,
    /// The application's.
    pub(super) data: AtomicPtr<c_void>,
}

opaque!(pl_lock, LockHandle, 5);

/// Names a lock. Nothing is sent.
///
/// @param client   the client; may be freed before the lock
/// @param name     the channel: 1 to 1024 bytes of UTF-8 that do not end in `-lock-events`; copied
/// @param options  how to acquire and keep, or `NULL` for the defaults; copied
/// @param lock     where the handle goes; free it with `pl_lock_free`
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK`; `PL_INVALID` where an argument is none; `PL_FORKED`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_new(
    client: *const pl_client,
    name: *const c_char,
    options: *const pl_lock_options,
    lock: *mut *mut pl_lock,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        check_place("lock", lock)?;
        let name = text("the name", name)?;
        let made = get(client)?.lock(name, lock_options(options)?)?;
        let data = AtomicPtr::default();
        let handle = make(LockHandle { lock: made, name: c_string(name), data });
        // Events name the lock by its handle.
        get::<pl_lock>(handle)?.lock.set_tag(handle as usize);
        put("lock", lock, handle)
    })
}

fn acquire(
    lock: *mut pl_lock,
    mode: Option<Mode>,
    timeout_ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        let handle = get(lock.cast_const())?;
        let wait = wait(timeout_ms)?;
        match mode {
            Some(mode) => handle.lock.acquire_mode(mode, wait),
            None => handle.lock.acquire(wait),
        }
    })
}

/// Acquires the lock in the mode of its options, and waits for its turn: waiters are served in the order
/// in which they began to wait. Blocks the calling thread.
///
/// @param lock        the lock
/// @param timeout_ms  how long to wait: 1 to 31622400000 (a year), 0 for one attempt, `PL_DEFAULT` for
///                    what the options say, or `PL_WAIT_FOREVER`
/// @param error       where the error goes, or `NULL`
/// @return `PL_OK`: the lock is held. `PL_TIMEOUT`; `PL_LOCKED` after one attempt; `PL_ACTIVE`;
///         `PL_CANCELLED`; `PL_INVALID`; `PL_FORKED`; or what kept the server from being used until the
///         time was up: `PL_REFUSED`, `PL_UNREACHABLE`, `PL_UNRESPONSIVE`, `PL_DISCONNECTED`,
///         `PL_SERVER`, and at once `PL_AUTH`, `PL_DENIED`, `PL_NOT_REDIS`, `PL_UNSUPPORTED`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_acquire(
    lock: *mut pl_lock,
    timeout_ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    acquire(lock, None, timeout_ms, error)
}

/// As `pl_lock_acquire`, with one attempt: `PL_OK`, `PL_LOCKED`, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_try_acquire(lock: *mut pl_lock, error: *mut *mut pl_error) -> pl_status {
    acquire(lock, None, 0, error)
}

/// As `pl_lock_acquire`, together with other readers. A writer that waits keeps later readers waiting.
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_acquire_shared(
    lock: *mut pl_lock,
    timeout_ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    acquire(lock, Some(Mode::Shared), timeout_ms, error)
}

/// As `pl_lock_acquire_shared`, with one attempt: `PL_OK`, `PL_LOCKED`, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_try_acquire_shared(
    lock: *mut pl_lock,
    error: *mut *mut pl_error,
) -> pl_status {
    acquire(lock, Some(Mode::Shared), 0, error)
}

/// As `pl_lock_acquire`, in the mode that is named.
///
/// @param mode  `PL_MODE_SHARED` or `PL_MODE_EXCLUSIVE`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_acquire_mode(
    lock: *mut pl_lock,
    mode: pl_mode,
    timeout_ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    match mode_of(mode) {
        Ok(mode) => acquire(lock, Some(mode), timeout_ms, error),
        Err(failure) => guard(error, || Err(failure)),
    }
}

/// Releases the lock. The release is written to the connection and not waited for: whoever comes next
/// is told by the server. Does not block.
///
/// @param lock   the lock
/// @param error  where the error goes, or `NULL`
/// @return `PL_OK`; `PL_NOT_HELD`; `PL_LOST`, once, if the lock was lost while it was held: it can be
///         acquired again then. `PL_FORKED`; `PL_INVALID`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_release(lock: *mut pl_lock, error: *mut *mut pl_error) -> pl_status {
    guard(error, || get(lock.cast_const())?.lock.release())
}

/// As `pl_lock_release`, and waits until the server has confirmed it.
///
/// @param timeout_ms  0 to 31622400000 (a year)
/// @return as `pl_lock_release`, or `PL_TIMEOUT`: not confirmed in time, and under way all the same
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_release_wait(
    lock: *mut pl_lock,
    timeout_ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        let handle = get(lock.cast_const())?;
        handle.lock.release_wait(span("the timeout", timeout_ms)?)
    })
}

/// Makes an acquire of this lock that is under way in another thread end with `PL_CANCELLED`, unless it
/// is granted first. Does nothing if there is none. Does not block.
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_cancel(lock: *mut pl_lock) {
    shield((), || {
        if let Ok(handle) = get(lock.cast_const()) {
            handle.lock.cancel();
        }
    });
}

/// Whether the lock is held, as far as this process knows. Does not block and makes no system call.
/// `false` for `NULL` and for a lock that was freed before.
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_is_held(lock: *const pl_lock) -> bool {
    shield(false, || with(lock, |handle| handle.lock.is_held()).unwrap_or(false))
}

/// Makes sure that the lock is still held: a message is sent to the server that has to come back.
///
/// @param lock        the lock
/// @param timeout_ms  how long it may take: 0 to 31622400000 (a year)
/// @param error       where the error goes, or `NULL`
/// @return `PL_OK`: it was held after this was called. `PL_TIMEOUT`: it may be lost, and is not given up
///         for that. `PL_LOST`, as often as it is asked until the lock is released. `PL_NOT_HELD`;
///         `PL_INVALID`; `PL_FORKED`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_verify(
    lock: *mut pl_lock,
    timeout_ms: i64,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        let handle = get(lock.cast_const())?;
        handle.lock.verify(span("the timeout", timeout_ms)?)
    })
}

/// How long ago the lock was last known good, in milliseconds, rounded up: since the latest of those
/// commands was sent that the server has answered on the lock's connection, health checks among them. -1
/// if the lock is not held. Does not block and makes no system call.
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_verified_age(lock: *const pl_lock) -> i64 {
    let age = || with(lock, |handle| handle.lock.verified_age()).ok().flatten();
    let ms = |age: Duration| i64::try_from(age.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
    shield(None, age).map_or(-1, ms)
}

/// The fencing token of the exclusive grant that is held: a number that is higher than that of every
/// grant before it, also of other processes, languages and portalocker 4.2 or newer. A resource that
/// remembers the highest token it has seen, and refuses lower ones, is safe from a holder that acts
/// late. The lock's options must have `fencing` set.
///
/// @param lock   the lock
/// @param token  where the token goes
/// @param error  where the error goes, or `NULL`
/// @return `PL_OK`; `PL_NOT_HELD` if there is none: not held, held with readers, or `fencing` not set
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_fencing_token(
    lock: *const pl_lock,
    token: *mut u64,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        check_place("token", token)?;
        let none = || Error::new(Status::NotHeld, "there is no fencing token");
        put("token", token, ours(lock)?.lock.fencing_token().ok_or_else(none)?)
    })
}

/// The name of the lock; an empty string for `NULL`. Lives until the lock is freed.
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_name(lock: *const pl_lock) -> *const c_char {
    let none = c"".as_ptr();
    shield(none, || with(lock, |handle| handle.name.as_ptr()).unwrap_or(none))
}

/// The id of the acquire that is under way or held: 32 hex digits, another for each acquire.
///
/// @param lock    the lock
/// @param buffer  where the string goes, with its NUL
/// @param size    the buffer's size: `PL_HOLDER_ID_SIZE` is enough
/// @param error   where the error goes, or `NULL`
/// @return `PL_OK`; `PL_NOT_HELD` if there is no such acquire; `PL_INVALID` if the buffer is too small
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_holder_id(
    lock: *const pl_lock,
    buffer: *mut c_char,
    size: usize,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || copy_out(ours(lock)?.lock.holder_id(), buffer, size))
}

/// The name of the connection of the acquire that is under way or held, as `CLIENT LIST` shows it.
///
/// @param lock    the lock
/// @param buffer  where the string goes, with its NUL
/// @param size    the buffer's size: three times the length of the lock's name, and 40, are enough
/// @param error   where the error goes, or `NULL`
/// @return `PL_OK`; `PL_NOT_HELD` if there is no such acquire; `PL_INVALID` if the buffer is too small
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_client_name(
    lock: *const pl_lock,
    buffer: *mut c_char,
    size: usize,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || copy_out(ours(lock)?.lock.client_name(), buffer, size))
}

/// A lock that this process has made.
fn ours(lock: *const pl_lock) -> Result<Arc<LockHandle>> {
    let handle = get(lock)?;
    handle.lock.check_process()?;
    Ok(handle)
}

fn copy_out(text: Option<String>, buffer: *mut c_char, size: usize) -> Result<()> {
    check_place("the buffer", buffer)?;
    let Some(text) = text else {
        return Err(Error::new(Status::NotHeld, "the lock is neither held nor being acquired"));
    };
    let text = c_string(&text);
    let bytes = text.as_bytes_with_nul();
    if bytes.len() > size {
        return Err(invalid(format!("the buffer needs {} bytes and has {size}", bytes.len())));
    }
    // SAFETY: the caller promises `size` writable bytes, and that many there are at most.
    unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// The loss of a held lock, as a callback is told of it.
#[repr(C)]
pub struct pl_loss {
    /// Why.
    pub reason: pl_loss_reason,
    /// What happened, in one line of UTF-8. Lives as long as the call.
    pub message: *const c_char,
}

/// What is called when a lock is lost.
///
/// `call` runs on a thread of the library that does nothing else than run callbacks, with no lock of
/// the library held: it may call every function, and free the very lock. It may be slow, and delays
/// other callbacks then. It must not throw or jump out. `drop` is called exactly once, when the callback
/// will not be called any more, on whatever thread that is found out.
#[repr(C)]
pub struct pl_lost_callback {
    /// Passed to the two functions. Must be usable from any thread.
    pub context: *mut c_void,
    /// Called once for each loss; `NULL` for no callback.
    pub call: Option<extern "C" fn(context: *mut c_void, loss: *const pl_loss)>,
    /// Called when the context is not needed any more; may be `NULL`.
    pub drop: Option<extern "C" fn(context: *mut c_void)>,
}

/// Sets what is called when the lock is lost while it is held, in place of what was set before. After
/// this returns, the callback before is not called any more, unless this was called from within it.
///
/// @param lock      the lock
/// @param callback  the callback; its `drop` is called also if this function fails
/// @param error     where the error goes, or `NULL`
/// @return `PL_OK`; `PL_INVALID`; `PL_FORKED`
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_on_lost(
    lock: *mut pl_lock,
    callback: pl_lost_callback,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        let context = Context::new(callback.context, callback.drop);
        let handle = ours(lock)?;
        let Some(call) = callback.call else {
            handle.lock.on_lost(None);
            return Ok(());
        };
        handle.lock.on_lost(Some(Box::new(move |loss: &Loss| {
            let message = c_string(&loss.message);
            let told = pl_loss { reason: loss.reason as i32, message: message.as_ptr() };
            call(context.pointer(), &raw const told);
        })));
        Ok(())
    })
}

/// Frees a lock. What it holds is released, an acquire that is under way in another thread ends with
/// `PL_CANCELLED`, and neither its callbacks are called any more nor are there events of it. Waits for
/// nothing but a callback of this lock that is being called just now, unless this is called from within
/// a callback. `NULL`, and a lock that was freed before, are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn pl_lock_free(lock: *mut pl_lock) {
    shield((), || {
        if let Some(handle) = take(lock) {
            handle.lock.close();
        }
    });
}
