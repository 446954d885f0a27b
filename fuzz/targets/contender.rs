//! A contender that is told anything at any time, in and out of order, does not panic, keeps the
//! promises of its outputs, and comes to rest.
#![no_main]

use std::collections::BTreeMap;
use std::sync::OnceLock;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use portalock::protocol::*;

/// As far as the options let anybody go.
const YEAR_MS: u64 = 366 * 24 * 3600 * 1000;
/// The highest count that a server can answer with.
const MAX_COUNT: u64 = i64::MAX as u64;
const TIMERS: [Timer; 6] =
    [Timer::AskAgain, Timer::Count, Timer::Recheck, Timer::Rejoin, Timer::Health, Timer::Overdue];

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});

fn run(u: &mut Unstructured) -> Result<()> {
    let mut contender = Contender::new(id(u)?, mode(u)?, timing(u)?);
    if let Some(link) = link(u)? {
        contender.move_to_link(link);
    }
    let mut watch = Watch::new(contender);
    watch.drain(0);
    while !u.is_empty() {
        let input = input(u, &watch)?;
        watch.move_clock(u)?;
        watch.handle(input);
    }
    watch.come_to_rest();
    Ok(())
}

/// With `PORTALOCK_FUZZ_TRACE` set, what an input says can be read.
fn is_traced() -> bool {
    static TRACED: OnceLock<bool> = OnceLock::new();
    *TRACED.get_or_init(|| std::env::var_os("PORTALOCK_FUZZ_TRACE").is_some())
}

// --- What it is told ------------------------------------------------------------------------------

fn mode(u: &mut Unstructured) -> Result<Mode> {
    Ok(if u.arbitrary()? { Mode::Shared } else { Mode::Exclusive })
}

/// Mostly one of a few, so that the same ones come back.
fn id(u: &mut Unstructured) -> Result<HolderId> {
    Ok(HolderId(match u.arbitrary::<u8>()? {
        0 => u.arbitrary()?,
        1 => u128::MAX,
        few => u128::from(few % 6),
    }))
}

fn member(u: &mut Unstructured) -> Result<MemberId> {
    Ok(match u.int_in_range(0..=9u8)? {
        0 => MemberId::Legacy(u.int_in_range(0..=3)?),
        1 => MemberId::parse(u.choose(&["", "0", "zoe", "00000000000000000000000000000002x"])?),
        _ => MemberId::Hex(id(u)?),
    })
}

fn span(u: &mut Unstructured) -> Result<Time> {
    let ms = u.choose(&[1, 5, 1000, YEAR_MS, 0])?;
    Ok(Time::from_millis(if *ms > 0 { *ms } else { u.int_in_range(1..=YEAR_MS)? }))
}

fn timing(u: &mut Unstructured) -> Result<Timing> {
    let health = u.arbitrary()?;
    Ok(Timing {
        count_every: span(u)?,
        ask_again: span(u)?,
        unavailable: span(u)?,
        check_interval: span(u)?,
        health_every: if health { span(u)? } else { Time::ZERO },
    })
}

fn standing(u: &mut Unstructured) -> Result<Standing> {
    let state = |n| [State::Waiting, State::Held, State::Leaving][usize::from(n)];
    Ok(match u.int_in_range(0..=5u8)? {
        3 => Standing::Foreign(ForeignStanding::Exclusive),
        4 => Standing::Foreign(ForeignStanding::Shared),
        5 => Standing::Foreign(ForeignStanding::Pending { elected: u.arbitrary()? }),
        n => Standing::Queue { wants: mode(u)?, state: state(n) },
    })
}

/// Mostly a small one.
fn count(u: &mut Unstructured) -> Result<u64> {
    Ok(match u.arbitrary::<u8>()? {
        0 => u.int_in_range(0..=MAX_COUNT)?,
        1 => MAX_COUNT,
        few => u64::from(few % 5),
    })
}

/// Mostly that of the latest ping.
fn number(u: &mut Unstructured, watch: &Watch) -> Result<u32> {
    let latest = watch.contender.ping_number();
    Ok(match u.arbitrary::<u8>()? {
        0 => u.arbitrary()?,
        few @ 1..64 => latest.wrapping_sub(u32::from(few % 4)),
        _ => latest,
    })
}

fn ping(u: &mut Unstructured, watch: &Watch) -> Result<Ping> {
    let me = &watch.contender;
    let own = Asker::Member { id: me.id(), wants: me.wants(), link: me.link() };
    let (asker, token) = match u.int_in_range(0..=5u8)? {
        0 => (Asker::Observer, u.arbitrary()?),
        1 => (Asker::Stranger, u.arbitrary()?),
        2 => {
            let asker = Asker::Member { id: id(u)?, wants: mode(u)?, link: link(u)? };
            (asker, u.arbitrary::<u8>()?.into())
        }
        _ => (own, me.reply_to(number(u, watch)?)),
    };
    let named = u.ratio(1, 16)?;
    let reply_to = if named { ReplyTo::Name("elsewhere".into()) } else { ReplyTo::Token(token) };
    Ok(Ping { reply_to, asker })
}

