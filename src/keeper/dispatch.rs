//! The thread that runs the application's callbacks, so that a slow one costs nobody a lock.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};

use super::spawn;
use crate::error::{Error, Result, Status};
use crate::fork::PerProcess;

type Job = Box<dyn FnOnce() + Send>;

static JOBS: PerProcess<Sender<Job>> = PerProcess::new();

thread_local! {
    static IS_DISPATCH: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is the thread that runs callbacks.
pub(crate) fn on_dispatch_thread() -> bool {
    IS_DISPATCH.get()
}

/// Runs a job on the dispatch thread, which starts with the first one.
pub(crate) fn dispatch(job: Job) {
    let unsent = match JOBS.get_or_make(|_| true, start) {
        Ok((jobs, _)) => jobs.send(job).err().map(|_| "the thread is gone".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = unsent {
        log::error!("a callback is dropped: {why}");
    }
}

fn start() -> Result<Sender<Job>> {
    let (sender, receiver) = channel::<Job>();
    let work = move || {
        IS_DISPATCH.set(true);
        // Ends when the sender is dropped, as that of a thread that started needlessly is.
        for job in receiver {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                log::error!("a callback panicked");
            }
        }
    };
    spawn("portalock-call", work).map_err(|error| {
        Error::new(Status::Internal, format!("no thread for callbacks: {error}"))
    })?;
    Ok(sender)
}
