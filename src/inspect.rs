//! Who is on a lock's channel, asked from outside: the asker does not subscribe to it.

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::broker::{Answer, Commands, Dialogue, Frame, rule};
use crate::error::{Error, Result, Status};
use crate::protocol::wire::Roll;
use crate::protocol::{
    Asker, Bears, Count, ForeignStanding, MemberId, Mode, Names, Ping, ReplyTo, Standing, State,
    Suspect, wire,
};

/// How long one ping waits for its answers before another is sent.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// A member of a lock's channel, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id: 32 hex digits for every known kind of member that sends one, `legacy-N` for one that
    /// does not.
    pub id: String,
    /// What it holds; `None` while it waits.
    pub mode: Option<Mode>,
    /// What it wants, as far as it says so.
    pub wants: Option<Mode>,
    /// Where it stands. Of a foreign reader it cannot be told whether it holds already.
    pub state: State,
    /// Whether it has won an election among foreign waiters; `None` for one too old to say.
    pub elected: Option<bool>,
    /// It sent no readable record: portalocker 3.2.0 or older, which always holds exclusively.
    pub legacy: bool,
    /// It knows nothing of our queue: any portalocker.
    pub foreign: bool,
    /// Its host, if disclosed.
    pub host: Option<String>,
    /// Its process id, if disclosed.
    pub pid: Option<u64>,
    /// Its label, if it has one.
    pub label: Option<String>,
    /// Since when it is in this state, in milliseconds since the Unix epoch, by its own clock.
    pub since_ms: Option<u64>,
}

/// What [`reap_silent`](crate::Client::reap_silent) has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// Members that answered.
    pub alive: usize,
    /// Connections that were ended.
    pub killed: usize,
}

pub(crate) fn holders(dialogue: &mut Dialogue, names: &Names) -> Result<Vec<Holder>> {
    let mut probe = Probe::new(names);
    while !probe.ask_and_listen(dialogue, ASK_AGAIN)? {
        if dialogue.is_over() {
            return Err(probe.unclear(dialogue));
        }
    }
    let mut found: Vec<_> = probe.pongs.into_iter().map(Holder::from).collect();
    found.sort_by(|a, b| {
        (a.state == State::Waiting, &a.id).cmp(&(b.state == State::Waiting, &b.id))
    });
    Ok(found)
}

pub(crate) fn reap_silent(dialogue: &mut Dialogue, names: &Names) -> Result<Reaped> {
    let mut probe = Probe::new(names);
    let listed = probe.roll(dialogue)?;
    let complete = probe.ask_and_listen(dialogue, dialogue.time_left().mul_f32(0.8))?;
    let alive = probe.pongs.len();
    if complete {
        return Ok(Reaped { alive, killed: 0 });
    }
    // The answers to this list come after all that the server has passed on by now: what was late
    // because the server itself was stuck is still heard.
    let still = probe.roll(dialogue)?;
    let silent = still.into_iter().filter(|suspect| listed.contains(suspect));
    let silent: Vec<_> = silent.filter(|suspect| !probe.heard(suspect)).collect();
    let mut killed = 0;
    for suspect in silent {
        killed += kill(dialogue, suspect)?;
    }
    Ok(Reaped { alive: probe.pongs.len(), killed })
}

fn kill(dialogue: &mut Dialogue, suspect: Suspect) -> Result<usize> {
    let mut commands = Commands::default();
    commands.kill(suspect.client);
    dialogue.send(commands);
    while let Some(frame) = dialogue.next()? {
        match frame {
            Frame::Answer(Answer::Killed(Some(count))) => {
                return Ok(usize::try_from(count).unwrap_or(usize::MAX));
            }
            Frame::Answer(Answer::Killed(None)) => {
                return Err(denied("end connections", rule::KILL));
            }
            _ => {}
        }
    }
    Err(dialogue.silence())
}

fn denied(what: &str, rule: &str) -> Error {
    let text = format!("the server does not let this user {what} (missing rule: {rule})");
    Error::new(Status::Denied, text)
}

/// A ping from outside the channel, and what it brings.
struct Probe<'a> {
    names: &'a Names,
    response: String,
    number: u32,
    exact: bool,
    expected: Option<u64>,
    pongs: Vec<wire::Pong>,
}

impl<'a> Probe<'a> {
    fn new(names: &'a Names) -> Self {
        Self {
            names,
            response: String::new(),
            number: 0,
            exact: false,
            expected: None,
            pongs: Vec::new(),
        }
    }

    /// Pings once; `true` once everybody has answered.
    fn ask_and_listen(&mut self, dialogue: &mut Dialogue, patience: Duration) -> Result<bool> {
        self.ask(dialogue);
        let until = Instant::now() + patience;
        while !self.is_complete() {
            let Some(frame) = dialogue.next_until(until)? else {
                return Ok(false);
            };
            self.take(dialogue, frame);
        }
        Ok(true)
    }

