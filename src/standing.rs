//! How a lock object stands: what its handle, its acquires and the keeper share.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::broker::Route;
use crate::callback::CallbackSlot;
use crate::client;
use crate::error::{Error, Result, Status};
use crate::events::{Event, EventKind};
use crate::fork::Generation;
use crate::keeper::{Heard, Landlord, Line, Stopped, Verdict, lock};
use crate::lock::Loss;
use crate::options::LockOptions;
use crate::protocol::{HolderId, Names, Stop};
use crate::stats::Counters;

/// A lock's state.
pub(crate) struct Shared {
    pub(crate) client: Arc<client::Shared>,
    pub(crate) names: Arc<Names>,
    pub(crate) options: LockOptions,
    pub(crate) lost: CallbackSlot<Loss>,
    /// What is called at the end of an acquire that was started.
    pub(crate) acquired: CallbackSlot<Result<()>>,
    tag: AtomicUsize,
    closed: AtomicBool,
    held: AtomicBool,
    /// When the lock was last known good.
    verified: Heard,
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct Stage {
    pub(crate) kind: Kind,
    /// The present attempt, so that what an earlier one still brings is not taken for this one's.
    pub(crate) ticket: u64,
    pub(crate) id: Option<HolderId>,
    token: Option<u64>,
    pub(crate) line: Option<Arc<Line>>,
    /// Whether the present attempt was granted: it stays so although the lock may be released or lost
    /// again, by another thread, before the one that acquires it has woken up.
    pub(crate) granted: bool,
    /// How the present attempt has failed, if it has.
    pub(crate) failure: Option<Error>,
    /// How many waiters come first, once that is known.
    pub(crate) ahead: Option<usize>,
    /// The rule for what the server refuses to do about members that do not answer.
    pub(crate) hindrance: Option<&'static str>,
    /// When the present acquire was called.
    pub(crate) begun: Option<Instant>,
    /// Whether somebody came first, or did not answer.
    pub(crate) waited: bool,
    /// Whether somebody has left since the present attempt was told its place in line.
    pub(crate) freed: bool,
    pub(crate) cancelled: bool,
    pub(crate) lookup: Option<Result<Vec<Route>>>,
    departing: Option<u64>,
    /// When the check was sent that came back last.
    checked: Option<Instant>,
    /// How often something has happened that an acquire under way may want to look at. A number, since
    /// the next acquire may begin before the one before has looked.
    pub(crate) changes: u64,
    /// How many threads sleep until something has happened.
    sleepers: usize,
    /// Whoever looks at it, if that is none of those.
    pub(crate) watcher: Option<Arc<dyn Watcher>>,
}

/// Somebody who is to look at a lock's state when it changes. Called with the state locked.
pub(crate) trait Watcher: Send + Sync {
    /// Has it looked at, soon and elsewhere.
    fn wake(&self);
}

#[derive(Default)]
pub(crate) enum Kind {
    #[default]
    Idle,
    Acquiring,
    Held,
    Releasing,
    Lost(Loss),
}

impl Shared {
    pub(crate) fn new(
        client: Arc<client::Shared>,
        names: Arc<Names>,
        options: LockOptions,
    ) -> Self {
        Self {
            client,
            names,
            options,
            lost: CallbackSlot::default(),
            acquired: CallbackSlot::default(),
            tag: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            held: AtomicBool::new(false),
            verified: Heard::new(),
            stage: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn generation(&self) -> Generation {
        self.client.generation()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    pub(crate) fn set_tag(&self, tag: usize) {
        self.tag.store(tag, Ordering::Relaxed);
    }

    pub(crate) fn id(&self) -> Option<HolderId> {
        let stage = self.stage();
        match stage.kind {
            Kind::Acquiring | Kind::Held => stage.id,
            _ => None,
        }
    }

    /// The name of the connection of the acquire under way or held.
    pub(crate) fn client_name(&self) -> Option<String> {
        let id = self.id()?;
        let line = self.stage().line.clone();
        match line.and_then(|line| line.link_id()) {
            Some(link) => Some(Names::link_name(link)),
            None if self.client.heard().is_some() => None,
            None => Some(self.names.client_name(id)),
        }
    }

    pub(crate) fn fencing_token(&self) -> Option<u64> {
        let stage = self.stage();
        stage.token.filter(|_| matches!(stage.kind, Kind::Held))
    }

    pub(crate) fn verified_age(&self) -> Option<Duration> {
        if !self.is_held() {
            return None;
        }
        let own = self.verified.latest();
        let at = self.client.heard().map_or(own, |shared| shared.latest().max(own));
        Some(Instant::now().saturating_duration_since(at))
    }

    /// Has a message sent that has to come back.
    pub(crate) fn verify(&self, until: Instant) -> Result<()> {
        let asked = Instant::now();
        let (line, ticket) = {
            let stage = self.stage();
            match (&stage.kind, &stage.line) {
                (Kind::Held, Some(line)) => (line.clone(), stage.ticket),
                (Kind::Lost(loss), _) => return Err(lost_error(loss)),
                _ => return Err(not_held()),
            }
        };
        line.verify(&self.names);
        let done = |stage: &Stage| {
            !matches!(stage.kind, Kind::Held)
                || stage.ticket != ticket
                || stage.checked.is_some_and(|at| at >= asked)
        };
        let (stage, in_time) = self.wait(self.stage(), Some(until), done);
        match &stage.kind {
            Kind::Held if stage.ticket == ticket && in_time => Ok(()),
            Kind::Held if stage.ticket == ticket => {
                let text = "the server has not confirmed the lock in time; it may be lost";
                Err(Error::new(Status::Timeout, text))
            }
            Kind::Lost(loss) => Err(lost_error(loss)),
            _ => Err(not_held()),
        }
    }

    pub(crate) fn stage(&self) -> MutexGuard<'_, Stage> {
        lock(&self.stage)
    }

    /// Sleeps until `done`, or until then; `false` if the time is up first.
    pub(crate) fn wait<'a>(
        &self,
        mut stage: MutexGuard<'a, Stage>,
        until: Option<Instant>,
        done: impl Fn(&Stage) -> bool,
    ) -> (MutexGuard<'a, Stage>, bool) {
        while !done(&stage) {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return (stage, false);
            }
            stage.sleepers += 1;
            stage = self.sleep(stage, left);
            stage.sleepers -= 1;
        }
        (stage, true)
    }

