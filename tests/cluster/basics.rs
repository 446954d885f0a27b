//! What a lock does anywhere, in a cluster that stands.

use std::thread;
use std::time::Duration;

use portalock::{Client, ClientOptions, LossReason, Mode, Status};

use crate::support::cluster::{Cluster, slot_of};
use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, client, fenced_lock, lock, lone_lock, token_of, wait, watch};

/// Each kind of brace, and where none is.
const NAMES: [&str; 12] =
    ["jobs", "a{b}c", "a}b", "{}x", "{", "}", "{}", "a{b", "}{", "{a}{b}", "a b{ü", "x{}{y}"];

#[test]
fn names_of_all_brace_forms() {
    let cluster = Cluster::common();
    let (one, other) = (client(&cluster.url()), client(&cluster.url_of(&[0])));
    for name in NAMES {
        let (holder, next) = (lock(&one, name), lock(&other, name));
        holder.acquire(wait(LONG)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let home = cluster.home_of(name);
        assert_eq!(cluster.members(home, name), 1, "{name}");
        let channels: Vec<String> = cluster.nodes[home].run(&["PUBSUB", "SHARDCHANNELS"]);
        let slot = slot_of(&cluster.nodes[0], name);
        // The lock channel, the events and the answers.
        let own = |channel: &&String| {
            channel.contains(name) && slot_of(&cluster.nodes[0], channel) == slot
        };
        assert!(channels.iter().filter(own).count() >= 3, "{name}: {channels:?}");
        assert_eq!(next.try_acquire().unwrap_err().status(), Status::Locked, "{name}");
        assert_eq!(other.holders(name, LONG).unwrap().len(), 1, "{name}");
        holder.release_wait(LONG).unwrap();
        next.try_acquire().unwrap_or_else(|error| panic!("{name}: {error}"));
        next.verify(LONG).unwrap();
        next.release_wait(LONG).unwrap();
        assert!(other.holders(name, LONG).unwrap().is_empty());
    }
    let error = one.lock("a~lock-events", Default::default()).unwrap_err();
    assert_eq!(error.status(), Status::Invalid);
}

#[test]
fn any_seed_leads_to_any_slot() {
    let cluster = Cluster::common();
    for seed in 0..6 {
        let client = client(&cluster.url_of(&[seed]));
        client.ping(LONG).unwrap();
        for home in 0..3 {
            let name = cluster.name_at(home, &format!("seed{seed}-"));
            let lock = lock(&client, &name);
            lock.try_acquire().unwrap();
            assert_eq!(cluster.members(home, &name), 1);
            lock.release_wait(LONG).unwrap();
        }
    }
}

#[test]
fn waiters_take_over_in_their_order() {
    let cluster = Cluster::common();
    let name = "order{x";
    let home = cluster.home_of(name);
    let holder = fenced_lock(&cluster.url(), name);
    holder.acquire(wait(LONG)).unwrap();
    let mut highest = holder.fencing_token().unwrap();
    let mut waiters = Vec::new();
    for at in 0..3 {
        let mut waiter = Worker::spawn_with(&cluster.url(), name, &["fencing=1"]);
        waiter.tell("x 40000");
        assert!(wait_until(LONG, || cluster.members(home, name) == at + 2));
        waiters.push(waiter);
    }
    holder.release().unwrap();
    for waiter in &mut waiters {
        waiter.await_line("got x", LONG);
        let token = token_of(waiter);
        assert!(token > highest, "{token} after {highest}");
        highest = token;
        waiter.expect("r", "released");
    }
    let key = format!("{{{name}}}~fence");
    assert_eq!(cluster.nodes[home].run::<u64>(&["GET", &key]), highest);
}

#[test]
fn readers_share_and_a_writer_does_not() {
    let cluster = Cluster::common();
    let url = cluster.url();
    let readers = [lone_lock(&url, "}read"), lone_lock(&url, "}read")];
    for reader in &readers {
        reader.acquire_mode(Mode::Shared, wait(LONG)).unwrap();
    }
    let writer = lone_lock(&url, "}read");
    assert_eq!(writer.try_acquire().unwrap_err().status(), Status::Locked);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| writer.acquire(wait(LONG)));
        thread::sleep(Duration::from_millis(200));
        readers.iter().for_each(|reader| reader.release().unwrap());
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(readers[0].try_acquire_shared().unwrap_err().status(), Status::Locked);
}

#[test]
fn a_holder_that_stands_still_is_ended() {
    let cluster = Cluster::common();
    let mut holder = Worker::spawn(&cluster.url(), "still}");
    holder.expect("x", "got x");
    holder.stop();
    let next = lone_lock(&cluster.url(), "still}");
    next.acquire(wait(LONG)).unwrap();
    holder.cont();
    holder.await_line("lost", LONG);
    assert!(next.is_held());
}

#[test]
fn who_follows_a_plain_channel_of_the_node_is_left_alone() {
    let cluster = Cluster::common();
    let home = cluster.home_of("both");
    let plain = lone_lock(&cluster.nodes[home].tcp_url(), "both");
    plain.acquire(wait(LONG)).unwrap();
    let sharded = lone_lock(&cluster.url(), "both");
    sharded.acquire(wait(LONG)).unwrap();
    assert!(plain.is_held() && sharded.is_held(), "they are on other channels");
}

