//! One acquire on one connection: translates between the protocol core and the link.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::broker::{self, Commands, Link, Members, Transport};
use crate::error::{Error, Status};
use crate::lock::{Loss, LossReason};
use crate::protocol::{
    Answer, Asker, Contender, Event, HolderId, Input, Mode, Names, Output, Phase, Ping, ReplyTo,
    Time, Timer, wire,
};

/// How long a silent connection is believed in that no health check looks after.
pub(crate) const UNCHECKED_PATIENCE: Duration = Duration::from_secs(20);
const MIN_PATIENCE: Duration = Duration::from_secs(1);

/// What became of an acquire.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The lock is held, with this fencing token if one was to be drawn.
    Granted(Option<u64>),
    /// Others come first, and so many of them wait.
    Queued(usize),
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

/// One acquire on one connection.
pub(crate) struct Tenant {
    contender: Contender,
    names: Arc<Names>,
    disclosure: wire::Disclosure,
    landlord: Arc<dyn Landlord>,
    ticket: u64,
    epoch: Instant,
    standing: Standing,
    broken: Option<&'static str>,
    unhealthy: bool,
    fence: Fence,
    /// When the latest verification was sent.
    verify_sent: Instant,
    /// When the latest of those commands was sent that the server has answered.
    heard_of: Instant,
    /// Whose connections are being ended.
    doomed: VecDeque<Option<HolderId>>,
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

impl Tenant {
    pub(crate) fn new(
        contender: Contender,
        names: Arc<Names>,
        disclosure: wire::Disclosure,
        landlord: Arc<dyn Landlord>,
        ticket: u64,
        now: Instant,
    ) -> Self {
        Self {
            contender,
            names,
            disclosure,
            landlord,
            ticket,
            epoch: now,
            standing: Standing::Acquiring,
            broken: None,
            unhealthy: false,
            fence: Fence::Off,
            verify_sent: now,
            heard_of: now,
            doomed: VecDeque::new(),
        }
    }

    /// Has exclusive grants draw a fencing token.
    pub(crate) fn fenced(mut self) -> Self {
        if self.contender.wants() == Mode::Exclusive {
            self.fence = Fence::On;
        }
        self
    }

    /// After how long a silence the system may give the connection up: not before the health checks
    /// have done so, nor after a single packet that was lost.
    pub(crate) fn patience(&self) -> Duration {
        let timing = self.contender.timing();
        match timing.health_every {
            Duration::ZERO => UNCHECKED_PATIENCE,
            every => every.saturating_add(every.min(timing.unavailable)).max(MIN_PATIENCE),
        }
    }

    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Whether a health check has failed.
    pub(crate) fn is_unhealthy(&self) -> bool {
        self.unhealthy
    }

    /// Why the protocol has given the connection up, if it has.
    pub(crate) fn broken(&self) -> Option<&'static str> {
        self.broken
    }

    pub(crate) fn phase(&self) -> Phase {
        self.contender.phase()
    }

    fn tell(&self, verdict: Verdict) {
        self.landlord.hear(self.ticket, verdict);
    }

    fn time(&self, at: Instant) -> Time {
        at.saturating_duration_since(self.epoch)
    }

    /// The next timer of the protocol.
    pub(crate) fn next_timer(&self) -> Option<(Instant, Timer)> {
        let (at, timer) = self.contender.next_timer()?;
        self.epoch.checked_add(at).map(|at| (at, timer))
    }

    /// Feeds the protocol and carries out what it says.
    pub(crate) fn handle<T: Transport>(&mut self, now: Instant, input: Input, link: &mut Link<T>) {
        self.contender.handle(self.time(now), input);
        self.carry_out(now, link);
    }

    /// Carries out what the protocol has said.
    pub(crate) fn carry_out<T: Transport>(&mut self, now: Instant, link: &mut Link<T>) {
        let mut commands = Commands::default();
        while let Some(output) = self.contender.next_output() {
            self.perform(output, now, &mut commands);
        }
        link.queue(commands, now);
    }

