//! An acquire at work: attempts until one is granted, the time is up, or it is no use. It never waits
//! itself; the calling thread does, or the keeper comes back to it (`Chase`).

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::broker::Route;
use crate::callback::{AcquiredCallback, Callback, fire_once};
use crate::disclosure;
use crate::error::{Error, Result, Status};
use crate::events::EventKind;
use crate::keeper::{Attempt, Bell, Keeper, Line, Stopped, Task, Tenant, lock};
use crate::options::Wait;
use crate::protocol::{Contender, Mode, Names, Stop, Timing};
use crate::pursuit::{Next, Pursuit, is_passing, worth_another};
use crate::stamp::Stamp;
use crate::standing::{Kind, Or, Shared, Stage, Watcher};

/// How long the calling thread serves its own connection before it leaves it to the keeper, where it does
/// not go on doing so.
const DRIVE: Duration = Duration::from_millis(3);
/// Between two counts, for the first in line: so that it sends no more than 50 commands a second, with all
/// else that it sends.
const COUNT_EVERY: Duration = Duration::from_millis(22);
/// How long the first ping waits for its answers.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// No two attempts have the same ticket, of whichever locks: they meet on pooled connections.
static NEXT_TICKET: AtomicU64 = AtomicU64::new(1);

/// One call to acquire.
pub(crate) struct Acquire {
    shared: Arc<Shared>,
    mode: Mode,
    pursuit: Pursuit,
    /// What its ids are ordered by.
    begun: Stamp,
    /// Which of the server's addresses to try next.
    turn: usize,
    /// Whether it is known that each connection takes two, for the server speaks RESP2 only.
    resp2: bool,
    /// How often it may still go on at once where a cluster sends it elsewhere.
    hops: u8,
    /// The kind of trouble that was reported last.
    trouble: Option<Status>,
    /// Up to which change of the lock's state this has looked.
    seen: u64,
    doing: Doing,
}

/// What an acquire is at.
enum Doing {
    /// About to try.
    Starting,
    /// The server's name is being looked up, until then at the most.
    LookingUp(Instant),
    /// An attempt is under way.
    Trying { ticket: u64, line: Arc<Line>, at_once: bool },
    /// There is to be another attempt, not before then.
    Resting(Instant),
}

/// Who does the work of the connection while an attempt is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Service {
    /// The keeper.
    Keeper,
    /// The calling thread, as long as a first answer takes where it is quick.
    Brief,
    /// The calling thread, to the end.
    Whole,
}

/// What came of looking at an acquire.
enum Poll {
    /// Look again when there is news, or then.
    Pending(Option<Instant>),
    /// It has ended.
    Ready(Result<()>),
}

/// How an attempt failed.
struct Failure {
    error: Error,
    /// Whether there is a reason to try again at once: another address, or a connection that was
    /// merely stale.
    at_once: bool,
}

impl Acquire {
    /// Claims the lock object.
    pub(crate) fn begin(shared: &Arc<Shared>, mode: Mode, wait: Wait) -> Result<Self> {
        let options = &shared.options;
        let wait = match wait {
            _ if options.fail_when_locked => Wait::Once,
            Wait::Default => options.wait,
            wait => wait,
        };
        let patience =
            shared.client.connect_timeout().saturating_add(options.unavailable_timeout * 2);
        let now = Instant::now();
        let pursuit = Pursuit::new(wait, patience, now);
        let mut stage = shared.stage();
        if shared.is_closed() {
            return Err(Error::new(Status::Invalid, "the lock was closed before"));
        }
        if !matches!(stage.kind, Kind::Idle | Kind::Lost(_)) {
            let text = "this lock object is in use already; locks are not reentrant";
            return Err(Error::new(Status::Active, text));
        }
        stage.kind = Kind::Acquiring;
        stage.cancelled = false;
        stage.id = None;
        stage.begun = Some(now);
        stage.waited = false;
        drop(stage);
        shared.client.counters().begins();
        Ok(Self {
            shared: shared.clone(),
            mode,
            pursuit,
            begun: Stamp::draw(),
            turn: 0,
            resp2: shared.client.speaks_resp2(),
            hops: shared.client.hops(),
            trouble: None,
            seen: 0,
            doing: Doing::Starting,
        })
    }

