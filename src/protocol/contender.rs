//! The state machine of one acquire, from joining the channel to having left it.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use super::Time;
use super::id::{HolderId, MemberId, ReplyTo};
use super::message::{Answer, Asker, Count, Event, Mode, Ping, Record, Standing, State};
use super::mutant::Mutant;
use super::probe::{Open, Probe};
use super::roster::Roster;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The join pipeline is through: subscribed, and so many members are on the channel, we included.
    Joined {
        /// Subscribers of the lock channel.
        members: u64,
    },
    /// A ping on the lock channel, our own included.
    Ping(Ping),
    /// An answer on the response channel of our ping `number`.
    Pong {
        /// Which of our pings it answers.
        number: u32,
        /// The answer.
        record: Record,
    },
    /// A message on the events channel.
    Event(Event),
    /// The server has executed our ping `number`.
    Asked {
        /// Which of our pings.
        number: u32,
        /// Who received it.
        count: Count,
    },
    /// The server will not run the exact form of our ping `number`, and has not sent it.
    ExactRefused {
        /// Which of our pings.
        number: u32,
    },
    /// The answer to [`Output::Count`].
    Counted {
        /// Subscribers of the lock channel.
        members: u64,
    },
    /// A timer that was armed is due.
    Timer(Timer),
    /// Leave: release a held lock, or give up waiting for it.
    Stop(Stop),
    /// The server has confirmed that the lock channel is unsubscribed.
    Unsubscribed,
}

/// Why a member leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The holder is done.
    Release,
    /// The waiter has waited long enough.
    Timeout,
    /// The waiter was told to give up.
    Cancel,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// In one pipeline: name the connection, subscribe to the lock channel, the events channel and
    /// the response channel of ping 0, ask for the number of subscribers.
    Join,
    /// Publish a ping and learn who received it. Ping `number` has its own response channel
    /// ([`Contender::reply_to`]); from the second on it is subscribed in the same pipeline and that
    /// of the ping before is given up.
    Ask {
        /// Which of our pings.
        number: u32,
        /// Count and publish in one atomic step ([`Count::Exact`]).
        exact: bool,
    },
    /// Ask for the number of subscribers of the lock channel.
    Count,
    /// Answer a ping.
    Pong {
        /// Where to.
        to: ReplyTo,
        /// What.
        answer: Answer,
    },
    /// The lock is held from now on.
    Granted,
    /// The probe is resolved and others come first: there is something to wait for.
    Queued {
        /// How many waiters come first, holders not counted.
        ahead: usize,
    },
    /// In one pipeline: unsubscribe from everything, publish the `left` event, clear the name.
    Leave,
    /// The connection is nobody's again.
    Gone,
    /// The server's answers make no sense for a subscribed member, or the subscription was taken
    /// away: the connection must not be trusted any more. If the lock was held, it is lost.
    Broken(&'static str),
}

/// The stages of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The join pipeline is under way.
    Joining,
    /// On the channel, without the lock.
    Waiting,
    /// On the channel, with the lock.
    Held,
    /// The leave pipeline is under way.
    Leaving,
    /// No longer on the channel.
    Gone,
}

/// What a contender may be waiting for besides messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// An answer is overdue: ask again.
    AskAgain,
    /// Look whether somebody has gone without a word.
    Count,
    /// Make sure that those ahead still answer.
    Recheck,
}

/// How long is long. See section 4.6 of `docs/protocol.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// Between two counts, for the first in line; the k-th counts k times as seldom.
    pub count_every: Time,
    /// How long the first ping waits for its answers; doubles with each further one.
    pub ask_again: Time,
    /// Up to this.
    pub unavailable: Time,
}

/// One acquire of one lock.
#[derive(Clone, Debug)]
pub struct Contender {
    id: HolderId,
    wants: Mode,
    timing: Timing,
    phase: Phase,
    /// A ping was heard before the join pipeline was through.
    heard_ping: bool,
    roster: Roster,
    /// The number of the latest ping.
    number: u32,
    probe: Probe,
    /// Plain counts have proved ambiguous on this channel.
    want_exact: bool,
    /// The server refuses exact counts.
    exact_refused: bool,
    /// The number of subscribers was asked for and not answered yet.
    counting: bool,
    counted_at: Time,
    /// When somebody ahead last asked round: those behind need not.
    checked_at: Time,
    /// The place in line that was last made known.
    told: Option<usize>,
    left_as: Option<Mode>,
    outputs: VecDeque<Output>,
    mutant: Option<Mutant>,
    late: Option<(HolderId, Mode)>,
}

