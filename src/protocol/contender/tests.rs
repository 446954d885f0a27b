//! The rules one at a time. That they are enough together is for the explorer to show.

use std::time::Duration;

use super::*;
use crate::protocol::message::{Count, ForeignStanding, Record};
use crate::protocol::{Asker, ReplyTo};

const ME: HolderId = HolderId(0x500);
const LOW: HolderId = HolderId(0x100);
const HIGH: HolderId = HolderId(0x900);

const TIMING: Timing = Timing {
    count_every: Duration::from_millis(20),
    ask_again: Duration::from_millis(50),
    unavailable: Duration::from_millis(1000),
    check_interval: Duration::from_millis(250),
    health_every: Duration::from_secs(10),
};

struct Bench {
    contender: Contender,
    now: Time,
}

impl Bench {
    fn new(wants: Mode) -> Self {
        let mut bench = Self { contender: Contender::new(ME, wants, TIMING), now: Time::ZERO };
        assert_eq!(bench.outputs(), [Output::Join { number: 0 }]);
        bench
    }

    /// On the channel with `others`, its first ping sent, echoed and counted.
    fn asking(wants: Mode, others: u64) -> Self {
        let mut bench = Self::new(wants);
        let outputs = bench.on(Input::Joined { members: others + 1 });
        assert_eq!(outputs, [Output::Ask { number: 0, exact: false, subscribe: false }]);
        bench.run_ping(0, others);
        bench
    }

    fn run_ping(&mut self, number: u32, others: u64) {
        assert_eq!(self.on(Input::Ping(self.own_ping(number))), []);
        let count = Count::Beside { receivers: others + 1, members: others + 1 };
        self.on(Input::Asked { number, count });
    }

    fn own_ping(&self, number: u32) -> Ping {
        let reply_to = ReplyTo::Token(self.contender.reply_to(number));
        Ping {
            reply_to,
            asker: Asker::Member { id: ME, wants: self.contender.wants(), link: None },
        }
    }

    fn on(&mut self, input: Input) -> Vec<Output> {
        self.contender.handle(self.now, input);
        self.outputs()
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.contender.next_output()).collect()
    }

    fn pong(&mut self, number: u32, id: HolderId, standing: Standing) -> Vec<Output> {
        self.on(Input::Pong {
            number,
            record: Record { id: MemberId::Hex(id), link: None, standing },
        })
    }

    /// Lets the next timer fire when it is due.
    fn fire(&mut self, expected: Timer) -> Vec<Output> {
        let (at, timer) = self.contender.next_timer().expect("no timer is armed");
        assert_eq!(timer, expected, "at {at:?}");
        self.now = at;
        self.on(Input::Timer(timer))
    }

    /// Counts, with the same result each time, until another timer is next.
    fn count_until(&mut self, timer: Timer, members: u64) {
        while self.contender.next_timer().is_some_and(|(_, next)| next != timer) {
            assert_eq!(self.fire(Timer::Count), [Output::Count]);
            assert_eq!(self.on(Input::Counted { members }), []);
        }
    }
}

fn held(wants: Mode) -> Standing {
    Standing::Queue { wants, state: State::Held }
}

fn stranger_ping() -> Ping {
    Ping { reply_to: ReplyTo::Name("elsewhere".into()), asker: Asker::Stranger }
}

#[test]
fn alone_is_granted_at_once() {
    let mut bench = Bench::new(Mode::Exclusive);
    assert_eq!(bench.on(Input::Joined { members: 1 }), [Output::Granted]);
}

#[test]
fn alone_after_a_ping_asks() {
    let mut bench = Bench::new(Mode::Exclusive);
    let ping = Ping {
        reply_to: ReplyTo::Token(HIGH.0),
        asker: Asker::Member { id: HIGH, wants: Mode::Exclusive, link: None },
    };
    assert_eq!(bench.on(Input::Ping(ping)).len(), 1);
    assert!(matches!(bench.on(Input::Joined { members: 1 })[..], [Output::Ask { .. }]));
}

