//! Those of one channel who live on one connection. At most one of them is a member that joins, waits or
//! holds; before it may be some that have left and whose leave the server has not confirmed yet. Where
//! a connection is shared, others may hold by the member's hold, and the rest stand in line for the
//! membership, in the order in which they came.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::berth::Stopped;
use super::claim::{Claim, Verdict};
use super::tenant::Tenant;
use crate::broker::{Answer, Link, Transport};
use crate::error::Error;
use crate::lock::LossReason;
use crate::protocol::{Input, Mode, Names, Phase, Stop};

/// Those of one channel.
pub(super) struct Room {
    names: Arc<Names>,
    /// All but the last are leaving. Boxed: most rooms have one, and many rooms are to be cheap.
    members: VecDeque<Box<Tenant>>,
    /// Readers that hold by the last member's hold.
    guests: Vec<Claim>,
    /// Those whose turn it is not yet.
    queue: VecDeque<Box<Tenant>>,
    /// When it is to be looked after, as far as the berth was told.
    pub(super) timer: Option<Instant>,
    /// Tells rooms apart whose timers are due at the same time.
    pub(super) number: u64,
}

impl Room {
    pub(super) fn new(names: Arc<Names>, number: u64) -> Self {
        let (members, guests) = (VecDeque::with_capacity(1), Vec::new());
        Self { names, members, guests, queue: VecDeque::new(), timer: None, number }
    }

