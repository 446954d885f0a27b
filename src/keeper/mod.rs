//! The keep-alive thread: one per process, for any number of connections.
//!
//! It sleeps until a socket or a timer needs it, and then lets the [`Line`] in question do its work.
//! A calling thread may do the same work on its own line while it waits for a first answer, which
//! saves two thread switches; a line's mutex decides who does.

mod bell;
mod berth;
mod claim;
mod dispatch;
mod heard;
mod line;
mod pulse;
mod room;
mod tenant;

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use polling::{Event, Events, PollMode, Poller};

use crate::broker::Sockets;
use crate::error::{Error, Result, Status};
use crate::fork::PerProcess;
pub(crate) use crate::mutex::lock;

pub(crate) use bell::Bell;
#[cfg(feature = "simulation")]
pub(crate) use berth::Berth;
pub(crate) use berth::Stopped;
pub(crate) use claim::{Landlord, Verdict};
pub(crate) use dispatch::{dispatch, on_dispatch_thread};
pub(crate) use heard::Heard;
pub(crate) use line::{Attempt, Line, Sharing};
pub(crate) use tenant::{Tenant, unix_ms};

/// Starts a thread of the library's own. Signals are the application's: none is handled on it.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    // SAFETY: plain calls on local signal sets; the old mask is put back at once.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut old = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        let started = thread::Builder::new().name(name.to_owned()).spawn(work);
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
        started.map(drop)
    }
}

fn no_keeper(error: std::io::Error) -> Error {
    Error::new(Status::Internal, format!("no keep-alive thread: {error}"))
}

/// What the keep-alive thread looks after.
pub(crate) trait Task: Send + Sync {
    /// Its socket has shown a sign of life (`fired`), or its timer is due.
    fn attend(&self, fired: bool);
    /// It is looked after no more, because the library itself has failed.
    fn abandon(&self, why: &str);
}

/// The thread's shared side.
pub(crate) struct Keeper {
    poller: Poller,
    tasks: Mutex<HashMap<usize, Arc<dyn Task>>>,
    timers: Mutex<Timers>,
    next_key: AtomicUsize,
    epoch: Instant,
    begun: AtomicBool,
    dead: AtomicBool,
}

/// What is due later than this may be late by [`GRID`]: so that many health checks share a wake-up.
const FAR: Duration = Duration::from_secs(1);
const GRID: Duration = Duration::from_millis(100);

/// When which line wants to be visited.
#[derive(Default)]
struct Timers {
    due: BTreeSet<(Instant, usize)>,
    /// How long the thread sleeps if nothing else wakes it; `None` for ever.
    sleeps_until: Option<Instant>,
}

static KEEPER: PerProcess<Arc<Keeper>> = PerProcess::new();

impl Keeper {
    /// The keeper of this process, at work.
    pub(crate) fn get() -> Result<Arc<Self>> {
        let keeper = Self::get_soon()?;
        keeper.begin()?;
        Ok(keeper)
    }

    /// The keeper of this process, which may have to [`begin`](Self::begin) yet.
    pub(crate) fn get_soon() -> Result<Arc<Self>> {
        let alive = |keeper: &Arc<Self>| !keeper.dead.load(Ordering::Acquire);
        KEEPER.get_or_make(alive, Self::new).map(|(keeper, _)| keeper.clone())
    }