/// Garbage on the response channel, while the ping is on its way: it must not stand for the holder.
#[test]
fn what_comes_before_the_echo_answers_nothing() {
    let mut bench = Bench::new(Mode::Exclusive);
    bench.on(Input::Joined { members: 2 });
    let standing = Standing::Foreign(ForeignStanding::Exclusive);
    let record = Record { id: MemberId::Legacy(0), link: None, standing };
    assert_eq!(bench.on(Input::Pong { number: 0, record }), []);
    bench.run_ping(0, 1);
    assert_eq!(bench.contender.phase(), Phase::Waiting);
    assert_eq!(bench.pong(0, LOW, held(Mode::Exclusive)), [Output::Queued { ahead: 0 }]);
}

/// Whoever has joined since the ping hears it the second time, and answers in the place of the holder.
#[test]
fn a_ping_that_comes_back_twice_is_sent_anew() {
    let mut bench = Bench::asking(Mode::Exclusive, 1);
    let again = bench.on(Input::Ping(bench.own_ping(0)));
    assert_eq!(again, [Output::Ask { number: 1, exact: false, subscribe: true }]);
    let waits = Standing::Queue { wants: Mode::Exclusive, state: State::Waiting };
    assert_eq!(bench.pong(0, HIGH, waits), []);
    assert_eq!(bench.contender.phase(), Phase::Waiting);
}

#[test]
fn a_hand_over_costs_the_event_and_nothing_else() {
    let mut bench = Bench::asking(Mode::Exclusive, 1);
    assert_eq!(bench.pong(0, LOW, held(Mode::Exclusive)), [Output::Queued { ahead: 0 }]);
    assert_eq!(bench.on(Input::Event(Event::Left(LOW))), [Output::Granted]);
}

#[test]
fn readers_hold_together_and_wait_for_earlier_writers() {
    let mut bench = Bench::asking(Mode::Shared, 1);
    assert_eq!(bench.pong(0, LOW, held(Mode::Shared)), [Output::Granted]);
    let mut bench = Bench::asking(Mode::Shared, 2);
    bench.pong(0, HIGH, held(Mode::Shared));
    let writer = waiting(Mode::Exclusive);
    assert_eq!(bench.pong(0, LOW, writer), [Output::Queued { ahead: 1 }]);
}

#[test]
fn an_ambiguous_count_is_taken_again_in_one_step() {
    let mut bench = Bench::new(Mode::Exclusive);
    bench.on(Input::Joined { members: 2 });
    bench.on(Input::Ping(bench.own_ping(0)));
    let count = Count::Beside { receivers: 3, members: 2 };
    let ask = bench.on(Input::Asked { number: 0, count });
    assert_eq!(ask, [Output::Ask { number: 1, exact: true, subscribe: true }]);
    bench.on(Input::Ping(bench.own_ping(1)));
    assert_eq!(bench.on(Input::Asked { number: 1, count: Count::Exact(2) }), []);
    assert_eq!(bench.pong(1, HIGH, waiting(Mode::Exclusive)), [Output::Granted]);
}

#[test]
fn without_exact_counts_nobody_is_guessed_away() {
    let mut bench = Bench::new(Mode::Exclusive);
    bench.on(Input::Joined { members: 2 });
    bench.on(Input::Ping(bench.own_ping(0)));
    let count = Count::Beside { receivers: 3, members: 2 };
    bench.on(Input::Asked { number: 0, count });
    let ask = bench.on(Input::ExactRefused { number: 1 });
    assert_eq!(ask, [Output::Ask { number: 2, exact: false, subscribe: true }]);
    bench.on(Input::Ping(bench.own_ping(2)));
    bench.on(Input::Asked { number: 2, count });
    assert_eq!(bench.pong(2, HIGH, waiting(Mode::Exclusive)), []);
}