    fn perform(&mut self, output: Output, now: Instant, commands: &mut Commands) {
        let names = &self.names;
        match output {
            Output::Join { number } => {
                let name = names.client_name(self.contender.id());
                commands.join(&name, names.channel(), names.events(), &self.response(number));
                if self.fence == Fence::On {
                    self.fence = Fence::Ahead;
                    commands.draw_token(&names.fence_key());
                }
            }
            Output::Ask { number, exact, subscribe } => {
                self.ask(number, exact, subscribe, commands);
            }
            Output::Roll => commands.roll(),
            Output::Kill(suspect) => {
                log::warn!("{:?}: ending a connection that does not answer", names.channel());
                commands.kill(suspect.client);
                self.doomed.push_back(suspect.member);
            }
            Output::Count => commands.count(Members::Now, names.channel()),
            Output::Pong { to, answer } => {
                commands.pong(&names.response_channel(&to), &self.pong(answer));
            }
            Output::Granted => {
                self.disclosure.since_ms = self.disclosure.since_ms.map(|_| unix_ms());
                match self.fence {
                    Fence::Off => self.held(None),
                    Fence::On => commands.draw_token(&names.fence_key()),
                    Fence::Ahead | Fence::Awaited => {}
                }
                if self.fence != Fence::Off {
                    self.fence = Fence::Awaited;
                }
            }
            Output::Queued { ahead } => self.tell(Verdict::Queued(ahead)),
            Output::Leave => {
                let farewell = wire::write_event(Event::Left(self.contender.id()));
                let response = self.response(self.contender.ping_number());
                commands.leave(names.channel(), names.events(), &response, &farewell);
                if self.contender.phase() == Phase::Leaving {
                    self.standing = Standing::Leaving;
                }
            }
            Output::Gone => {
                self.standing = Standing::Departed;
                self.tell(Verdict::Departed);
            }
            Output::CheckHealth { number } => self.check(number, commands),
            Output::Verify { number } => {
                self.check(number, commands);
                self.verify_sent = now;
            }
            Output::Verified => {
                self.landlord.verified(self.verify_sent);
                self.tell(Verdict::Checked(self.verify_sent));
            }
            Output::Unhealthy => self.unhealthy = true,
            Output::Broken(why) => self.broken = Some(why),
        }
    }

    fn held(&mut self, token: Option<u64>) {
        self.standing = Standing::Granted(token, Proof::None);
    }

    /// Whether there is a grant to be told.
    pub(crate) fn is_granted(&self) -> bool {
        matches!(self.standing, Standing::Granted(..))
    }

    /// All that is here has been read, and the connection stands, as far as can be seen: the grant may be
    /// told, unless it rests on old news. A process that stands still while others wait is reaped, and
    /// finds what was said before that, with the end of the connection behind it or still on its way.
    /// Nobody is reaped sooner than `unavailable` after a ping that it has not answered, and whoever has
    /// an answer of the server has read, and answered, every ping from before it.
    pub(crate) fn tell_grant<T: Transport>(&mut self, now: Instant, link: &mut Link<T>) {
        let Standing::Granted(token, proof) = self.standing else {
            return;
        };
        let patience = self.contender.timing().unavailable / 8 * 7;
        let is_old = now.saturating_duration_since(self.heard_of) > patience;
        match proof {
            Proof::None if is_old => {
                let mut commands = Commands::default();
                commands.alive();
                link.queue(commands, now);
                self.standing = Standing::Granted(token, Proof::Asked);
            }
            Proof::Asked => {}
            // An answer that takes long, too, is all there is to get on such a way.
            Proof::None | Proof::Given => {
                self.standing = Standing::Holding;
                self.tell(Verdict::Granted(token));
            }
        }
    }

    /// The server has answered that it is there.
    pub(crate) fn proved(&mut self) {
        if let Standing::Granted(token, Proof::Asked) = self.standing {
            self.standing = Standing::Granted(token, Proof::Given);
        }
    }

