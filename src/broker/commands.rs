//! The protocol's commands, and the replies each will bring.

use redis::cmd;

use super::endpoint::Endpoint;
use super::reply::{Expect, Members};
use crate::protocol::Names;

/// Publishes and counts in one atomic step: only so are the receivers known exactly on a channel that
/// somebody also follows by pattern.
pub(super) const EXACT_PING: &str = "redis.call('PUBLISH', ARGV[1], ARGV[2]) \
                          return redis.call('PUBSUB', 'NUMSUB', ARGV[1])";

/// The same in a cluster.
const EXACT_SHARD_PING: &str = "redis.call('SPUBLISH', ARGV[1], ARGV[2]) \
                                return redis.call('PUBSUB', 'SHARDNUMSUB', ARGV[1])";

/// Which of two connections a command goes by, where the server speaks RESP2 only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The one that follows channels and bears the name: it is what others see, and end.
    Channels,
    /// The other.
    Rest,
}

/// One of several commands, packed one behind the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) expect: Expect,
    pub(super) side: Side,
    /// Where its bytes end.
    pub(super) end: usize,
}

/// Commands that are to be written, and the replies that are owed.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    pub(super) bytes: Vec<u8>,
    pub(super) asked: Vec<Asked>,
    /// How many of them are health checks.
    pub(super) checks: u64,
    /// In a cluster, a key in the slot that they are about.
    guard: Option<String>,
}

impl Commands {
    /// Commands about a lock: with sharded channels where its names were made for a cluster.
    pub(crate) fn of(names: &Names) -> Self {
        Self { guard: names.slot().map(|_| names.fence_key()), ..Self::default() }
    }

