//! The thread that runs the application's callbacks, so that a slow one costs nobody a lock.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use once_cell::sync::Lazy;

use super::lock;
use crate::fork::Generation;

type Job = Box<dyn FnOnce() + Send>;

/// The thread's inbox, and the process that it lives in.
type Inbox = (Generation, Sender<Job>);

static JOBS: Lazy<Mutex<Option<Inbox>>> = Lazy::new(Mutex::default);

thread_local! {
    static IS_DISPATCH: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is the thread that runs callbacks.
pub(crate) fn on_dispatch_thread() -> bool {
    IS_DISPATCH.get()
}

/// Runs a job on the dispatch thread, which starts with the first one.
pub(crate) fn dispatch(job: Job) {
    let mut jobs = lock(&JOBS);
    let job = match &*jobs {
        Some((generation, sender)) if generation.is_ours() => match sender.send(job) {
            Ok(()) => return,
            Err(unsent) => unsent.0,
        },
        _ => job,
    };
    let (sender, receiver) = channel::<Job>();
    let started = thread::Builder::new().name("portalock-call".into()).spawn(move || {
        IS_DISPATCH.set(true);
        for job in receiver {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                log::error!("a callback panicked");
            }
        }
    });
    if let Err(error) = started {
        log::error!("no thread for callbacks, one is dropped: {error}");
        return;
    }
    let _ = sender.send(job);
    *jobs = Some((Generation::now(), sender));
}
