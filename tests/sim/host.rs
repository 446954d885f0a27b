//! Processes: their connections, their pool, and the threads that want locks.

use std::cell::RefCell;
use std::rc::Rc;

use portalock::Error;
use portalock::protocol::{HolderId, Mode};
use portalock::simulation::{Plan, Station};

use crate::agenda::{Event, Moment};
use crate::net::{Plug, Socket};

/// A machine with one process on it, which may be started anew.
#[derive(Default)]
pub struct Host {
    /// Which of the processes so far this is.
    pub life: u32,
    pub alive: bool,
    /// What is to be done as soon as it goes on.
    pub paused: Option<Vec<Event>>,
    pub paused_since: Moment,
    /// How long it has been paused in all.
    pub paused_for: Moment,
    /// Cut off: what it sends, what it is to receive.
    pub cut: [bool; 2],
    pub cut_since: Moment,
    /// Its packets take so much longer, and come in small pieces.
    pub crawls: Option<Moment>,
    pub lines: Vec<Option<Line>>,
    pub pool: Vec<usize>,
    /// The connection that all its locks share, if they do.
    pub hub: Option<usize>,
    pub actors: Vec<usize>,
    /// Ahead of the true time.
    pub skew: Moment,
    /// When something was last wrong with it, if nothing is wrong now.
    pub well_since: Moment,
}

impl Host {
    pub fn is_cut(&self) -> bool {
        self.cut != [false; 2]
    }

    pub fn is_well(&self) -> bool {
        self.alive && self.paused.is_none() && !self.is_cut() && self.crawls.is_none()
    }
}

/// A connection, as its process has it.
pub struct Line {
    pub station: Station<Plug>,
    pub socket: Rc<RefCell<Socket>>,
    pub conn: usize,
    pub retired: bool,
    pub visit_due: bool,
    pub ring_due: Option<Moment>,
}

/// One thread and its lock.
pub struct Actor {
    pub doing: Doing,
    pub plan: Option<Plan>,
    /// Counts the acquires.
    pub serial: u64,
    pub mode: Mode,
    /// The time part of its ids.
    pub begun_ms: u64,
    pub id: HolderId,
    pub ticket: u64,
    pub line: usize,
    pub granted: bool,
    /// It was told that it holds no more.
    pub lost: bool,
    pub failure: Option<Error>,
    pub ahead: Option<usize>,
    pub cancelled: bool,
}

pub enum Doing {
    /// Wants nothing before then.
    Idle(Moment),
    /// An attempt is under way, on a connection that may be stale.
    Trying {
        stale: bool,
    },
    Resting(Moment),
    Holding(Moment),
}

impl Actor {
    pub fn new(start: Moment) -> Self {
        Self {
            doing: Doing::Idle(start),
            plan: None,
            serial: 0,
            mode: Mode::Exclusive,
            begun_ms: 0,
            id: HolderId(0),
            ticket: 0,
            line: usize::MAX,
            granted: false,
            lost: false,
            failure: None,
            ahead: None,
            cancelled: false,
        }
    }
}
