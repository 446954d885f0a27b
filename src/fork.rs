//! Which side of a fork we are on.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result, Status};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A process's number in its line of forks. What was made in another generation belongs to a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// That of this process.
    pub(crate) fn now() -> Self {
        // SAFETY: the handler only adds to an atomic.
        WATCH.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this process made it.
    pub(crate) fn is_ours(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }

    /// `Forked` unless this process made it.
    pub(crate) fn check(self) -> Result<()> {
        if self.is_ours() {
            return Ok(());
        }
        let text = "made by a parent of this process before it forked; make a new client";
        Err(Error::new(Status::Forked, text))
    }
}
