//! An acquire as the caller sees it: attempts until one is granted, the time is up, or it is no use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::{NoContext, Timestamp, Uuid};

use crate::broker::Route;
use crate::callback::CallbackSlot;
use crate::client;
use crate::disclosure;
use crate::error::{Error, Result, Status};
use crate::fork::Generation;
use crate::keeper::{Landlord, Line, Stopped, Tenant, Verdict, lock};
use crate::lock::Loss;
use crate::options::{LockOptions, Wait};
use crate::protocol::{Contender, HolderId, Mode, Names, Stop, Timing};

/// How long the calling thread serves its own connection before it leaves it to the keeper.
const DRIVE: Duration = Duration::from_millis(3);
/// Between two attempts at a server that cannot be used: doubles from the first to the last.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));
/// Between two counts, for the first in line.
const COUNT_EVERY: Duration = Duration::from_millis(20);
/// How long the first ping waits for its answers.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// No two attempts have the same ticket, of whichever locks: they meet on pooled connections.
static NEXT_TICKET: AtomicU64 = AtomicU64::new(1);

/// A lock's state, shared by its handle, its acquires and the keeper.
pub(crate) struct Shared {
    client: Arc<client::Shared>,
    pub(crate) names: Arc<Names>,
    pub(crate) options: LockOptions,
    pub(crate) lost: CallbackSlot,
    held: AtomicBool,
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Default)]
struct Stage {
    kind: Kind,
    /// The present attempt, so that what an earlier one still brings is not taken for this one's.
    ticket: u64,
    id: Option<HolderId>,
    token: Option<u64>,
    line: Option<Arc<Line>>,
    /// Whether the present attempt was granted: it stays so although the lock may be released or lost
    /// again, by another thread, before the one that acquires it has woken up.
    granted: bool,
    /// How the present attempt has failed, if it has.
    failure: Option<Error>,
    /// How many waiters come first, once that is known.
    ahead: Option<usize>,
    cancelled: bool,
    closed: bool,
    lookup: Option<Result<Vec<Route>>>,
    departing: Option<u64>,
}

#[derive(Default)]
enum Kind {
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
            held: AtomicBool::new(false),
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

    pub(crate) fn id(&self) -> Option<HolderId> {
        let stage = self.stage();
        match stage.kind {
            Kind::Acquiring | Kind::Held => stage.id,
            _ => None,
        }
    }

    pub(crate) fn fencing_token(&self) -> Option<u64> {
        let stage = self.stage();
        stage.token.filter(|_| matches!(stage.kind, Kind::Held))
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        lock(&self.stage)
    }

