//! Handles that can be used wrongly without harm.
//!
//! A handle points to a slot that is never given back to the allocator. Freed slots wait in line
//! behind many others before they are used again, so a handle that is used or freed after it was
//! freed, or passed where another kind is expected, is found out and refused.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use super::boundary::invalid;
use crate::error::{Error, Result, Status};
use crate::fork::{Generation, PerProcess};
use crate::keeper::lock;

/// So many slots of a kind are freed after one before that one is used again.
const QUARANTINE: usize = 1024;

/// What a handle points to, whatever C believes.
#[repr(C)]
pub struct Slot<T: 'static> {
    /// Tells the kinds of handles apart; at the same place in all of them.
    kind: u32,
    /// The process that has made the handle.
    generation: AtomicU32,
    inner: RwLock<Option<Arc<T>>>,
}

impl<T> Slot<T> {
    /// Whether a parent of this process has made the handle. Another thread of the parent may have been
    /// busy with it at the moment of the fork: nobody will ever unlock it then.
    fn is_foreign(&self) -> bool {
        self.generation.load(Ordering::Acquire) != Generation::now().number()
    }

    fn read(&self) -> Result<RwLockReadGuard<'_, Option<Arc<T>>>> {
        if self.is_foreign() {
            let text = "made by a parent of this process, and in use while it forked";
            return self.inner.try_read().map_err(|_| Error::new(Status::Forked, text));
        }
        Ok(self.inner.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Slots that were freed, the oldest first. A child begins a list of its own.
pub type Freed<T> = PerProcess<Mutex<VecDeque<&'static Slot<T>>>>;

/// The type that a kind of handle has in C.
pub trait Opaque: Sized {
    /// What it stands for.
    type Inner: Send + Sync + 'static;
    /// A number of its own.
    const KIND: u32;
    /// Its name in the header.
    const NAME: &'static str;

    /// Its freed slots.
    fn freed() -> &'static Freed<Self::Inner>;
}

/// Makes a handle.
pub(super) fn make<O: Opaque>(value: O::Inner) -> *mut O {
    let slot = used::<O>().unwrap_or_else(|| {
        let generation = AtomicU32::new(Generation::now().number());
        Box::leak(Box::new(Slot { kind: O::KIND, generation, inner: RwLock::new(None) }))
    });
    *slot.inner.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(value));
    std::ptr::from_ref(slot).cast_mut().cast()
}

/// A slot that was freed long ago.
fn used<O: Opaque>() -> Option<&'static Slot<O::Inner>> {
    let (freed, _) = O::freed().get_or_make(|_| true, || Ok(Mutex::default())).ok()?;
    let mut freed = lock(freed);
    if freed.len() > QUARANTINE { freed.pop_front() } else { None }
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
    let inner = slot_of(handle)?.read()?;
    inner.as_ref().map(look).ok_or_else(stale::<O>)
}

/// Ends a handle; `None` if there is nothing to end. What a parent of this process made is forgotten:
/// to take it apart might wait for a thread that the child does not have.
pub(super) fn take<O: Opaque>(handle: *mut O) -> Option<Arc<O::Inner>> {
    let slot = slot_of(handle.cast_const()).ok()?;
    if slot.is_foreign() {
        let value = slot.inner.try_write().ok().and_then(|mut inner| inner.take());
        let _ = value.map(ManuallyDrop::new);
        return None;
    }
    let value = slot.inner.write().unwrap_or_else(PoisonError::into_inner).take()?;
    if let Ok((freed, _)) = O::freed().get_or_make(|_| true, || Ok(Mutex::default())) {
        lock(freed).push_back(slot);
    }
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
                static FREED: $crate::ffi::handle::Freed<$inner> = $crate::fork::PerProcess::new();
                &FREED
            }
        }
    };
}
pub(super) use opaque;
