//! What each command's reply means.

use std::sync::Once;

use redis::{ServerErrorKind, Value};

use super::rule;
use crate::error::{Error, Status};
use crate::protocol::Count;

/// The reply that the server owes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// To the handshake: protocol and login.
    Hello,
    /// To what belongs to the login as well: the database.
    Login,
    /// To what is asked only to hear a refusal to let us in: any other says nothing of that.
    Greeting,
    /// Whether the server is a master, where the handshake has not told.
    Role,
    /// To a command whose failure changes nothing.
    Courtesy,
    /// To an answer on a channel of somebody else's choice, which may be at another node.
    Favour,
    /// To a command that has to work.
    Done,
    /// To an answer, or to a message that has to come back. A server that is busy with a script refuses it
    /// for now: whoever asked asks again, and what does not come back in time is missed all the same.
    Word,
    /// So many more confirmations of one `SUBSCRIBE`.
    Subscribed(u8),
    /// So many more confirmations of one `UNSUBSCRIBE` that gives up a response channel.
    Dropped(u8),
    /// So many more confirmations of the `UNSUBSCRIBE` that leaves the lock channel.
    Left(u8),
    /// How many members a channel has.
    Members(Members),
    /// How many received our ping `number`.
    Receivers(u32),
    /// Both, counted in one step, of our ping `number`.
    ExactMembers(u32),
    /// The next fencing token.
    Token,
    /// Who is connected.
    Clients,
    /// To a `CLIENT KILL`.
    Killed,
    /// To `PING`.
    Alive,
    /// Which of several channels are followed.
    Followed,
    /// To a question of any kind: whatever it is.
    Question,
    /// To a write that only the master of a slot does.
    Guard,
}

impl Expect {
    /// Whether it says nothing yet of what the server is there for.
    pub(super) fn is_of_login(self) -> bool {
        matches!(self, Self::Hello | Self::Login | Self::Role | Self::Greeting)
    }
}

/// Why the members were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Members {
    /// While joining.
    AtJoin,
    /// Beside our ping `number`.
    BesidePing(u32),
    /// To see whether somebody has gone.
    Now,
}

/// What a reply says, freed from its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing that anybody waits for.
    Nothing,
    /// The channels are joined, and so many members are on the lock channel.
    Joined(u64),
    /// So many members are on the lock channel.
    Counted(u64),
    /// Ping `number` was executed.
    Pinged(u32, Count),
    /// The exact form of ping `number` was refused.
    ExactRefused(u32),
    /// Who is connected, in the form of `CLIENT LIST`; `None` if the server will not say.
    Clients(Option<String>),
    /// A fencing token.
    Token(u64),
    /// So many connections were ended; `None` if the server will not do it.
    Killed(Option<u64>),
    /// The lock channel is left.
    Left,
    /// The server is alive.
    Alive,
    /// Whether each of the channels that were asked for is followed.
    Followed(Vec<bool>),
    /// The answer to a question, a refusal included.
    Said(Said),
}

/// An answer of any kind, as far as anybody wants to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// A map.
    Pairs(Vec<(Said, Said)>),
    /// A list.
    Items(Vec<Said>),
    /// The server refuses.
    Refused {
        /// The first word: what kind of error it is.
        code: String,
        /// The rest.
        words: String,
    },
    /// Anything else.
    Other,
}

impl Said {
    fn of(value: &Value) -> Self {
        match value {
            Value::SimpleString(text) => Self::Text(text.clone()),
            Value::Okay => Self::Text("OK".to_owned()),
            Value::Int(number) => Self::Number(*number),
            Value::Map(pairs) => {
                let pair = |(key, value): &(Value, Value)| (Self::of(key), Self::of(value));
                Self::Pairs(pairs.iter().map(pair).collect())
            }
            Value::Array(items) => Self::Items(items.iter().map(Self::of).collect()),
            other => text_of(other).map_or(Self::Other, Self::Text),
        }
    }

    /// A text or a number, as a text.
    pub(crate) fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

/// Why a reply is of no use.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The server refused a command that has to work.
    Error(Error),
    /// No sound server answers that command so.
    Nonsense,
}