    /// Sleeps until `done`, or until then; `false` if the time is up first.
    fn wait<'a>(
        &self,
        mut stage: MutexGuard<'a, Stage>,
        until: Option<Instant>,
        done: impl Fn(&Stage) -> bool,
    ) -> (MutexGuard<'a, Stage>, bool) {
        while !done(&stage) {
            let Some(until) = until else {
                stage = self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (stage, false);
            }
            let woken = self.changed.wait_timeout(stage, left);
            stage = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        (stage, true)
    }

    pub(crate) fn cancel(&self) {
        let mut stage = self.stage();
        if let Kind::Acquiring = stage.kind {
            stage.cancelled = true;
            self.changed.notify_all();
        }
    }

    pub(crate) fn close(&self) {
        self.stage().closed = true;
        self.cancel();
        let _ = self.release();
    }

    pub(crate) fn release(&self) -> Result<()> {
        let (line, ticket) = {
            let mut stage = self.stage();
            match &stage.kind {
                Kind::Held => {}
                Kind::Lost(_) => return Err(stage.take_loss()),
                _ => return Err(Error::new(Status::NotHeld, "the lock is not held")),
            }
            stage.kind = Kind::Releasing;
            stage.departing = Some(stage.ticket);
            self.held.store(false, Ordering::Release);
            (stage.line.take(), stage.ticket)
        };
        let stopped = line.as_ref().map(|line| line.stop(ticket, Stop::Release));
        if let (Some(line), Some(Stopped::Held)) = (line, stopped) {
            self.client.give_back(line);
        }
        let mut stage = self.stage();
        match stage.kind {
            Kind::Releasing if stage.ticket == ticket => {
                stage.kind = Kind::Idle;
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
    fn has_granted(&self, ticket: u64) -> bool {
        self.granted || self.ticket != ticket
    }

    fn take_loss(&mut self) -> Error {
        let message = match std::mem::take(&mut self.kind) {
            Kind::Lost(loss) => format!("the lock was lost: {}", loss.message),
            _ => "the lock was lost".to_owned(),
        };
        Error::new(Status::Lost, message)
    }
}

impl Landlord for Shared {
    fn hear(&self, ticket: u64, verdict: Verdict) {
        let mut stage = self.stage();
        if let Verdict::Departed = verdict {
            if stage.departing == Some(ticket) {
                stage.departing = None;
                self.changed.notify_all();
            }
            return;
        }
        if stage.ticket != ticket {
            return;
        }
        match verdict {
            Verdict::Granted(token) => {
                stage.kind = Kind::Held;
                stage.granted = true;
                stage.token = token;
                self.held.store(true, Ordering::Release);
            }
            Verdict::Queued(ahead) => stage.ahead = Some(ahead),
            Verdict::Failed(error) => stage.failure = Some(error),
            Verdict::Lost(loss) => {
                self.held.store(false, Ordering::Release);
                stage.line = None;
                stage.departing = None;
                stage.kind = Kind::Lost(loss.clone());
                self.lost.fire(loss);
            }
            Verdict::Departed => {}
        }
        self.changed.notify_all();
    }
}

/// One call to acquire.
pub(crate) struct Acquire<'a> {
    shared: &'a Arc<Shared>,
    mode: Mode,
    once: bool,
    started: Instant,
    deadline: Option<Instant>,
    first_id: Uuid,
    /// Which of the server's addresses to try next.
    turn: usize,
}

/// How an attempt failed.
struct Failure {
    error: Error,
    /// Whether there is a reason to try again at once: another address, or a connection that was
    /// merely stale.
    at_once: bool,
}

impl<'a> Acquire<'a> {
    /// Claims the lock object.
    pub(crate) fn begin(shared: &'a Arc<Shared>, mode: Mode, wait: Wait) -> Result<Self> {
        let started = Instant::now();
        let wait = match wait {
            _ if shared.options.fail_when_locked => Wait::Once,
            Wait::Default => shared.options.wait,
            wait => wait,
        };
        let wait = if wait == Wait::For(Duration::ZERO) { Wait::Once } else { wait };
        let deadline = match wait {
            Wait::For(span) => Some(started + span.min(crate::options::MAX_SPAN)),
            Wait::Once => {
                // Enough to connect, and to hear or to give up those who do not answer.
                let patience = shared.options.unavailable_timeout.saturating_mul(2);
                Some(started + shared.client.connect_timeout() + patience)
            }
            Wait::Forever | Wait::Default => None,
        };
        let mut stage = shared.stage();
        if stage.closed {
            return Err(Error::new(Status::Invalid, "the lock was closed before"));
        }
        if !matches!(stage.kind, Kind::Idle | Kind::Lost(_)) {
            let text = "this lock object is in use already; locks are not reentrant";
            return Err(Error::new(Status::Active, text));
        }
        stage.kind = Kind::Acquiring;
        stage.cancelled = false;
        stage.id = None;
        let once = wait == Wait::Once;
        let first_id = Uuid::now_v7();
        Ok(Self { shared, mode, once, started, deadline, first_id, turn: 0 })
    }

    /// Tries until it is granted or hopeless.
    pub(crate) fn run(mut self) -> Result<()> {
        let outcome = self.pursue();
        let mut stage = self.shared.stage();
        if outcome.is_err() {
            stage.kind = Kind::Idle;
            stage.line = None;
        } else if stage.closed {
            drop(stage);
            let _ = self.shared.release();
            return Err(cancelled_error());
        }
        outcome
    }

    fn pursue(&mut self) -> Result<()> {
        let mut pause = BACKOFF.0;
        let mut before = None;
        loop {
            let begun = Instant::now();
            let Failure { error, at_once } = match self.attempt() {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            // Of an attempt that the deadline cut short, silence says nothing: what came before does.
            let brief = begun.elapsed() * 2 < self.started.elapsed();
            if error.status() == Status::Unresponsive && brief && self.is_overdue() {
                return Err(before.unwrap_or(error));
            }
            if !is_passing(error.status()) || (self.once && !at_once) {
                return Err(error);
            }
            let rest = if at_once { Duration::ZERO } else { pause };
            self.rest(rest).map_err(|ended| ended.unwrap_or_else(|| error.clone()))?;
            before = Some(error);
            if !at_once {
                pause = (pause * 2).min(BACKOFF.1);
            }
        }
    }

    /// Waits for the next attempt. `Err` if there is to be none: the time is up (`None`), or the
    /// acquire was cancelled.
    fn rest(&self, pause: Duration) -> std::result::Result<(), Option<Error>> {
        let rested = Instant::now() + pause;
        let until = self.deadline.map_or(rested, |deadline| deadline.min(rested));
        let (stage, cancelled) =
            self.shared.wait(self.shared.stage(), Some(until), |stage| stage.cancelled);
        drop(stage);
        match self.deadline {
            _ if cancelled => Err(Some(cancelled_error())),
            _ if self.is_overdue() => Err(None),
            _ => Ok(()),
        }
    }

    fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn attempt(&mut self) -> std::result::Result<(), Failure> {
        let ticket = self.new_ticket();
        let tenant = || self.tenant(ticket);
        let (line, at_once) = match self.shared.client.move_into_pool(tenant) {
            Some(line) => (line, true),
            None => self.dial(ticket)?,
        };
        self.shared.stage().line = Some(line.clone());
        let drive_until = Instant::now() + DRIVE;
        line.drive(ticket, self.deadline.map_or(drive_until, |at| at.min(drive_until)));
        self.conclude(ticket, line, at_once)
    }

    fn new_ticket(&self) -> u64 {
        let id = self.new_id();
        let mut stage = self.shared.stage();
        stage.ticket = NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
        stage.granted = false;
        stage.failure = None;
        stage.ahead = None;
        stage.id = Some(id);
        stage.ticket
    }

    /// A further attempt has an id of its own, as its connection is another, but keeps the time of
    /// the first: an acquire does not lose its place because the server was restarted.
    fn new_id(&self) -> HolderId {
        if self.shared.stage().id.is_none() {
            return HolderId(self.first_id.as_u128());
        }
        let (secs, nanos) = self.first_id.get_timestamp().map_or((0, 0), |time| time.to_unix());
        HolderId(Uuid::new_v7(Timestamp::from_unix(NoContext, secs, nanos)).as_u128())
    }

    fn tenant(&self, ticket: u64) -> Tenant {
        let shared = self.shared;
        let timing = Timing {
            count_every: COUNT_EVERY,
            ask_again: ASK_AGAIN.min(shared.options.unavailable_timeout),
            unavailable: shared.options.unavailable_timeout,
            check_interval: shared.options.check_interval,
            health_every: shared.options.health_check_interval,
        };
        let id = shared.stage().id.unwrap_or(HolderId(self.first_id.as_u128()));
        let disclosure = disclosure::of(&shared.options);
        let contender = Contender::new(id, self.mode, timing);
        let now = Instant::now();
        let tenant =
            Tenant::new(contender, shared.names.clone(), disclosure, shared.clone(), ticket, now);
        if shared.options.fencing { tenant.fenced() } else { tenant }
    }

    fn dial(&mut self, ticket: u64) -> std::result::Result<(Arc<Line>, bool), Failure> {
        let final_failure = |error| Failure { error, at_once: false };
        let routes = self.routes().map_err(final_failure)?;
        let turn = self.turn % routes.len();
        self.turn = turn + 1;
        let more = self.turn < routes.len();
        match self.shared.client.move_into_new(&routes[turn], self.tenant(ticket)) {
            Ok(line) => Ok((line, more)),
            Err(error) => Err(Failure { error, at_once: more }),
        }
    }

    fn routes(&self) -> Result<Vec<Route>> {
        let client = &self.shared.client;
        if !client.needs_lookup() {
            return client.routes();
        }
        self.shared.stage().lookup = None;
        let shared = self.shared.clone();
        client.look_up(move |found| {
            shared.stage().lookup = Some(found);
            shared.changed.notify_all();
        })?;
        let limit = Instant::now() + client.connect_timeout();
        let until = self.deadline.map_or(limit, |at| at.min(limit));
        let done = |stage: &Stage| stage.lookup.is_some() || stage.cancelled;
        let (mut stage, _) = self.shared.wait(self.shared.stage(), Some(until), done);
        if stage.cancelled {
            return Err(cancelled_error());
        }
        stage.lookup.take().unwrap_or_else(|| Err(client.lookup_timeout()))
    }

    /// Waits for the end of an attempt.
    fn conclude(
        &self,
        ticket: u64,
        line: Arc<Line>,
        at_once: bool,
    ) -> std::result::Result<(), Failure> {
        let ended = |stage: &Stage| {
            stage.cancelled
                || stage.failure.is_some()
                || stage.has_granted(ticket)
                || (self.once && stage.ahead.is_some())
        };
        let (mut stage, in_time) = self.shared.wait(self.shared.stage(), self.deadline, ended);
        if stage.has_granted(ticket) {
            return Ok(());
        }
        if let Some(error) = stage.failure.take() {
            let at_once = at_once && worth_another(error.status());
            return Err(Failure { error, at_once });
        }
        let cancelled = stage.cancelled;
        drop(stage);
        let stop = if cancelled { Stop::Cancel } else { Stop::Timeout };
        let stopped = line.stop(ticket, stop);
        let error = match stopped {
            Stopped::Held => return Ok(()),
            Stopped::Ended => match &mut *self.shared.stage() {
                stage if stage.has_granted(ticket) => return Ok(()),
                stage => stage.failure.take(),
            },
            Stopped::Joining | Stopped::Waiting => {
                self.shared.client.give_back(line);
                None
            }
        };
        let error = match error {
            _ if cancelled => cancelled_error(),
            Some(error) => error,
            None => self.overdue(in_time, stopped),
        };
        Err(Failure { error, at_once: false })
    }

    fn overdue(&self, in_time: bool, stopped: Stopped) -> Error {
        let ahead = self.shared.stage().ahead;
        let name = self.shared.names.channel();
        let waited = self.started.elapsed().as_millis();
        if self.once && in_time {
            return Error::new(Status::Locked, format!("lock {name:?} is held by somebody else"));
        }
        if stopped == Stopped::Joining {
            let text = format!("the server has not answered for {waited} ms");
            return Error::new(Status::Unresponsive, text);
        }
        let status = if self.once { Status::Locked } else { Status::Timeout };
        let who = match ahead {
            None => "some members of the channel do not answer".to_owned(),
            Some(0) => "somebody else holds it, nobody else waits before us".to_owned(),
            Some(n) => format!("somebody else holds it, {n} wait before us"),
        };
        Error::new(status, format!("lock {name:?} not acquired in {waited} ms: {who}"))
    }
}

fn cancelled_error() -> Error {
    Error::new(Status::Cancelled, "the acquire was cancelled")
}

/// Whether time may mend it.
fn is_passing(status: Status) -> bool {
    use Status::*;
    matches!(status, Refused | Unreachable | Unresponsive | Server | Disconnected)
}

/// Whether another address, or a fresh connection, may do better.
fn worth_another(status: Status) -> bool {
    use Status::*;
    matches!(status, Refused | Unreachable | Unresponsive | Disconnected)
}