impl Contender {
    /// Begins an acquire; the first output is [`Output::Join`].
    pub fn new(id: HolderId, wants: Mode, timing: Timing) -> Self {
        Self {
            id,
            wants,
            timing,
            phase: Phase::Joining,
            heard_ping: false,
            roster: Roster::default(),
            number: 0,
            probe: Probe::Unasked,
            want_exact: false,
            exact_refused: false,
            counting: false,
            counted_at: Time::ZERO,
            checked_at: Time::ZERO,
            told: None,
            left_as: None,
            outputs: VecDeque::from([Output::Join]),
            mutant: None,
            late: None,
        }
    }

    /// Switches a known fault on. Does nothing without the `mutants` feature.
    #[doc(hidden)]
    pub fn with_mutant(mut self, mutant: Option<Mutant>) -> Self {
        self.mutant = mutant;
        self
    }

    /// The id of this acquire.
    pub fn id(&self) -> HolderId {
        self.id
    }

    /// What it wants, or holds.
    pub fn wants(&self) -> Mode {
        self.wants
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The number of the latest ping.
    pub fn ping_number(&self) -> u32 {
        self.number
    }

    /// Whether everybody counted at the latest ping has answered.
    pub fn is_resolved(&self) -> bool {
        matches!(self.probe, Probe::Resolved { .. })
    }

    /// The token of the response channel of ping `number`: unique as long as ids are, and known
    /// without asking.
    pub fn reply_to(&self, number: u32) -> u128 {
        self.id.0.wrapping_add(u128::from(number))
    }

    /// Which ping a response channel's token belongs to, if to one of ours.
    pub fn number_of(&self, token: u128) -> Option<u32> {
        let number = u32::try_from(token.wrapping_sub(self.id.0)).ok()?;
        (number <= self.number).then_some(number)
    }

    /// Next thing to do, oldest first. To be emptied after every input.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The earliest timer, and when it is due.
    pub fn next_timer(&self) -> Option<(Time, Timer)> {
        let armed = [Timer::AskAgain, Timer::Count, Timer::Recheck].map(|t| (self.due(t), t));
        armed
            .into_iter()
            .filter_map(|(due, timer)| due.map(|at| (at, timer)))
            .min_by_key(|(at, _)| *at)
    }

    /// When this timer is due, if it is armed.
    pub fn due(&self, timer: Timer) -> Option<Time> {
        if self.phase != Phase::Waiting {
            return None;
        }
        let place = self.place();
        match (&self.probe, timer) {
            (Probe::Open(_), Timer::AskAgain) if self.is_mutant(Mutant::AskOnlyWhenFewer) => None,
            (Probe::Open(open), Timer::AskAgain) => Some(open.at.saturating_add(open.patience)),
            (Probe::Open(_), Timer::Count) if self.is_mutant(Mutant::AskOnlyWhenFewer) => {
                (!self.counting).then_some(self.counted_at)
            }
            (Probe::Resolved { .. }, Timer::Count) if !self.counting => {
                let gap = self.timing.count_every.saturating_mul(place);
                Some(self.counted_at.saturating_add(gap))
            }
            (Probe::Resolved { at }, Timer::Recheck) => {
                if self.is_mutant(Mutant::NeverRecheck) {
                    return None;
                }
                let since = self.checked_at.max(*at);
                Some(since.saturating_add(self.timing.unavailable.saturating_mul(place)))
            }
            _ => None,
        }
    }

    /// Takes note of what happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        let late = self.late.take_if(|_| matches!(input, Input::Pong { .. }));
        match input {
            Input::Joined { members } => self.joined(now, members),
            Input::Ping(ping) => self.pinged(now, ping),
            Input::Pong { number, record } => self.answered(number, record),
            Input::Event(Event::Left(id)) => self.roster.remove(&MemberId::Hex(id)),
            Input::Asked { number, count } => self.asked(now, number, count),
            Input::ExactRefused { number } => self.exact_refused(now, number),
            Input::Counted { members } => self.counted(now, members),
            Input::Timer(timer) => self.timer(now, timer),
            Input::Stop(_) => self.leave(),
            Input::Unsubscribed => self.unsubscribed(),
        }
        if let Some((id, wants)) = late {
            self.roster.overwrite(MemberId::Hex(id), waiting(wants));
        }
        self.decide(now);
    }

    fn joined(&mut self, now: Time, members: u64) {
        if self.phase != Phase::Joining {
            return;
        }
        if members == 0 {
            return self.broken("subscribed, yet the server counts no subscriber");
        }
        let heard_ping = self.heard_ping && !self.is_mutant(Mutant::AloneDespitePing);
        if members == 1 && !heard_ping {
            return self.grant();
        }
        self.phase = Phase::Waiting;
        self.ask(now, self.timing.ask_again);
    }

