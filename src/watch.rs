//! Watches over a client's connections where sentinels say which server is the master: what leads
//! elsewhere is ended, with all locks on it.
//!
//! One thread a client listens to a sentinel. It may be held up by the system's resolver, so that it is
//! the keeper that looks whether the sentinels have been silent for too long.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::broker::{Doubt, Ear, OwnSocket, Route, Sentinels};
use crate::error::{Error, Result, Status};
use crate::keeper::{Keeper, Line, Task, lock, spawn};
use crate::lock::LossReason;

/// The watch of one client.
pub(crate) struct Watch {
    sentinels: Arc<Sentinels>,
    lines: Mutex<Vec<(Weak<Line>, Route)>>,
    state: Mutex<State>,
    changed: Condvar,
    alarm: Mutex<Option<Alarm>>,
}

#[derive(Default)]
struct State {
    begun: bool,
    over: bool,
    socket: Option<Arc<OwnSocket>>,
}

/// Where the keeper is told when to look.
struct Alarm {
    keeper: Arc<Keeper>,
    key: usize,
    at: Option<Instant>,
}

impl Watch {
    pub(crate) fn new(sentinels: Arc<Sentinels>) -> Arc<Self> {
        Arc::new(Self {
            sentinels,
            lines: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            alarm: Mutex::new(None),
        })
    }

    /// Watches over a line that was made by this route.
    pub(crate) fn keep(self: &Arc<Self>, line: &Arc<Line>, route: &Route) -> Result<()> {
        lock(&self.lines).push((Arc::downgrade(line), route.clone()));
        self.begin()?;
        self.set_alarm();
        Ok(())
    }

    fn begin(self: &Arc<Self>) -> Result<()> {
        let mut state = lock(&self.state);
        if state.begun {
            return Ok(());
        }
        let keeper = Keeper::get()?;
        let key = keeper.new_key();
        keeper.take_on(key, self.clone());
        *lock(&self.alarm) = Some(Alarm { keeper, key, at: None });
        let own = self.clone();
        spawn("portalock-watch", move || own.sentinels.watch(&*own)).map_err(|error| {
            Error::new(Status::Internal, format!("no thread to watch the sentinels: {error}"))
        })?;
        state.begun = true;
        Ok(())
    }

    /// Ends it. Waits for nobody.
    pub(crate) fn end(&self) {
        let socket = {
            let mut state = lock(&self.state);
            state.over = true;
            self.changed.notify_all();
            state.socket.take()
        };
        shut_down(socket);
        let alarm = lock(&self.alarm).take();
        if let Some(alarm) = alarm {
            alarm.keeper.reschedule(alarm.key, alarm.at, None);
            alarm.keeper.let_go(alarm.key);
        }
    }

    /// When the sentinels have been silent for too long, unless they say something.
    fn set_alarm(&self) {
        let at = self.sentinels.lapse();
        if let Some(alarm) = lock(&self.alarm).as_mut() {
            alarm.keeper.reschedule(alarm.key, alarm.at, at);
            alarm.at = at;
        }
    }

    /// Ends the lines that are of this kind.
    fn evict(&self, is_wrong: impl Fn(&Route) -> bool, why: &str) {
        let (mut wrong, mut rest) = (Vec::new(), Vec::new());
        let lines = std::mem::take(&mut *lock(&self.lines));
        for (line, route) in lines {
            match line.upgrade().filter(|line| line.is_usable()) {
                Some(line) if is_wrong(&route) => wrong.push(line),
                Some(_) => rest.push((line, route)),
                None => {}
            }
        }
        lock(&self.lines).append(&mut rest);
        if !wrong.is_empty() {
            log::warn!(connections = wrong.len(); "{why}");
        }
        for line in wrong {
            line.evict(LossReason::Demoted, &Error::new(Status::Disconnected, why));
        }
    }
}

impl Ear for Watch {
    fn heard(&self) {
        self.set_alarm();
        let why =
            format!("the sentinels name another master now, {}", self.sentinels.whereabouts());
        self.evict(|route| !self.sentinels.leads_to_master(route), &why);
    }

    fn doubts(&self, doubt: Doubt) {
        log::debug!("{}", doubt.error);
        if doubt.is_cut_off {
            self.evict(|_| true, doubt.error.message());
        }
    }

    fn listens(&self, socket: Option<Arc<OwnSocket>>) {
        let mut state = lock(&self.state);
        let old = std::mem::replace(&mut state.socket, socket);
        let ended = if state.over { state.socket.take() } else { None };
        drop(state);
        drop(old);
        shut_down(ended);
    }

    fn rest(&self, span: Duration) -> bool {
        let state = lock(&self.state);
        let woken = self.changed.wait_timeout_while(state, span, |state| !state.over);
        !woken.unwrap_or_else(PoisonError::into_inner).0.over
    }
}

impl Task for Watch {
    fn attend(&self, _fired: bool) {
        if let Some(alarm) = lock(&self.alarm).as_mut() {
            alarm.keeper.reschedule(alarm.key, alarm.at.take(), None);
        }
        // There may be news since the alarm was set.
        if self.sentinels.lapse().is_some_and(|at| at > Instant::now()) {
            return self.set_alarm();
        }
        let why = "no sentinel has confirmed the master for too long: there may be another";
        self.evict(|_| true, why);
    }

    fn abandon(&self, _why: &str) {}
}

fn shut_down(socket: Option<Arc<OwnSocket>>) {
    if let Some(socket) = socket {
        let _ = socket.shutdown(std::net::Shutdown::Both);
    }
}
