//! One Redis node: bytes in, bytes out, as RESP3 has them. It executes one command at a time and adds
//! to each client's output in that order; nothing else of Redis matters here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::mem::take;

use redis::{Parser, Value};

use crate::resp::{bulk, int, list, push_message, push_subscription, simple};

type Name = Vec<u8>;

/// A client was ended by another one's `CLIENT KILL`.
pub struct Kill {
    pub by: usize,
    pub whom: usize,
}

#[derive(Default)]
struct Client {
    parser: Parser,
    name: Name,
    channels: BTreeSet<Name>,
    out: Vec<u8>,
    /// Its own messages, while one of its commands runs, where the reply comes first.
    late: Vec<u8>,
}

#[derive(Default)]
pub struct Node {
    clients: BTreeMap<usize, Client>,
    channels: BTreeMap<Name, BTreeSet<usize>>,
    counters: BTreeMap<Name, i64>,
    /// The reply to a publish comes before its message (Redis 7.2 and newer).
    pub reply_first: bool,
    /// Subscribers by pattern, who receive everything and never answer.
    pub onlookers: i64,
    /// Whose output has grown.
    dirty: BTreeSet<usize>,
    kills: Vec<Kill>,
    pub commands: u64,
}

impl Node {
    pub fn accept(&mut self, conn: usize) {
        self.clients.insert(conn, Client::default());
    }

    pub fn knows(&self, conn: usize) -> bool {
        self.clients.contains_key(&conn)
    }

    pub fn is_subscribed(&self, conn: usize, channel: &str) -> bool {
        self.channels.get(channel.as_bytes()).is_some_and(|members| members.contains(&conn))
    }

    /// Lets go of a client and what it is subscribed to.
    pub fn drop_client(&mut self, conn: usize) {
        let Some(client) = self.clients.remove(&conn) else { return };
        for channel in &client.channels {
            self.remove_member(conn, channel);
        }
    }

    /// Begins anew, without the clients, and without the counters if nothing keeps them.
    pub fn restart(&mut self, keeps: bool) {
        self.clients.clear();
        self.channels.clear();
        self.dirty.clear();
        if !keeps {
            self.counters.clear();
        }
    }

    pub fn clients(&self) -> Vec<usize> {
        self.clients.keys().copied().collect()
    }

    pub fn take_kills(&mut self) -> Vec<Kill> {
        take(&mut self.kills)
    }

    pub fn take_dirty(&mut self) -> BTreeSet<usize> {
        take(&mut self.dirty)
    }

    pub fn output(&mut self, conn: usize) -> Option<&mut Vec<u8>> {
        self.clients.get_mut(&conn).map(|client| &mut client.out)
    }

    /// Executes what has come from a client.
    pub fn feed(&mut self, conn: usize, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(&conn) else { return };
        let mut parser = take(&mut client.parser);
        let mut input = Input(bytes);
        while let Ok(value) = parser.parse_value(&mut input) {
            self.execute(conn, value);
            if !self.knows(conn) {
                return;
            }
        }
        assert!(input.0.is_empty(), "a client sent what is no command");
        if let Some(client) = self.clients.get_mut(&conn) {
            client.parser = parser;
        }
    }

    /// Somebody outside the simulated processes publishes.
    pub fn publish(&mut self, channel: &[u8], payload: &[u8]) -> i64 {
        self.publish_from(usize::MAX, channel, payload)
    }

    fn execute(&mut self, conn: usize, value: Value) {
        let Value::Array(items) = value else { panic!("a command is an array: {value:?}") };
        let words: Vec<Name> = items.into_iter().map(text).collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.commands += 1;
        self.run(conn, &words);
        if let Some(client) = self.clients.get_mut(&conn) {
            let late = take(&mut client.late);
            client.out.extend(late);
        }
        self.dirty.insert(conn);
    }