    fn ask(&mut self, dialogue: &mut Dialogue) {
        let token = Uuid::now_v7().as_u128();
        let ping = Ping { reply_to: ReplyTo::Token(token), asker: Asker::Observer };
        let payload = wire::write_ping(self.names, &ping);
        self.number += 1;
        self.expected = None;
        self.pongs.clear();
        let mut commands = Commands::of(self.names);
        let response = self.names.response_channel(&ping.reply_to);
        let old = std::mem::replace(&mut self.response, response);
        commands.open_response(&self.response);
        match self.exact {
            true => commands.exact_ping(self.number, self.names.channel(), &payload),
            false => commands.ping(self.number, self.names.channel(), &payload),
        }
        if !old.is_empty() {
            commands.drop_response(&old);
        }
        dialogue.send(commands);
    }

    fn take(&mut self, dialogue: &mut Dialogue, frame: Frame) {
        match frame {
            Frame::Message { channel, payload } if channel == self.response.as_bytes() => {
                let number = u32::try_from(self.pongs.len()).unwrap_or(u32::MAX);
                self.pongs.push(wire::read_pong(&payload, number));
            }
            Frame::Answer(Answer::Pinged(number, count)) if number == self.number => {
                self.counted(dialogue, count);
            }
            Frame::Answer(Answer::ExactRefused(_)) => {
                self.exact = false;
            }
            _ => {}
        }
    }

    fn counted(&mut self, dialogue: &mut Dialogue, count: Count) {
        match count {
            Count::Exact(members) => self.expected = Some(members),
            Count::Beside { receivers, members } if receivers == members || self.exact => {
                self.expected = Some(receivers);
            }
            Count::Beside { receivers, .. } => {
                // Somebody follows by pattern, or came or went in between.
                self.expected = Some(receivers);
                self.exact = true;
                self.ask(dialogue);
            }
        }
    }

    fn is_complete(&self) -> bool {
        let mut ids: Vec<_> = self.pongs.iter().map(|pong| &pong.record.id).collect();
        ids.sort();
        ids.dedup();
        self.expected.is_some_and(|expected| ids.len() as u64 >= expected)
    }

    fn unclear(&self, dialogue: &Dialogue) -> Error {
        let Some(expected) = self.expected else {
            return dialogue.silence();
        };
        let answered = self.pongs.len();
        let text = format!("{answered} of {expected} members of the channel answer");
        Error::new(Status::Unclear, text)
    }

    /// Who is there by the names of the connections; answers that come before are taken in.
    fn roll(&mut self, dialogue: &mut Dialogue) -> Result<Vec<Suspect>> {
        let mut commands = Commands::of(self.names);
        commands.roll();
        dialogue.send(commands);
        let mut roll = None;
        while let Some(frame) = dialogue.next()? {
            match (frame, &mut roll) {
                (Frame::Answer(Answer::Clients(Some(list))), _) => {
                    let listed = Roll::read(self.names, &list, None);
                    let Some(marks) = listed.marks(self.names) else {
                        return Ok(listed.all());
                    };
                    let mut commands = Commands::of(self.names);
                    commands.which(&marks);
                    dialogue.send(commands);
                    roll = Some(listed);
                }
                (Frame::Answer(Answer::Clients(None)), _) => {
                    return Err(denied("list connections", rule::LIST));
                }
                (Frame::Answer(Answer::Followed(followed)), Some(roll)) => {
                    return Ok(std::mem::take(roll).present(&followed));
                }
                (frame, _) => self.take(dialogue, frame),
            }
        }
        Err(dialogue.silence())
    }

    fn heard(&self, suspect: &Suspect) -> bool {
        self.pongs.iter().any(|pong| match (suspect.bears, &pong.record.id) {
            (Bears::Member(member), MemberId::Hex(id)) => *id == member,
            (Bears::Legacy, MemberId::Legacy(_)) => true,
            (Bears::Link(link), _) => pong.record.link == Some(link),
            _ => false,
        })
    }
}

impl From<wire::Pong> for Holder {
    fn from(pong: wire::Pong) -> Self {
        let wire::Pong { record, holds, elected, disclosure } = pong;
        let (state, wants) = match record.standing {
            Standing::Queue { wants, state } => (state, Some(wants)),
            Standing::Foreign(ForeignStanding::Pending { .. }) => {
                (State::Waiting, Some(Mode::Exclusive))
            }
            Standing::Foreign(_) => (State::Held, holds),
        };
        Self {
            id: record.id.to_string(),
            mode: holds,
            wants,
            state,
            elected,
            legacy: matches!(record.id, MemberId::Legacy(_)),
            foreign: matches!(record.standing, Standing::Foreign(_)),
            host: disclosure.host.as_deref().map(str::to_owned),
            pid: disclosure.pid,
            label: disclosure.label,
            since_ms: disclosure.since_ms,
        }
    }
}
