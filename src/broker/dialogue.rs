//! A connection that the calling thread uses alone, for a question or two.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::commands::Commands;
use super::endpoint::{Endpoint, Route};
use super::link::{Frame, Link, LinkError};
use super::reply::{Answer, Said};
use super::socket::{OwnSocket, Sockets, Wire, await_any};
use crate::error::{Error, Result, Status};

/// A connection and a deadline.
pub(crate) struct Dialogue<'a> {
    endpoint: &'a Endpoint,
    link: Link<Wire>,
    sockets: Sockets,
    until: Instant,
}

impl<'a> Dialogue<'a> {
    /// Begins to connect and to log in.
    pub(crate) fn open(endpoint: &'a Endpoint, route: &Route, until: Instant) -> Result<Self> {
        let wires = Wire::dial(endpoint, route)
            .map_err(|e| LinkError::Connect(e).describe(endpoint, false))?;
        let sockets = Sockets::of(&wires.0, wires.1.as_ref());
        let link = Link::new(wires, endpoint, Instant::now());
        Ok(Self { endpoint, link, sockets, until })
    }

    /// Holds one by the first route on which that works, each within so long.
    pub(super) fn hold<T>(
        endpoint: &'a Endpoint,
        patience: Duration,
        talk: impl Fn(Self) -> Result<T>,
    ) -> Result<T> {
        let mut failure = None;
        for route in endpoint.routes(None)? {
            let until = Instant::now() + patience;
            let attempt = || talk(Self::open(endpoint, &route, until)?);
            match endpoint.dialect().try_in(attempt) {
                Ok(result) => return Ok(result),
                Err(error) => failure = Some(error),
            }
        }
        let none = || Error::new(Status::Unreachable, format!("{endpoint} has no address"));
        Err(failure.unwrap_or_else(none))
    }

    /// Whether the connection was made, and the login answered.
    pub(crate) fn is_logged_in(&self) -> bool {
        self.link.is_logged_in()
    }

    /// Whom it is with.
    pub(super) fn endpoint(&self) -> &Endpoint {
        self.endpoint
    }

    /// Its socket, by which another thread can end it.
    pub(super) fn socket(&self) -> Arc<OwnSocket> {
        self.sockets.first()
    }

    /// Sets another deadline.
    pub(super) fn set_deadline(&mut self, until: Instant) {
        self.until = until;
    }

    /// Asks something.
    pub(crate) fn send(&mut self, commands: Commands) {
        self.link.queue(commands, Instant::now(), None);
    }

    /// How much time there is left.
    pub(crate) fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Whether there is none.
    pub(crate) fn is_over(&self) -> bool {
        self.time_left().is_zero()
    }

    /// The next thing that the server says; `None` if it says nothing in time.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>> {
        self.next_until(self.until)
    }

    /// The next answer to a question. What is published meanwhile is passed over.
    pub(crate) fn answer(&mut self) -> Result<Said> {
        while let Some(frame) = self.next()? {
            if let Frame::Answer(Answer::Said(said)) = frame {
                return Ok(said);
            }
        }
        Err(self.silence())
    }

    /// As [`next`](Self::next), with an earlier deadline.
    pub(crate) fn next_until(&mut self, until: Instant) -> Result<Option<Frame>> {
        loop {
            let now = Instant::now();
            self.attempt(|link| link.flush(now))?;
            if let Some(frame) = self.attempt(|link| link.next_frame(now))? {
                return Ok(Some(frame));
            }
            let left = until.min(self.until).saturating_duration_since(now);
            if left.is_zero() {
                return Ok(None);
            }
            await_any(&self.sockets, self.link.wants_write(), None, Some(left));
        }
    }

    fn attempt<T>(
        &mut self,
        step: impl FnOnce(&mut Link<Wire>) -> std::result::Result<T, LinkError>,
    ) -> Result<T> {
        step(&mut self.link)
            .map_err(|error| error.describe(self.endpoint, self.link.is_logged_in()))
    }

    /// The error for a server that has not answered in time.
    pub(crate) fn silence(&self) -> Error {
        if !self.link.is_connected() {
            return self.endpoint.too_slow();
        }
        Error::new(Status::Unresponsive, format!("{} does not answer", self.endpoint))
    }

    /// Measures one round trip.
    pub(crate) fn round_trip(&mut self) -> Result<Duration> {
        // The first answer includes connecting and logging in.
        self.await_life()?;
        let asked = Instant::now();
        self.await_life()?;
        Ok(asked.elapsed())
    }

    fn await_life(&mut self) -> Result<()> {
        let mut commands = Commands::default();
        commands.alive();
        self.send(commands);
        while let Some(frame) = self.next()? {
            if let Frame::Answer(Answer::Alive) = frame {
                return Ok(());
            }
        }
        Err(self.silence())
    }
}