fn link(u: &mut Unstructured) -> Result<Option<LinkId>> {
    Ok(if u.ratio(1, 3)? { Some(LinkId(u.int_in_range(0..=3)?)) } else { None })
}

fn roll(u: &mut Unstructured) -> Result<Option<Vec<Suspect>>> {
    if u.ratio(1, 8)? {
        return Ok(None);
    }
    let mut all = Vec::new();
    for _ in 0..u.int_in_range(0..=5u8)? {
        let bears = match u.int_in_range(0..=5u8)? {
            0 => Bears::Legacy,
            1 => Bears::Link(LinkId(u.int_in_range(0..=3)?)),
            _ => Bears::Member(id(u)?),
        };
        all.push(Suspect { client: u.int_in_range(0..=3)?, bears });
    }
    Ok(Some(all))
}

fn input(u: &mut Unstructured, watch: &Watch) -> Result<Input> {
    Ok(match u.int_in_range(0..=15u8)? {
        0 => Input::Joined { members: count(u)? },
        1 | 2 => Input::Ping(ping(u, watch)?),
        3 | 4 => {
            let record = Record { id: member(u)?, link: link(u)?, standing: standing(u)? };
            Input::Pong { number: number(u, watch)?, record }
        }
        5 => Input::Event(Event::Left(id(u)?)),
        6 => Input::Asked { number: number(u, watch)?, count: Count::Exact(count(u)?) },
        7 | 8 => {
            let (receivers, members) = (count(u)?, count(u)?);
            let count = Count::Beside { receivers, members };
            Input::Asked { number: number(u, watch)?, count }
        }
        9 => Input::ExactRefused { number: number(u, watch)? },
        10 => Input::Rolled(roll(u)?),
        11 => Input::Healthy { number: number(u, watch)? },
        12 => Input::Counted { members: count(u)? },
        13 => Input::Timer(*u.choose(&TIMERS)?),
        14 => match watch.contender.next_timer() {
            Some((_, timer)) => Input::Timer(timer),
            None => Input::Joined { members: count(u)? },
        },
        _ => match u.int_in_range(0..=7u8)? {
            0 => Input::Stop(*u.choose(&[Stop::Release, Stop::Timeout, Stop::Cancel])?),
            1 | 2 => Input::Unsubscribed,
            3 => Input::Verify,
            _ => Input::Joined { members: count(u)? },
        },
    })
}

// --- What is expected of it -----------------------------------------------------------------------

struct Watch {
    contender: Contender,
    now: Time,
    /// Where it stood when the latest input came: answers tell of that.
    phase: Phase,
    granted: bool,
    over: bool,
    leaving: bool,
    counting: bool,
    /// The latest that a ping was said to be.
    asked: Option<u32>,
    /// Since the latest ping came back, these have said that they hold.
    holders: BTreeMap<HolderId, Mode>,
    /// The latest list of connections.
    listed: Vec<Suspect>,
}

impl Watch {
    fn new(contender: Contender) -> Self {
        Self {
            contender,
            now: Time::ZERO,
            phase: Phase::Joining,
            granted: false,
            over: false,
            leaving: false,
            counting: false,
            asked: None,
            holders: BTreeMap::new(),
            listed: Vec::new(),
        }
    }

    fn move_clock(&mut self, u: &mut Unstructured) -> Result<()> {
        let due = self.contender.next_timer().map_or(self.now, |(at, _)| at);
        match u.arbitrary::<u8>()? {
            // Nobody's clock does that; it must do no harm all the same.
            0 => self.now = Time::from_millis(u.arbitrary()?),
            1..64 => self.now = self.now.max(due),
            some => self.now = self.now.saturating_add(Time::from_millis(some.into())),
        }
        Ok(())
    }

    fn handle(&mut self, input: Input) {
        let suspects = match &input {
            Input::Rolled(Some(roll)) => roll.len(),
            _ => 0,
        };
        self.phase = self.contender.phase();
        if is_traced() {
            eprintln!("{:?} {:?} <- {input:?}", self.now, self.phase);
        }
        self.note(&input);
        let was_over = self.over;
        self.contender.handle(self.now, input);
        let outputs = self.drain(suspects);
        assert!(!was_over || outputs == 0, "it goes on after its end");
        self.check_timers();
    }

    fn note(&mut self, input: &Input) {
        let latest = self.contender.ping_number();
        match input {
            Input::Ping(ping) => {
                let own = ReplyTo::Token(self.contender.reply_to(latest));
                let ours =
                    matches!(ping.asker, Asker::Member { id, .. } if id == self.contender.id());
                if ours && ping.reply_to == own && !self.contender.is_resolved() {
                    self.holders.clear();
                }
            }
            Input::Pong { number, record } => self.note_record(*number == latest, record),
            Input::Event(Event::Left(id)) => drop(self.holders.remove(id)),
            Input::Counted { .. } => self.counting = false,
            Input::Rolled(roll) => self.listed = roll.clone().unwrap_or_default(),
            Input::Unsubscribed => self.leaving = false,
            _ => {}
        }
    }

