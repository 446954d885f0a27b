//! Servers that cannot be used: each kind has a status of its own, in bounded time, and no message
//! repeats a password.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, Error, LockOptions, Status};

use crate::support::{Server, free_port};
use crate::{failure, ms, wait};

const PASSWORD: &str = "hunter2";
/// How long each call may try, and how much longer than that it may take.
const SPAN: u64 = 400;
const SLACK: u64 = 100;

/// Tries all that talks to a server; every call has to answer with this status.
fn assert_unusable(url: &str, expected: Status) {
    let mut options = ClientOptions::new();
    options.connect_timeout(ms(200)).unwrap();
    let client = Client::new(url, options).unwrap();
    let lock = client.lock("jobs", LockOptions::new()).unwrap();
    let check = |what: &str, begun: Instant, error: Error| {
        let took = begun.elapsed();
        println!("{url}: {what}: {:?} after {took:?}: {error}", error.status());
        assert_eq!(error.status(), expected, "{what}: {error}");
        assert!(took < ms(SPAN + SLACK), "{what}: {took:?}");
        let said = format!("{error} {error:?} {client:?} {lock:?}");
        assert!(!said.contains(PASSWORD), "{said}");
    };
    let begun = Instant::now();
    check("acquire", begun, failure(lock.acquire(wait(SPAN))));
    let begun = Instant::now();
    check("ping", begun, failure(client.ping(ms(SPAN))));
    let begun = Instant::now();
    check("holders", begun, failure(client.holders("jobs", ms(SPAN))));
    assert!(!lock.is_held());
}

/// A server in a thread: does this to everybody who comes. Ends with the test's process.
pub fn serve(talk: impl Fn(TcpStream) + Send + Clone + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let talk = talk.clone();
            std::thread::spawn(move || talk(stream));
        }
    });
    format!("redis://:{PASSWORD}@127.0.0.1:{port}")
}

/// Says something at once, and then waits for the other side to go.
fn say(words: &'static [u8]) -> String {
    serve(move |mut stream| {
        let _ = stream.write_all(words);
        swallow(stream);
    })
}

pub fn swallow(mut stream: TcpStream) {
    let mut buffer = [0; 1024];
    while matches!(stream.read(&mut buffer), Ok(1..)) {}
}

#[test]
fn no_such_socket() {
    assert_unusable(&format!("unix:///nowhere/redis.sock?pass={PASSWORD}"), Status::Unreachable);
}

#[test]
fn a_socket_that_nobody_listens_at() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert_unusable(&format!("unix://{}?pass={PASSWORD}", path.display()), Status::Refused);
}

#[test]
fn a_port_that_nobody_listens_at() {
    assert_unusable(&format!("redis://:{PASSWORD}@127.0.0.1:{}", free_port()), Status::Refused);
    assert_unusable(&format!("redis://:{PASSWORD}@localhost:{}", free_port()), Status::Refused);
}

#[test]
fn a_host_that_does_not_exist() {
    // `.invalid` never exists (RFC 6761), but where there is no resolver, to learn that takes its time.
    let client =
        Client::new(&format!("redis://:{PASSWORD}@no.invalid"), ClientOptions::new()).unwrap();
    let begun = Instant::now();
    let error = failure(client.ping(ms(SPAN)));
    assert!(begun.elapsed() < ms(SPAN + SLACK), "{:?}", begun.elapsed());
    assert_eq!(error.status(), Status::Unreachable, "{error}");
    assert!(!format!("{error} {error:?}").contains(PASSWORD));
    let lock = client.lock("jobs", LockOptions::new()).unwrap();
    let begun = Instant::now();
    let error = failure(lock.acquire(wait(SPAN)));
    assert!(begun.elapsed() < ms(SPAN + SLACK), "{:?}", begun.elapsed());
    assert_eq!(error.status(), Status::Unreachable, "{error}");
    assert!(!format!("{error} {error:?} {client:?} {lock:?}").contains(PASSWORD));
}

#[test]
fn a_password_that_is_wrong_or_missing() {
    let server = Server::with(&[("requirepass", "another")]);
    let port = server.port();
    assert_unusable(&format!("redis://:{PASSWORD}@127.0.0.1:{port}"), Status::Auth);
    assert_unusable(&format!("redis://127.0.0.1:{port}"), Status::Auth);
    assert_unusable(&format!("{}?pass={PASSWORD}", server.url()), Status::Auth);
    assert_unusable(&server.url(), Status::Auth);
}

#[test]
fn a_password_where_none_is_wanted() {
    // HELLO refuses it, or takes it, by the server's version; nothing may repeat it either way.
    let server = Server::start();
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port());
    let client = Client::new(&url, ClientOptions::new()).unwrap();
    if let Err(error) = client.ping(ms(SPAN)) {
        assert_eq!(error.status(), Status::Auth, "{error}");
        assert!(!format!("{error} {error:?}").contains(PASSWORD));
    }
}

