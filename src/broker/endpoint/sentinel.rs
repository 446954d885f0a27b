//! A master that sentinels know: who they are, and what they were last heard to say.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::server::Server;
use super::{Endpoint, Route, list};
use crate::broker::dialogue::Dialogue;
use crate::broker::sighting::{self, Sighting};
use crate::error::{Error, Result, Status};
use crate::mutex::lock;

/// How long one sentinel may take to be connected to and to answer.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// How long what was heard is good for new connections. More than the time between two questions.
const FRESH: Duration = Duration::from_secs(2);
/// How long an acquire takes another's failure to hear of it for its own.
const DOUBT: Duration = Duration::from_millis(200);
/// How long the master is believed in of which sentinels have said nothing new, where they do not tell for
/// how long they believe in a silent master, and at least.
const LAPSE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(2));

/// The sentinels, and the master's name.
pub(crate) struct Sentinels {
    name: String,
    sentinels: Vec<Endpoint>,
    /// Whether the word of a sentinel counts that does not see a majority of the others.
    believes_lonely: bool,
    /// Which to ask first: the one that answered last.
    first: Mutex<usize>,
    known: Mutex<Option<Known>>,
    /// What was said last in vain, and when; `None` after an answer.
    doubt: Mutex<Option<(Instant, Error)>>,
    /// Whether it can be had from them that they tell of changes.
    pub(super) subscribes: AtomicBool,
}

/// Where the master is.
#[derive(Clone)]
struct Known {
    sighting: Sighting,
    routes: Vec<Route>,
}

/// A server that has to be a master.
#[derive(Clone)]
pub(super) struct Master {
    pub(super) name: String,
    pub(super) server: Server,
}

/// Why there is no telling where the master is.
pub(crate) struct Doubt {
    pub(crate) error: Error,
    /// A sentinel has said that it is cut off from the others, and none says otherwise.
    pub(crate) is_cut_off: bool,
}

/// A sentinel that has told where the master is.
type Told<'a> = (Sighting, Dialogue<'a>);

impl Sentinels {
    pub(super) fn new(name: String, sentinels: Vec<Endpoint>, believes_lonely: bool) -> Self {
        let (first, known, doubt) = (Mutex::new(0), Mutex::new(None), Mutex::new(None));
        let subscribes = AtomicBool::new(true);
        Self { name, sentinels, believes_lonely, first, known, doubt, subscribes }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    #[cfg(test)]
    pub(super) fn sentinels(&self) -> &[Endpoint] {
        &self.sentinels
    }

    /// The routes to the master as it was heard of a moment ago, or why nothing was heard: however many
    /// wait for it, the sentinels are not asked by each of them.
    pub(super) fn fresh_routes(&self) -> Option<Result<Vec<Route>>> {
        let doubt = lock(&self.doubt);
        if let Some((at, error)) = doubt.as_ref() {
            return (at.elapsed() < DOUBT).then(|| Err(error.clone()));
        }
        let known = lock(&self.known);
        let known = known.as_ref().filter(|known| known.sighting.asked.elapsed() < FRESH)?;
        Some(Ok(known.routes.clone()))
    }

    /// The routes to the master. Asks, unless it was heard of a moment ago.
    pub(super) fn routes(&self) -> Result<Vec<Route>> {
        if let Some(routes) = self.fresh_routes() {
            return routes;
        }
        self.survey().map(|(_, routes)| routes).map_err(|doubt| doubt.error)
    }

    /// Asks one after the other until one tells where the master is.
    pub(super) fn survey(&self) -> std::result::Result<(Dialogue<'_>, Vec<Route>), Doubt> {
        let known_epoch = lock(&self.known).as_ref().map_or(0, |known| known.sighting.epoch);
        let first = *lock(&self.first);
        let count = self.sentinels.len();
        let mut outdated: Option<(usize, Told<'_>)> = None;
        let mut doubts = Doubts::default();
        for at in (first..first + count).map(|at| at % count) {
            match self.ask(at) {
                Ok(Some((sighting, _))) if !self.believes(&sighting) => doubts.cut_off = true,
                Ok(Some(told)) if told.0.epoch >= known_epoch => return self.adopt(at, told),
                Ok(Some(told)) => {
                    if outdated.as_ref().is_none_or(|(_, (best, _))| best.epoch < told.0.epoch) {
                        outdated = Some((at, told));
                    }
                }
                Ok(None) => doubts.unknown = true,
                Err(error) => doubts.take(error),
            }
        }
        match outdated {
            // Nobody knows of the later ones any more: the sentinels were set up anew.
            Some((at, told)) => self.adopt(at, told),
            None => {
                let doubt = doubts.sum_up(&self.name, self);
                *lock(&self.doubt) = Some((Instant::now(), doubt.error.clone()));
                Err(doubt)
            }
        }
    }

    /// Whether it is no older than what is known, and to be believed.
    pub(super) fn is_current(&self, sighting: &Sighting) -> bool {
        let is_old =
            lock(&self.known).as_ref().is_some_and(|known| known.sighting.epoch > sighting.epoch);
        !is_old && self.believes(sighting)
    }

    /// Whether a line that was made by this route leads to the master, as far as is known.
    pub(crate) fn leads_to_master(&self, route: &Route) -> bool {
        lock(&self.known)
            .as_ref()
            .is_none_or(|known| known.routes.iter().any(|known| known.place == route.place))
    }

    /// Where the master is, as far as is known, in words.
    pub(crate) fn whereabouts(&self) -> String {
        let at = |known: &Known| Server::Tcp(known.sighting.host.clone(), known.sighting.port);
        lock(&self.known).as_ref().map_or("?".to_owned(), |known| at(known).to_string())
    }

    /// Until when the master is believed in, if sentinels say nothing new; `None` for ever.
    pub(crate) fn lapse(&self) -> Option<Instant> {
        let known = lock(&self.known);
        let sighting = &known.as_ref().filter(|_| !self.believes_lonely)?.sighting;
        sighting.asked.checked_add(sighting.down_after.unwrap_or(LAPSE.0).max(LAPSE.1))
    }

    fn believes(&self, sighting: &Sighting) -> bool {
        sighting.backed || self.believes_lonely
    }

    fn ask(&self, at: usize) -> Result<Option<Told<'_>>> {
        Dialogue::hold(&self.sentinels[at], PATIENCE, |mut dialogue| {
            let sighting = sighting::ask(&mut dialogue, &self.name)?;
            Ok(sighting.map(|sighting| (sighting, dialogue)))
        })
    }

    /// Asks each of them until then, for people who want to know how they are.
    pub(crate) fn call_roll(&self, until: Instant) -> Vec<(String, Attendance)> {
        let attend = |at: usize| {
            if until <= Instant::now() {
                let text = "there was no time left to ask it";
                return Attendance::Away(Error::new(Status::Unresponsive, text));
            }
            match self.ask(at) {
                Ok(Some((Sighting { backed, sentinels, .. }, _))) if backed => {
                    Attendance::Backed { sentinels }
                }
                Ok(Some((sighting, _))) => Attendance::CutOff { sentinels: sighting.sentinels },
                Ok(None) => Attendance::Unknown,
                Err(error) => Attendance::Away(error),
            }
        };
        let one = |(at, endpoint): (usize, &Endpoint)| (endpoint.to_string(), attend(at));
        self.sentinels.iter().enumerate().map(one).collect()
    }

    fn adopt<'a>(
        &'a self,
        at: usize,
        (sighting, dialogue): Told<'a>,
    ) -> std::result::Result<(Dialogue<'a>, Vec<Route>), Doubt> {
        *lock(&self.first) = at;
        match self.note(sighting) {
            Ok(routes) => Ok((dialogue, routes)),
            Err(error) => Err(Doubt { error, is_cut_off: false }),
        }
    }

