//! One membership on one connection: translates between the protocol core and the link.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::claim::{Claim, Landlord, News, Verdict};
use crate::broker::{self, Commands, Link, Members, Owner, Transport, rule};
use crate::error::{Error, Status};
use crate::protocol::wire::{Disclosure, Roll};
use crate::protocol::{
    Answer, Asker, Bears, Contender, Event, HolderId, Input, LinkId, Mode, Names, Output, Phase,
    Ping, ReplyTo, Suspect, Time, Timer, wire,
};

/// How long a silent connection is believed in that no health check looks after.
pub(crate) const UNCHECKED_PATIENCE: Duration = Duration::from_secs(20);
const MIN_PATIENCE: Duration = Duration::from_secs(1);

/// One membership on one connection, and the acquire that it is for.
pub(crate) struct Tenant {
    contender: Contender,
    pub(super) claim: Claim,
    owner: Owner,
    epoch: Instant,
    broken: Option<&'static str>,
    unhealthy: bool,
    /// When the latest verification was sent.
    verify_sent: Instant,
    /// One has come back.
    verified: bool,
    /// Whose connections are being ended.
    doomed: VecDeque<Suspect>,
    /// Who is on the channel, as soon as it is known which of the links are.
    rolls: VecDeque<Roll>,
}

impl Tenant {
    pub(crate) fn new(
        contender: Contender,
        names: Arc<Names>,
        disclosure: Disclosure,
        landlord: Arc<dyn Landlord>,
        ticket: u64,
        now: Instant,
    ) -> Self {
        Self {
            contender,
            claim: Claim::new(landlord, ticket, disclosure),
            owner: Owner { names, serial: 0 },
            epoch: now,
            broken: None,
            unhealthy: false,
            verify_sent: now,
            verified: false,
            doomed: VecDeque::new(),
            rolls: VecDeque::new(),
        }
    }

    /// Has exclusive grants draw a fencing token.
    pub(crate) fn fenced(mut self) -> Self {
        self.claim.fence(self.contender.wants());
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

    /// Gives it the number that its commands go by.
    pub(super) fn number(&mut self, serial: u64) {
        self.owner.serial = serial;
    }

    /// Puts it on a link that others live on too; see [`Contender::move_to_link`].
    pub(super) fn move_to_link(&mut self, link: LinkId) -> Duration {
        self.contender.move_to_link(link)
    }

    pub(super) fn ticket(&self) -> u64 {
        self.claim.ticket()
    }

    pub(super) fn serial(&self) -> u64 {
        self.owner.serial
    }

    pub(super) fn names(&self) -> &Arc<Names> {
        &self.owner.names
    }

    pub(super) fn id(&self) -> HolderId {
        self.contender.id()
    }

    pub(super) fn wants(&self) -> Mode {
        self.contender.wants()
    }

    /// How long a member may be silent.
    pub(super) fn unavailable(&self) -> Duration {
        self.contender.timing().unavailable
    }

    /// Whether another acquire of this process may hold by this membership.
    pub(super) fn lets_in(&self, other: &Self) -> bool {
        self.contender.lets_in(other.id(), other.wants())
    }

    /// Whether a health check has failed.
    pub(super) fn is_unhealthy(&self) -> bool {
        self.unhealthy
    }

    /// Why the protocol has given the connection up, if it has.
    pub(super) fn broken(&self) -> Option<&'static str> {
        self.broken
    }

    pub(super) fn phase(&self) -> Phase {
        self.contender.phase()
    }

    fn time(&self, at: Instant) -> Time {
        at.saturating_duration_since(self.epoch)
    }

    /// The next timer of the protocol.
    pub(super) fn next_timer(&self) -> Option<(Instant, Timer)> {
        let (at, timer) = self.contender.next_timer()?;
        self.epoch.checked_add(at).map(|at| (at, timer))
    }

    /// Feeds the protocol and carries out what it says.
    pub(super) fn handle<T: Transport>(&mut self, now: Instant, input: Input, link: &mut Link<T>) {
        self.note_wait(&input);
        self.contender.handle(self.time(now), input);
        self.carry_out(now, link);
    }

    /// Takes note of what an acquire waits for, before it is known whether that ends its waiting.
    fn note_wait(&self, input: &Input) {
        match input {
            _ if self.contender.phase() != Phase::Waiting => {}
            Input::Timer(Timer::AskAgain) => self.claim.tell(Verdict::Unanswered),
            Input::Event(Event::Left(_)) => self.claim.tell(Verdict::Freed),
            _ => {}
        }
    }

