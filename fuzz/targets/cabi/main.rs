//! Every function of the C ABI takes whatever it is given, in any order: values, strings, no pointers
//! at all, handles that were freed or are of another kind. There is no server.
#![no_main]

mod handles;
mod values;

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{from_mut, null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use handles::{Handles, Kind};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use portalock::ffi::*;

fuzz_target!(|data: &[u8]| {
    let mut world = World::default();
    let _ = world.run(&mut Unstructured::new(data));
    world.handles.free_all();
    assert_eq!(world.callbacks, DROPS.swap(0, Ordering::SeqCst), "drop is called exactly once");
});

static DROPS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_lost(_: *mut c_void, _: *const pl_loss) {
    panic!("lost, without a server");
}

extern "C" fn on_log(_: *mut c_void, _: pl_log_level, message: *const c_char) {
    // SAFETY: the library promises a string.
    assert!(unsafe { CStr::from_ptr(message) }.to_str().is_ok());
}

extern "C" fn on_drop(_: *mut c_void) {
    DROPS.fetch_add(1, Ordering::SeqCst);
}

/// Where a call is to put its error, or nowhere.
struct Place {
    error: *mut pl_error,
    wanted: bool,
}

const POISON: *mut pl_error = 16 as *mut pl_error;

impl Place {
    fn pick(u: &mut Unstructured) -> Result<Self> {
        Ok(Self { error: POISON, wanted: !u.ratio(1, 8)? })
    }

    fn pointer(&mut self) -> *mut *mut pl_error {
        if self.wanted { &raw mut self.error } else { null_mut() }
    }
}

#[derive(Default)]
struct World {
    handles: Handles,
    callbacks: usize,
}

impl World {
    fn run(&mut self, u: &mut Unstructured) -> Result<()> {
        while !u.is_empty() {
            match u.int_in_range(0..=25u8)? {
                0 => {
                    self.make(u, Kind::ClientOptions, |at, e| pl_client_options_new(at.cast(), e))?
                }
                1 => self.make(u, Kind::LockOptions, |at, e| pl_lock_options_new(at.cast(), e))?,
                2..=4 => self.set_client_option(u)?,
                5..=9 => self.set_lock_option(u)?,
                10 | 11 => self.new_client(u)?,
                12..=14 => self.new_lock(u)?,
                15 | 16 => self.use_lock(u)?,
                17 => self.read_lock(u)?,
                18 => self.on_lost(u)?,
                19 => self.ask_nobody(u)?,
                20 => self.look_at_holders(u)?,
                21 => self.log(u)?,
                22 => self.look_at_error(u)?,
                23 => self.look_at_stats(u)?,
                _ => self.handles.free_one(u)?,
            }
        }
        Ok(())
    }

    /// What every call has to keep to: the status is a known one, and the error says the same.
    fn judge(&mut self, status: pl_status, place: Place) {
        assert!((PL_OK..=PL_TLS).contains(&status), "status {status}");
        if !place.wanted {
            return assert_eq!(place.error, POISON);
        }
        assert_eq!(place.error.is_null(), status == PL_OK);
        if status != PL_OK {
            self.judge_error(place.error, status);
            self.handles.keep(Kind::Error, place.error.cast());
        }
    }

    fn judge_error(&self, error: *const pl_error, status: pl_status) {
        assert_eq!(pl_error_status(error), status);
        let message = text(pl_error_message(error));
        assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
        assert!(!message.contains(values::SECRET), "{message:?}");
        assert_ne!(status, PL_INTERNAL, "{message}");
    }

    fn settle(&mut self, status: pl_status, place: Place, wanted: pl_status) {
        assert_eq!(status, wanted);
        self.judge(status, place);
    }

    fn make(
        &mut self,
        u: &mut Unstructured,
        kind: Kind,
        new: impl FnOnce(*mut *mut c_void, *mut *mut pl_error) -> pl_status,
    ) -> Result<()> {
        let (mut place, mut made) = (Place::pick(u)?, null_mut::<c_void>());
        let nowhere = u.ratio(1, 16)?;
        let at = if nowhere { null_mut() } else { from_mut(&mut made) };
        let status = new(at, place.pointer());
        assert_eq!(made.is_null(), status != PL_OK, "outputs are written on PL_OK only");
        assert!(!nowhere || status == PL_INVALID);
        if !made.is_null() {
            self.handles.keep(kind, made);
        }
        self.judge(status, place);
        Ok(())
    }

    fn set_client_option(&mut self, u: &mut Unstructured) -> Result<()> {
        let (handle, live) = self.handles.pick(u, Kind::ClientOptions)?;
        let (options, mut place) = (handle.cast(), Place::pick(u)?);
        let (ms, size, yes) = (values::ms(u)?, values::size(u)?, u.arbitrary()?);
        let at = place.pointer();
        let (status, fine) = match u.int_in_range(0..=2u8)? {
            0 => (pl_client_options_set_connect_timeout(options, ms, at), values::is_span(ms, 1)),
            1 => (pl_client_options_set_pool_size(options, size, at), size <= 1024),
            _ => (pl_client_options_set_shared_connection(options, yes, at), true),
        };
        self.settle(status, place, if live && fine { PL_OK } else { PL_INVALID });
        Ok(())
    }

    fn set_lock_option(&mut self, u: &mut Unstructured) -> Result<()> {
        let (handle, live) = self.handles.pick(u, Kind::LockOptions)?;
        let (options, mut place) = (handle.cast(), Place::pick(u)?);
        let (which, ms) = (u.int_in_range(0..=8u8)?, values::ms(u)?);
        let (yes, label) = (u.arbitrary()?, values::label(u)?);
        let at = place.pointer();
        let (status, fine) = match which {
            0 => (
                pl_lock_options_set_mode(options, ms as pl_mode, at),
                [PL_MODE_SHARED, PL_MODE_EXCLUSIVE].contains(&(ms as pl_mode)),
            ),
            1 => (
                pl_lock_options_set_timeout(options, ms, at),
                values::is_span(ms, 0) || ms == PL_WAIT_FOREVER,
            ),
            2 => (pl_lock_options_set_check_interval(options, ms, at), values::is_span(ms, 1)),
            3 => (pl_lock_options_set_unavailable_timeout(options, ms, at), values::is_span(ms, 1)),
            4 => (
                pl_lock_options_set_health_check_interval(options, ms, at),
                ms == 0 || values::is_span(ms, 100),
            ),
            5 => (pl_lock_options_set_fencing(options, yes, at), true),
            6 => (pl_lock_options_set_fail_when_locked(options, yes, at), true),
            7 => (pl_lock_options_set_disclose(options, yes, at), true),
            _ => (pl_lock_options_set_label(options, label.pointer(), at), label.is_text(0, 256)),
        };
        self.settle(status, place, if live && fine { PL_OK } else { PL_INVALID });
        Ok(())
    }

    fn new_client(&mut self, u: &mut Unstructured) -> Result<()> {
        let (options, live) = self.handles.pick_optional(u, Kind::ClientOptions)?;
        // Nobody is called whose address was made up: only these clients are used.
        let usable = u.arbitrary()?;
        let url = if usable { values::Text::of(values::NOWHERE) } else { values::url(u)? };
        let kind = if usable { Kind::Client } else { Kind::FarClient };
        self.make(u, kind, |at, e| {
            let status = pl_client_new(url.pointer(), options.cast(), at.cast(), e);
            assert!(live || status != PL_OK, "made with options that are none");
            assert!(!usable || !live || at.is_null() || status == PL_OK);
            status
        })
    }

    fn new_lock(&mut self, u: &mut Unstructured) -> Result<()> {
        let far = u.ratio(1, 4)?;
        let (from, to) =
            if far { (Kind::FarClient, Kind::FarLock) } else { (Kind::Client, Kind::Lock) };
        let (client, client_lives) = self.handles.pick(u, from)?;
        let (options, options_live) = self.handles.pick_optional(u, Kind::LockOptions)?;
        let name = values::name(u)?;
        let fine = client_lives && options_live && name.is_lock_name();
        self.make(u, to, |at, e| {
            let status = pl_lock_new(client.cast(), name.pointer(), options.cast(), at.cast(), e);
            let wanted = if fine && !at.is_null() { PL_OK } else { PL_INVALID };
            assert_eq!(status, wanted, "{name:?}");
            status
        })
    }

    /// Nothing listens where these locks' clients look.
    fn use_lock(&mut self, u: &mut Unstructured) -> Result<()> {
        let (handle, live) = self.handles.pick(u, Kind::Lock)?;
        let (lock, mut place) = (handle.cast(), Place::pick(u)?);
        let (which, mode, ms) = (u.int_in_range(0..=6u8)?, values::ms(u)?, values::ms(u)?);
        // One attempt, or none at all.
        let ms = if ms > 0 { ms.saturating_add(1 << 60) } else { ms };
        let ms = if ms == PL_WAIT_FOREVER || ms == PL_DEFAULT { 0 } else { ms };
        let at = place.pointer();
        let (status, fine) = match which {
            0 => (pl_lock_acquire(lock, ms, at), ms == 0),
            1 => (pl_lock_try_acquire(lock, at), true),
            2 => (pl_lock_acquire_shared(lock, ms, at), ms == 0),
            3 => (pl_lock_try_acquire_shared(lock, at), true),
            4 => (
                pl_lock_acquire_mode(lock, mode as pl_mode, ms, at),
                ms == 0 && (1..=2).contains(&(mode as pl_mode)),
            ),
            5 => (pl_lock_release(lock, at), true),
            _ => (pl_lock_release_wait(lock, mode, at), values::is_span(mode, 0)),
        };
        let nobody = if which < 5 { PL_UNREACHABLE } else { PL_NOT_HELD };
        self.settle(status, place, if live && fine { nobody } else { PL_INVALID });
        pl_lock_cancel(lock);
        Ok(())
    }

    fn read_lock(&mut self, u: &mut Unstructured) -> Result<()> {
        let kind = if u.arbitrary()? { Kind::Lock } else { Kind::FarLock };
        let (handle, live) = self.handles.pick(u, kind)?;
        let (lock, mut place) = (handle.cast::<pl_lock>(), Place::pick(u)?);
        assert!(!pl_lock_is_held(lock));
        assert_eq!(text(pl_lock_name(lock)).is_empty(), !live);
        let (mut buffer, mut token) = ([7 as c_char; 64], 7u64);
        let size = u.int_in_range(0..=64usize)?;
        let to = if u.ratio(1, 8)? { null_mut() } else { buffer.as_mut_ptr() };
        let at = place.pointer();
        let status = match u.int_in_range(0..=2u8)? {
            0 => pl_lock_holder_id(lock, to, size, at),
            1 => pl_lock_client_name(lock, to, size, at),
            _ if to.is_null() => pl_lock_fencing_token(lock, null_mut(), at),
            _ => pl_lock_fencing_token(lock, &raw mut token, at),
        };
        let fine = live && !to.is_null();
        self.settle(status, place, if fine { PL_NOT_HELD } else { PL_INVALID });
        assert!(token == 7 && buffer == [7; 64], "outputs are written on PL_OK only");
        Ok(())
    }

    fn on_lost(&mut self, u: &mut Unstructured) -> Result<()> {
        let (handle, live) = self.handles.pick(u, Kind::Lock)?;
        let mut place = Place::pick(u)?;
        let callback = pl_lost_callback {
            context: null_mut(),
            call: if u.arbitrary()? { Some(on_lost) } else { None },
            drop: if u.arbitrary()? { Some(on_drop) } else { None },
        };
        self.callbacks += usize::from(callback.drop.is_some());
        let status = pl_lock_on_lost(handle.cast(), callback, place.pointer());
        self.settle(status, place, if live { PL_OK } else { PL_INVALID });
        Ok(())
    }

    fn ask_nobody(&mut self, u: &mut Unstructured) -> Result<()> {
        let (handle, live) = self.handles.pick(u, Kind::Client)?;
        let (client, mut place) = (handle.cast::<pl_client>(), Place::pick(u)?);
        let (name, ms) = (values::name(u)?, values::ms(u)?);
        let (mut holders, mut rtt, mut alive) = (null_mut(), 7, 7);
        let at = place.pointer();
        let status = match u.int_in_range(0..=2u8)? {
            0 => pl_client_ping(client, ms, &raw mut rtt, at),
            1 => pl_probe_holders(client, name.pointer(), ms, &raw mut holders, at),
            _ => pl_reap_silent(client, name.pointer(), ms, &raw mut alive, null_mut(), at),
        };
        assert_ne!(status, PL_OK);
        assert!(live || status == PL_INVALID);
        assert!(holders.is_null() && rtt == 7 && alive == 7, "outputs are written on PL_OK only");
        self.judge(status, place);
        Ok(())
    }

    /// There are no lists without a server.
    fn look_at_holders(&mut self, u: &mut Unstructured) -> Result<()> {
        let (handle, _) = self.handles.pick(u, Kind::Error)?;
        let holders = handle.cast::<pl_holders>();
        assert_eq!(pl_holders_count(holders), 0);
        assert!(pl_holders_at(holders, u.arbitrary()?).is_null());
        pl_holders_free(holders);
        Ok(())
    }

    /// Nothing is counted without a server but what fails.
    fn look_at_stats(&mut self, u: &mut Unstructured) -> Result<()> {
        let (handle, live) = self.handles.pick(u, Kind::Client)?;
        let (mut place, mut stats) = (Place::pick(u)?, null_mut());
        let status = pl_client_stats(handle.cast(), &raw mut stats, place.pointer());
        self.settle(status, place, if live { PL_OK } else { PL_INVALID });
        assert_eq!(stats.is_null(), !live);
        let (which, index, percent) = (u.arbitrary()?, u.arbitrary()?, u.arbitrary()?);
        let value = pl_stats_value(stats, which);
        assert!(value == 0 || which == PL_STAT_FAILED, "{which}: {value}");
        assert_eq!(pl_stats_wait_percentile_us(stats, percent), 0);
        let within = index < pl_stats_wait_buckets(stats);
        assert_eq!(pl_stats_wait_bound_us(stats, index) > 0, within);
        assert_eq!(pl_stats_wait_bucket(stats, index), 0);
        assert_eq!(pl_stat_name(which).is_null(), !(1..=15).contains(&which));
        pl_stats_free(stats);
        pl_stats_free(stats);
        Ok(())
    }

    fn log(&mut self, u: &mut Unstructured) -> Result<()> {
        let (level, mut place) = (values::ms(u)? as pl_log_level, Place::pick(u)?);
        let call: Option<extern "C" fn(*mut c_void, pl_log_level, *const c_char)> =
            if u.arbitrary()? { Some(on_log) } else { None };
        let handler = pl_log_handler { context: null_mut(), call, drop: None };
        let status = pl_set_log_handler(level, handler, place.pointer());
        let fine = (PL_LOG_OFF..=PL_LOG_DEBUG).contains(&level);
        self.settle(status, place, if fine { PL_OK } else { PL_INVALID });
        Ok(())
    }

    fn look_at_error(&mut self, u: &mut Unstructured) -> Result<()> {
        let (handle, live) = self.handles.pick(u, Kind::Error)?;
        let error = handle.cast::<pl_error>();
        let status = pl_error_status(error);
        assert_eq!(status, if handle.is_null() { PL_OK } else { status });
        assert_eq!(text(pl_error_message(error)).is_empty(), !live);
        let _ = pl_error_retryable(error);
        assert!(!text(pl_status_name(values::ms(u)? as pl_status)).is_empty());
        assert!(!text(pl_version()).is_empty());
        assert!(pl_error_message(null()) as usize != 0);
        Ok(())
    }
}

fn text<'a>(pointer: *const c_char) -> &'a str {
    // SAFETY: what the library returns is never NULL, and is a string.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
}