    /// Takes note of where the master is.
    pub(super) fn note(&self, sighting: Sighting) -> Result<Vec<Route>> {
        let server = Server::Tcp(sighting.host.clone(), sighting.port);
        let routes = server.routes()?;
        *lock(&self.doubt) = None;
        let mut known = lock(&self.known);
        // Another thread may have heard of a later one while this one looked up the name.
        if known.as_ref().is_none_or(|known| known.sighting.asked <= sighting.asked) {
            *known = Some(Known { sighting, routes: routes.clone() });
        }
        Ok(routes)
    }

    /// What a connection to a host by one of its addresses goes by.
    pub(super) fn master_at(&self, host: &str, at: SocketAddr) -> Master {
        let host = if host.is_empty() { at.ip().to_string() } else { host.to_owned() };
        Master { name: self.name.clone(), server: Server::Tcp(host, at.port()) }
    }
}

/// What a sentinel says of itself when the roll is called.
pub(crate) enum Attendance {
    /// It knows the master, and sees a majority of so many sentinels.
    Backed { sentinels: Option<u64> },
    /// It knows the master, and sees too few of them.
    CutOff { sentinels: Option<u64> },
    /// It does not know the master.
    Unknown,
    /// It cannot be asked.
    Away(Error),
}

impl Attendance {
    /// How many sentinels there are, if it tells.
    pub(crate) fn sentinels(&self) -> Option<u64> {
        match self {
            Self::Backed { sentinels } | Self::CutOff { sentinels } => *sentinels,
            Self::Unknown | Self::Away(_) => None,
        }
    }
}

/// What has kept the sentinels from telling.
#[derive(Default)]
struct Doubts {
    cut_off: bool,
    unknown: bool,
    error: Option<Error>,
}

impl Doubts {
    /// What time will not mend says more than that one of them is away.
    fn take(&mut self, error: Error) {
        let is_passing = |error: &Error| error.is_retryable();
        if self.error.as_ref().is_none_or(|before| is_passing(before) || !is_passing(&error)) {
            self.error = Some(error);
        }
    }

    fn sum_up(self, name: &str, of: &Sentinels) -> Doubt {
        let unreachable = |text: String| Error::new(Status::Unreachable, text);
        let error = match self.error {
            _ if self.cut_off => unreachable(format!(
                "the sentinels that answer do not see a majority of the others, and cannot tell where \
                 master {name:?} is"
            )),
            _ if self.unknown => unreachable(format!("the sentinels know no master {name:?}")),
            Some(error) if error.is_retryable() => {
                unreachable(format!("no sentinel of {of} can be asked: {error}"))
            }
            Some(error) => Error::new(error.status(), format!("asking for {of}: {error}")),
            None => unreachable(format!("no sentinel of {of} can be asked")),
        };
        Doubt { error, is_cut_off: self.cut_off }
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "master {} of the sentinels {}", self.name, list(&self.sentinels))
    }
}

impl fmt::Display for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (master {})", self.server, self.name)
    }
}