    fn sleep<'a>(
        &self,
        stage: MutexGuard<'a, Stage>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Stage> {
        match left {
            None => self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                let woken = self.changed.wait_timeout(stage, left);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// This one looks at it no more. Another acquire may have begun, and have a watcher of its own.
    pub(crate) fn unwatch<W: Watcher>(&self, who: *const W) {
        let own = |watcher: &mut Arc<dyn Watcher>| std::ptr::addr_eq(Arc::as_ptr(watcher), who);
        let watcher = self.stage().watcher.take_if(own);
        drop(watcher);
    }

    /// Wakes whoever waits for a change.
    pub(crate) fn notify(&self, stage: &mut Stage) {
        stage.changes += 1;
        self.wake_sleepers(stage);
        if let Some(watcher) = &stage.watcher {
            watcher.wake();
        }
    }

    /// Each time is a system call.
    fn wake_sleepers(&self, stage: &Stage) {
        if stage.sleepers > 0 {
            self.changed.notify_all();
        }
    }

    /// Tells the client's event queue, if it is in use.
    pub(crate) fn report(&self, kind: EventKind) {
        let event = Event {
            kind,
            name: self.names.channel().to_owned(),
            tag: self.tag.load(Ordering::Relaxed),
        };
        self.client.report(event, &self.closed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn cancel(&self) {
        let mut stage = self.stage();
        if let Kind::Acquiring = stage.kind {
            stage.cancelled = true;
            self.notify(&mut stage);
        }
    }

    /// Ends the use of the lock; see [`Lock::close`](crate::Lock::close).
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // First: whoever has started an acquire is not told of the cancelling. Nobody is waited for
        // before the lock is free.
        let acquired = self.acquired.retire();
        self.cancel();
        let _ = self.release();
        self.client.forget_events(self.tag.load(Ordering::Relaxed));
        self.lost.set(None);
        acquired.wait();
    }

    pub(crate) fn release(&self) -> Result<()> {
        let (line, ticket) = {
            let mut stage = self.stage();
            match &stage.kind {
                Kind::Held => {}
                Kind::Lost(_) => return Err(stage.take_loss()),
                _ => return Err(not_held()),
            }
            stage.kind = Kind::Releasing;
            stage.departing = Some(stage.ticket);
            self.held.store(false, Ordering::Release);
            self.client.counters().holds_no_more();
            (stage.line.take(), stage.ticket)
        };
        let names = &self.names;
        let stopped = line.as_ref().map(|line| line.stop(names, ticket, Stop::Release));
        if let (Some(line), Some(Stopped::Held)) = (line, stopped) {
            self.client.give_back(line);
        }
        let mut stage = self.stage();
        match stage.kind {
            Kind::Releasing if stage.ticket == ticket => {
                stage.kind = Kind::Idle;
                log::info!(
                    channel = self.names.channel(), holder:% = Or(stage.id), state = "released";
                    "released"
                );
                Ok(())
            }
            Kind::Lost(_) if stage.ticket == ticket => Err(stage.take_loss()),
            // It was lost just now, and another thread has acquired it anew.
            _ => Err(Error::new(Status::Lost, "the lock was lost while it was released")),
        }
    }

    pub(crate) fn await_departure(&self, until: Instant) -> Result<()> {
        let done = |stage: &Stage| stage.departing.is_none();
        let (_stage, departed) = self.wait(self.stage(), Some(until), done);
        match departed {
            true => Ok(()),
            false => {
                let text = "the server has not confirmed the release in time";
                Err(Error::new(Status::Timeout, text))
            }
        }
    }
}

impl Stage {
    /// Whether this attempt was granted. Nobody else begins one before it has ended, so whatever has
    /// come after it came after its grant.
    pub(crate) fn has_granted(&self, ticket: u64) -> bool {
        self.granted || self.ticket != ticket
    }

    /// How long the present acquire has had to wait, if it had to.
    fn wait(&self) -> Option<Duration> {
        self.begun.filter(|_| self.waited).map(|begun| begun.elapsed())
    }

    /// Counts the end of an acquire that was not granted.
    pub(crate) fn failed(&self, status: Status, counters: &Counters) {
        if let Kind::Acquiring = self.kind {
            // Whoever gives up at once has not waited.
            let waited = self.wait().filter(|_| status != Status::Locked);
            counters.ends(status, waited);
        }
    }

    fn take_loss(&mut self) -> Error {
        match std::mem::take(&mut self.kind) {
            Kind::Lost(loss) => lost_error(&loss),
            _ => Error::new(Status::Lost, "the lock was lost"),
        }
    }
}

/// An id for the log.
pub(crate) struct Or(pub(crate) Option<HolderId>);

impl fmt::Display for Or {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, "{id}"),
            None => f.write_str("-"),
        }
    }
}