    /// Carries out what the protocol has said.
    pub(super) fn carry_out<T: Transport>(&mut self, now: Instant, link: &mut Link<T>) {
        let mut commands = Commands::of(&self.owner.names);
        while let Some(output) = self.contender.next_output() {
            self.perform(output, now, &mut commands);
        }
        self.send(commands, now, link);
    }

    fn send<T: Transport>(&self, commands: Commands, now: Instant, link: &mut Link<T>) {
        link.queue(commands, now, Some(&self.owner));
    }

    fn perform(&mut self, output: Output, now: Instant, commands: &mut Commands) {
        let names = &self.owner.names;
        match output {
            Output::Join { number } => self.join(number, commands),
            Output::Ask { number, exact, subscribe } => {
                self.ask(number, exact, subscribe, commands);
            }
            Output::Roll => commands.roll(),
            Output::Kill(suspect) => {
                log::warn!(
                    channel = names.channel(), holder:% = self.contender.id(), state = "waiting",
                    connection = suspect.client;
                    "ending a connection that does not answer"
                );
                commands.kill(suspect.client);
                self.doomed.push_back(suspect);
            }
            Output::Count => commands.count(Members::Now, names.channel()),
            Output::Pong { to, answer } => {
                let (channel, payload) = (names.response_channel(&to), self.pong(answer));
                match to {
                    ReplyTo::Token(_) => commands.pong(&channel, &payload),
                    // Whoever may ping may name any channel, one that we have no right to among them.
                    ReplyTo::Name(_) => commands.pong_elsewhere(&channel, &payload),
                }
            }
            Output::Granted => self.claim.granted(commands, &names.fence_key()),
            Output::Queued { ahead } => self.claim.tell(Verdict::Queued(ahead)),
            Output::Leave => self.leave(commands),
            Output::Gone => self.claim.departs(),
            Output::CheckHealth { number } => self.check(number, commands),
            Output::Verify { number } => {
                self.check(number, commands);
                self.verify_sent = now;
            }
            Output::Verified => self.verified = true,
            Output::Unhealthy => self.unhealthy = true,
            Output::Broken(why) => self.broken = Some(why),
        }
    }

    fn join(&mut self, number: u32, commands: &mut Commands) {
        let names = &self.owner.names;
        if self.contender.link().is_none() {
            commands.bear(&names.client_name(self.contender.id()));
        }
        commands.join(&self.channels(&self.response(number), &self.mark()));
        self.claim.draw_ahead(commands, &names.fence_key());
    }

    fn leave(&mut self, commands: &mut Commands) {
        let farewell = wire::write_event(Event::Left(self.contender.id()));
        let response = self.response(self.contender.ping_number());
        commands.leave(&self.channels(&response, &self.mark()), &farewell);
        if self.contender.link().is_none() {
            commands.bear_none();
        }
        if self.contender.phase() == Phase::Leaving {
            self.claim.leaves();
        }
    }