    /// How a command is called here that has a name of its own for sharded channels.
    fn dialect(&self, plain: &'static str, sharded: &'static str) -> &'static str {
        if self.guard.is_some() { sharded } else { plain }
    }

    /// In a cluster, asks for a write to the slot: only its master does it, and only if it sees a majority of
    /// the others. Subscriptions are served by replicas and cut-off masters too. Nothing is changed by it: a
    /// counter does not expire.
    fn guard(&mut self) {
        if let Some(key) = &self.guard {
            let persist = cmd("PERSIST").arg(key).to_owned();
            self.push(Expect::Guard, &persist);
        }
    }

    fn push(&mut self, expect: Expect, command: &redis::Cmd) {
        self.push_to(Side::Rest, expect, command);
    }

    fn push_to(&mut self, side: Side, expect: Expect, command: &redis::Cmd) {
        command.write_packed_command(&mut self.bytes);
        self.asked.push(Asked { expect, side, end: self.bytes.len() });
    }

    /// Protocol, login, database, and who we are.
    pub(super) fn login(&mut self, endpoint: &Endpoint) {
        let mut hello = cmd("HELLO");
        hello.arg(3);
        if endpoint.login.user.is_some() || endpoint.login.password.is_some() {
            // Who has no password is let in with any, and who has one is refused without it.
            let password = endpoint.login.password.as_deref().unwrap_or_default();
            hello.arg("AUTH").arg(endpoint.user()).arg(password);
        }
        self.push(Expect::Hello, &hello);
        if endpoint.login.db != 0 {
            self.push(Expect::Login, cmd("SELECT").arg(endpoint.login.db));
        }
        self.introduce();
    }

    /// The same for two connections of RESP2.
    pub(super) fn login_twice(&mut self, endpoint: &Endpoint) {
        self.authenticate(Side::Rest, endpoint);
        // Without a password there is nothing else yet by which one can be refused.
        self.push(Expect::Greeting, &cmd("PING"));
        if endpoint.login.db != 0 {
            self.push(Expect::Login, cmd("SELECT").arg(endpoint.login.db));
        }
        if endpoint.wants_master() {
            self.push(Expect::Role, &cmd("ROLE"));
        }
        self.authenticate(Side::Channels, endpoint);
        self.push_to(Side::Channels, Expect::Greeting, &cmd("PING"));
        self.introduce();
    }

    fn authenticate(&mut self, side: Side, endpoint: &Endpoint) {
        let (user, password) = (&endpoint.login.user, &endpoint.login.password);
        if user.is_none() && password.is_none() {
            return;
        }
        let mut auth = cmd("AUTH");
        // Redis 5 and older know no users, all others this one.
        auth.arg(user.as_deref().filter(|user| *user != "default"))
            .arg(password.as_deref().unwrap_or_default());
        self.push_to(side, Expect::Login, &auth);
    }

    fn introduce(&mut self) {
        for (key, value) in [("LIB-NAME", "portalock"), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
            let info = cmd("CLIENT").arg("SETINFO").arg(key).arg(value).to_owned();
            self.push_to(Side::Channels, Expect::Courtesy, &info);
        }
    }

    /// Names the connection after one who is about to join.
    pub(crate) fn bear(&mut self, client_name: &str) {
        self.set_name(Expect::Done, client_name);
    }

    /// Gives the name up.
    pub(crate) fn bear_none(&mut self) {
        self.set_name(Expect::Courtesy, "");
    }

    /// Joins the channels, the lock channel first, and counts its members.
    pub(crate) fn join(&mut self, channels: &[&str]) {
        self.follow(channels);
        self.guard();
        self.count(Members::AtJoin, channels[0]);
    }

    /// Subscribes.
    pub(crate) fn follow(&mut self, channels: &[&str]) {
        let count = channels.len() as u8;
        let subscribe = self.dialect("SUBSCRIBE", "SSUBSCRIBE");
        self.push_to(Side::Channels, Expect::Subscribed(count), cmd(subscribe).arg(channels));
    }

    /// Draws a fencing token.
    pub(crate) fn draw_token(&mut self, key: &str) {
        self.push(Expect::Token, cmd("INCR").arg(key));
    }

    /// Leaves the channels, and says so on the second of them.
    pub(crate) fn leave(&mut self, channels: &[&str], farewell: &[u8]) {
        let count = channels.len() as u8;
        self.unfollow(Expect::Left(count), channels);
        self.publish(Expect::Courtesy, channels[1], farewell);
    }

    fn unfollow(&mut self, expect: Expect, channels: &[&str]) {
        let unsubscribe = self.dialect("UNSUBSCRIBE", "SUNSUBSCRIBE");
        self.push_to(Side::Channels, expect, cmd(unsubscribe).arg(channels));
    }

    fn count_all(&mut self, expect: Expect, channels: &[impl redis::ToRedisArgs]) {
        let count = self.dialect("NUMSUB", "SHARDNUMSUB");
        self.push(expect, cmd("PUBSUB").arg(count).arg(channels));
    }

    fn set_name(&mut self, expect: Expect, name: &str) {
        self.push_to(Side::Channels, expect, cmd("CLIENT").arg("SETNAME").arg(name));
    }

    /// Counts the members of a channel.
    pub(crate) fn count(&mut self, why: Members, channel: &str) {
        self.count_all(Expect::Members(why), &[channel]);
    }

    /// Adds a response channel.
    pub(crate) fn open_response(&mut self, response: &str) {
        self.follow(&[response]);
    }

    /// Asks which of these channels are followed.
    pub(crate) fn which(&mut self, channels: &[String]) {
        self.count_all(Expect::Followed, channels);
    }

    /// Gives a response channel up.
    pub(crate) fn drop_response(&mut self, response: &str) {
        self.unfollow(Expect::Dropped(1), &[response]);
    }

    /// Publishes ping `number` and counts beside it.
    pub(crate) fn ping(&mut self, number: u32, channel: &str, payload: &[u8]) {
        self.guard();
        self.publish(Expect::Receivers(number), channel, payload);
        self.count(Members::BesidePing(number), channel);
    }

    /// Publishes ping `number` and counts in one step.
    pub(crate) fn exact_ping(&mut self, number: u32, channel: &str, payload: &[u8]) {
        self.guard();
        let script = self.dialect(EXACT_PING, EXACT_SHARD_PING);
        let eval = cmd("EVAL").arg(script).arg(0).arg(channel).arg(payload).to_owned();
        self.push(Expect::ExactMembers(number), &eval);
    }

    /// Lists the connections with subscriptions.
    pub(crate) fn roll(&mut self) {
        self.push(Expect::Clients, cmd("CLIENT").arg("LIST").arg("TYPE").arg("pubsub"));
    }

    /// Ends a connection, if it still has subscriptions.
    pub(crate) fn kill(&mut self, client: u64) {
        let kill = cmd("CLIENT").arg("KILL").arg("ID").arg(client).to_owned();
        self.push(Expect::Killed, kill.to_owned().arg("TYPE").arg("pubsub"));
    }

    /// Answers a ping that wants the answer on a channel that is not the lock's: a refusal says nothing of us.
    pub(crate) fn pong_elsewhere(&mut self, response: &str, payload: &[u8]) {
        self.publish(Expect::Favour, response, payload);
    }

    /// Answers a ping.
    pub(crate) fn pong(&mut self, response: &str, payload: &[u8]) {
        self.publish(Expect::Word, response, payload);
    }

    /// Sends a message that has to come back.
    pub(crate) fn check_health(&mut self, response: &str, payload: &[u8]) {
        self.checks += 1;
        self.guard();
        self.publish(Expect::Word, response, payload);
    }

    /// Asks something that locks do not need, of which any answer will do.
    pub(crate) fn question(&mut self, words: &[&str]) {
        let (name, rest) = words.split_first().unwrap_or((&"PING", &[]));
        self.push(Expect::Question, cmd(name).arg(rest));
    }

    /// Asks for a sign of life.
    pub(crate) fn alive(&mut self) {
        self.push_to(Side::Channels, Expect::Alive, &cmd("PING"));
    }

    /// The same, where nobody waits for the answer.
    pub(super) fn alive_again(&mut self) {
        self.push_to(Side::Channels, Expect::Courtesy, &cmd("PING"));
    }

    fn publish(&mut self, expect: Expect, channel: &str, payload: &[u8]) {
        let publish = self.dialect("PUBLISH", "SPUBLISH");
        self.push(expect, cmd(publish).arg(channel).arg(payload));
    }
}