#[test]
fn a_silent_member_is_called_by_name_before_it_is_ended() {
    let mut bench = Bench::asking(Mode::Exclusive, 2);
    bench.pong(0, HIGH, waiting(Mode::Exclusive));
    bench.count_until(Timer::AskAgain, 3);
    let again = bench.fire(Timer::AskAgain);
    assert_eq!(again, [Output::Roll, Output::Ask { number: 1, exact: false, subscribe: true }]);
    let suspect = |client, member: Option<HolderId>| Suspect {
        client,
        bears: member.map_or(Bears::Legacy, Bears::Member),
    };
    let roll =
        vec![suspect(1, Some(LOW)), suspect(2, Some(HIGH)), suspect(3, Some(ME)), suspect(4, None)];
    bench.on(Input::Rolled(Some(roll.clone())));
    bench.run_ping(1, 2);
    bench.pong(1, HIGH, waiting(Mode::Exclusive));
    bench.count_until(Timer::AskAgain, 3);
    assert_eq!(bench.fire(Timer::AskAgain), [Output::Count]);
    assert_eq!(bench.on(Input::Counted { members: 3 }), [Output::Roll]);
    // Whoever has come since is on no earlier list, and is left alone.
    let mut now = roll;
    now.push(suspect(5, Some(HolderId(0x777))));
    let done = bench.on(Input::Rolled(Some(now)));
    let killed: Vec<_> = done.iter().filter(|o| matches!(o, Output::Kill(_))).collect();
    assert_eq!(killed, [&Output::Kill(suspect(1, Some(LOW))), &Output::Kill(suspect(4, None))]);
}

/// Members that come and go all the time, and say so, must not keep a dead one alive.
#[test]
fn who_comes_and_goes_meanwhile_spares_nobody() {
    let suspects = [Suspect { client: 1, bears: Bears::Member(LOW) }];
    let judged = |comes: bool, leaves: bool, members: u64| {
        let mut bench = Bench::asking(Mode::Exclusive, 1);
        bench.count_until(Timer::AskAgain, 2);
        bench.fire(Timer::AskAgain);
        bench.on(Input::Rolled(Some(suspects.to_vec())));
        bench.run_ping(1, 1);
        if comes {
            let asker = Asker::Member { id: HIGH, wants: Mode::Exclusive, link: None };
            bench.on(Input::Ping(Ping { reply_to: ReplyTo::Token(HIGH.0), asker }));
        }
        if leaves {
            bench.on(Input::Event(Event::Left(HIGH)));
        }
        bench.count_until(Timer::AskAgain, 3);
        assert_eq!(bench.fire(Timer::AskAgain), [Output::Count]);
        let outputs = bench.on(Input::Counted { members });
        let listed = outputs == [Output::Roll];
        let again = Output::Ask { number: 2, exact: false, subscribe: true };
        assert!(listed || outputs == [Output::Roll, again], "{outputs:?}");
        listed
            && bench.on(Input::Rolled(Some(suspects.to_vec()))).contains(&Output::Kill(suspects[0]))
    };
    assert!(judged(false, false, 2));
    assert!(judged(true, false, 3));
    assert!(judged(true, true, 2));
    assert!(!judged(false, false, 3), "somebody is there who may not have heard the ping");
    assert!(!judged(true, true, 3));
    assert!(!judged(true, false, 2));
}

#[test]
fn an_answer_that_comes_while_the_list_is_made_saves() {
    let mut bench = Bench::asking(Mode::Exclusive, 1);
    bench.count_until(Timer::AskAgain, 2);
    bench.fire(Timer::AskAgain);
    let roll = vec![Suspect { client: 1, bears: Bears::Member(LOW) }];
    bench.on(Input::Rolled(Some(roll.clone())));
    bench.run_ping(1, 1);
    bench.count_until(Timer::AskAgain, 2);
    bench.fire(Timer::AskAgain);
    bench.on(Input::Counted { members: 2 });
    assert_eq!(bench.pong(1, LOW, held(Mode::Exclusive)), [Output::Queued { ahead: 0 }]);
    assert_eq!(bench.on(Input::Rolled(Some(roll))), []);
}