    /// What a member follows: the lock channel, the events, its answers, and on a link that link's mark.
    fn channels<'a>(&'a self, response: &'a str, mark: &'a Option<String>) -> Vec<&'a str> {
        let names = &self.owner.names;
        let mut channels = vec![names.channel(), names.events(), response];
        channels.extend(mark.as_deref());
        channels
    }

    fn mark(&self) -> Option<String> {
        self.contender.link().map(|link| self.owner.names.mark(link))
    }

    /// Tells of a grant, unless the news are too old for that.
    pub(super) fn tell_grant<T: Transport>(&mut self, now: Instant, link: &mut Link<T>) {
        let mut commands = Commands::of(&self.owner.names);
        let news = self.news(now, link);
        self.claim.tell_grant(self.contender.id(), news, &mut commands);
        self.send(commands, now, link);
    }

    /// Likewise, of the grant of one who holds by this membership.
    pub(super) fn tell_guest<T: Transport>(
        &self,
        guest: &mut Claim,
        now: Instant,
        link: &mut Link<T>,
    ) {
        let mut commands = Commands::of(&self.owner.names);
        let news = self.news(now, link);
        guest.tell_grant(self.contender.id(), news, &mut commands);
        self.send(commands, now, link);
    }

    fn news<T: Transport>(&self, now: Instant, link: &Link<T>) -> News {
        News { heard_of: link.heard_of(), now, unavailable: self.unavailable() }
    }

    /// Goes on for another acquire than before, which is out with this.
    pub(super) fn pass_to<T: Transport>(
        &mut self,
        next: Claim,
        now: Instant,
        link: &mut Link<T>,
    ) -> Claim {
        let mut before = std::mem::replace(&mut self.claim, next);
        before.departs();
        self.claim.tell(Verdict::Freed);
        if !self.claim.is_holding() && !self.claim.is_granted() {
            let mut commands = Commands::of(&self.owner.names);
            self.claim.granted(&mut commands, &self.owner.names.fence_key());
            self.send(commands, now, link);
        }
        before
    }

    pub(super) fn into_claim(self) -> Claim {
        self.claim
    }

    /// The server has ended a connection that it was told to end, if it was still there and may be ended.
    fn killed(&mut self, count: Option<u64>) {
        if count.is_none() {
            self.claim.tell(Verdict::Hindered(rule::KILL));
        }
        let Some(whom) = self.doomed.pop_front().filter(|_| matches!(count, Some(1..))) else {
            return;
        };
        let whom = match whom.bears {
            Bears::Member(id) => Some(id),
            _ => None,
        };
        self.claim.tell(Verdict::Reaped(whom));
    }

    /// When the verification was sent that has just come back, if one has.
    pub(super) fn take_verified(&mut self) -> Option<Instant> {
        std::mem::take(&mut self.verified).then_some(self.verify_sent)
    }

    fn ask(&self, number: u32, exact: bool, subscribe: bool, commands: &mut Commands) {
        if subscribe {
            commands.open_response(&self.response(number));
        }
        let names = &self.owner.names;
        let (id, wants) = (self.contender.id(), self.contender.wants());
        let reply_to = ReplyTo::Token(self.contender.reply_to(number));
        let asker = Asker::Member { id, wants, link: self.contender.link() };
        let payload = wire::write_ping(names, &Ping { reply_to, asker });
        match exact {
            true => commands.exact_ping(number, names.channel(), &payload),
            false => commands.ping(number, names.channel(), &payload),
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
        self.owner.names.response_channel(&ReplyTo::Token(self.contender.reply_to(number)))
    }

    fn pong(&self, answer: Answer) -> Vec<u8> {
        let (id, wants) = (self.contender.id(), self.contender.wants());
        wire::write_pong((id, wants, self.contender.link()), answer, &self.claim.disclosure)
    }

    /// What an answer of the server is to the protocol, if anything.
    pub(super) fn take_answer<T: Transport>(
        &mut self,
        answer: broker::Answer,
        now: Instant,
        link: &mut Link<T>,
    ) -> Option<Input> {
        use broker::Answer;
        Some(match answer {
            Answer::Joined(members) => Input::Joined { members },
            Answer::Counted(members) => Input::Counted { members },
            Answer::Pinged(number, count) => Input::Asked { number, count },
            Answer::ExactRefused(number) => {
                self.claim.tell(Verdict::Hindered(rule::SCRIPT));
                Input::ExactRefused { number }
            }
            Answer::Clients(None) => {
                self.claim.tell(Verdict::Hindered(rule::LIST));
                Input::Rolled(None)
            }
            Answer::Clients(Some(list)) => return self.listed(&list, now, link),
            Answer::Followed(followed) => {
                Input::Rolled(self.rolls.pop_front().map(|roll| roll.present(&followed)))
            }
            Answer::Left => Input::Unsubscribed,
            Answer::Token(token) => {
                self.claim.drawn(token);
                return None;
            }
            Answer::Killed(count) => {
                self.killed(count);
                return None;
            }
            Answer::Alive => {
                self.claim.proved();
                return None;
            }
            Answer::Nothing | Answer::Said(_) => return None,
        })
    }

    fn listed<T: Transport>(
        &mut self,
        list: &str,
        now: Instant,
        link: &mut Link<T>,
    ) -> Option<Input> {
        let roll = Roll::read(&self.owner.names, list, self.contender.link());
        let Some(marks) = roll.marks(&self.owner.names) else {
            return Some(Input::Rolled(Some(roll.all())));
        };
        let mut commands = Commands::of(&self.owner.names);
        commands.which(&marks);
        self.send(commands, now, link);
        self.rolls.push_back(roll);
        None
    }

    /// Reads a message; what is none of the protocol's is ignored.
    pub(super) fn read(&self, channel: &[u8], payload: &[u8], legacy: u32) -> Option<Input> {
        let names = &self.owner.names;
        if channel == names.channel().as_bytes() {
            return wire::read_ping(names, payload).map(Input::Ping);
        }
        if channel == names.events().as_bytes() {
            return wire::read_event(payload).map(Input::Event);
        }
        let ReplyTo::Token(token) = names.reply_to(std::str::from_utf8(channel).ok()?) else {
            return None;
        };
        let number = self.contender.number_of(token)?;
        if let (Phase::Held, Some(number)) = (self.contender.phase(), wire::read_health(payload)) {
            return Some(Input::Healthy { number });
        }
        let record = wire::read_pong(payload, legacy).record;
        Some(Input::Pong { number, record })
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