/// Reads the reply to a command. `receivers` carries the first of a plain ping's two counts over to
/// the second.
pub(super) fn read(
    expect: Expect,
    value: &Value,
    receivers: &mut u64,
    in_cluster: bool,
) -> Result<Answer, Refusal> {
    if let Value::ServerError(error) = value {
        return read_error(expect, error, in_cluster);
    }
    let members = || members_of(value).ok_or(Refusal::Nonsense);
    Ok(match expect {
        Expect::Members(Members::AtJoin) => Answer::Joined(members()?),
        Expect::Members(Members::Now) => Answer::Counted(members()?),
        Expect::Members(Members::BesidePing(number)) => {
            let (receivers, members) = (*receivers, members()?);
            Answer::Pinged(number, Count::Beside { receivers, members })
        }
        Expect::ExactMembers(number) => Answer::Pinged(number, Count::Exact(members()?)),
        Expect::Receivers(_) => {
            *receivers = integer(value).ok_or(Refusal::Nonsense)?;
            Answer::Nothing
        }
        Expect::Clients => Answer::Clients(Some(text_of(value).ok_or(Refusal::Nonsense)?)),
        Expect::Killed => Answer::Killed(Some(integer(value).ok_or(Refusal::Nonsense)?)),
        Expect::Left(_) => Answer::Left,
        Expect::Token if matches!(value, Value::Int(..1)) => return Err(no_counter()),
        Expect::Token => Answer::Token(integer(value).ok_or(Refusal::Nonsense)?),
        Expect::Alive => Answer::Alive,
        Expect::Question => Answer::Said(Said::of(value)),
        Expect::Followed => Answer::Followed(followed(value).ok_or(Refusal::Nonsense)?),
        // Others say "+OK" too, a mail server for one.
        Expect::Hello if !matches!(value, Value::Map(_)) => return Err(Refusal::Nonsense),
        Expect::Hello
        | Expect::Login
        | Expect::Role
        | Expect::Greeting
        | Expect::Courtesy
        | Expect::Favour
        | Expect::Done
        | Expect::Word
        | Expect::Guard
        | Expect::Subscribed(_)
        | Expect::Dropped(_) => Answer::Nothing,
    })
}

/// Whether the answer to the handshake, or to `ROLE`, says that the server is a replica.
pub(super) fn is_of_replica(value: &Value) -> bool {
    let says = |value: &Value, word: &str| text_of(value).is_some_and(|text| text == word);
    let is_replica = |value: &Value| says(value, "replica") || says(value, "slave");
    match value {
        Value::Map(fields) => {
            fields.iter().any(|(key, role)| says(key, "role") && is_replica(role))
        }
        Value::Array(items) => items.first().is_some_and(is_replica),
        _ => false,
    }
}

/// Whether the answer to the handshake says that there is none: the server is older than RESP3, or was told not
/// to speak it, or not with this user.
pub(super) fn knows_resp2_only(value: &Value) -> bool {
    let Value::ServerError(error) = value else {
        return false;
    };
    match (error.kind(), error.code()) {
        (_, "NOPROTO") => true,
        (Some(ServerErrorKind::NoPerm), _) => true,
        _ => is_unknown(error),
    }
}

fn read_error(
    expect: Expect,
    error: &redis::ServerError,
    in_cluster: bool,
) -> Result<Answer, Refusal> {
    let status = match (error.kind(), error.code()) {
        (_, "WRONGPASS" | "NOAUTH") => Status::Auth,
        (Some(ServerErrorKind::NoPerm), _) => Status::Denied,
        (_, "NOPROTO") => Status::Unsupported,
        _ => Status::Server,
    };
    match expect {
        Expect::Courtesy | Expect::Favour | Expect::Role => Ok(Answer::Nothing),
        Expect::Question => {
            let words = error.details().unwrap_or_default().to_owned();
            Ok(Answer::Said(Said::Refused { code: error.code().to_owned(), words }))
        }
        Expect::Word if error.code() == "BUSY" => Ok(Answer::Nothing),
        Expect::Guard if is_the_masters(error.code()) => Ok(Answer::Nothing),
        Expect::ExactMembers(number) => Ok(Answer::ExactRefused(number)),
        Expect::Clients => {
            forbidden_once("CLIENT LIST", error);
            Ok(Answer::Clients(None))
        }
        Expect::Killed => {
            forbidden_once("CLIENT KILL", error);
            Ok(Answer::Killed(None))
        }
        Expect::Greeting if status != Status::Auth && !is_full(error) => Ok(Answer::Nothing),
        Expect::Hello | Expect::Login | Expect::Greeting => {
            Err(Refusal::Error(login_failure(expect, status, error)))
        }
        Expect::Token if matches!(error.code(), "WRONGTYPE" | "ERR") => Err(no_counter()),
        Expect::Subscribed(_) if in_cluster && is_unknown(error) => {
            let text = "the server has no sharded channels, which Redis 7.0 and newer have";
            Err(Refusal::Error(Error::new(Status::Unsupported, text)))
        }
        _ => {
            let words = error.details().unwrap_or_default();
            let mut text = format!("the server says: {} {words}", error.code());
            if status == Status::Denied {
                text.push_str(&missing_rule(expect, words, in_cluster));
            }
            Err(Refusal::Error(Error::new(status, text)))
        }
    }
}

