//! Which names there are brokers of, in this process and in those that it was forked from. A list that only
//! grows, and that is read without a mutex: at a fork another thread of the parent may have had that.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::fork::Generation;

struct Known {
    name: String,
    generation: Generation,
    before: *const Known,
}

static LAST: AtomicPtr<Known> = AtomicPtr::new(ptr::null_mut());

/// Adds a name of this process.
pub(super) fn add(name: &str) {
    let name = name.to_owned();
    let generation = Generation::now();
    let new = Box::into_raw(Box::new(Known { name, generation, before: ptr::null() }));
    let mut last = LAST.load(Ordering::Acquire);
    loop {
        // SAFETY: nobody else has it before it is put in.
        unsafe { (*new).before = last };
        match LAST.compare_exchange(last, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => last = now,
        }
    }
}

/// Whether a parent of this process has a broker of this name, or had when it forked.
pub(super) fn is_of_a_parent(name: &str) -> bool {
    let mut next: *const Known = LAST.load(Ordering::Acquire);
    // SAFETY: what is in the list stays, and does not change.
    while let Some(known) = unsafe { next.as_ref() } {
        if known.name == name && !known.generation.is_ours() {
            return true;
        }
        next = known.before;
    }
    false
}
