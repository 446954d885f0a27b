//! Handles that live, that are freed, and that are something else.

use std::ffi::c_void;
use std::ptr::null_mut;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use portalock::ffi::*;

/// What a handle stands for. Far ones are never used to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ClientOptions,
    LockOptions,
    Client,
    FarClient,
    Lock,
    FarLock,
    Error,
}

impl Kind {
    /// Whether a function that wants the one takes the other.
    fn is_taken_for(self, other: Kind) -> bool {
        use Kind::*;
        let near = |kind| match kind {
            FarClient => Client,
            FarLock => Lock,
            kind => kind,
        };
        near(self) == near(other)
    }
}

struct Handle {
    kind: Kind,
    pointer: *mut c_void,
    live: bool,
}

#[derive(Default)]
pub struct Handles {
    all: Vec<Handle>,
}

impl Handles {
    pub fn keep(&mut self, kind: Kind, pointer: *mut c_void) {
        let others = self.all.iter().filter(|handle| handle.live);
        assert!(others.clone().all(|handle| handle.pointer != pointer), "it is given out twice");
        self.all.push(Handle { kind, pointer, live: true });
    }

    /// Any handle for a function that wants this kind, and whether it is to be accepted.
    pub fn pick(&self, u: &mut Unstructured, kind: Kind) -> Result<(*mut c_void, bool)> {
        let any = match u.arbitrary::<u8>()? {
            0..16 => return Ok((null_mut(), false)),
            16..48 => true,
            _ => false,
        };
        // A far one in the place of a near one would be called.
        let fits = |other: Kind| {
            if any { other == kind || !other.is_taken_for(kind) } else { other == kind }
        };
        let some: Vec<_> = self.all.iter().filter(|handle| fits(handle.kind)).collect();
        if some.is_empty() {
            return Ok((null_mut(), false));
        }
        let handle = u.choose(&some)?;
        Ok((handle.pointer, handle.live && handle.kind == kind))
    }

    /// As `pick`, where none will do.
    pub fn pick_optional(&self, u: &mut Unstructured, kind: Kind) -> Result<(*mut c_void, bool)> {
        let (pointer, live) = self.pick(u, kind)?;
        Ok((pointer, live || pointer.is_null()))
    }

    /// Frees one, perhaps again, and perhaps as what it is not.
    pub fn free_one(&mut self, u: &mut Unstructured) -> Result<()> {
        if self.all.is_empty() {
            return Ok(());
        }
        let at = u.choose_index(self.all.len())?;
        let handle = &mut self.all[at];
        let kinds = [Kind::ClientOptions, Kind::LockOptions, Kind::Client, Kind::Lock, Kind::Error];
        let other = if u.ratio(1, 8)? { *u.choose(&kinds)? } else { handle.kind };
        free(other, handle.pointer);
        handle.live &= !other.is_taken_for(handle.kind);
        Ok(())
    }

    pub fn free_all(&mut self) {
        for handle in &self.all {
            free(handle.kind, handle.pointer);
        }
    }
}

fn free(kind: Kind, pointer: *mut c_void) {
    match kind {
        Kind::ClientOptions => pl_client_options_free(pointer.cast()),
        Kind::LockOptions => pl_lock_options_free(pointer.cast()),
        Kind::Client | Kind::FarClient => pl_client_free(pointer.cast()),
        Kind::Lock | Kind::FarLock => pl_lock_free(pointer.cast()),
        Kind::Error => pl_error_free(pointer.cast()),
    }
}
