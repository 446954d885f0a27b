//! Nothing but pings on the lock channel, ever: the readers of portalocker 3.2.0 die of anything else.

use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, LockOptions, Mode, Wait};

use crate::peers::Version::V3_2_0;
use crate::support::Server;
use crate::{LONG, ms};

const NAME: &str = "old";

/// An hour's worth: 3,600 times somebody comes, asks, waits, gives up, looks, or is told to go.
#[test]
fn a_holder_of_3_2_0_survives_an_hour_of_ours() {
    let server = Server::start();
    let mut theirs = V3_2_0.spawn(&server, NAME);
    theirs.expect("x", "got x");
    let listener = Listener::to(&server);

    let begun = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let client = Client::new(&server.tcp_url(), ClientOptions::new()).unwrap();
            scope.spawn(move || come_and_go(&client, number, 600));
        }
    });
    println!("3600 visits in {:?}", begun.elapsed());

    let heard = listener.heard();
    assert!(heard.len() > 1_000, "only {} messages", heard.len());
    for payload in &heard {
        let value: serde_json::Value = serde_json::from_str(payload).expect(payload);
        assert_eq!(value["message"], "ping", "{payload}");
        let channel = value["response_channel"].as_str().unwrap_or_default();
        assert!(channel.starts_with("old-"), "{payload}");
    }
    // It said nothing of a dead reader meanwhile, still answers, and still keeps us out.
    assert!(theirs.is_silent(ms(100)));
    let client = Client::new(&server.tcp_url(), ClientOptions::new()).unwrap();
    let found = client.holders(NAME, LONG).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].legacy && found[0].foreign && found[0].mode == Some(Mode::Exclusive));
    theirs.expect("r", "released");
}

fn come_and_go(client: &Client, number: usize, visits: usize) {
    let lock = client.lock(NAME, LockOptions::new()).unwrap();
    for visit in 0..visits {
        let outcome = match (visit + number) % 5 {
            0 => lock.acquire_mode(Mode::Shared, Wait::Once),
            1 => lock.acquire(Wait::For(ms(30))),
            2 => client.holders(NAME, LONG).map(drop).and(lock.try_acquire()),
            3 => std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(ms(5));
                    lock.cancel();
                });
                lock.acquire(Wait::For(ms(20)))
            }),
            _ => lock.try_acquire(),
        };
        assert!(outcome.is_err(), "visit {visit} got in");
    }
}

/// Takes down all that is said on the lock channel, as one who only listens by pattern.
struct Listener {
    words: std::sync::mpsc::Receiver<String>,
}

impl Listener {
    fn to(server: &Server) -> Self {
        let (sender, words) = std::sync::mpsc::channel();
        let mut connection = server.connection();
        std::thread::spawn(move || {
            let mut pubsub = connection.as_pubsub();
            pubsub.psubscribe("ol[d]").unwrap();
            while let Ok(message) = pubsub.get_message() {
                if sender.send(message.get_payload().unwrap_or_default()).is_err() {
                    break;
                }
            }
        });
        std::thread::sleep(Duration::from_millis(100));
        Self { words }
    }

    fn heard(&self) -> Vec<String> {
        std::thread::sleep(Duration::from_millis(200));
        self.words.try_iter().collect()
    }
}
