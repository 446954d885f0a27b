//! One acquire's side of a membership: whom it is for, and what they were told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tenant::unix_ms;
use crate::broker::Commands;
use crate::error::Error;
use crate::lock::{Loss, LossReason};
use crate::protocol::{HolderId, Mode, wire};

/// What became of an acquire.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The lock is held.
    Granted {
        /// By a member of this id.
        id: HolderId,
        /// With this fencing token, if one was to be drawn.
        token: Option<u64>,
    },
    /// Others come first, and so many of them wait.
    Queued(usize),
    /// Members do not answer, and have to be waited for.
    Unanswered,
    /// The server refuses what helps against members that do not answer, and what this rule allows.
    Hindered(&'static str),
    /// Somebody who came first, or holds, has left.
    Freed,
    /// The attempt has failed.
    Failed(Error),
    /// The lock was held, and is no more.
    Lost(Loss),
    /// The server has confirmed that the lock was left, or the connection is gone.
    Departed,
    /// A message that was sent then, to see whether it would come back, has come back.
    Checked(Instant),
    /// The connection of somebody who did not answer was ended.
    Reaped(Option<HolderId>),
}

/// Whom the verdicts are for. Called with the line locked: must not call back into it.
pub(crate) trait Landlord: Send + Sync {
    /// Takes note of what became of acquire `ticket`.
    fn hear(&self, ticket: u64, verdict: Verdict);
    /// Takes note that a held lock was good at that time.
    fn verified(&self, at: Instant);
}

/// One acquire's side of a membership.
pub(crate) struct Claim {
    landlord: Arc<dyn Landlord>,
    ticket: u64,
    pub(super) disclosure: wire::Disclosure,
    standing: Standing,
    fence: Fence,
}

/// Where the drawing of a fencing token stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fence {
    /// None is wanted.
    Off,
    /// One is to be drawn with the grant.
    On,
    /// One is on its way, drawn together with the join: it counts if that finds us alone.
    Ahead,
    /// The lock is granted, and held back from the caller until the token is here.
    Awaited,
}

/// What the landlord was last told, or is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Acquiring,
    /// To be told of its grant, with this token.
    Granted(Option<u64>, Proof),
    Holding,
    Leaving,
    Departed,
}

/// Whether the server was asked, after the grant, if we are still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    None,
    Asked,
    Given,
}

/// How fresh the news are that a grant rests on.
#[derive(Clone, Copy)]
pub(super) struct News {
    /// When the latest of those commands was sent that the server has answered.
    pub(super) heard_of: Instant,
    pub(super) now: Instant,
    /// How long a member may be silent.
    pub(super) unavailable: Duration,
}

impl News {
    fn are_old(&self) -> bool {
        self.now.saturating_duration_since(self.heard_of) > self.unavailable / 8 * 7
    }
}

impl Claim {
    pub(super) fn new(
        landlord: Arc<dyn Landlord>,
        ticket: u64,
        disclosure: wire::Disclosure,
    ) -> Self {
        let (standing, fence) = (Standing::Acquiring, Fence::Off);
        Self { landlord, ticket, disclosure, standing, fence }
    }

    /// Has an exclusive grant draw a fencing token.
    pub(super) fn fence(&mut self, wants: Mode) {
        if wants == Mode::Exclusive {
            self.fence = Fence::On;
        }
    }

    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }

    pub(super) fn tell(&self, verdict: Verdict) {
        self.landlord.hear(self.ticket, verdict);
    }

    /// It joins; a token that is drawn in the same breath costs no round trip.
    pub(super) fn draw_ahead(&mut self, commands: &mut Commands, fence_key: &str) {
        if self.fence == Fence::On {
            self.fence = Fence::Ahead;
            commands.draw_token(fence_key);
        }
    }

    /// The lock is its own, once its token is here.
    pub(super) fn granted(&mut self, commands: &mut Commands, fence_key: &str) {
        self.disclosure.since_ms = self.disclosure.since_ms.map(|_| unix_ms());
        match self.fence {
            Fence::Off => return self.held(None),
            Fence::On => commands.draw_token(fence_key),
            Fence::Ahead | Fence::Awaited => {}
        }
        self.fence = Fence::Awaited;
    }

    /// It holds by another reader's hold: there is no token to be drawn.
    pub(super) fn granted_beside(&mut self) {
        self.held(None);
    }

    fn held(&mut self, token: Option<u64>) {
        self.standing = Standing::Granted(token, Proof::None);
    }

    /// A token has come. One that was drawn with a join that found others is of no use: they may hold
    /// with higher ones before we do.
    pub(super) fn drawn(&mut self, token: u64) {
        match self.fence {
            Fence::Awaited if self.standing == Standing::Acquiring => self.held(Some(token)),
            Fence::Ahead => self.fence = Fence::On,
            _ => {}
        }
    }

    /// Whether there is a grant to be told.
    pub(super) fn is_granted(&self) -> bool {
        matches!(self.standing, Standing::Granted(_, Proof::None | Proof::Given))
    }

    /// All that is here has been read, and the connection stands, as far as can be seen: the grant may be
    /// told, unless it rests on old news. A process that stands still while others wait is reaped, and
    /// finds what was said before that, with the end of the connection behind it or still on its way.
    /// Nobody is reaped sooner than `unavailable` after a ping that it has not answered, and whoever has
    /// an answer of the server has read, and answered, every ping from before it.
    pub(super) fn tell_grant(&mut self, id: HolderId, news: News, commands: &mut Commands) {
        let Standing::Granted(token, proof) = self.standing else {
            return;
        };
        match proof {
            Proof::None if news.are_old() => {
                commands.alive();
                self.standing = Standing::Granted(token, Proof::Asked);
            }
            Proof::Asked => {}
            // An answer that takes long, too, is all there is to get on such a way.
            Proof::None | Proof::Given => {
                self.standing = Standing::Holding;
                self.tell(Verdict::Granted { id, token });
            }
        }
    }

    /// The server has answered that it is there.
    pub(super) fn proved(&mut self) {
        if let Standing::Granted(token, Proof::Asked) = self.standing {
            self.standing = Standing::Granted(token, Proof::Given);
        }
    }

    /// The server has answered what was asked at that time.
    pub(super) fn heard_of(&self, at: Instant) {
        if !matches!(self.standing, Standing::Leaving | Standing::Departed) {
            self.landlord.verified(at);
        }
    }

    /// Whether the caller was told that it holds.
    pub(super) fn is_holding(&self) -> bool {
        self.standing == Standing::Holding
    }

    /// It is on its way out.
    pub(super) fn leaves(&mut self) {
        self.standing = Standing::Leaving;
    }

    /// It is out.
    pub(super) fn departs(&mut self) {
        self.standing = Standing::Departed;
        self.tell(Verdict::Departed);
    }

    /// The connection is gone, and `error` says why.
    pub(super) fn evicted(&self, reason: LossReason, error: &Error) {
        match self.standing {
            Standing::Acquiring | Standing::Granted(..) => {
                self.tell(Verdict::Failed(error.clone()));
            }
            Standing::Holding => {
                let message = error.message().to_owned();
                self.tell(Verdict::Lost(Loss { reason, message }));
            }
            Standing::Leaving => self.tell(Verdict::Departed),
            Standing::Departed => {}
        }
    }
}