    /// Tries until it is granted or hopeless, in the calling thread.
    pub(crate) fn run(mut self) -> Result<()> {
        let shared = self.shared.clone();
        loop {
            let until = match self.poll(Service::Whole) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending(until) => until,
            };
            drop(shared.wait(shared.stage(), until, |stage| stage.changes != self.seen));
        }
    }

    /// Lets the keeper try. What comes of it is told to the callback that was set, or to the client's
    /// event queue.
    pub(crate) fn start(self, done: Option<AcquiredCallback>) -> Result<()> {
        let keeper = match Keeper::get() {
            Ok(keeper) => keeper,
            Err(error) => return self.end(Err(error)),
        };
        let shared = self.shared.clone();
        let key = keeper.new_key();
        let done = done.map(|call| shared.acquired.add(call));
        // Whoever closes the lock meanwhile may have looked before it was there.
        done.iter().filter(|_| shared.is_closed()).for_each(|done| done.retire());
        let chase = Arc::new(Chase {
            key,
            keeper,
            done,
            acquire: Mutex::new(Some(self)),
            timer: Mutex::new(None),
        });
        chase.keeper.take_on(key, chase.clone());
        let mut stage = shared.stage();
        // It may have been cancelled, by another thread, before there was anybody to be woken.
        stage.watcher = Some(chase.clone());
        chase.wake();
        Ok(())
    }

    /// As [`start`](Self::start) without a callback, and works on it in the calling thread first, as long
    /// as a first answer takes where it is quick. `true` if the lock is held with that, `false` if it is
    /// under way: its end is told only then.
    pub(crate) fn start_here(mut self) -> Result<bool> {
        match self.poll(Service::Brief) {
            Poll::Ready(outcome) => outcome.map(|()| true),
            Poll::Pending(_) => self.start(None).map(|()| false),
        }
    }

    /// Goes on as far as that is possible without waiting for anything but its own connection.
    fn poll(&mut self, service: Service) -> Poll {
        self.seen = self.shared.stage().changes;
        loop {
            let now = Instant::now();
            let step = match &self.doing {
                Doing::Starting => self.attempt(service),
                Doing::LookingUp(until) => match self.looked_up(*until, now) {
                    None => return Poll::Pending(Some(*until)),
                    Some(found) => self.dial(found, service),
                },
                Doing::Trying { ticket, line, at_once } => {
                    match self.conclude(*ticket, line, *at_once, now) {
                        None => return Poll::Pending(self.pursuit.deadline()),
                        Some(Ok(())) => return Poll::Ready(self.end(Ok(()))),
                        Some(Err(failure)) => Err(failure),
                    }
                }
                Doing::Resting(until) => {
                    let until = self.pursuit.bounded(*until);
                    match self.rested(until, now) {
                        None => return Poll::Pending(Some(until)),
                        Some(Ok(())) => Ok(Doing::Starting),
                        Some(Err(error)) => return Poll::Ready(self.end(Err(error))),
                    }
                }
            };
            self.doing = match step {
                Ok(doing) => doing,
                Err(failure) => match self.failed(failure) {
                    Next::Retry(at) => Doing::Resting(at),
                    Next::End(error) => return Poll::Ready(self.end(Err(error))),
                },
            };
        }
    }

    /// Whether to try again; `None` for not yet.
    fn rested(&mut self, until: Instant, now: Instant) -> Option<Result<()>> {
        if self.shared.stage().cancelled {
            return Some(Err(cancelled_error()));
        }
        if now < until {
            return None;
        }
        match self.pursuit.is_overdue(now) {
            true => Some(Err(self.pursuit.spent())),
            false => Some(Ok(())),
        }
    }

    fn failed(&mut self, failure: Failure) -> Next {
        if !self.resp2 && self.shared.client.speaks_resp2() {
            // This, or another, has found it out: there is another way to try.
            self.resp2 = true;
            return Next::Retry(Instant::now());
        }
        self.report(&failure.error);
        self.shared.client.distrust();
        self.pursuit.failed(failure.error, failure.at_once, Instant::now())
    }

    /// Trouble that an acquire goes on with would otherwise be known at its end only.
    fn report(&mut self, error: &Error) {
        let status = Some(error.status());
        if self.trouble != status && is_passing(error.status()) {
            self.trouble = status;
            let channel = self.shared.names.channel();
            let holder = Or(self.shared.id());
            log::info!(channel, holder:%, state = "waiting", status:? = error.status(); "going on after: {error}");
            self.shared.report(EventKind::Trouble(error.clone()));
        }
    }

    /// Frees the lock object for the next acquire if this one has failed.
    fn end(&self, outcome: Result<()>) -> Result<()> {
        let mut stage = self.shared.stage();
        if let Err(error) = &outcome {
            stage.failed(error.status(), self.shared.client.counters());
            let channel = self.shared.names.channel();
            let holder = Or(stage.id);
            log::info!(channel, holder:%, state = "failed", status:? = error.status(); "{error}");
            stage.kind = Kind::Idle;
            stage.line = None;
        } else if self.shared.is_closed() {
            drop(stage);
            let _ = self.shared.release();
            return Err(cancelled_error());
        }
        outcome
    }

    fn attempt(&mut self, service: Service) -> std::result::Result<Doing, Failure> {
        self.pursuit.begin(Instant::now());
        let ticket = self.new_ticket();
        let slot = self.shared.names.slot();
        let tenant = || self.tenant(ticket);
        if let Some(line) = self.shared.client.move_into_warm(slot, tenant) {
            return Ok(self.pursue(ticket, line, true, service));
        }
        let client = &self.shared.client;
        if let Some(routes) = client.ready_routes(slot) {
            return self.dial(routes, service);
        }
        self.shared.stage().lookup = None;
        let shared = self.shared.clone();
        let found = client.look_up(slot, move |found| {
            let mut stage = shared.stage();
            stage.lookup = Some(found);
            shared.notify(&mut stage);
        });
        found.map_err(|error| Failure { error, at_once: false })?;
        let limit = Instant::now() + client.connect_timeout();
        Ok(Doing::LookingUp(self.pursuit.bounded(limit)))
    }

    fn looked_up(&self, until: Instant, now: Instant) -> Option<Result<Vec<Route>>> {
        let mut stage = self.shared.stage();
        match stage.lookup.take() {
            _ if stage.cancelled => Some(Err(cancelled_error())),
            None if now < until => None,
            None => Some(Err(self.shared.client.lookup_timeout())),
            found => found,
        }
    }

    fn dial(
        &mut self,
        routes: Result<Vec<Route>>,
        service: Service,
    ) -> std::result::Result<Doing, Failure> {
        let routes = routes.map_err(|error| Failure { error, at_once: false })?;
        let turn = self.turn % routes.len();
        self.turn = turn + 1;
        let more = self.turn < routes.len() || self.hops > 0;
        self.hops = self.hops.saturating_sub(1);
        let ticket = self.shared.stage().ticket;
        match self.shared.client.move_into_new(&routes[turn], self.tenant(ticket)) {
            Ok(line) => Ok(self.pursue(ticket, line, more, service)),
            Err(error) => Err(Failure { error, at_once: more }),
        }
    }

    fn pursue(&self, ticket: u64, line: Arc<Line>, at_once: bool, service: Service) -> Doing {
        self.shared.stage().line = Some(line.clone());
        let now = Instant::now();
        let soon = self.pursuit.bounded(now + DRIVE);
        match service {
            Service::Keeper => line.drive(&self.shared.names, ticket, now),
            Service::Brief => line.drive(&self.shared.names, ticket, soon),
            Service::Whole => {
                let watched = Watched { acquire: self, ticket, bell: OnceCell::new() };
                line.serve(&watched, soon, self.pursuit.deadline());
            }
        }
        Doing::Trying { ticket, line, at_once }
    }

    fn new_ticket(&self) -> u64 {
        // A further attempt has an id of its own, as its connection is another, but keeps the time of
        // the first: an acquire does not lose its place because the server was restarted.
        let id = self.begun.id();
        let mut stage = self.shared.stage();
        stage.ticket = NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
        stage.granted = false;
        stage.failure = None;
        stage.ahead = None;
        stage.hindrance = None;
        stage.freed = false;
        stage.id = Some(id);
        stage.ticket
    }

    fn tenant(&self, ticket: u64) -> Tenant {
        let shared = &self.shared;
        let options = &shared.options;
        let timing = Timing {
            count_every: COUNT_EVERY,
            ask_again: ASK_AGAIN.min(options.unavailable_timeout),
            unavailable: options.unavailable_timeout,
            check_interval: options.check_interval,
            health_every: options.health_check_interval,
        };
        let id = shared.stage().id.unwrap_or_else(|| self.begun.id());
        let contender = Contender::new(id, self.mode, timing);
        let (names, disclosure) = (shared.names.clone(), disclosure::of(options));
        let now = Instant::now();
        let tenant = Tenant::new(contender, names, disclosure, shared.clone(), ticket, now);
        if options.fencing { tenant.fenced() } else { tenant }
    }

    /// Whether somebody comes first, and it was not to wait.
    fn is_queued(&self, stage: &Stage) -> bool {
        self.pursuit.is_once() && stage.ahead.is_some()
    }

    /// Looks whether an attempt has ended, and ends it if its time is up; `None` if it goes on.
    fn conclude(
        &self,
        ticket: u64,
        line: &Arc<Line>,
        at_once: bool,
        now: Instant,
    ) -> Option<std::result::Result<(), Failure>> {
        let mut stage = self.shared.stage();
        if stage.has_granted(ticket) {
            return Some(Ok(()));
        }
        if let Some(error) = stage.failure.take() {
            let at_once = at_once && worth_another(error.status());
            return Some(Err(Failure { error, at_once }));
        }
        let queued = self.is_queued(&stage);
        let cancelled = stage.cancelled;
        if !cancelled && !queued && !self.pursuit.is_overdue(now) {
            return None;
        }
        drop(stage);
        let stop = if cancelled { Stop::Cancel } else { Stop::Timeout };
        let stopped = line.stop(&self.shared.names, ticket, stop);
        let failure = |stage: &mut Stage| match stage.has_granted(ticket) {
            true => Ok(()),
            false => Err(stage.failure.take()),
        };
        let error = match stopped {
            Stopped::Held => return Some(Ok(())),
            Stopped::Ended => match failure(&mut self.shared.stage()) {
                Ok(()) => return Some(Ok(())),
                Err(error) => error,
            },
            Stopped::Joining | Stopped::Waiting => {
                self.shared.client.give_back(line.clone());
                None
            }
        };
        let overdue = || {
            let stage = self.shared.stage();
            let (ahead, hindrance) = (stage.ahead, stage.hindrance);
            drop(stage);
            let name = self.shared.names.channel();
            self.pursuit.overdue(name, queued, stopped, ahead.ok_or(hindrance), Instant::now())
        };
        let error = if cancelled { cancelled_error() } else { error.unwrap_or_else(overdue) };
        Some(Err(Failure { error, at_once: false }))
    }
}