fn is_full(error: &redis::ServerError) -> bool {
    error.details().unwrap_or_default().starts_with("max number of clients")
}

fn is_unknown(error: &redis::ServerError) -> bool {
    // Redis writes it small; others that speak its protocol do not.
    error.details().unwrap_or_default().to_ascii_lowercase().starts_with("unknown command")
}

/// Whether it is the master of the slot that refuses a write so: before it looks at any of that, it looks
/// whether the slot is its own, and whether the cluster stands.
fn is_the_masters(code: &str) -> bool {
    matches!(code, "ASK" | "BUSY" | "MISCONF" | "NOREPLICAS" | "OOM")
}

/// The end of a sentence that tells of a refusal.
fn missing_rule(expect: Expect, words: &str, in_cluster: bool) -> String {
    let rule = rule::missing(expect, words, in_cluster);
    rule.map(|rule| format!(" (missing rule: {rule})")).unwrap_or_default()
}

/// Without these two a silent member cannot be ended, only waited for. Said once a process: a waiter
/// would say it every second.
fn forbidden_once(what: &str, error: &redis::ServerError) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let code = error.code();
        log::warn!(command = what, code; "the server refuses it: members that do not answer stay");
    });
}

/// A server may repeat the arguments of a command that it does not know, and those of the login are
/// secret: only its code is told.
fn login_failure(expect: Expect, status: Status, error: &redis::ServerError) -> Error {
    let details = error.details().unwrap_or_default();
    let unknown = is_unknown(error);
    let refused = ["AUTH ", "invalid password", "wrong number of arguments for 'auth'"]
        .iter()
        .any(|words| details.starts_with(words));
    match status {
        Status::Auth => Error::new(status, "the server does not accept the user or the password"),
        Status::Denied => {
            let rule = missing_rule(expect, details, false);
            Error::new(status, format!("the server denies this user the login commands{rule}"))
        }
        Status::Server if is_full(error) => {
            Error::new(status, "the server has no room for another client")
        }
        Status::Server if refused => {
            Error::new(Status::Auth, "the server does not accept the user or the password")
        }
        Status::Unsupported => too_old(),
        _ if unknown => too_old(),
        _ => Error::new(status, format!("the server refuses the login: {}", error.code())),
    }
}

fn too_old() -> Error {
    Error::new(Status::Unsupported, "the server does not speak RESP3, which Redis 6 and newer do")
}

/// The counts in the reply to `PUBSUB NUMSUB`, as far as they matter.
fn followed(value: &Value) -> Option<Vec<bool>> {
    let is_followed = |count: &Value| integer(count).map(|count| count > 0);
    match value {
        Value::Array(items) => items.chunks(2).map(|pair| is_followed(pair.get(1)?)).collect(),
        Value::Map(pairs) => pairs.iter().map(|(_, count)| is_followed(count)).collect(),
        _ => None,
    }
}

/// The one count in the reply to `PUBSUB NUMSUB` with one channel.
fn members_of(value: &Value) -> Option<u64> {
    match value {
        Value::Array(items) => match items.as_slice() {
            [_, count] => integer(count),
            _ => None,
        },
        Value::Map(pairs) => match pairs.as_slice() {
            [(_, count)] => integer(count),
            _ => None,
        },
        _ => None,
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

fn no_counter() -> Refusal {
    let text = "the key of the fencing counter holds something that does not count up from one";
    Refusal::Error(Error::new(Status::Fence, text))
}

fn integer(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}
