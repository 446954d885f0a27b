//! Which side of a fork we are on, and what a process has only one of.

use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

use crate::error::{Error, Result, Status};
use crate::mutex::lock;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

/// The sockets of this process. Whoever opens or closes one holds the list meanwhile, and so does a
/// fork: the child's copy is complete.
static SOCKETS: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());
static FORKING: Forking = Forking(UnsafeCell::new(None));

/// The list, as long as a fork is under way.
struct Forking(UnsafeCell<Option<MutexGuard<'static, Vec<RawFd>>>>);

// SAFETY: touched by the handlers below alone, between locking and unlocking the mutex.
unsafe impl Sync for Forking {}

/// The list of this process's sockets, locked.
pub(crate) fn sockets() -> MutexGuard<'static, Vec<RawFd>> {
    lock(&SOCKETS)
}

extern "C" fn before_fork() {
    let sockets = sockets();
    // SAFETY: the mutex is ours; see `Forking`.
    unsafe { *FORKING.0.get() = Some(sockets) };
}

extern "C" fn in_parent() {
    // SAFETY: as above.
    drop(unsafe { (*FORKING.0.get()).take() });
}

/// Closes what the child must not keep open: the parent's locks are to be free when the parent has
/// died, however long the child lives. To close says nothing on the wire while the parent has it open.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above; the thread that forked is the one that goes on in the child.
    let sockets = unsafe { (*FORKING.0.get()).take() };
    let Some(mut sockets) = sockets else {
        return;
    };
    for socket in sockets.drain(..) {
        // SAFETY: the child's copy, which nothing in the child uses: see `OwnSocket`.
        unsafe { libc::close(socket) };
    }
}

/// A process's number in its line of forks. What was made in another generation belongs to a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// That of this process.
    pub(crate) fn now() -> Self {
        // SAFETY: the handlers do what is allowed in a child of a process with threads.
        WATCH.call_once(|| unsafe {
            libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child));
        });
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// As a number.
    pub(crate) fn number(self) -> u32 {
        self.0
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

/// Something that each process makes for itself when it first needs it, and that lives as long as the
/// process does.
///
/// It takes no lock, which another thread could have held at the moment of a fork. What the parent
/// made is never dropped in the child: to take it apart might reach into what both still share.
pub(crate) struct PerProcess<T: 'static>(AtomicPtr<(Generation, T)>);

impl<T: Send + Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// That of this process, if it is still `fit`; else a new one. `true` if the caller's was taken.
    pub(crate) fn get_or_make(
        &self,
        fit: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<(&'static T, bool)> {
        let current = self.0.load(Ordering::Acquire);
        if let Some(value) = Self::ours(current).filter(|value| fit(value)) {
            return Ok((value, false));
        }
        let new = Box::into_raw(Box::new((Generation::now(), make()?)));
        let swapped = self.0.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        match swapped {
            // SAFETY: it was just made, and is never freed from now on.
            Ok(_) => Ok((unsafe { &(*new).1 }, true)),
            Err(first) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                let lost = || Error::new(Status::Internal, "two threads made the same thing");
                Self::ours(first).map(|value| (value, false)).ok_or_else(lost)
            }
        }
    }

    fn ours(pointer: *mut (Generation, T)) -> Option<&'static T> {
        // SAFETY: NULL, or a value that was put there for good.
        let (generation, value) = unsafe { pointer.as_ref() }?;
        generation.is_ours().then_some(value)
    }
}
