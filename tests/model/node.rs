//! The one Redis node: what each command does.

use crate::book::{DEAD, GONE, UNSTARTED};
use crate::foreign::At;
use crate::message::{Kind, Message};
use crate::steps::Rules;
use crate::world::{World, just};

impl Rules<'_> {
    /// Runs one command; says whether the next is of the same pipeline.
    pub fn serve(&self, world: &mut World, who: u8) -> bool {
        let command = world.at_mut(who).commands.pop().expect("a command to run");
        let members = world.subscribers(self.case).count_ones() as u8;
        let stale = command.stale;
        let reply = |kind| Message::new(kind, who).stale(stale).count(members);
        match command.kind {
            Kind::Subscribe => world.at_mut(who).subscribed = true,
            Kind::SubscribeReply => world.at_mut(who).reply_stale = stale,
            Kind::CountJoin => self.deliver(world, who, reply(Kind::Joined)),
            Kind::Count => self.deliver(world, who, reply(Kind::Counted)),
            Kind::CountAsk => {
                let asked = reply(Kind::Asked).count(command.n).beside(members);
                self.deliver(world, who, asked);
            }
            Kind::Publish => {
                self.publish_ping(world, who, stale);
                self.keep_receivers(world, who, members + self.case.patterns);
            }
            Kind::PublishExact => self.publish_exact(world, who, reply(Kind::AskedExact)),
            Kind::Roll => {
                let set = world.subscribers(self.case);
                self.deliver(world, who, Message::new(Kind::Rolled, who).listing(set));
            }
            Kind::Kill => self.kill_connection(world, command.who),
            Kind::Answer => self.deliver_answer(world, who, command),
            Kind::Unsubscribe => {
                self.unsubscribe(world, who);
                self.deliver(world, who, Message::new(Kind::Unsubscribed, who));
            }
            Kind::PublishLeft => self.publish(world, Message::new(Kind::Left, who)),
            delivery => unreachable!("{delivery:?} is no command"),
        }
        let goes_on = [Kind::Subscribe, Kind::SubscribeReply, Kind::Publish, Kind::Unsubscribe];
        goes_on.contains(&command.kind) && !world.at(who).commands.is_empty()
    }

    pub fn deliver(&self, world: &mut World, who: u8, message: Message) {
        let two_streams = self.case.two_streams && message.kind.is_reply();
        let acquire = world.at_mut(who);
        match acquire.actor {
            DEAD => {}
            _ if two_streams => acquire.replies.push(message),
            _ => acquire.inbox.push(message),
        }
    }

    pub fn publish(&self, world: &mut World, message: Message) {
        if world.foreign.subscribed && message.kind == Kind::Ping {
            world.foreign.inbox.push(message);
        }
        for who in self.case.acquires() {
            if world.at(who).subscribed {
                self.deliver(world, who, message);
            }
        }
    }

    fn publish_ping(&self, world: &mut World, who: u8, stale: bool) {
        world.at_mut(who).pinged = !stale;
        if !stale && world.is_active(who) {
            world.at_mut(who).owed = world.subscribers(self.case) & !just(who);
        }
        self.publish(world, Message::new(Kind::Ping, who).stale(stale));
    }

    /// The process puts the two answers together; here the second command carries the first's.
    fn keep_receivers(&self, world: &mut World, who: u8, receivers: u8) {
        let commands = &mut world.at_mut(who).commands;
        let mut first = true;
        commands.each_mut(|command| {
            if std::mem::take(&mut first) {
                debug_assert_eq!(command.kind, Kind::CountAsk);
                command.n = receivers;
            }
        });
    }

    fn publish_exact(&self, world: &mut World, who: u8, reply: Message) {
        if self.case.refuses_exact {
            let refused = Message::new(Kind::Refused, who).stale(reply.stale);
            return self.deliver(world, who, refused);
        }
        if self.case.reply_first {
            self.deliver(world, who, reply);
        }
        self.publish_ping(world, who, reply.stale);
        if !self.case.reply_first {
            self.deliver(world, who, reply);
        }
    }

    pub fn deliver_answer(&self, world: &mut World, from: u8, answer: Message) {
        if answer.who == self.case.stranger_number() {
            if !answer.stale && world.foreign.at == At::Collect {
                world.foreign.pongs.push(Message::new(Kind::Pong, from).count(answer.n));
            }
            return;
        }
        let to = world.at(answer.who);
        if to.subscribed && to.reply_stale == answer.stale {
            let pong = Message::new(Kind::Pong, from).stale(answer.stale).count(answer.n);
            self.deliver(world, answer.who, pong);
        }
    }

    fn kill_connection(&self, world: &mut World, connection: u8) {
        for who in self.case.acquires() {
            if self.case.connection(who) == connection && world.at(who).actor != UNSTARTED {
                self.kill(world, who);
            }
        }
    }

    /// Whoever is ended by mistake, because it was slow, holds no longer and will be told so: that it
    /// may act until then is no fault of the rules.
    fn kill(&self, world: &mut World, who: u8) {
        self.unsubscribe(world, who);
        self.age(world, who);
        self.is_out(world, who);
        let acquire = world.at_mut(who);
        if acquire.actor != DEAD {
            acquire.actor = GONE;
        }
        acquire.inbox.clear();
        acquire.replies.clear();
        acquire.commands.clear();
        (acquire.owed, acquire.promised) = (0, 0);
    }

    pub fn unsubscribe(&self, world: &mut World, who: u8) {
        world.at_mut(who).subscribed = false;
        world.at_mut(who).reply_stale = false;
        for acquire in &mut world.acquires {
            acquire.owed &= !just(who);
        }
    }
}