    fn pinged(&mut self, now: Time, ping: Ping) {
        match ping.asker {
            Asker::Member { id, .. } if id == self.id => return self.echoed(&ping),
            Asker::Member { id, wants } => self.note_asker(now, id, wants),
            Asker::Observer => {}
            Asker::Stranger => self.note_stranger(now),
        }
        self.heard_ping = true;
        if let Some(answer) = self.answer(ping.asker == Asker::Stranger) {
            let to = ping.reply_to;
            self.outputs.push_back(Output::Pong { to, answer });
        }
    }

    /// Rule 2: whoever is on the channel from here on will answer; what was known before may be gone.
    fn echoed(&mut self, ping: &Ping) {
        if ping.reply_to != ReplyTo::Token(self.reply_to(self.number)) {
            return;
        }
        let Probe::Open(open) = &mut self.probe else {
            return;
        };
        open.echoed = true;
        if !self.is_mutant(Mutant::KeepGhosts) {
            self.roster.clear();
        }
    }

    /// Rule 3: the record comes before the promise.
    fn note_asker(&mut self, now: Time, id: HolderId, wants: Mode) {
        if !matches!(self.phase, Phase::Joining | Phase::Waiting) {
            return;
        }
        if id < self.id {
            self.checked_at = now;
        }
        if self.is_mutant(Mutant::ForgetAsker) {
            return;
        }
        if self.is_mutant(Mutant::PingOverwritesPong) {
            self.late = Some((id, wants));
            return;
        }
        self.roster.note(MemberId::Hex(id), waiting(wants));
    }

    /// Rule 7: nothing is known of a foreign asker, so what was asked before it says too little.
    fn note_stranger(&mut self, now: Time) {
        if self.phase == Phase::Waiting {
            self.ask(now, self.timing.ask_again);
        }
    }

    fn answer(&self, foreign: bool) -> Option<Answer> {
        let (state, holds) = match self.phase {
            Phase::Joining | Phase::Waiting => (State::Waiting, None),
            Phase::Held => (State::Held, Some(self.wants)),
            Phase::Leaving if self.is_mutant(Mutant::LeaveInSilence) => return None,
            Phase::Leaving => (State::Leaving, self.left_as),
            Phase::Gone => return None,
        };
        let elected = foreign && state == State::Waiting && self.is_first();
        Some(Answer { state, holds, elected })
    }

    fn answered(&mut self, number: u32, record: Record) {
        if number != self.number && !self.is_mutant(Mutant::TakeOldPongs) {
            return;
        }
        if self.phase != Phase::Waiting {
            return;
        }
        if let Probe::Open(open) = &mut self.probe {
            open.heard(record.id.clone());
        }
        match record.standing {
            Standing::Queue { state: State::Leaving, .. } => self.roster.remove(&record.id),
            standing => self.roster.note(record.id, standing),
        }
    }

    fn asked(&mut self, now: Time, number: u32, count: Count) {
        let current = number == self.number || self.is_mutant(Mutant::TakeOldCount);
        let Probe::Open(open) = &mut self.probe else {
            return;
        };
        if self.phase != Phase::Waiting || !current {
            return;
        }
        let (subscribers, ambiguous) = match count {
            Count::Exact(members) => (members, false),
            Count::Beside { receivers, members } => (receivers, members < receivers),
        };
        let subscribers = match (count, self.mutant) {
            #[cfg(feature = "mutants")]
            (Count::Beside { members, .. }, Some(Mutant::ExpectMembers)) => members,
            _ => subscribers,
        };
        let Some(others) = subscribers.checked_sub(1) else {
            return self.broken("subscribed, yet the server delivered our ping to nobody");
        };
        open.expected = Some(others);
        let unclear = ambiguous && !open.is_complete();
        if unclear && !self.want_exact && !self.exact_refused {
            // Pattern subscribers, or somebody left in between: only an exact count can tell.
            self.want_exact = true;
            self.ask(now, self.timing.ask_again);
        }
    }

    fn exact_refused(&mut self, now: Time, number: u32) {
        self.exact_refused = true;
        self.want_exact = false;
        if number == self.number && self.phase == Phase::Waiting {
            self.ask(now, self.timing.ask_again);
        }
    }

    fn counted(&mut self, now: Time, members: u64) {
        self.counting = false;
        self.counted_at = now;
        if self.phase != Phase::Waiting {
            return;
        }
        if let (Probe::Open(open), true) = (&self.probe, self.is_mutant(Mutant::AskOnlyWhenFewer)) {
            if open.expected.is_some_and(|others| members < others + 1) {
                self.ask(now, self.timing.ask_again);
            }
            return;
        }
        if !self.is_resolved() {
            return;
        }
        if members == 0 {
            return self.broken("subscribed, yet the server counts no subscriber");
        }
        if members < self.roster.len() as u64 + 1 {
            self.ask(now, self.timing.ask_again);
        }
    }