    pub(super) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Whether nobody is in here.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.queue.is_empty()
    }

    /// The member that joins, waits or holds.
    fn active(&mut self) -> Option<&mut Tenant> {
        let is_active =
            |member: &&mut Box<Tenant>| !matches!(member.phase(), Phase::Leaving | Phase::Gone);
        self.members.back_mut().filter(is_active).map(|member| &mut **member)
    }

    /// The phase of one who lives here; whoever stands in line is waiting.
    pub(super) fn phase_of(&self, ticket: u64) -> Option<Phase> {
        if let Some(member) = self.members.iter().find(|m| m.claim.ticket() == ticket) {
            return Some(member.phase());
        }
        if self.guests.iter().any(|guest| guest.ticket() == ticket) {
            return Some(Phase::Held);
        }
        self.queue.iter().any(|t| t.claim.ticket() == ticket).then_some(Phase::Waiting)
    }

    /// When the member's next timer is due.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.members.back().and_then(|member| member.next_timer()).map(|(at, _)| at)
    }

    /// Lets somebody join, or stand in line.
    pub(super) fn enter<T: Transport>(
        &mut self,
        tenant: Box<Tenant>,
        now: Instant,
        link: &mut Link<T>,
    ) {
        let Some(member) = self.active() else {
            self.members.push_back(tenant);
            self.members.back_mut().into_iter().for_each(|member| member.carry_out(now, link));
            return;
        };
        let ahead = usize::from(member.phase() != Phase::Held) + self.queue.len();
        self.queue.push_back(tenant);
        let before = self.queue.len();
        self.admit(now, link);
        if let Some(tenant) = self.queue.back().filter(|_| self.queue.len() == before) {
            tenant.claim.tell(Verdict::Queued(ahead));
        }
    }

    /// Lets those readers hold by a reader's hold whose turn it is.
    fn admit<T: Transport>(&mut self, now: Instant, link: &mut Link<T>) {
        let Some(member) = self.members.back().filter(|member| member.claim.is_holding()) else {
            return;
        };
        let is_guest = |next: &Tenant| next.wants() == Mode::Shared && member.lets_in(next);
        while self.queue.front().is_some_and(|next| is_guest(next)) {
            let Some(next) = self.queue.pop_front() else { return };
            let mut guest = next.into_claim();
            guest.granted_beside();
            member.tell_guest(&mut guest, now, link);
            self.guests.push(guest);
        }
    }

    /// Lets the next in line join if nobody is in its way in here.
    fn go_on<T: Transport>(&mut self, now: Instant, link: &mut Link<T>) {
        if self.active().is_some() {
            return;
        }
        if let Some(next) = self.queue.pop_front() {
            next.claim.tell(Verdict::Freed);
            self.enter(next, now, link);
        }
    }

    /// Makes an acquire leave. Whoever is out with that goes to `gone`.
    pub(super) fn stop<T: Transport>(
        &mut self,
        ticket: u64,
        stop: Stop,
        now: Instant,
        link: &mut Link<T>,
        gone: &mut Vec<Claim>,
    ) -> Stopped {
        if let Some(at) = self.queue.iter().position(|t| t.claim.ticket() == ticket) {
            gone.extend(self.queue.remove(at).map(|tenant| tenant.into_claim()));
            self.admit(now, link);
            return Stopped::Waiting;
        }
        if let Some(at) = self.guests.iter().position(|guest| guest.ticket() == ticket) {
            return self.stop_guest(at, stop, gone);
        }
        let Some(at) = self.members.iter().position(|m| m.claim.ticket() == ticket) else {
            return Stopped::Ended;
        };
        let stopped = match self.members[at].phase() {
            Phase::Joining => Stopped::Joining,
            Phase::Waiting | Phase::SteppingAside | Phase::Aside => Stopped::Waiting,
            Phase::Held if !self.members[at].claim.is_holding() => Stopped::Waiting,
            Phase::Held if stop != Stop::Release => return Stopped::Held,
            Phase::Held => Stopped::Held,
            Phase::Leaving | Phase::Gone => return Stopped::Ended,
        };
        let heir = self.heir();
        let member = &mut self.members[at];
        match heir {
            Some(heir) => gone.push(member.pass_to(heir, now, link)),
            None => member.handle(now, Input::Stop(stop), link),
        }
        self.sweep(gone);
        self.go_on(now, link);
        self.admit(now, link);
        stopped
    }

    fn stop_guest(&mut self, at: usize, stop: Stop, gone: &mut Vec<Claim>) -> Stopped {
        let holds = self.guests[at].is_holding();
        if holds && stop != Stop::Release {
            return Stopped::Held;
        }
        let mut guest = self.guests.swap_remove(at);
        guest.departs();
        gone.push(guest);
        if holds { Stopped::Held } else { Stopped::Waiting }
    }

    /// Who may go on in the place of a holder that leaves, without a word to anybody else: another
    /// reader that holds by its hold, or the next in line, if nobody elsewhere comes first.
    fn heir(&mut self) -> Option<Claim> {
        let member = self.members.back()?;
        if member.phase() != Phase::Held {
            return None;
        }
        if let Some(guest) = self.guests.pop() {
            return Some(guest);
        }
        self.queue.front().filter(|next| member.lets_in(next))?;
        self.queue.pop_front().map(|next| next.into_claim())
    }

    /// What a command has come to.
    pub(super) fn answered<T: Transport>(
        &mut self,
        serial: u64,
        answer: Answer,
        now: Instant,
        link: &mut Link<T>,
        gone: &mut Vec<Claim>,
    ) {
        if answer == Answer::Alive {
            self.guests.iter_mut().for_each(Claim::proved);
        }
        let Some(member) = self.members.iter_mut().find(|member| member.serial() == serial) else {
            return;
        };
        // Before what it says is known: a lock that is held has been verified.
        member.claim.heard_of(link.heard_of());
        if let Some(input) = member.take_answer(answer, now, link) {
            member.handle(now, input, link);
        }
        self.sweep(gone);
        self.go_on(now, link);
    }

    /// A message has come. A leave and the next join follow each other in one stream: until the leave is
    /// confirmed, all that comes is for the one who leaves.
    pub(super) fn read<T: Transport>(
        &mut self,
        (channel, payload): (&[u8], &[u8]),
        legacy: u32,
        now: Instant,
        link: &mut Link<T>,
    ) {
        let Some(member) = self.members.front_mut() else {
            return;
        };
        member.claim.heard_of(link.heard_of());
        if let Some(input) = member.read(channel, payload, legacy) {
            if let Input::Event(_) = input {
                let readers = self.queue.iter().take_while(|next| next.wants() == Mode::Shared);
                readers.for_each(|reader| reader.claim.tell(Verdict::Freed));
            }
            member.handle(now, input, link);
        }
        if let Some(sent) = member.take_verified() {
            for claim in std::iter::once(&member.claim).chain(&self.guests) {
                claim.heard_of(sent);
                claim.tell(Verdict::Checked(sent));
            }
        }
        // Somebody elsewhere may have given up who came first.
        self.admit(now, link);
    }

    /// Runs the timers that are due.
    pub(super) fn ring<T: Transport>(&mut self, now: Instant, link: &mut Link<T>) {
        let Some(member) = self.members.back_mut() else {
            return;
        };
        while let Some((_, timer)) = member.next_timer().filter(|(at, _)| *at <= now) {
            member.handle(now, Input::Timer(timer), link);
        }
    }

    /// Has a message sent for the held lock that has to come back.
    pub(super) fn verify<T: Transport>(&mut self, now: Instant, link: &mut Link<T>) {
        if let Some(member) = self.active() {
            member.handle(now, Input::Verify, link);
        }
    }

    /// Whether there is a grant to be told.
    pub(super) fn has_grants(&self) -> bool {
        let member = self.members.back().is_some_and(|member| member.claim.is_granted());
        member || self.guests.iter().any(Claim::is_granted)
    }

    /// Tells of the grants.
    pub(super) fn tell_grants<T: Transport>(&mut self, now: Instant, link: &mut Link<T>) {
        let Some(member) = self.members.back_mut() else {
            return;
        };
        member.tell_grant(now, link);
        for guest in &mut self.guests {
            member.tell_guest(guest, now, link);
        }
        self.admit(now, link);
    }

    /// What the protocol has come to that no connection outlives.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.members.iter().find_map(|member| match member.broken() {
            Some(why) => Some(Fault::Broken(why)),
            None => member.is_unhealthy().then_some(Fault::Unhealthy),
        })
    }

    fn sweep(&mut self, gone: &mut Vec<Claim>) {
        while self.members.front().is_some_and(|member| member.phase() == Phase::Gone) {
            if self.members.front().is_some_and(|member| has_fault(member)) {
                return;
            }
            gone.extend(self.members.pop_front().map(|member| member.into_claim()));
        }
    }

    /// The connection is gone: tells whoever is in here, and empties the room.
    pub(super) fn evict(self, reason: LossReason, error: &Error, gone: &mut Vec<Claim>) {
        let claims = self.members.into_iter().map(|member| member.into_claim()).chain(self.guests);
        for claim in claims.chain(self.queue.into_iter().map(|next| next.into_claim())) {
            claim.evicted(reason, error);
            gone.push(claim);
        }
    }
}

fn has_fault(member: &Tenant) -> bool {
    member.broken().is_some() || member.is_unhealthy()
}

/// Why the connection has to be given up.
pub(super) enum Fault {
    /// What the server says makes no sense.
    Broken(&'static str),
    /// A health check has failed.
    Unhealthy,
}
