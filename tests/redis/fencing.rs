//! Fencing tokens: one for every exclusive grant, each higher than all before.

use portalock::{Client, ClientOptions, Lock, LockOptions, Mode, Status, Wait};

use crate::support::Server;
use crate::{SOON, client, wait};

fn fenced(client: &Client, name: &str) -> Lock {
    let mut options = LockOptions::new();
    options.fencing(true);
    client.lock(name, options).unwrap()
}

#[test]
fn tokens_rise_over_locks_clients_and_hand_overs() {
    let server = Server::start();
    let mut last = 0;
    for _ in 0..5 {
        let client = client(&server.url());
        let (one, two) = (fenced(&client, "fenced"), fenced(&client, "fenced"));
        one.acquire(Wait::Default).unwrap();
        let first = one.fencing_token().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| two.acquire(Wait::Default).unwrap());
            assert!(crate::support::wait_until(SOON, || server.members("fenced") == 2));
            one.release().unwrap();
        });
        let second = two.fencing_token().unwrap();
        assert!(last < first && first < second, "{last} {first} {second}");
        assert_eq!(one.fencing_token(), None);
        two.release().unwrap();
        last = second;
    }
    assert!(server.run::<u64>(&["GET", "fenced-fence"]) >= last);
}

/// Portalocker 4.2 and newer draw from the same key.
#[test]
fn the_counter_goes_on_from_where_others_left_it() {
    let server = Server::start();
    server.run::<()>(&["SET", "fenced-fence", "41"]);
    let lock = fenced(&client(&server.url()), "fenced");
    lock.acquire(Wait::Default).unwrap();
    assert_eq!(lock.fencing_token(), Some(42));
}

#[test]
fn a_free_lock_and_its_token_cost_one_round_trip() {
    let server = Server::start();
    let lock = fenced(&client(&server.url()), "fenced");
    lock.acquire(Wait::Default).unwrap();
    assert_eq!(server.command_counts().get("incr"), Some(&1));
}

#[test]
fn readers_and_unfenced_locks_draw_none() {
    let server = Server::start();
    let client = client(&server.url());
    let fenced = fenced(&client, "fenced");
    fenced.acquire_mode(Mode::Shared, Wait::Default).unwrap();
    assert_eq!(fenced.fencing_token(), None);
    let plain = crate::lock(&client, "plain");
    plain.acquire(Wait::Default).unwrap();
    assert_eq!(plain.fencing_token(), None);
    assert_eq!(server.command_counts().get("incr"), None);
}

#[test]
fn a_key_that_is_no_counter_is_a_clear_error_and_leaves_the_lock_free() {
    let server = Server::start();
    for (command, value) in [
        ("SET", "no number"),
        ("LPUSH", "no number either"),
        ("SET", "-5"),
        ("SET", "-1"),
        ("SET", "9223372036854775807"),
    ] {
        server.run::<()>(&["DEL", "fenced-fence"]);
        server.run::<()>(&[command, "fenced-fence", value]);
        let lock = fenced(&client(&server.url()), "fenced");
        let error = lock.acquire(wait(2_000)).unwrap_err();
        assert_eq!(error.status(), Status::Fence, "{error}");
        assert!(!lock.is_held());
        assert!(crate::support::wait_until(SOON, || server.members("fenced") == 0));
        let other = Client::new(&server.url(), ClientOptions::new()).unwrap();
        crate::lock(&other, "fenced").acquire(wait(1_000)).unwrap();
    }
}