fn lost_error(loss: &Loss) -> Error {
    Error::new(Status::Lost, format!("the lock was lost: {}", loss.message))
}

fn not_held() -> Error {
    Error::new(Status::NotHeld, "the lock is not held")
}

impl Landlord for Shared {
    fn hear(&self, ticket: u64, verdict: Verdict) {
        let counters = self.client.counters();
        if let Verdict::Reaped(_) = verdict {
            counters.reaped(1);
        }
        let mut stage = self.stage();
        if let Verdict::Departed = verdict {
            if stage.departing == Some(ticket) {
                stage.departing = None;
                self.wake_sleepers(&stage);
            }
            return;
        }
        if stage.ticket != ticket {
            return;
        }
        match verdict {
            Verdict::Granted { id, token } => {
                stage.kind = Kind::Held;
                stage.id = Some(id);
                stage.granted = true;
                stage.token = token;
                stage.checked = None;
                self.held.store(true, Ordering::Release);
                let waited = stage.wait();
                counters.ends(Status::Ok, waited);
                counters.holds(stage.freed);
                let waited_ms = waited.map_or(0, |wait| wait.as_millis());
                log::info!(
                    channel = self.names.channel(), holder:% = id, state = "held", waited_ms;
                    "acquired"
                );
            }
            Verdict::Queued(ahead) => {
                stage.ahead = Some(ahead);
                (stage.waited, stage.freed) = (true, false);
                log::debug!(
                    channel = self.names.channel(), holder:% = Or(stage.id), state = "waiting", ahead;
                    "others come first"
                );
            }
            Verdict::Unanswered => {
                stage.waited = true;
                return;
            }
            Verdict::Hindered(rule) => {
                stage.hindrance = Some(rule);
                return;
            }
            Verdict::Freed => {
                stage.freed = stage.ahead.is_some();
                return;
            }
            Verdict::Failed(error) => stage.failure = Some(error),
            Verdict::Lost(loss) => {
                self.held.store(false, Ordering::Release);
                counters.lost();
                log::error!(
                    channel = self.names.channel(), holder:% = Or(stage.id), state = "lost",
                    reason:? = loss.reason;
                    "the lock is lost: {}", loss.message
                );
                if let Kind::Held = stage.kind {
                    counters.holds_no_more();
                }
                stage.line = None;
                stage.departing = None;
                stage.kind = Kind::Lost(loss.clone());
                self.report(EventKind::Lost(loss.clone()));
                self.lost.fire(loss);
            }
            Verdict::Checked(sent) => {
                stage.checked = Some(sent);
                log::debug!(
                    channel = self.names.channel(), holder:% = Or(stage.id), state = "held";
                    "a check has come back"
                );
            }
            Verdict::Reaped(whom) => {
                return self.report(EventKind::Reaped(whom.map(|id| id.to_string())));
            }
            Verdict::Departed => {}
        }
        self.notify(&mut stage);
    }

    fn verified(&self, at: Instant) {
        self.verified.note(at);
    }
}
