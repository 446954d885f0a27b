//! The library's log, for programs that are not written in Rust.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard};

use log::{LevelFilter, Log, Metadata, Record};

use super::boundary::{Context, guard, invalid};
use super::error::{c_string, pl_error};
use super::status::pl_status;
use crate::error::{Error, Result, Status};
use crate::fork::PerProcess;
use crate::keeper::lock;
use crate::log_line::log_line;

/// How urgent a line of the log is: one of the `PL_LOG_…` numbers, most urgent first.
pub type pl_log_level = i32;

/// Nothing.
pub const PL_LOG_OFF: pl_log_level = 0;
/// A held lock is lost, or the keep-alive thread is in trouble.
pub const PL_LOG_ERROR: pl_log_level = 1;
/// Something a person should know: a silent member was ended, or could not be. There are no lines up to this
/// level while nothing goes wrong.
pub const PL_LOG_WARN: pl_log_level = 2;
/// What goes on, in large steps: a lock is acquired or released, or an acquire fails or meets trouble.
pub const PL_LOG_INFO: pl_log_level = 3;
/// What goes on, in small steps: a wait begins or moves on, a health check comes back, a connection is made.
pub const PL_LOG_DEBUG: pl_log_level = 4;

/// What takes the lines of the log. Behind the words of a line stand its fields, as ` key=value`: `channel`,
/// the lock's name; `holder`, the holder id of the acquire that it is about; `state`, how that stands (`waiting`,
/// `held`, `released`, `lost`, `failed`), and others. A value with spaces, quotes, `=` or other than ASCII is in
/// double quotes, and escaped as in Rust. A later version may add fields and lines. `call` may come from any
/// thread, also from several at once, must not call back into the library, must not take long (it may be the
/// keep-alive thread that calls), and must not throw or jump out. `drop` is called exactly once, when the
/// handler will not be called any more.
#[repr(C)]
pub struct pl_log_handler {
    /// Passed to the two functions. Must be usable from any thread.
    pub context: *mut c_void,
    /// Called with one line of UTF-8 that lives as long as the call; `NULL` for no handler.
    pub call:
        Option<extern "C" fn(context: *mut c_void, level: pl_log_level, message: *const c_char)>,
    /// Called when the context is not needed any more; may be `NULL`.
    pub drop: Option<extern "C" fn(context: *mut c_void)>,
}

type Call = extern "C" fn(*mut c_void, pl_log_level, *const c_char);

struct Handler {
    context: Context,
    call: Call,
}

/// A child of a fork begins without a handler: another thread may have held the parent's just then.
struct Bridge {
    handler: PerProcess<Mutex<Option<Arc<Handler>>>>,
}

static BRIDGE: Bridge = Bridge { handler: PerProcess::new() };

impl Bridge {
    fn handler(&self) -> Result<MutexGuard<'static, Option<Arc<Handler>>>> {
        let (handler, _) = self.handler.get_or_make(|_| true, || Ok(Mutex::default()))?;
        Ok(lock(handler))
    }
}

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record) {
        let handler = self.handler().ok().and_then(|handler| handler.clone());
        if let Some(handler) = handler.filter(|_| self.enabled(record.metadata())) {
            let message = c_string(&log_line(record));
            (handler.call)(handler.context.pointer(), record.level() as i32, message.as_ptr());
        }
    }

    fn flush(&self) {}
}

/// Sets what takes the lines of the library's log, for the whole process, in place of what was set
/// before. Nothing is logged unless this is called, nor by the child of a fork before it calls this. Thread-safe.
///
/// @param level    the least urgent level that is wanted: `PL_LOG_OFF` to `PL_LOG_DEBUG`
/// @param handler  the handler; its `drop` is called also if this function fails
/// @param error    where the error goes, or `NULL`
/// @return `PL_OK`; `PL_INVALID`; `PL_UNSUPPORTED` if the program has a logger of Rust's `log` crate
#[unsafe(no_mangle)]
pub extern "C" fn pl_set_log_handler(
    level: pl_log_level,
    handler: pl_log_handler,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        let context = Context::new(handler.context, handler.drop);
        let level = level_of(level)?;
        install()?;
        let new = handler.call.map(|call| Arc::new(Handler { context, call }));
        let old = std::mem::replace(&mut *BRIDGE.handler()?, new);
        drop(old);
        log::set_max_level(level);
        Ok(())
    })
}

fn install() -> Result<()> {
    let _ = log::set_logger(&BRIDGE);
    match std::ptr::addr_eq(log::logger(), &raw const BRIDGE) {
        true => Ok(()),
        false => Err(Error::new(Status::Unsupported, "the program has a logger of its own")),
    }
}

fn level_of(level: pl_log_level) -> Result<LevelFilter> {
    match level {
        PL_LOG_OFF => Ok(LevelFilter::Off),
        PL_LOG_ERROR => Ok(LevelFilter::Error),
        PL_LOG_WARN => Ok(LevelFilter::Warn),
        PL_LOG_INFO => Ok(LevelFilter::Info),
        PL_LOG_DEBUG => Ok(LevelFilter::Debug),
        _ => Err(invalid(format!("{level} is no log level"))),
    }
}
