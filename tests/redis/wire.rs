//! What a server says may come in pieces of any size, stop in the middle, or be nonsense. A proxy in
//! front of a real server, and servers that follow a script, see to that.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, LockOptions, Status};

use crate::dice::Dice;
use crate::support::{Server, wait_until};
use crate::unusable::{serve, swallow};
use crate::{LONG, SOON, client, lock, lone_lock, ms, status, wait};

/// What a proxy does with each piece that comes from the server, given the way to the client.
trait Carrier: FnMut(&[u8], &mut TcpStream) -> std::io::Result<()> + Send {}
impl<T: FnMut(&[u8], &mut TcpStream) -> std::io::Result<()> + Send> Carrier for T {}

/// A proxy before a server; each connection has a carrier of its own. Ends with the test's process.
fn proxy<C: Carrier + 'static>(
    server: &Server,
    mut carrier: impl FnMut() -> C + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = server.port();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(("127.0.0.1", behind)) else {
                continue;
            };
            near.set_nodelay(true).unwrap();
            far.set_nodelay(true).unwrap();
            let up = |bytes: &[u8], to: &mut TcpStream| to.write_all(bytes);
            pass_on(near.try_clone().unwrap(), far.try_clone().unwrap(), up);
            pass_on(far, near, carrier());
        }
    });
    format!("redis://127.0.0.1:{port}")
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, mut carry: impl Carrier + 'static) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if carry(&buffer[..count], &mut to).is_err() {
                break;
            }
        }
        let _ = from.shutdown(std::net::Shutdown::Both);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

/// Passes bytes on in pieces of up to `most`, and now and then lets a moment pass between two.
fn in_pieces(most: usize, mut dice: Dice) -> impl Carrier {
    move |mut bytes: &[u8], to: &mut TcpStream| {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at((1 + dice.below(most)).min(bytes.len()));
            to.write_all(piece)?;
            if dice.below(8) == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
            bytes = rest;
        }
        Ok(())
    }
}

/// All that a lock does, through connections to the same place.
fn exercise(url: &str, server: &Server) {
    let client = client(url);
    client.ping(LONG).unwrap();
    let (a, b) = (lock(&client, "jobs"), lock(&client, "jobs"));
    for _ in 0..5 {
        a.acquire(wait(20_000)).unwrap();
        assert_eq!(status(b.try_acquire()), Status::Locked);
        // Nobody waits for a leave to arrive.
        assert!(wait_until(LONG, || server.members("jobs") == 1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| b.acquire(wait(20_000)));
            assert!(wait_until(LONG, || server.members("jobs") == 2));
            assert_eq!(client.holders("jobs", LONG).unwrap().len(), 2);
            a.release().unwrap();
            waiting.join().unwrap().unwrap();
        });
        assert!(b.is_held());
        b.release_wait(LONG).unwrap();
    }
    assert!(wait_until(SOON, || server.members("jobs") == 0));
}

#[test]
fn answers_that_come_byte_by_byte_or_in_odd_pieces() {
    let server = Server::start();
    let mut dice = Dice::new();
    for most in [1, 2, 3, 7, 100] {
        let begun = Instant::now();
        let mut own = dice.child(most as u64);
        let url = proxy(&server, move || in_pieces(most, own.child(1)));
        exercise(&url, &server);
        println!("pieces of up to {most} bytes: {:?}", begun.elapsed());
    }
}

/// A message that is longer than any buffer, in the middle of others, and in pieces.
#[test]
fn a_great_message_in_pieces_costs_nobody_the_lock() {
    let server = Server::start();
    let mut dice = Dice::new();
    let url = proxy(&server, move || in_pieces(50_000, dice.child(1)));
    let (holder, waiter) = (lone_lock(&url, "jobs"), lone_lock(&url, "jobs"));
    holder.on_lost(Some(Box::new(|loss| panic!("lost: {loss:?}"))));
    holder.acquire(wait(20_000)).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.acquire(wait(20_000)));
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        for channel in ["jobs", "jobs-lock-events"] {
            let receivers: u64 = server.run(&["PUBLISH", channel, &"x\r\n".repeat(1 << 19)]);
            assert_eq!(receivers, 2);
        }
        holder.release().unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert!(waiter.is_held());
}

/// Wherever an answer breaks off: the acquire ends in time, and not by a fault of the library.
#[test]
fn answers_that_break_off_anywhere() {
    let server = Server::start();
    // The whole of an uncontended acquire is some 350 bytes.
    for keep in (0..420).step_by(17) {
        let cut = move || {
            let mut left = keep;
            move |bytes: &[u8], to: &mut TcpStream| {
                to.write_all(&bytes[..left.min(bytes.len())])?;
                left = left.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::BrokenPipe)?;
                Ok(())
            }
        };
        let lock = lone_lock(&proxy(&server, cut), "jobs");
        let begun = Instant::now();
        match lock.acquire(wait(300)) {
            Ok(()) => assert!(keep > 100, "granted by {keep} bytes"),
            Err(error) => assert_eq!(error.status(), Status::Disconnected, "{keep}: {error}"),
        }
        assert!(begun.elapsed() < ms(1_300), "{keep}: {:?}", begun.elapsed());
    }
    assert!(wait_until(SOON, || server.members("jobs") == 0));
    lone_lock(&server.url(), "jobs").try_acquire().unwrap();
}

