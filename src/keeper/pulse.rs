//! The health of a connection that many live on: checked once for all of them, by a message to the
//! connection's own channel that has to come back.

use std::time::{Duration, Instant};

use super::tenant::UNCHECKED_PATIENCE;
use crate::broker::Commands;
use crate::protocol::{LinkId, Names, wire};

/// The checks of one connection.
pub(crate) struct Pulse {
    link: LinkId,
    channel: String,
    /// As often as any of those who have lived here wanted it; `None` as long as none did.
    every: Option<Duration>,
    /// How long a check may take, likewise.
    limit: Duration,
    /// After how long a silence the system may give the connection up, likewise.
    patience: Duration,
    number: u32,
    next: Option<Instant>,
    overdue: Option<Instant>,
}

/// What a timer of it means.
pub(super) enum Beat {
    /// Nothing yet.
    None,
    /// A check has to be sent.
    Check,
    /// The last one has not come back in time.
    Missed,
}

impl Pulse {
    pub(crate) fn new(link: LinkId) -> Self {
        Self {
            link,
            channel: Names::link_name(link),
            every: None,
            limit: Duration::MAX,
            patience: UNCHECKED_PATIENCE,
            number: 0,
            next: None,
            overdue: None,
        }
    }

    pub(super) fn link(&self) -> LinkId {
        self.link
    }

    /// Names the connection and follows its own channel.
    pub(super) fn begin(&self, commands: &mut Commands) {
        commands.bear(&self.channel);
        commands.follow(&[&self.channel]);
    }

    /// Somebody moves in who wants the health checked so often.
    pub(super) fn take_in(&mut self, every: Duration, unavailable: Duration, now: Instant) {
        if every.is_zero() {
            return;
        }
        let every = self.every.map_or(every, |present| present.min(every));
        self.every = Some(every);
        self.limit = self.limit.min(every).min(unavailable);
        let due = now + every;
        self.next = Some(self.next.map_or(due, |next| next.min(due)));
    }

    /// How long the system is to believe in a silent connection, of which one who moves in expects this.
    pub(super) fn patience(&mut self, patience: Duration) -> Duration {
        self.patience = self.patience.min(patience);
        self.patience
    }

    /// Nobody lives here any more, or for the first time: there is nothing to be checked.
    pub(super) fn rest(&mut self) {
        (self.next, self.overdue) = (None, None);
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.overdue.or(self.next)
    }

    pub(super) fn ring(&self, now: Instant) -> Beat {
        match (self.overdue, self.next) {
            (Some(at), _) if at <= now => Beat::Missed,
            (None, Some(at)) if at <= now => Beat::Check,
            _ => Beat::None,
        }
    }

    /// Sends a check.
    pub(super) fn check(&mut self, now: Instant, commands: &mut Commands) {
        self.number = self.number.wrapping_add(1);
        self.overdue = Some(now + self.limit);
        self.next = self.every.map(|every| now + every);
        commands.check_health(&self.channel, &wire::write_health(self.number));
    }

    /// Reads a message: `true` if it is for the connection itself.
    pub(super) fn read(&mut self, channel: &[u8], payload: &[u8]) -> bool {
        let own = channel == self.channel.as_bytes();
        if own && wire::read_health(payload) == Some(self.number) {
            self.overdue = None;
        }
        own
    }
}