/// An attempt of the calling thread's own.
struct Watched<'a> {
    acquire: &'a Acquire,
    ticket: u64,
    bell: OnceCell<Arc<Bell>>,
}

impl Attempt for Watched<'_> {
    fn names(&self) -> &Names {
        &self.acquire.shared.names
    }

    fn ticket(&self) -> u64 {
        self.ticket
    }

    fn has_news(&self) -> bool {
        let stage = self.acquire.shared.stage();
        let queued = self.acquire.is_queued(&stage);
        stage.has_granted(self.ticket) || stage.failure.is_some() || stage.cancelled || queued
    }

    fn hang(&self, bell: &Arc<Bell>) {
        self.acquire.shared.stage().watcher = Some(bell.clone());
        let _ = self.bell.set(bell.clone());
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let Some(bell) = self.bell.get() {
            self.acquire.shared.unwatch(Arc::as_ptr(bell));
        }
    }
}

impl Watcher for Bell {
    fn wake(&self) {
        self.ring();
    }
}

fn cancelled_error() -> Error {
    Error::new(Status::Cancelled, "the acquire was cancelled")
}

/// An acquire that was started, and that the keeper comes back to.
struct Chase {
    key: usize,
    keeper: Arc<Keeper>,
    /// Who is told of the end; the event queue if it is nobody.
    done: Option<Arc<Callback<Result<()>>>>,
    /// `None` once it has ended.
    acquire: Mutex<Option<Acquire>>,
    timer: Mutex<Option<Instant>>,
}