#[test]
fn a_user_that_is_wrong() {
    let server = Server::with(&[("requirepass", PASSWORD)]);
    let url = format!("redis://nobody:{PASSWORD}@127.0.0.1:{}", server.port());
    assert_unusable(&url, Status::Auth);
}

#[test]
fn a_user_that_may_not() {
    let server = Server::start();
    let rule = format!(">{PASSWORD}");
    let url = |user: &str| format!("redis://{user}:{PASSWORD}@127.0.0.1:{}", server.port());
    // Everything but the channel.
    server.run::<()>(&["ACL", "SETUSER", "elsewhere", "on", &rule, "+@all", "resetchannels"]);
    assert_unusable_lock(&url("elsewhere"), Status::Denied);
    // The channel, but no subscription.
    server.run::<()>(&["ACL", "SETUSER", "mute", "on", &rule, "+@all", "-subscribe", "&*"]);
    assert_unusable_lock(&url("mute"), Status::Denied);
}

/// As [`assert_unusable`], where a ping gets through.
fn assert_unusable_lock(url: &str, expected: Status) {
    let client = Client::new(url, ClientOptions::new()).unwrap();
    client.ping(Duration::from_secs(5)).unwrap();
    let lock = client.lock("jobs", LockOptions::new()).unwrap();
    let begun = Instant::now();
    let error = failure(lock.acquire(wait(SPAN)));
    println!("{:?} after {:?}: {error}", error.status(), begun.elapsed());
    assert_eq!(error.status(), expected, "{error}");
    assert!(begun.elapsed() < ms(SPAN + SLACK), "{:?}", begun.elapsed());
    assert!(!format!("{error} {error:?} {client:?} {lock:?}").contains(PASSWORD));
}

#[test]
fn no_redis_at_all() {
    let http = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nno\r\n";
    assert_unusable(
        &serve(move |mut stream| {
            let mut request = [0; 256];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(http);
            swallow(stream);
        }),
        Status::NotRedis,
    );
}

#[test]
fn an_http_server_that_answers_and_closes() {
    let http = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    assert_unusable(
        &serve(move |mut stream| {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(http);
            let _ = stream.shutdown(Shutdown::Write);
            swallow(stream);
        }),
        Status::NotRedis,
    );
}

#[test]
fn servers_that_speak_first() {
    assert_unusable(&say(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), Status::NotRedis);
    assert_unusable(&say(b"220 mail.example ESMTP\r\n"), Status::NotRedis);
    assert_unusable(&say(b"+OK POP3 ready\r\n"), Status::NotRedis);
    assert_unusable(&say(b"+OK\r\n"), Status::NotRedis);
    assert_unusable(&say(b"* OK IMAP4rev1 ready\r\n"), Status::NotRedis);
    assert_unusable(&say(b"\x00\x00\x00\x0a5.7.1\x00\xff\xff\xff"), Status::NotRedis);
    assert_unusable(&say(b"\x15\x03\x03\x00\x02\x02\x46"), Status::NotRedis); // TLS: alert
}

#[test]
fn a_server_that_never_answers() {
    assert_unusable(&serve(swallow), Status::Unresponsive);
}

#[test]
fn a_server_that_closes_at_once() {
    assert_unusable(&serve(drop), Status::Disconnected);
}

#[test]
fn the_last_attempt_may_be_too_short_to_tell() {
    let begun = Instant::now();
    let url = serve(move |stream| {
        if begun.elapsed() > ms(SPAN * 7 / 10) {
            swallow(stream);
        }
    });
    let lock = crate::lone_lock(&url, "jobs");
    let error = failure(lock.acquire(wait(SPAN)));
    assert_eq!(error.status(), Status::Disconnected, "{error}");
}

#[test]
fn a_server_that_stops_in_the_middle_of_an_answer() {
    assert_unusable(&say(b"%7\r\n$6\r\nserv"), Status::Unresponsive);
    let cut = serve(|mut stream| {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(b"%7\r\n$6\r\nserv");
    });
    assert_unusable(&cut, Status::Disconnected);
}

#[test]
fn a_server_without_room() {
    let server = Server::start();
    let _admin = server.connection();
    let mut admin = server.connection();
    let () = redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(2).query(&mut admin).unwrap();
    assert_unusable(&server.url(), Status::Server);
    let () = redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(100).query(&mut admin).unwrap();
}

#[test]
fn a_server_that_comes_up_meanwhile_is_used() {
    let mut server = Server::start();
    server.kill();
    let lock = crate::lone_lock(&server.url(), "jobs");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.acquire(wait(15_000)));
        std::thread::sleep(ms(200));
        server.restart();
        waiting.join().unwrap().unwrap();
    });
    assert!(lock.is_held());
}