#[test]
fn whoever_overslept_judges_nobody() {
    let mut bench = Bench::asking(Mode::Exclusive, 1);
    bench.count_until(Timer::AskAgain, 2);
    bench.fire(Timer::AskAgain);
    bench.on(Input::Rolled(Some(vec![Suspect { client: 1, bears: Bears::Member(LOW) }])));
    bench.run_ping(1, 1);
    bench.now += Duration::from_secs(60);
    let outputs = bench.on(Input::Timer(Timer::AskAgain));
    assert_eq!(outputs, [Output::Roll, Output::Ask { number: 2, exact: false, subscribe: true }]);
}

/// A server that does nothing for a while and then all at once has not given anybody the time to answer.
#[test]
fn the_time_to_answer_a_roll_call_begins_when_it_is_passed_on() {
    let mut bench = Bench::asking(Mode::Exclusive, 1);
    bench.count_until(Timer::AskAgain, 2);
    let calls = bench.fire(Timer::AskAgain);
    assert!(matches!(calls[..], [Output::Roll, Output::Ask { number: 1, .. }]), "{calls:?}");
    bench.now += TIMING.unavailable - Duration::from_millis(1);
    bench.on(Input::Rolled(Some(vec![Suspect { client: 1, bears: Bears::Member(LOW) }])));
    bench.run_ping(1, 1);
    let passed_on = bench.now;
    bench.count_until(Timer::AskAgain, 2);
    assert_eq!(bench.fire(Timer::AskAgain), [Output::Count]);
    assert!(bench.now >= passed_on + TIMING.unavailable, "{:?}", bench.now - passed_on);
}

#[test]
fn without_a_list_nobody_is_ended() {
    let mut bench = Bench::asking(Mode::Exclusive, 1);
    for number in 1..4 {
        bench.count_until(Timer::AskAgain, 2);
        let outputs = bench.fire(Timer::AskAgain);
        assert!(outputs.contains(&Output::Ask { number, exact: false, subscribe: true }));
        bench.on(Input::Rolled(None));
        bench.run_ping(number, 1);
    }
}

#[test]
fn steps_aside_for_a_foreign_writer_and_comes_back() {
    let foreign = Standing::Foreign(ForeignStanding::Exclusive);
    let mut bench = Bench::asking(Mode::Exclusive, 1);
    assert_eq!(bench.pong(0, HIGH, foreign), [Output::Queued { ahead: 0 }, Output::Leave]);
    assert_eq!(bench.contender.phase(), Phase::SteppingAside);
    assert_eq!(bench.on(Input::Unsubscribed), []);
    assert_eq!(bench.fire(Timer::Count), [Output::Count]);
    assert_eq!(bench.on(Input::Counted { members: 1 }), []);
    bench.count_until(Timer::Rejoin, 1);
    let away = bench.contender.due(Timer::Rejoin).unwrap();
    assert!((250..=750).contains(&away.as_millis()), "{away:?}");
    assert_eq!(bench.fire(Timer::Rejoin), [Output::Join { number: 1 }]);
    assert_eq!(bench.on(Input::Joined { members: 1 }), [Output::Granted]);
}

#[test]
fn comes_back_at_once_when_the_channel_is_empty() {
    let foreign = Standing::Foreign(ForeignStanding::Pending { elected: None });
    let mut bench = Bench::asking(Mode::Exclusive, 1);
    bench.pong(0, HIGH, foreign);
    bench.on(Input::Unsubscribed);
    bench.fire(Timer::Count);
    assert_eq!(bench.on(Input::Counted { members: 0 }), [Output::Join { number: 1 }]);
}

