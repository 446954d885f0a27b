//! How the master is found.

use std::time::{Duration, Instant};

use portalock::{Finding, Severity, Status};

use crate::support::sentinel::{Estate, MASTER, Sentinel};
use crate::support::{free_port, wait_until};
use crate::{LONG, client, lock, lone_lock, wait};

const BRIEF: Duration = Duration::from_millis(300);

#[test]
fn by_any_sentinel_that_answers() {
    let mut estate = Estate::start();
    let by_all = estate.url();
    finds_the_master(&estate, &by_all);
    assert_eq!(sentinels_of(&by_all).severity, Severity::Fine);
    errors_say_what_is_wrong(&estate);

    estate.sentinels[0].kill();
    let begun = Instant::now();
    finds_the_master(&estate, &by_all);
    println!("with the first sentinel dead: {:?}", begun.elapsed());
    let finding = sentinels_of(&by_all);
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.found.starts_with("2 of 3"), "{}", finding.found);
    estate.sentinels[0].start();

    // One that takes connections and says nothing costs half a second, once.
    estate.sentinels[1].stop();
    let client = client(&estate.url_of(&[1, 2]));
    let begun = Instant::now();
    lock(&client, "silent").acquire(wait(LONG)).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
    let begun = Instant::now();
    lock(&client, "silent").try_acquire().unwrap();
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    estate.sentinels[1].cont();
}

/// What the doctor says of them.
fn sentinels_of(url: &str) -> Finding {
    let findings = client(url).examine(None, LONG).unwrap();
    findings.into_iter().find(|finding| finding.subject == "sentinels").unwrap()
}

fn finds_the_master(estate: &Estate, url: &str) {
    let client = client(url);
    client.ping(LONG).unwrap();
    let lock = lock(&client, "found");
    lock.acquire(wait(LONG)).unwrap();
    assert_eq!(estate.servers[0].members("found"), 1, "it is at the master");
    let holders = client.holders("found", LONG).unwrap();
    assert_eq!(holders.len(), 1);
    assert_eq!(Some(&holders[0].id), lock.holder_id().as_ref());
    let findings = client.examine(Some("found"), LONG).unwrap();
    let role = findings.iter().find(|finding| finding.subject == "role").unwrap();
    assert_eq!(role.severity, Severity::Fine, "{role:?}");
    lock.release_wait(LONG).unwrap();
}

fn errors_say_what_is_wrong(estate: &Estate) {
    let failure = |url: &str| lone_lock(url, "lost").acquire(wait(BRIEF)).unwrap_err();
    let nobody = format!("redis-sentinel://127.0.0.1:{}/{MASTER}", free_port());
    let error = failure(&nobody);
    assert_eq!(error.status(), Status::Unreachable);
    assert!(error.message().contains("no sentinel of master locks"), "{error}");

    let unknown = estate.url().replace(MASTER, "strangers");
    let error = failure(&unknown);
    assert_eq!(error.status(), Status::Unreachable);
    assert!(error.message().contains("know no master \"strangers\""), "{error}");

    // A sentinel that takes a replica for the master.
    let port = estate.servers[1].port().to_string();
    let monitor = ["SENTINEL", "MONITOR", "wrong", "127.0.0.1", &port, "1"];
    estate.sentinels[0].ask::<String>(&monitor).unwrap();
    let error = failure(&estate.url_of(&[0]).replace(MASTER, "wrong"));
    estate.sentinels[0].ask::<String>(&["SENTINEL", "REMOVE", "wrong"]).unwrap();
    assert_eq!(error.status(), Status::Server);
    assert!(error.message().contains("is a replica"), "{error}");

    let no_sentinel = format!("redis-sentinel://127.0.0.1:{}/x", estate.servers[0].port());
    let error = failure(&no_sentinel);
    assert!(error.message().contains("unknown command 'SENTINEL'"), "{error}");

    let secret = estate.url().replace("//", "//nobody:hunter2@");
    let error = lone_lock(&secret, "lost").acquire(wait(LONG)).unwrap_err();
    assert_eq!(error.status(), Status::Auth, "{error}");
    assert!(!error.message().contains("hunter2"));
}

#[test]
fn with_a_login_of_its_own_at_the_sentinels() {
    let lines = "user asker on >asks:/ resetchannels &+switch-master -@all +hello +client +subscribe \
                 +sentinel|master +sentinel|get-master-addr-by-name +sentinel|ckquorum\n\
                 user mute on >mute resetchannels -@all +hello +client \
                 +sentinel|get-master-addr-by-name";
    let estate = Estate::with(&[("requirepass", "master-pw"), ("masterauth", "master-pw")], lines);
    let url = |login: &str| format!("{}?{login}", estate.url().replace("//", "//:master%2Dpw@"));
    let logins = [
        "sentinel_user=asker&sentinel_password=asks:%2F",
        "sentinel_user=mute&sentinel_password=mute",
    ];
    let locks = logins.map(|login| lone_lock(&url(login), login));
    for lock in &locks {
        lock.acquire(wait(LONG)).unwrap();
    }
    // A watch that is refused something goes on asking, and the lock outlasts that.
    std::thread::sleep(Duration::from_millis(2500));
    for lock in &locks {
        assert!(lock.is_held());
        lock.release_wait(LONG).unwrap();
    }
    let wrong = lone_lock(&url("sentinel_user=asker&sentinel_password=hunter2"), "wrong");
    let error = wrong.acquire(wait(LONG)).unwrap_err();
    assert_eq!(error.status(), Status::Auth, "{error}");
    assert!(
        error.message().contains("sentinel") && !error.message().contains("hunter2"),
        "{error}"
    );
}

#[test]
fn a_client_listens_once_and_no_longer_than_it_lives() {
    let estate = Estate::start();
    let listeners = || -> usize {
        let of = |sentinel: &Sentinel| {
            let list: String = sentinel.ask(&["CLIENT", "LIST"]).unwrap();
            list.lines().filter(|line| line.contains(" sub=1 ")).count()
        };
        estate.sentinels.iter().map(of).sum()
    };
    let client = client(&estate.url());
    let locks: Vec<_> = (0..20).map(|number| lock(&client, &format!("lock-{number}"))).collect();
    assert_eq!(listeners(), 0, "nothing is connected before it is needed");
    for lock in &locks {
        lock.acquire(wait(LONG)).unwrap();
    }
    assert!(wait_until(LONG, || listeners() == 1));
    std::thread::sleep(Duration::from_millis(2200));
    assert_eq!(listeners(), 1);
    let begun = Instant::now();
    drop((locks, client));
    assert!(begun.elapsed() < Duration::from_millis(300), "{:?}", begun.elapsed());
    assert!(wait_until(LONG, || listeners() == 0));
    println!("nobody listens any more after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5));
}