/// Whoever may ping may ask for the answer in a slot of another node: that costs nobody a lock.
#[test]
fn a_ping_that_wants_its_answer_at_another_node_is_left_unanswered() {
    let cluster = Cluster::common();
    let home = cluster.home_of("asked");
    let elsewhere = cluster.name_at((home + 1) % 3, "elsewhere");
    let holder = lone_lock(&cluster.url(), "asked");
    holder.acquire(wait(LONG)).unwrap();
    let ping = format!("{{\"message\":\"ping\",\"response_channel\":\"{elsewhere}\"}}");
    assert_eq!(cluster.nodes[home].run::<u64>(&["SPUBLISH", "asked", &ping]), 1);
    holder.verify(LONG).unwrap();
    holder.release().unwrap();
}

#[test]
fn what_is_not_there_is_refused() {
    let cluster = Cluster::common();
    let server = Server::start();
    let url = format!("redis-cluster://127.0.0.1:{}", server.port());
    let error = lone_lock(&url, "jobs").acquire(wait(LONG)).unwrap_err();
    assert_eq!(error.status(), Status::Unsupported, "{error}");
    assert!(error.message().contains("no node of a cluster"), "{error}");
    let error = client(&cluster.url()).examine(None, LONG).unwrap_err();
    assert_eq!(error.status(), Status::Unsupported, "{error}");
    let mut options = ClientOptions::new();
    options.shared_connection(true);
    let error = Client::new(&cluster.url(), options).unwrap_err();
    assert_eq!(error.status(), Status::Unsupported, "{error}");
    let away = lone_lock("redis-cluster://127.0.0.1:1", "jobs");
    let error = away.acquire(wait(Duration::from_millis(300))).unwrap_err();
    assert_eq!(error.status(), Status::Unreachable, "{error}");
}

/// The rule that `docs/cluster.md` gives, and what is said where a part of it is missing.
#[test]
fn a_user_with_the_documented_rule() {
    let cluster = Cluster::common();
    let page = include_str!("../../docs/cluster.md");
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER portalock")).unwrap();
    let set = |user: &str, without: &str| {
        let rule = line.replace("portalock", user);
        let words: Vec<_> = rule.split(' ').filter(|word| *word != without).collect();
        cluster.nodes.iter().for_each(|node| node.run(&words));
        cluster.url().replace("//", &format!("//{user}:secret@"))
    };
    let url = set("whole", "");
    for name in ["jobs", "jobs{1}", "jobs{"] {
        let holder = fenced_lock(&url, name);
        holder.acquire(wait(LONG)).unwrap_or_else(|error| panic!("{name}: {error}"));
        holder.verify(LONG).unwrap();
        let next = fenced_lock(&url, name);
        assert_eq!(next.try_acquire().unwrap_err().status(), Status::Locked);
        client(&url).reap_silent(name, LONG).unwrap();
        holder.release_wait(LONG).unwrap();
        next.acquire(wait(LONG)).unwrap();
    }
    let rules = ["+ssubscribe", "+spublish", "+pubsub|shardnumsub", "+persist", "+incr"];
    for (at, rule) in rules.into_iter().enumerate() {
        let url = set(&format!("part{at}"), rule);
        let lock = fenced_lock(&url, "jobs-part");
        // To publish is what a lock that nobody else wants does not need.
        let refused = lock.acquire(wait(Duration::from_millis(500))).err();
        let error = refused.or_else(|| client(&url).holders("jobs-part", LONG).err()).unwrap();
        assert_eq!(error.status(), Status::Denied, "{rule}: {error}");
        assert!(error.message().contains(&format!("missing rule: {rule}")), "{rule}: {error}");
    }
    let error = client(&set("blind", "+cluster|slots")).ping(LONG).unwrap_err();
    assert_eq!(error.status(), Status::Denied, "{error}");
    assert!(error.message().contains("+cluster|slots"), "{error}");
}

/// Where the nodes speak RESP2 only, each lock has two connections to its node.
#[test]
fn nodes_that_speak_no_resp3() {
    let cluster = Cluster::with(&[("rename-command", "HELLO hidden")]);
    let name = cluster.name_at(1, "old}");
    let holder = fenced_lock(&cluster.url_of(&[0, 2]), &name);
    let losses = watch(&holder);
    holder.try_acquire().unwrap();
    holder.verify(LONG).unwrap();
    let mut waiter = Worker::spawn(&cluster.url(), &name);
    waiter.tell("x 40000");
    assert!(wait_until(LONG, || cluster.members(1, &name) == 2));
    assert_eq!(client(&cluster.url()).holders(&name, LONG).unwrap().len(), 2);
    cluster.move_slot(&name, 1, 0);
    let (_, loss) = losses.recv_timeout(LONG).expect("the holder was not told");
    assert!(matches!(loss.reason, LossReason::Unsubscribed | LossReason::Demoted), "{loss:?}");
    waiter.await_line("got x", LONG);
    waiter.expect("r", "released");
    holder.release().unwrap_err();
    holder.acquire(wait(LONG)).unwrap();
    assert_eq!(cluster.members(0, &name), 1);
}