#[test]
fn foreign_members_block_as_the_contract_says() {
    use ForeignStanding::*;
    let cases = [
        (Exclusive, Mode::Shared, HIGH, true),
        (Shared, Mode::Shared, LOW, false),
        (Shared, Mode::Exclusive, HIGH, true),
        (Pending { elected: None }, Mode::Exclusive, HIGH, true),
        (Pending { elected: Some(true) }, Mode::Shared, HIGH, true),
        (Pending { elected: Some(false) }, Mode::Exclusive, HIGH, false),
        (Pending { elected: Some(false) }, Mode::Exclusive, LOW, true),
    ];
    for (standing, wants, id, blocks) in cases {
        let mut bench = Bench::asking(wants, 1);
        let outputs = bench.pong(0, id, Standing::Foreign(standing));
        assert_eq!(!outputs.contains(&Output::Granted), blocks, "{standing:?} {wants:?} {id:?}");
    }
}

#[test]
fn a_strangers_ping_makes_an_earlier_probe_worthless() {
    let mut bench = Bench::asking(Mode::Exclusive, 1);
    bench.pong(0, LOW, held(Mode::Exclusive));
    let outputs = bench.on(Input::Ping(stranger_ping()));
    let held = Some(Mode::Exclusive);
    let answer = Answer { state: State::Waiting, holds: held, elected: None };
    assert_eq!(outputs, [Output::Pong { to: ReplyTo::Name("elsewhere".into()), answer }]);
    let outputs = bench.on(Input::Event(Event::Left(LOW)));
    assert_eq!(outputs, [Output::Ask { number: 1, exact: false, subscribe: true }]);
}

#[test]
fn a_leaver_answers_until_the_server_has_let_it_go() {
    let mut bench = Bench::new(Mode::Exclusive);
    bench.on(Input::Joined { members: 1 });
    assert_eq!(bench.on(Input::Stop(Stop::Release)), [Output::Leave]);
    let answer = Answer { state: State::Leaving, holds: Some(Mode::Exclusive), elected: None };
    let to = ReplyTo::Name("elsewhere".into());
    assert_eq!(bench.on(Input::Ping(stranger_ping())), [Output::Pong { to, answer }]);
    assert_eq!(bench.on(Input::Unsubscribed), [Output::Gone]);
    assert_eq!(bench.on(Input::Ping(stranger_ping())), []);
}

#[test]
fn a_subscription_that_is_taken_away_is_noticed() {
    for members in [1, 2] {
        let mut bench = Bench::new(Mode::Exclusive);
        bench.on(Input::Joined { members });
        assert!(matches!(bench.on(Input::Unsubscribed)[..], [Output::Broken(_)]));
    }
    let mut bench = Bench::new(Mode::Exclusive);
    assert!(matches!(bench.on(Input::Joined { members: 0 })[..], [Output::Broken(_)]));
}

#[test]
fn those_behind_count_more_seldom() {
    let mut first = Bench::asking(Mode::Exclusive, 1);
    first.pong(0, HIGH, held(Mode::Exclusive));
    let mut third = Bench::asking(Mode::Exclusive, 3);
    third.pong(0, HIGH, held(Mode::Exclusive));
    for id in [LOW, HolderId(0x200)] {
        third.pong(0, id, waiting(Mode::Exclusive));
    }
    let due = |bench: &Bench| bench.contender.due(Timer::Count).unwrap();
    assert_eq!(due(&third), 3 * due(&first));
}

#[test]
fn a_health_check_has_to_come_back() {
    let mut bench = Bench::new(Mode::Exclusive);
    bench.on(Input::Joined { members: 1 });
    let (first, _) = bench.contender.next_timer().unwrap();
    assert!((1..=10).contains(&first.as_secs()), "{first:?}");
    assert_eq!(bench.fire(Timer::Health), [Output::CheckHealth { number: 1 }]);
    assert_eq!(bench.on(Input::Healthy { number: 1 }), []);
    let sent = first + TIMING.health_every;
    assert_eq!(bench.fire(Timer::Health), [Output::CheckHealth { number: 2 }]);
    assert_eq!(bench.now, sent);
    assert_eq!(bench.on(Input::Healthy { number: 1 }), [], "of the check before");
    assert_eq!(bench.fire(Timer::Overdue), [Output::Unhealthy]);
    assert_eq!(bench.now, sent + TIMING.unavailable);
    assert_eq!(bench.contender.next_timer(), None);
}
