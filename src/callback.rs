//! A callback that can be replaced at any moment and is never called after that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::keeper::{dispatch, lock, on_dispatch_thread};
use crate::lock::Loss;

/// What is called when a lock is lost.
pub(crate) type LostCallback = Box<dyn FnMut(&Loss) + Send>;

struct Callback {
    call: Mutex<LostCallback>,
    retired: AtomicBool,
}

/// The place of one callback.
#[derive(Default)]
pub(crate) struct CallbackSlot {
    current: Mutex<Option<Arc<Callback>>>,
}

impl CallbackSlot {
    /// Replaces the callback. The one before is not called any more once this returns; it may be
    /// under way still only if this is called from within it.
    pub(crate) fn set(&self, call: Option<LostCallback>) {
        let new = call.map(|call| {
            Arc::new(Callback { call: Mutex::new(call), retired: AtomicBool::new(false) })
        });
        let old = std::mem::replace(&mut *lock(&self.current), new);
        let Some(old) = old else {
            return;
        };
        old.retired.store(true, Ordering::Release);
        if !on_dispatch_thread() {
            drop(lock(&old.call));
        }
    }

    /// Has the callback called on the dispatch thread, if there is one.
    pub(crate) fn fire(&self, loss: Loss) {
        let Some(callback) = lock(&self.current).clone() else {
            return;
        };
        dispatch(Box::new(move || {
            let mut call = lock(&callback.call);
            if !callback.retired.load(Ordering::Acquire) {
                call(&loss);
            }
        }));
    }
}
