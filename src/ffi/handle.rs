//! Handles that can be used wrongly without harm.
//!
//! A handle points to a slot that is never given back to the allocator. Freed slots wait in line
//! behind many others before they are used again, so a handle that is used or freed after it was
//! freed, or passed where another kind is expected, is found out and refused.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::boundary::invalid;
use crate::error::{Error, Result};
use crate::keeper::lock;

/// So many slots of a kind are freed after one before that one is used again.
const QUARANTINE: usize = 1024;

/// What a handle points to, whatever C believes.
#[repr(C)]
pub struct Slot<T: 'static> {
    /// Tells the kinds of handles apart; at the same place in all of them.
    kind: u32,
    inner: RwLock<Option<Arc<T>>>,
}

/// Slots that were freed, the oldest first.
pub type Freed<T> = Mutex<VecDeque<&'static Slot<T>>>;

/// The type that a kind of handle has in C.
pub trait Opaque: Sized {
    /// What it stands for.
    type Inner: 'static;
    /// A number of its own.
    const KIND: u32;
    /// Its name in the header.
    const NAME: &'static str;

    /// Its freed slots.
    fn freed() -> &'static Freed<Self::Inner>;
}

/// Makes a handle.
pub(super) fn make<O: Opaque>(value: O::Inner) -> *mut O {
    let mut freed = lock(O::freed());
    let used = if freed.len() > QUARANTINE { freed.pop_front() } else { None };
    drop(freed);
    let slot = used
        .unwrap_or_else(|| Box::leak(Box::new(Slot { kind: O::KIND, inner: RwLock::new(None) })));
    *slot.inner.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(value));
    std::ptr::from_ref(slot).cast_mut().cast()
}

fn slot_of<O: Opaque>(handle: *const O) -> Result<&'static Slot<O::Inner>> {
    if handle.is_null() {
        return Err(invalid(format!("the {} is NULL", O::NAME)));
    }
    // SAFETY: the caller promises a pointer that this library once gave out; slots live for ever, and
    // all kinds of them begin with their kind.
    let kind = unsafe { handle.cast::<u32>().read() };
    if kind != O::KIND {
        return Err(invalid(format!("what was passed as {} is something else", O::NAME)));
    }
    // SAFETY: as above, and the kind is right.
    Ok(unsafe { &*handle.cast::<Slot<O::Inner>>() })
}

fn stale<O: Opaque>() -> Error {
    invalid(format!("the {} was freed before", O::NAME))
}

/// What a handle stands for, kept alive as long as the call needs it.
pub(super) fn get<O: Opaque>(handle: *const O) -> Result<Arc<O::Inner>> {
    with(handle, Arc::clone)
}

/// A short look at what a handle stands for; freeing it waits meanwhile.
pub(super) fn with<O: Opaque, R>(
    handle: *const O,
    look: impl FnOnce(&Arc<O::Inner>) -> R,
) -> Result<R> {
    let inner = slot_of(handle)?.inner.read().unwrap_or_else(PoisonError::into_inner);
    inner.as_ref().map(look).ok_or_else(stale::<O>)
}

/// Ends a handle; `None` if there is nothing to end.
pub(super) fn take<O: Opaque>(handle: *mut O) -> Option<Arc<O::Inner>> {
    let slot = slot_of(handle.cast_const()).ok()?;
    let value = slot.inner.write().unwrap_or_else(PoisonError::into_inner).take()?;
    lock(O::freed()).push_back(slot);
    Some(value)
}

/// Says what a kind of handle stands for.
macro_rules! opaque {
    ($opaque:ident, $inner:ty, $number:literal) => {
        impl $crate::ffi::handle::Opaque for $opaque {
            type Inner = $inner;
            const KIND: u32 = 0x504c_0000 + $number;
            const NAME: &'static str = stringify!($opaque);

            fn freed() -> &'static $crate::ffi::handle::Freed<$inner> {
                static FREED: $crate::ffi::handle::Freed<$inner> =
                    std::sync::Mutex::new(std::collections::VecDeque::new());
                &FREED
            }
        }
    };
}
pub(super) use opaque;