/// Damages about one byte in two hundred.
fn damaged(mut dice: Dice) -> impl Carrier {
    let mut left = dice.below(400);
    move |bytes: &[u8], to: &mut TcpStream| {
        let mut bytes = bytes.to_vec();
        let mut at = left;
        while let Some(byte) = bytes.get_mut(at) {
            *byte = match dice.below(3) {
                0 => b"\r\n:$*%>-+_~|!=(019"[dice.below(18)],
                1 => *byte ^ (1 << dice.below(8)),
                _ => dice.below(256) as u8,
            };
            at += 1 + dice.below(400);
        }
        left = at - bytes.len();
        to.write_all(&bytes)
    }
}

/// Damage to single bytes may look like any answer at all. Whatever it does to the one connection, it
/// is never a fault of the library, and never the end of its thread.
#[test]
fn answers_with_damaged_bytes_are_no_fault_of_the_library() {
    let server = Server::start();
    let mut dice = Dice::new();
    let mut outcomes = std::collections::BTreeMap::new();
    let holder = lone_lock(&server.url(), "held");
    holder.acquire(wait(5_000)).unwrap();
    for round in 0..300 {
        let mut own = dice.child(round);
        let url = proxy(&server, move || damaged(own.child(round)));
        let mut options = ClientOptions::new();
        options.connect_timeout(ms(100)).unwrap();
        let client = Client::new(&url, options).unwrap();
        let name = ["free", "held"][round as usize % 2];
        let lock = client.lock(name, LockOptions::new()).unwrap();
        let begun = Instant::now();
        let outcome = lock.acquire(wait(60)).map_err(|error| error.status());
        assert!(begun.elapsed() < ms(400), "{:?}", begun.elapsed());
        assert_ne!(outcome, Err(Status::Internal));
        *outcomes.entry(format!("{name}: {outcome:?}")).or_insert(0) += 1;
    }
    println!("{outcomes:?}");
    assert!(holder.is_held());
    let left = || server.members("free") == 0 && server.members("held") == 1;
    assert!(wait_until(SOON, left), "{:?}", server.clients());
    exercise(&server.url(), &server);
}

/// Says something once it was spoken to, and goes on listening.
fn answer(words: String) -> String {
    serve(move |mut stream| {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(words.as_bytes());
        swallow(stream);
    })
}

/// Redis 5 and older know no HELLO, and repeat its arguments.
#[test]
fn a_server_that_speaks_resp2_alone_is_told_by_name_and_repeats_no_password() {
    for words in [
        "-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `x`, `hunter2`, \r\n",
        "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'x' 'hunter2' \r\n",
        "-ERR unknown command 'HELLO'\r\n",
        "-ERR Unknown command: HELLO 3 AUTH default hunter2\r\n",
        "-NOPROTO unsupported protocol version\r\n",
    ] {
        for rest in ["", "-NOAUTH Authentication required.\r\n", "-ERR unknown command\r\n"] {
            let url = answer(format!("{words}{rest}"));
            let client = Client::new(&url, ClientOptions::new()).unwrap();
            let lock = client.lock("jobs", LockOptions::new()).unwrap();
            for error in [lock.acquire(wait(400)).err(), client.ping(ms(400)).err()] {
                let error = error.unwrap();
                assert_eq!(error.status(), Status::Unsupported, "{words}{rest}: {error}");
                assert!(!error.is_retryable());
                let said = format!("{error} {error:?} {client:?} {lock:?}");
                assert!(!said.contains("hunter2"), "{said}");
            }
        }
    }
}

/// Lengths that no memory holds, nesting that no stack holds, numbers that are none.
#[test]
fn answers_that_no_sound_server_gives() {
    let sizes = ["-1", "-2", "99999999999", "9223372036854775807", "4611686018427387904"];
    let more = ["-9223372036854775808", "18446744073709551616", "", "x", "0"];
    let mut hostile = Vec::new();
    for kind in ["*", "%", "~", ">", "|", "$", "!", "="] {
        let sizes = sizes.iter().chain(&more);
        hostile.extend(sizes.map(|size| format!("{kind}{size}\r\n")));
    }
    hostile.extend(["_\r\n", ":1\r\n", "#t\r\n", ",nan\r\n"].map(str::to_owned));
    hostile.push("*1\r\n".repeat(100_000));
    for words in hostile {
        let shown = words[..words.len().min(24)].to_owned();
        let mut options = ClientOptions::new();
        options.connect_timeout(ms(40)).unwrap();
        let client = Client::new(&answer(words), options).unwrap();
        let lock = client.lock("jobs", LockOptions::new()).unwrap();
        let begun = Instant::now();
        let error = lock.acquire(wait(80)).unwrap_err();
        let known = [Status::NotRedis, Status::Unresponsive, Status::Disconnected, Status::Server];
        assert!(known.contains(&error.status()), "{shown:?}: {:?} {error}", error.status());
        assert!(begun.elapsed() < ms(500), "{shown:?}: {:?}", begun.elapsed());
    }
    let server = Server::start();
    exercise(&server.url(), &server);
}