impl Chase {
    fn set_timer(&self, at: Option<Instant>) {
        let mut timer = lock(&self.timer);
        self.keeper.reschedule(self.key, *timer, at);
        *timer = at;
    }

    fn finish(&self, acquire: &Acquire, outcome: Result<()>) {
        self.set_timer(None);
        self.keeper.let_go(self.key);
        let shared = acquire.shared.clone();
        shared.unwatch(self);
        match self.done.clone() {
            Some(done) => fire_once(shared, |shared| &shared.acquired, done, outcome),
            None => shared.report(EventKind::Acquired(outcome)),
        }
    }
}

impl Watcher for Chase {
    fn wake(&self) {
        self.set_timer(Some(Instant::now()));
    }
}

impl Task for Chase {
    fn attend(&self, _fired: bool) {
        let mut place = lock(&self.acquire);
        let Some(acquire) = place.as_mut() else {
            return;
        };
        // Before looking: whatever happens from here on sets it anew.
        self.set_timer(None);
        match acquire.poll(Service::Keeper) {
            Poll::Pending(until) => {
                let mut timer = lock(&self.timer);
                if timer.is_none() {
                    self.keeper.reschedule(self.key, None, until);
                    *timer = until;
                }
            }
            Poll::Ready(outcome) => {
                let ended = place.take();
                drop(place);
                if let Some(acquire) = ended {
                    self.finish(&acquire, outcome);
                }
            }
        }
    }

    fn abandon(&self, why: &str) {
        let ended = lock(&self.acquire).take();
        if let Some(acquire) = ended {
            let outcome = acquire.end(Err(Error::new(Status::Internal, why)));
            self.finish(&acquire, outcome);
        }
    }
}
