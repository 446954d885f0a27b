//! Whatever strangers say on the channels of a lock: nobody is lost, and nothing is believed.

use portalock::{Status, Wait};

use crate::dice::Dice;
use crate::support::{Server, wait_until};
use crate::{LONG, SOON, lone_lock, ms, wait};

const NAME: &str = "noisy";

/// Random bytes, broken and nested JSON, wrong types, unknown modes and versions, great strings.
fn garbage(dice: &mut Dice, number: usize) -> Vec<u8> {
    let id = "0123456789abcdef0123456789abcdef";
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let text = match number % 16 {
        0 => return (0..dice.below(300)).map(|_| dice.below(256) as u8).collect(),
        1 => String::new(),
        2 => "1712345678.9".into(),
        3 => nested(1 + dice.below(20_000)),
        4 => "{\"message\":\"ping\",\"response_channel\":".into(),
        5 => "{\"message\":\"ping\",\"response_channel\":\"\"}".into(),
        6 => "{\"message\":\"ping\",\"response_channel\":7}".into(),
        7 => "[\"response_channel\"]".into(),
        8 => format!("{{\"event\":\"left\",\"holder_id\":\"{id}\"}}"),
        9 => "{\"event\":\"left\",\"holder_id\":{}}".into(),
        10 => "{\"event\":\"burned\",\"holder_id\":\"x\"}".into(),
        11 => format!("{{\"holder_id\":\"{id}\",\"mode\":\"shiny\",\"protocol\":1}}"),
        12 => format!("{{\"holder_id\":\"{id}\",\"mode\":\"pending\",\"protocol\":{number}}}"),
        13 => "{\"message\":\"health\",\"number\":-1}".into(),
        14 => "null".into(),
        _ => format!("\"{}\"", "x".repeat(if number % 2_000 < 16 { 1 << 20 } else { 40 })),
    };
    text.into_bytes()
}

#[test]
fn ten_thousand_pieces_of_garbage_change_nothing() {
    let server = Server::start();
    let (holder, waiter) = (lone_lock(&server.url(), NAME), lone_lock(&server.url(), NAME));
    holder.on_lost(Some(Box::new(|loss| panic!("lost: {loss:?}"))));
    holder.acquire(Wait::Default).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.acquire(Wait::Default));
        assert!(wait_until(SOON, || waiter.holder_id().is_some() && server.members(NAME) == 2));
        let response = |id: &str| format!("{NAME}-{id}");
        let channels = [
            NAME.to_owned(),
            format!("{NAME}-lock-events"),
            response(&holder.holder_id().unwrap()),
            response(&waiter.holder_id().unwrap()),
        ];
        let mut connection = server.connection();
        let mut dice = Dice::new();
        for number in 0..10_000 {
            let payload = garbage(&mut dice, number);
            let mut publish = redis::cmd("PUBLISH");
            publish.arg(&channels[dice.below(4)]).arg(payload);
            publish.query::<u64>(&mut connection).unwrap();
            if number % 100 == 0 {
                assert!(holder.is_held(), "{number}: lost: {:?}", holder.verify(SOON));
                assert!(!waiter.is_held(), "{number}: two hold");
            }
        }
        std::thread::sleep(ms(300));
        assert!(holder.is_held() && !waiter.is_held());
        holder.release().unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert!(waiter.is_held());
    waiter.release_wait(LONG).unwrap();
}

/// A great many strangers that ask, as each may be about to take the lock: all are answered, and the
/// lock is handed over all the same.
#[test]
fn a_flood_of_pings_is_answered_and_does_not_stop_the_queue() {
    let server = Server::start();
    let (holder, waiter) = (lone_lock(&server.url(), NAME), lone_lock(&server.url(), NAME));
    holder.acquire(Wait::Default).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.acquire(Wait::Default));
        assert!(wait_until(SOON, || server.members(NAME) == 2));
        let mut connection = server.connection();
        let ping = format!("{{\"message\":\"ping\",\"response_channel\":\"{NAME}-nobody\"}}");
        for number in 0..2_000 {
            if number == 1_000 {
                holder.release().unwrap();
            }
            let mut publish = redis::cmd("PUBLISH");
            publish.arg(NAME).arg(&ping).query::<u64>(&mut connection).unwrap();
        }
        waiting.join().unwrap().unwrap();
    });
    assert!(waiter.is_held());
}

/// Somebody who merely listens on the lock channel counts as a member and never answers: nobody can
/// tell that from a holder that is silent, and nobody guesses.
#[test]
fn a_stray_subscriber_keeps_waiters_waiting_and_is_named() {
    let server = Server::start();
    let mut connection = server.connection();
    let mut stray = connection.as_pubsub();
    stray.subscribe(NAME).unwrap();
    let lock = lone_lock(&server.url(), NAME);
    let error = lock.acquire(wait(1_500)).unwrap_err();
    assert_eq!(error.status(), Status::Timeout);
    assert!(error.message().contains("do not answer"), "{error}");
    let error = crate::client(&server.url()).holders(NAME, ms(300)).unwrap_err();
    assert_eq!(error.status(), Status::Unclear, "{error}");
    assert_eq!(server.members(NAME), 1, "the stray one was ended");
}
