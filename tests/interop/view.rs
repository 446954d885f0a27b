//! What a look at the channel shows of them, and what becomes of those that do not answer.

use portalock::{Client, ClientOptions, Mode, State, Status};

use crate::peers::{ALL, Version};
use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, ms};

fn client(server: &Server) -> Client {
    Client::new(&server.tcp_url(), ClientOptions::new()).unwrap()
}

#[test]
fn their_holders_are_seen_as_what_they_are() {
    let server = Server::start();
    for version in ALL {
        let name = version.number();
        let mut theirs = version.spawn(&server, name);
        theirs.expect("x", "got x");
        let found = client(&server).holders(name, LONG).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        let holder = &found[0];
        assert_eq!((holder.mode, holder.state), (Some(Mode::Exclusive), State::Held));
        assert!(holder.foreign && holder.pid.is_none() && holder.label.is_none());
        assert_eq!(holder.legacy, version == Version::V3_2_0);
        assert_eq!(holder.elected.is_some(), version == Version::V4_4_2);
        assert_eq!(holder.id.len() == 32, !holder.legacy, "{}", holder.id);
        if version.has_readers() {
            theirs.expect("r", "released");
            theirs.expect("s", "got s");
            let found = client(&server).holders(name, LONG).unwrap();
            assert_eq!(found[0].mode, Some(Mode::Shared));
        }
    }
}

#[test]
fn a_stopped_one_is_unclear_and_can_be_reaped_and_its_neighbours_live() {
    let server = Server::start();
    for version in ALL {
        let mut theirs = version.spawn(&server, "a");
        let mut neighbour = version.spawn(&server, "a-lock-b");
        let mut ours = Worker::spawn(&server.tcp_url(), "a-lock-b2");
        theirs.expect("x", "got x");
        neighbour.expect("x", "got x");
        ours.expect("x", "got x");
        let client = client(&server);
        let alive = client.reap_silent("a", ms(1_000)).unwrap();
        assert_eq!((alive.alive, alive.killed), (1, 0));

        theirs.stop();
        std::thread::sleep(ms(100));
        let error = client.holders("a", ms(500)).unwrap_err();
        assert_eq!(error.status(), Status::Unclear, "{error}");
        let reaped = client.reap_silent("a", ms(1_000)).unwrap();
        assert_eq!((reaped.alive, reaped.killed), (0, 1), "{version:?}");
        assert!(wait_until(LONG, || server.members("a") == 0));
        assert_eq!(client.holders("a", LONG).unwrap(), []);
        assert_eq!((server.members("a-lock-b"), server.members("a-lock-b2")), (1, 1));
        neighbour.expect("r", "released");
        ours.expect("r", "released");
        theirs.kill();
    }
}

/// A waiter's own reaping spares the neighbours as well.
#[test]
fn whoever_waits_reaps_by_the_exact_name() {
    let server = Server::start();
    for version in ALL {
        let mut theirs = version.spawn(&server, "a");
        let mut neighbour = version.spawn(&server, "a-lock-b");
        let mut ours = Worker::spawn(&server.tcp_url(), "a");
        theirs.expect("x", "got x");
        neighbour.expect("x", "got x");
        theirs.stop();
        neighbour.stop();
        ours.expect("x 8000", "got x");
        neighbour.cont();
        assert_eq!(server.members("a-lock-b"), 1, "{version:?}");
        neighbour.expect("r", "released");
        ours.expect("r", "released");
        theirs.kill();
    }
}
