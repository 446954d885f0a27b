//! Rights that are taken away while a lock is held or waited for, and users of some channels only.

use portalock::{Error, Lock, Mode, Status};

use super::{Stage, documented_user, named};
use crate::support::wait_until;
use crate::{LONG, failure, lock, lone_lock, ms, status, wait};

impl Stage {
    fn documented() -> Self {
        Self::new(&documented_user("portalock"))
    }

    /// A user of these channels.
    fn of_channels(patterns: &[&'static str]) -> Self {
        let mut words = documented_user("portalock");
        words.retain(|word| !word.starts_with('&'));
        words.extend(patterns);
        Self::new(&words)
    }

    fn change(&self, rule: &str) {
        self.server.run::<()>(&["ACL", "SETUSER", "portalock", rule]);
    }

    /// What becomes of one that waits for another, is changed, and whose turn it then is.
    fn waiter_that_loses(&self, rule: &str, go: impl FnOnce(Lock)) -> portalock::Result<()> {
        let holder = self.held_by_another("jobs", Mode::Exclusive);
        let waiter = lock(&self.client, "jobs");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| waiter.acquire(wait(4_000)));
            assert!(wait_until(LONG, || self.server.members("jobs") == 2));
            // Until it has asked the holder, and had its answer.
            std::thread::sleep(ms(500));
            self.change(rule);
            go(holder);
            waiting.join().unwrap()
        })
    }

    fn is_free_for_another(&self) -> bool {
        lone_lock(&self.server.url(), "jobs").acquire(wait(3_000)).is_ok()
    }
}

fn assert_denied(error: &Error, rule: &str) {
    assert_eq!(error.status(), Status::Denied, "{error}");
    assert!(error.message().ends_with(&named(rule)), "{error}");
}

#[test]
fn without_the_events_channel_nobody_locks_and_all_may_look() {
    let stage =
        Stage::of_channels(&["&jobs", "&jobs-[0-9a-f]*", "&jobs-probed", "&jobs-probed-[0-9a-f]*"]);
    assert_denied(&failure(lock(&stage.client, "jobs").acquire(wait(3_000))), "&jobs*");
    stage.probe().unwrap();
    assert!(stage.is_free_for_another());
}

#[test]
fn without_channels_for_answers_nobody_locks_or_looks() {
    let stage = Stage::of_channels(&["&jobs", "&jobs-lock-events"]);
    assert_denied(&failure(lock(&stage.client, "jobs").acquire(wait(3_000))), "&jobs*");
    assert_denied(&stage.client.holders("jobs", ms(2_000)).unwrap_err(), "&jobs*");
    assert!(stage.is_free_for_another());
}

#[test]
fn who_holds_keeps_the_lock_when_the_rights_to_come_in_are_taken_away() {
    let stage = Stage::documented();
    let holder = lock(&stage.client, "jobs");
    holder.acquire(wait(3_000)).unwrap();
    for rule in ["-client", "-subscribe", "-pubsub", "-ping", "-eval", "-incr", "resetkeys", "off"]
    {
        stage.change(rule);
        holder.verify(LONG).unwrap();
    }
    holder.release_wait(LONG).unwrap();
    assert!(stage.is_free_for_another());
}

#[test]
fn who_may_not_publish_any_more_loses_the_lock_with_the_next_check() {
    let stage = Stage::documented();
    let holder = lock(&stage.client, "jobs");
    holder.acquire(wait(3_000)).unwrap();
    stage.change("-publish");
    let error = holder.verify(LONG).unwrap_err();
    assert_eq!(error.status(), Status::Lost, "{error}");
    assert!(error.message().ends_with(&named("+publish")), "{error}");
    assert!(stage.is_free_for_another());
}

/// Before the other comes in, not after.
#[test]
fn who_may_not_answer_any_more_loses_the_lock_to_one_that_asks() {
    let stage = Stage::documented();
    let holder = lock(&stage.client, "jobs");
    holder.acquire(wait(3_000)).unwrap();
    stage.change("-publish");
    let _other = stage.held_by_another("jobs", Mode::Exclusive);
    assert!(!holder.is_held());
}

#[test]
fn who_may_not_leave_any_more_leaves_nothing_behind() {
    let stage = Stage::documented();
    let holder = lock(&stage.client, "jobs");
    holder.acquire(wait(3_000)).unwrap();
    stage.change("-unsubscribe");
    let _ = holder.release_wait(LONG);
    assert!(wait_until(LONG, || stage.server.members("jobs") == 0));
    assert!(stage.is_free_for_another());
}

#[test]
fn a_user_that_is_deleted_loses_its_locks() {
    let stage = Stage::documented();
    let holder = lock(&stage.client, "jobs");
    holder.acquire(wait(3_000)).unwrap();
    stage.server.run::<()>(&["ACL", "DELUSER", "portalock"]);
    assert!(wait_until(LONG, || !holder.is_held()));
    assert_eq!(status(lock(&stage.client, "jobs").acquire(wait(3_000))), Status::Auth);
}

/// It knows whose turn it is from what it was told before.
#[test]
fn a_waiter_that_loses_a_right_gets_the_lock_from_one_that_leaves() {
    let commands = ["-client", "-eval", "-incr", "-ping", "-pubsub", "-subscribe", "-unsubscribe"];
    for rule in commands.into_iter().chain(["-publish", "off"]) {
        let stage = Stage::documented();
        let leave = |holder: Lock| holder.release_wait(LONG).unwrap();
        let got = stage.waiter_that_loses(rule, leave);
        // One that stood still has to ask again, and says then what it may not.
        let named = |error: &Error| error.message().contains(&rule.replace('-', "missing rule: +"));
        assert!(got.as_ref().err().is_none_or(named), "{rule}: {got:?}");
    }
}

/// Nobody says farewell then: it has to ask who is left.
#[test]
fn a_waiter_that_may_not_ask_any_more_is_told_why_when_the_holder_vanishes() {
    for rule in ["+publish", "+pubsub|numsub"] {
        let stage = Stage::documented();
        let vanish = |holder: Lock| {
            assert!(stage.server.kill_client(&holder.client_name().unwrap()));
        };
        let error = stage.waiter_that_loses(&rule.replace('+', "-"), vanish).unwrap_err();
        assert_denied(&error, rule);
        assert!(stage.is_free_for_another());
    }
}