    fn timer(&mut self, now: Time, timer: Timer) {
        match (timer, &self.probe) {
            _ if self.phase != Phase::Waiting => {}
            (Timer::AskAgain, Probe::Open(open)) => {
                let patience = open.patience.saturating_mul(2).min(self.timing.unavailable);
                self.ask(now, patience);
            }
            (Timer::Count, _) if self.due(Timer::Count).is_some() => {
                self.counting = true;
                self.outputs.push_back(Output::Count);
            }
            (Timer::Recheck, Probe::Resolved { .. }) => self.ask(now, self.timing.ask_again),
            _ => {}
        }
    }

    /// Sends a ping; what the one before may still bring no longer counts.
    fn ask(&mut self, now: Time, patience: Time) {
        if self.probe != Probe::Unasked {
            self.number += 1;
        }
        self.probe = Probe::Open(Open::new(now, patience));
        self.outputs.push_back(Output::Ask { number: self.number, exact: self.want_exact });
    }

    /// Rule 4, looked at again after every input.
    fn decide(&mut self, now: Time) {
        if self.phase != Phase::Waiting {
            return;
        }
        if let Probe::Open(open) = &self.probe {
            let complete = open.is_complete();
            if !complete && !self.is_mutant(Mutant::PromoteUnresolved) {
                return;
            }
            if complete {
                self.probe = Probe::Resolved { at: now };
                self.counted_at = now;
            }
        }
        if !self.is_blocked() {
            return self.grant();
        }
        let ahead = self.roster.waiters_ahead(&MemberId::Hex(self.id));
        if self.told != Some(ahead) {
            self.told = Some(ahead);
            self.outputs.push_back(Output::Queued { ahead });
        }
    }

    fn is_blocked(&self) -> bool {
        if self.is_mutant(Mutant::ReadersBarge) && self.wants == Mode::Shared {
            return self.roster.holds(Mode::Exclusive);
        }
        self.roster.blocks(&MemberId::Hex(self.id), self.wants)
    }

    fn grant(&mut self) {
        self.phase = Phase::Held;
        self.roster.clear();
        self.outputs.push_back(Output::Granted);
    }

    fn leave(&mut self) {
        self.left_as = match self.phase {
            Phase::Held => Some(self.wants),
            Phase::Joining | Phase::Waiting => None,
            Phase::Leaving | Phase::Gone => return,
        };
        self.phase = Phase::Leaving;
        self.roster.clear();
        self.outputs.push_back(Output::Leave);
    }

    fn unsubscribed(&mut self) {
        match self.phase {
            Phase::Leaving => {
                self.phase = Phase::Gone;
                self.outputs.push_back(Output::Gone);
            }
            Phase::Gone => {}
            _ => self.broken("the subscription was taken away"),
        }
    }

    fn broken(&mut self, why: &'static str) {
        self.phase = Phase::Gone;
        self.outputs.push_back(Output::Broken(why));
    }

    /// The place in line, from 1.
    fn place(&self) -> u32 {
        let ahead = self.roster.waiters_ahead(&MemberId::Hex(self.id));
        u32::try_from(ahead).unwrap_or(u32::MAX).saturating_add(1)
    }

    fn is_first(&self) -> bool {
        self.is_resolved() && self.place() == 1
    }

    fn is_mutant(&self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.mutant == Some(mutant)
    }
}

fn waiting(wants: Mode) -> Standing {
    let state = State::Waiting;
    Standing::Queue { wants, state }
}

/// All that may still matter. Left out are the times and the ping's number: two contenders that
/// differ in these alone behave alike to an explorer that lets any armed timer fire at any moment.
/// So is what only its phase gives a meaning to.
impl Hash for Contender {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.id, self.wants, self.phase, &self.outputs).hash(hasher);
        match self.phase {
            Phase::Joining => (self.heard_ping, &self.roster, self.late).hash(hasher),
            Phase::Waiting => self.hash_waiting(hasher),
            Phase::Held | Phase::Leaving | Phase::Gone => self.left_as.hash(hasher),
        }
    }
}

impl Contender {
    fn hash_waiting<H: Hasher>(&self, hasher: &mut H) {
        (&self.roster, self.late).hash(hasher);
        (self.counting, self.want_exact, self.exact_refused).hash(hasher);
        match &self.probe {
            Probe::Unasked => 0u8.hash(hasher),
            Probe::Open(open) => (1u8, open.echoed, open.expected, &open.answered).hash(hasher),
            Probe::Resolved { .. } => 2u8.hash(hasher),
        }
    }
}