    fn run(&mut self, conn: usize, words: &[&[u8]]) {
        match words {
            [b"HELLO", ..] => {
                self.reply(conn, |out| {
                    out.extend(b"%1\r\n");
                    bulk(out, b"server");
                    bulk(out, b"redis");
                });
            }
            [b"PING"] => self.reply(conn, |out| simple(out, "PONG")),
            [b"CLIENT", b"SETNAME", name] => {
                let name = name.to_vec();
                self.clients.get_mut(&conn).expect("a client").name = name;
                self.reply(conn, |out| simple(out, "OK"));
            }
            [b"CLIENT", b"SETINFO", ..] | [b"SELECT", _] | [b"AUTH", ..] => {
                self.reply(conn, |out| simple(out, "OK"));
            }
            [b"CLIENT", b"LIST", b"TYPE", b"pubsub"] => {
                let text = self.client_list();
                self.reply(conn, |out| bulk(out, text.as_bytes()));
            }
            [b"CLIENT", b"KILL", b"ID", id, b"TYPE", b"pubsub"] => self.kill(conn, id),
            [b"SUBSCRIBE", channels @ ..] => self.subscribe(conn, channels),
            [b"UNSUBSCRIBE", channels @ ..] => self.unsubscribe(conn, channels),
            [b"PUBLISH", channel, payload] => {
                let receivers = self.publish_from(conn, channel, payload);
                self.reply(conn, |out| int(out, receivers));
            }
            [b"PUBSUB", b"NUMSUB", channels @ ..] => self.count(conn, channels),
            [b"EVAL", script, b"0", channel, payload] => {
                assert!(String::from_utf8_lossy(script).contains("'PUBLISH', ARGV[1], ARGV[2]"));
                self.publish_from(conn, channel, payload);
                self.count(conn, &[channel]);
            }
            [b"INCR", key] => {
                let counter = self.counters.entry(key.to_vec()).or_insert(0);
                *counter += 1;
                let value = *counter;
                self.reply(conn, |out| int(out, value));
            }
            _ => panic!("the library has a command that this node lacks: {:?}", words.first()),
        }
    }

    fn reply(&mut self, conn: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(client) = self.clients.get_mut(&conn) {
            write(&mut client.out);
        }
    }

    fn count(&mut self, conn: usize, channels: &[&[u8]]) {
        let members = |channel: &&[u8]| self.channels.get(*channel).map_or(0, BTreeSet::len);
        let counts: Vec<_> = channels.iter().map(members).collect();
        self.reply(conn, |out| {
            list(out, 2 * channels.len() as i64);
            for (channel, members) in channels.iter().zip(counts) {
                bulk(out, channel);
                int(out, members as i64);
            }
        });
    }

    fn subscribe(&mut self, conn: usize, channels: &[&[u8]]) {
        for channel in channels {
            self.channels.entry(channel.to_vec()).or_default().insert(conn);
            let client = self.clients.get_mut(&conn).expect("a client");
            client.channels.insert(channel.to_vec());
            push_subscription(&mut client.out, b"subscribe", channel, client.channels.len());
        }
    }

    fn unsubscribe(&mut self, conn: usize, channels: &[&[u8]]) {
        for channel in channels {
            self.remove_member(conn, channel);
            let client = self.clients.get_mut(&conn).expect("a client");
            client.channels.remove(*channel);
            push_subscription(&mut client.out, b"unsubscribe", channel, client.channels.len());
        }
    }

    fn remove_member(&mut self, conn: usize, channel: &[u8]) {
        if let Some(members) = self.channels.get_mut(channel) {
            members.remove(&conn);
        }
        self.channels.retain(|_, members| !members.is_empty());
    }

    fn publish_from(&mut self, sender: usize, channel: &[u8], payload: &[u8]) -> i64 {
        let Some(members) = self.channels.get(channel) else { return self.onlookers };
        for member in members {
            let client = self.clients.get_mut(member).expect("a member is a client");
            let own = *member == sender && self.reply_first;
            push_message(if own { &mut client.late } else { &mut client.out }, channel, payload);
            self.dirty.insert(*member);
        }
        self.onlookers + members.len() as i64
    }

    fn client_list(&self) -> String {
        let mut text = String::new();
        for (conn, client) in self.clients.iter().filter(|(_, c)| !c.channels.is_empty()) {
            let name = String::from_utf8_lossy(&client.name);
            let sub = client.channels.len();
            text += &format!("id={conn} addr=sim:{conn} name={name} flags=P sub={sub}\n");
        }
        text
    }

    fn kill(&mut self, by: usize, id: &[u8]) {
        let whom: usize = String::from_utf8_lossy(id).parse().expect("an id");
        let found = self.clients.get(&whom).is_some_and(|client| !client.channels.is_empty());
        self.reply(by, |out| int(out, i64::from(found)));
        if found {
            self.drop_client(whom);
            self.kills.push(Kill { by, whom });
        }
    }
}

fn text(value: Value) -> Name {
    match value {
        Value::BulkString(bytes) => bytes,
        other => panic!("a command is of strings: {other:?}"),
    }
}

/// What has come so far; the parser keeps half a command until the rest is here.
struct Input<'a>(&'a [u8]);

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.0.read(buffer)
    }
}
