//! Callbacks that are never called after they were taken back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::keeper::{dispatch, lock, on_dispatch_thread};
use crate::lock::Loss;

/// A function that is told something, on the dispatch thread.
pub type Call<A> = Box<dyn FnMut(&A) + Send>;
/// What is called when a lock is lost.
pub type LostCallback = Call<Loss>;
/// What is called when an acquire that was started has ended.
pub type AcquiredCallback = Call<Result<()>>;

pub(crate) struct Callback<A> {
    call: Mutex<Call<A>>,
    retired: AtomicBool,
}

impl<A> Callback<A> {
    fn new(call: Call<A>) -> Arc<Self> {
        Arc::new(Self { call: Mutex::new(call), retired: AtomicBool::new(false) })
    }

    /// Is not called any more, if it is not being called just now.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    fn run(&self, argument: &A) {
        let mut call = lock(&self.call);
        if !self.retired.load(Ordering::Acquire) {
            call(argument);
        }
    }
}

/// A place for callbacks of one kind.
pub(crate) struct CallbackSlot<A> {
    current: Mutex<Vec<Arc<Callback<A>>>>,
}

impl<A> Default for CallbackSlot<A> {
    fn default() -> Self {
        Self { current: Mutex::default() }
    }
}

impl<A: Send + 'static> CallbackSlot<A> {
    /// Replaces what was set before, which is not called any more once this returns; it may be under
    /// way still only if this is called from within a callback.
    pub(crate) fn set(&self, call: Option<Call<A>>) {
        self.replace(call.map(Callback::new).into_iter().collect()).wait();
    }

    /// Takes out what was set. It may still be under way until [`Retired::wait`] has returned.
    pub(crate) fn retire(&self) -> Retired<A> {
        self.replace(Vec::new())
    }

    fn replace(&self, new: Vec<Arc<Callback<A>>>) -> Retired<A> {
        let old = std::mem::replace(&mut *lock(&self.current), new);
        old.iter().for_each(|callback| callback.retire());
        Retired(old)
    }

    /// Adds one that will be called once, by [`fire_once`](Self::fire_once).
    pub(crate) fn add(&self, call: Call<A>) -> Arc<Callback<A>> {
        let new = Callback::new(call);
        lock(&self.current).push(new.clone());
        new
    }

    /// Has what is set called on the dispatch thread.
    pub(crate) fn fire(&self, argument: A) {
        let last = lock(&self.current).last().cloned();
        if let Some(callback) = last {
            dispatch(Box::new(move || callback.run(&argument)));
        }
    }
}

/// Callbacks that were taken out.
pub(crate) struct Retired<A>(Vec<Arc<Callback<A>>>);

impl<A> Retired<A> {
    /// Waits for one that is being called just now, unless that is where this is called from.
    pub(crate) fn wait(self) {
        if on_dispatch_thread() {
            return;
        }
        for callback in self.0 {
            drop(lock(&callback.call));
        }
    }
}

/// Has one that was added called on the dispatch thread, and takes it out after that. `slot` finds the
/// place it was added to.
pub(crate) fn fire_once<A, S>(
    owner: Arc<S>,
    slot: fn(&S) -> &CallbackSlot<A>,
    callback: Arc<Callback<A>>,
    argument: A,
) where
    A: Send + 'static,
    S: Send + Sync + 'static,
{
    dispatch(Box::new(move || {
        callback.run(&argument);
        lock(&slot(&owner).current).retain(|other| !Arc::ptr_eq(other, &callback));
    }));
}