    fn note_record(&mut self, is_current: bool, record: &Record) {
        let MemberId::Hex(id) = record.id else { return };
        match record.standing {
            Standing::Queue { state: State::Leaving, .. } => drop(self.holders.remove(&id)),
            Standing::Queue { wants, state: State::Held }
                if is_current && self.contender.phase() == Phase::Waiting =>
            {
                self.holders.entry(id).or_insert(wants);
            }
            _ => {}
        }
    }

    fn drain(&mut self, suspects: usize) -> usize {
        let mut outputs = 0;
        while let Some(output) = self.contender.next_output() {
            outputs += 1;
            if is_traced() {
                eprintln!("    -> {output:?}");
            }
            assert!(!self.over, "{output:?} after its end");
            self.check(output);
        }
        assert!(outputs <= 4 + suspects, "{outputs} outputs of one input");
        outputs
    }

    fn check(&mut self, output: Output) {
        let phase = self.contender.phase();
        match output {
            Output::Join { number } => {
                assert!(self.asked.is_none_or(|asked| asked < number), "a number comes again");
                self.holders.clear();
                assert!(!self.leaving);
            }
            Output::Ask { number, subscribe, .. } => {
                let next = if subscribe { self.asked.map(|n| n + 1) } else { Some(number) };
                assert!(next == Some(number) && self.asked < Some(number), "out of order");
                self.asked = Some(number);
            }
            Output::Count => {
                assert!(!self.counting, "it asks twice at once");
                self.counting = true;
            }
            Output::Kill(suspect) => {
                assert!(self.listed.contains(&suspect), "{suspect:?} is not there");
                assert_ne!(suspect.bears, Bears::Member(self.contender.id()), "itself");
                let own = self.contender.link().map(Bears::Link);
                assert_ne!(Some(suspect.bears), own, "what it lives on itself");
            }
            Output::Pong { answer, .. } => self.check_answer(answer),
            Output::Granted => {
                assert!(!self.granted, "granted twice");
                self.granted = true;
                let wants = self.contender.wants();
                let blocks = |held: &Mode| !held.admits(wants);
                assert!(!self.holders.values().any(blocks), "granted beside {:?}", self.holders);
            }
            Output::Leave => {
                assert!(!self.leaving, "it leaves twice");
                self.leaving = true;
                self.holders.clear();
            }
            Output::CheckHealth { .. } | Output::Verify { .. } | Output::Verified => {
                assert_eq!(phase, Phase::Held);
            }
            Output::Unhealthy => {
                assert!(self.granted);
                self.over = true;
            }
            Output::Gone | Output::Broken(_) => self.over = true,
            Output::Roll | Output::Queued { .. } => {}
        }
        assert_eq!(self.over, phase == Phase::Gone && self.over);
    }

    /// Nobody is told that the lock is free while it is held, or that a waiter holds it in its own name.
    fn check_answer(&self, answer: Answer) {
        let me = &self.contender;
        let (state, holds) = match self.phase {
            Phase::Held => (State::Held, Some(me.wants())),
            Phase::Joining | Phase::Waiting => (State::Waiting, None),
            _ => (State::Leaving, self.granted.then_some(me.wants())),
        };
        assert_eq!(answer.state, state);
        let to_stranger = answer.elected.is_none() || answer.elected == Some(true);
        assert!(answer.holds == holds || to_stranger, "{answer:?}");
    }

    fn check_timers(&self) {
        let me = &self.contender;
        assert_eq!(self.over, me.phase() == Phase::Gone);
        let due = TIMERS.into_iter().filter_map(|timer| me.due(timer)).min();
        assert_eq!(me.next_timer().map(|(at, _)| at), due);
        if !matches!(me.phase(), Phase::Waiting | Phase::Aside | Phase::Held) {
            assert_eq!(due, None, "it waits for the server alone");
        }
    }

    /// Whatever has happened: timers that are due and answered by nobody do not go on for ever at the
    /// same moment, and whoever wants to leave is let go.
    fn come_to_rest(mut self) {
        let mut at_once = 0;
        for _ in 0..64 {
            let Some((at, timer)) = self.contender.next_timer() else { break };
            at_once = if at > self.now { 0 } else { at_once + 1 };
            assert!(at_once < 16, "{timer:?} and others do not let the time go on");
            self.now = self.now.max(at);
            self.handle(Input::Timer(timer));
        }
        self.handle(Input::Stop(Stop::Release));
        if self.contender.phase() == Phase::Leaving {
            self.handle(Input::Unsubscribed);
        }
        assert!(self.over, "it does not leave");
    }
}
