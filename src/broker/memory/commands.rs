//! The commands that this library sends, as Redis executes them.

use redis_protocol::resp3::types::OwnedFrame as Frame;

use super::super::commands::EXACT_PING;
use super::resp::{bulk, error, list, map, number, ok, push, simple};
use super::state::{Session, State};

impl State {
    /// Executes one command, in one step.
    pub(super) fn execute(&mut self, id: u64, words: &[Vec<u8>]) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let Some((name, arguments)) = words.split_first() else {
            return;
        };
        let name = name.to_ascii_uppercase();
        match (name.as_slice(), arguments) {
            (b"SUBSCRIBE", channels @ [_, ..]) => self.subscribe(id, channels),
            (b"UNSUBSCRIBE", channels @ [_, ..]) => self.unsubscribe(id, channels),
            (name, arguments) => {
                let reply = self.reply(id, name, arguments);
                self.write(id, &reply);
            }
        }
    }

    fn reply(&mut self, id: u64, name: &[u8], arguments: &[&[u8]]) -> Frame {
        match (name, arguments) {
            (b"HELLO", [b"3"]) => hello(id),
            (b"PING", []) => simple("PONG"),
            (b"PUBLISH", [channel, payload]) => number(self.publish(channel, payload)),
            (b"PUBSUB", [b"NUMSUB", channels @ ..]) => self.count(channels),
            (b"INCR", [key]) => self.increment(key),
            (b"EVAL", [script, b"0", channel, payload]) if *script == EXACT_PING.as_bytes() => {
                self.publish(channel, payload);
                self.count(&[channel])
            }
            (b"CLIENT", [b"SETNAME", name]) => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.name = name.to_vec();
                }
                ok()
            }
            (b"CLIENT", [b"SETINFO", _, _]) => ok(),
            (b"CLIENT", [b"LIST"]) => bulk(self.list(|_| true)),
            (b"CLIENT", [b"LIST", b"TYPE", b"pubsub"]) => bulk(self.list(Session::is_subscribed)),
            (b"CLIENT", [b"KILL", b"ID", client]) => self.kill(client, |_| true),
            (b"CLIENT", [b"KILL", b"ID", client, b"TYPE", b"pubsub"]) => {
                self.kill(client, Session::is_subscribed)
            }
            (b"INFO", _) => bulk(format!("connected_clients:{}\r\n", self.sessions.len())),
            // It has no settings, and everybody may do everything.
            (b"CONFIG", [b"GET", _]) => map([]),
            (b"ACL", [b"DRYRUN", ..]) => ok(),
            _ => error("ERR unknown command or arguments of it, for a broker in memory"),
        }
    }

    fn subscribe(&mut self, id: u64, channels: &[&[u8]]) {
        for channel in channels {
            let Some(session) = self.sessions.get_mut(&id) else {
                return;
            };
            session.channels.insert(channel.to_vec());
            let count = session.channels.len();
            self.channels.entry(channel.to_vec()).or_default().insert(id);
            self.write(id, &push(vec![bulk("subscribe"), bulk(*channel), number(count)]));
        }
    }

    fn unsubscribe(&mut self, id: u64, channels: &[&[u8]]) {
        for channel in channels {
            let Some(session) = self.sessions.get_mut(&id) else {
                return;
            };
            session.channels.remove(*channel);
            let count = session.channels.len();
            self.unlist(id, channel);
            self.write(id, &push(vec![bulk("unsubscribe"), bulk(*channel), number(count)]));
        }
    }

    /// Tells how many received it.
    fn publish(&mut self, channel: &[u8], payload: &[u8]) -> usize {
        let subscribers = self.channels.get(channel).cloned().unwrap_or_default();
        let message = push(vec![bulk("message"), bulk(channel), bulk(payload)]);
        for subscriber in &subscribers {
            self.write(*subscriber, &message);
        }
        subscribers.len()
    }

    fn count(&self, channels: &[&[u8]]) -> Frame {
        let count = |channel: &[u8]| self.channels.get(channel).map_or(0, |all| all.len());
        let pair = |channel: &&[u8]| [bulk(*channel), number(count(channel))];
        list(channels.iter().flat_map(pair).collect())
    }

    fn increment(&mut self, key: &[u8]) -> Frame {
        let counter = self.counters.entry(key.to_vec()).or_default();
        let Some(next) = counter.checked_add(1) else {
            return error("ERR increment or decrement would overflow");
        };
        *counter = next;
        Frame::from(next)
    }

    /// In the form of `CLIENT LIST`.
    fn list(&self, which: impl Fn(&Session) -> bool) -> String {
        let listed = self.sessions.iter().filter(|(_, session)| which(session));
        let line = |(id, session): (&u64, &Session)| {
            let name = String::from_utf8_lossy(&session.name);
            format!("id={id} name={name} sub={}\n", session.channels.len())
        };
        listed.map(line).collect()
    }

    fn kill(&mut self, client: &[u8], which: impl Fn(&Session) -> bool) -> Frame {
        let id = std::str::from_utf8(client).ok().and_then(|id| id.parse().ok());
        let session = id.and_then(|id| Some((id, self.sessions.get(&id)?)));
        match session {
            Some((id, session)) if which(session) => {
                self.remove(id);
                number(1)
            }
            _ => number(0),
        }
    }
}

fn hello(id: u64) -> Frame {
    map([
        ("server", bulk("memory")),
        ("version", bulk(env!("CARGO_PKG_VERSION"))),
        ("proto", number(3)),
        ("id", Frame::from(i64::try_from(id).unwrap_or(i64::MAX))),
        ("mode", bulk("standalone")),
        ("role", bulk("master")),
        ("modules", list(Vec::new())),
    ])
}