    /// A token has come. One that was drawn with a join that found others is of no use: they may hold
    /// with higher ones before we do.
    pub(crate) fn drawn(&mut self, token: u64) {
        match self.fence {
            Fence::Awaited if self.standing == Standing::Acquiring => self.held(Some(token)),
            Fence::Ahead => self.fence = Fence::On,
            _ => {}
        }
    }

    /// The server has ended a connection that it was told to end, if it was still there and may be ended.
    pub(crate) fn killed(&mut self, count: Option<u64>) {
        let whom = self.doomed.pop_front();
        if let (Some(whom), Some(1..)) = (whom, count) {
            self.tell(Verdict::Reaped(whom));
        }
    }

    /// The server has answered what was asked at that time.
    pub(crate) fn heard_of(&mut self, at: Instant) {
        self.heard_of = self.heard_of.max(at);
        if !matches!(self.standing, Standing::Leaving | Standing::Departed) {
            self.landlord.verified(at);
        }
    }

    /// Whether the caller was told that it holds.
    pub(crate) fn is_holding(&self) -> bool {
        self.standing == Standing::Holding
    }

    fn ask(&self, number: u32, exact: bool, subscribe: bool, commands: &mut Commands) {
        if subscribe {
            commands.open_response(&self.response(number));
        }
        let (id, wants) = (self.contender.id(), self.contender.wants());
        let reply_to = ReplyTo::Token(self.contender.reply_to(number));
        let ping = Ping { reply_to, asker: Asker::Member { id, wants } };
        let payload = wire::write_ping(&self.names, &ping);
        match exact {
            true => commands.exact_ping(number, self.names.channel(), &payload),
            false => commands.ping(number, self.names.channel(), &payload),
        }
        if subscribe {
            commands.drop_response(&self.response(number - 1));
        }
    }

    fn check(&self, number: u32, commands: &mut Commands) {
        let response = self.response(self.contender.ping_number());
        commands.check_health(&response, &wire::write_health(number));
    }

    fn response(&self, number: u32) -> String {
        self.names.response_channel(&ReplyTo::Token(self.contender.reply_to(number)))
    }

    fn pong(&self, answer: Answer) -> Vec<u8> {
        wire::write_pong(self.contender.id(), self.contender.wants(), answer, &self.disclosure)
    }

    /// Reads a message; what is none of the protocol's is ignored.
    /// What an answer of the server is to the protocol, if anything.
    pub(crate) fn input_of(&self, answer: broker::Answer) -> Option<Input> {
        use broker::Answer;
        Some(match answer {
            Answer::Joined(members) => Input::Joined { members },
            Answer::Counted(members) => Input::Counted { members },
            Answer::Pinged(number, count) => Input::Asked { number, count },
            Answer::ExactRefused(number) => Input::ExactRefused { number },
            Answer::Clients(list) => {
                Input::Rolled(list.map(|list| wire::read_roll(&self.names, &list)))
            }
            Answer::Left => Input::Unsubscribed,
            Answer::Alive | Answer::Killed(_) | Answer::Token(_) | Answer::Nothing => {
                return None;
            }
        })
    }

    pub(crate) fn read(&self, channel: &[u8], payload: &[u8], legacy: u32) -> Option<Input> {
        if channel == self.names.channel().as_bytes() {
            return wire::read_ping(&self.names, payload).map(Input::Ping);
        }
        if channel == self.names.events().as_bytes() {
            return wire::read_event(payload).map(Input::Event);
        }
        let ReplyTo::Token(token) = self.names.reply_to(std::str::from_utf8(channel).ok()?) else {
            return None;
        };
        let number = self.contender.number_of(token)?;
        if let (Phase::Held, Some(number)) = (self.contender.phase(), wire::read_health(payload)) {
            return Some(Input::Healthy { number });
        }
        let record = wire::read_pong(payload, legacy).record;
        Some(Input::Pong { number, record })
    }

    /// The connection is gone, and `error` says why.
    pub(crate) fn evicted(&self, reason: LossReason, error: &Error) {
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

/// An error for a server that does not answer.
pub(crate) fn unresponsive(what: &str) -> Error {
    Error::new(Status::Unresponsive, format!("{what} does not answer"))
}

pub(crate) fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}