    /// Starts the thread, unless it has been started.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<()> {
        if self.begun.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let own = self.clone();
        spawn("portalock-keep", move || own.work()).map_err(|error| {
            let error = no_keeper(error);
            self.die(error.message());
            error
        })
    }

    fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            poller: Poller::new().map_err(no_keeper)?,
            tasks: Mutex::default(),
            timers: Mutex::default(),
            next_key: AtomicUsize::new(0),
            epoch: Instant::now(),
            begun: AtomicBool::new(false),
            dead: AtomicBool::new(false),
        }))
    }

    pub(crate) fn new_key(&self) -> usize {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a line in. Its sockets are polled from its first [`arm`](Self::arm) on.
    pub(crate) fn adopt(&self, line: &Arc<Line>, sockets: &Sockets) -> std::io::Result<()> {
        for (socket, ()) in sockets.with([(); 2]) {
            // SAFETY: the line keeps its sockets until `dismiss` has taken them out of the poller.
            unsafe {
                self.poller.add_with_mode(socket, Event::none(line.key()), PollMode::Oneshot)?;
            }
        }
        self.take_on(line.key(), line.clone());
        Ok(())
    }

    /// Takes on something that has no socket.
    pub(crate) fn take_on(&self, key: usize, task: Arc<dyn Task>) {
        lock(&self.tasks).insert(key, task);
    }

    /// Lets go of a task; its timer has to be taken back first.
    pub(crate) fn let_go(&self, key: usize) {
        let task = lock(&self.tasks).remove(&key);
        drop(task);
    }

    /// Wakes the keeper at the next sign of life of any of the sockets, once.
    pub(crate) fn arm(
        &self,
        key: usize,
        sockets: &Sockets,
        write: [bool; 2],
    ) -> std::io::Result<()> {
        self.watch(sockets, write.map(|write| Event::new(key, true, write)))
    }

    /// Takes [`arm`](Self::arm) back.
    pub(crate) fn disarm(&self, key: usize, sockets: &Sockets) -> std::io::Result<()> {
        self.watch(sockets, [Event::none(key), Event::none(key)])
    }

    fn watch(&self, sockets: &Sockets, events: [Event; 2]) -> std::io::Result<()> {
        let mut watched = sockets.with(events);
        watched.try_for_each(|(socket, event)| {
            self.poller.modify_with_mode(socket, event, PollMode::Oneshot)
        })
    }

    /// Lets go of a line.
    pub(crate) fn dismiss(&self, key: usize, sockets: &Sockets, timer: Option<Instant>) {
        for (socket, ()) in sockets.with([(); 2]) {
            let _ = self.poller.delete(socket);
        }
        self.reschedule(key, timer, None);
        self.let_go(key);
    }

    /// When to look after what is due then, which may be a little later if that is far off.
    pub(crate) fn roughly(&self, due: Instant) -> Instant {
        if due < Instant::now() + FAR {
            return due;
        }
        let since = due.saturating_duration_since(self.epoch).as_millis();
        let ticks = since / GRID.as_millis() + 1;
        u32::try_from(ticks)
            .ok()
            .and_then(|ticks| self.epoch.checked_add(GRID * ticks))
            .unwrap_or(due)
    }

    /// Moves a line's timer.
    pub(crate) fn reschedule(&self, key: usize, old: Option<Instant>, new: Option<Instant>) {
        if old == new {
            return;
        }
        let mut timers = lock(&self.timers);
        if let Some(old) = old {
            timers.due.remove(&(old, key));
        }
        let Some(new) = new else {
            return;
        };
        timers.due.insert((new, key));
        let oversleeps = timers.sleeps_until.is_none_or(|until| new < until);
        if oversleeps {
            timers.sleeps_until = Some(new);
        }
        drop(timers);
        if oversleeps {
            let _ = self.poller.notify();
        }
    }

    fn work(&self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.serve()));
        let why = match outcome {
            Ok(error) => format!("the keep-alive thread cannot poll: {error}"),
            Err(_) => "the keep-alive thread panicked".to_owned(),
        };
        log::error!("{why}; every lock it kept is lost");
        self.die(&why);
    }

    fn die(&self, why: &str) {
        self.dead.store(true, Ordering::Release);
        let tasks: Vec<_> = lock(&self.tasks).values().cloned().collect();
        for task in tasks {
            task.abandon(why);
        }
    }

    fn serve(&self) -> std::io::Error {
        let mut events = Events::new();
        loop {
            events.clear();
            let timeout = self.sleep_span();
            match self.poller.wait(&mut events, timeout) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return error,
            }
            for event in events.iter() {
                self.attend(event.key, true);
            }
            for key in self.due() {
                self.attend(key, false);
            }
        }
    }

    fn sleep_span(&self) -> Option<Duration> {
        let mut timers = lock(&self.timers);
        let now = Instant::now();
        // A lock that is taken and left over and over sets a far timer and takes it back each time:
        // to wake once for one that is gone is cheaper than to be woken for each that comes.
        let stale = timers.sleeps_until.filter(|until| *until > now);
        let first = timers.due.first().map(|(at, _)| *at);
        timers.sleeps_until = [stale, first].into_iter().flatten().min();
        timers.sleeps_until.map(|at| at.saturating_duration_since(now))
    }

    fn due(&self) -> Vec<usize> {
        let now = Instant::now();
        let timers = lock(&self.timers);
        timers.due.iter().take_while(|(at, _)| *at <= now).map(|(_, key)| *key).collect()
    }

    /// A panic costs the one task it happened on.
    fn attend(&self, key: usize, fired: bool) {
        let task = lock(&self.tasks).get(&key).cloned();
        let Some(task) = task else {
            return;
        };
        if catch_unwind(AssertUnwindSafe(|| task.attend(fired))).is_err() {
            log::error!("a fault of the library ended one connection");
            task.abandon("a fault of the library ended the connection");
        }
    }
}
