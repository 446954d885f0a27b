//! Locks over TLS, with certificates made here.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::time::Instant;

use portalock::{Client, ClientOptions, Status};
use rcgen::{ExtendedKeyUsagePurpose, date_time_ymd};

use crate::support::tls::{Authority, Secure};
use crate::support::wait_until;
use crate::{LONG, SOON, failure, lock, ms, wait};

/// What the tests ask of such a server.
trait Clients {
    fn client(&self, set: impl FnOnce(&mut ClientOptions)) -> Client;
    fn trusting(&self, authority: &Authority) -> Client;
}

impl Clients for Secure {
    fn client(&self, set: impl FnOnce(&mut ClientOptions)) -> Client {
        let mut options = ClientOptions::new();
        set(&mut options);
        Client::new(&self.url(), options).unwrap()
    }

    fn trusting(&self, authority: &Authority) -> Client {
        self.client(|options| {
            options.tls_ca_file(authority.ca());
        })
    }
}

/// That a client cannot use the server, at once and for good; why.
fn refusal(client: &Client) -> String {
    let error = failure(client.ping(LONG));
    let begun = Instant::now();
    let acquire = failure(lock(client, "job").acquire(wait(15_000)));
    assert!(begun.elapsed() < ms(10_000), "not tried again");
    for error in [&error, &acquire] {
        assert_eq!(error.status(), Status::Tls, "{error}");
        assert!(!error.is_retryable());
    }
    acquire.to_string()
}

#[test]
fn a_lock_is_acquired_contended_handed_over_and_looked_at() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, "no");
    let [one, two] = [(); 2].map(|()| secure.trusting(&authority));
    one.ping(LONG).unwrap();
    let [held, waiting] = [lock(&one, "job"), lock(&two, "job")];
    held.acquire(wait(10_000)).unwrap();
    assert_eq!(failure(waiting.try_acquire()).status(), Status::Locked);
    let [holder] = two.holders("job", SOON).unwrap().try_into().unwrap();
    assert_eq!(Some(holder.id), held.holder_id());
    held.verify(LONG).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| waiting.acquire(wait(20_000)));
        assert!(wait_until(LONG, || secure.server.members("job") == 2));
        held.release().unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert!(waiting.is_held() && !held.is_held());
    waiting.release_wait(LONG).unwrap();
    for _ in 0..200 {
        held.acquire(wait(10_000)).unwrap();
        held.release().unwrap();
    }
}

#[test]
fn a_lock_is_lost_with_the_server() {
    let authority = Authority::new();
    let mut secure = Secure::start(&authority, "no");
    let client = secure.trusting(&authority);
    let lock = lock(&client, "job");
    lock.acquire(wait(10_000)).unwrap();
    secure.server.kill();
    assert!(wait_until(LONG, || !lock.is_held()));
    assert_eq!(failure(lock.release()).status(), Status::Lost);
    secure.server.restart();
    lock.acquire(wait(10_000)).unwrap();
}

/// Much more than one record of TLS comes at once.
#[test]
fn many_locks_live_on_one_connection() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, "no");
    let client = secure.client(|options| {
        options.tls_ca_file(authority.ca()).shared_connection(true);
    });
    let locks: Vec<_> = (0..300).map(|n| lock(&client, &format!("job-{n}"))).collect();
    std::thread::scope(|scope| {
        for some in locks.chunks(30) {
            scope.spawn(|| some.iter().for_each(|lock| lock.acquire(wait(15_000)).unwrap()));
        }
    });
    let other = secure.trusting(&authority);
    for (n, lock) in locks.iter().enumerate().step_by(60) {
        let [holder] = other.holders(&format!("job-{n}"), SOON).unwrap().try_into().unwrap();
        assert_eq!(Some(holder.id), lock.holder_id());
    }
    locks.iter().for_each(|lock| lock.release_wait(LONG).unwrap());
}

#[test]
fn whoever_the_certificate_is_not_of_is_refused() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, "no");
    let stranger = Authority::new();
    let text = refusal(&secure.trusting(&stranger));
    assert!(text.contains("no authority that is trusted"), "{text}");

    let wrong = secure.client(|options| {
        options.tls_ca_file(authority.ca()).tls_server_name("other.example");
    });
    let text = refusal(&wrong);
    assert!(text.contains("is not for \"other.example\""), "{text}");

    let insecure = secure.client(|options| {
        options.tls_ca_file(stranger.ca()).tls_insecure_no_verification(true);
    });
    insecure.ping(LONG).unwrap();

    let expired = authority.certify("localhost", |params| {
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    });
    let secure = Secure::showing(&authority, &expired, "no");
    let client = secure.client(|options| {
        options.tls_ca_file(authority.ca()).tls_server_name("localhost");
    });
    let text = refusal(&client);
    assert!(text.contains("has expired"), "{text}");
}

#[test]
fn a_server_name_takes_the_place_of_the_host() {
    let authority = Authority::new();
    let files = authority.certify("redis.example", |_| {});
    let secure = Secure::showing(&authority, &files, "no");
    let text = refusal(&secure.trusting(&authority));
    assert!(text.contains("is not for \"127.0.0.1\""), "{text}");
    let named = secure.client(|options| {
        options.tls_ca_file(authority.ca()).tls_server_name("redis.example");
    });
    lock(&named, "job").acquire(wait(10_000)).unwrap();
}

#[test]
fn a_server_may_ask_for_a_certificate() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, "yes");
    let text = refusal(&secure.trusting(&authority));
    assert!(text.contains("CertificateRequired"), "{text}");
    let (certificate, key) = authority.certify("me", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    let known = secure.client(|options| {
        options.tls_ca_file(authority.ca()).tls_client_certificate(&certificate, &key);
    });
    lock(&known, "job").acquire(wait(10_000)).unwrap();
}

#[test]
fn who_speaks_tls_and_who_does_not_is_told() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, "no");
    let url = format!("rediss://127.0.0.1:{}", secure.server.port());
    let mut options = ClientOptions::new();
    options.tls_ca_file(authority.ca()).connect_timeout(ms(500)).unwrap();
    let client = Client::new(&url, options).unwrap();
    let acquire = lock(&client, "job").acquire(wait(1_000));
    for error in [failure(client.ping(ms(500))), failure(acquire)] {
        assert_eq!(error.status(), Status::Unresponsive, "{error}");
        assert!(error.to_string().contains("does not speak TLS"), "{error}");
    }
    let chatty = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rediss://{}", chatty.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in chatty.incoming() {
            let _ = stream.unwrap().write_all(b"220 mail.example ESMTP\r\n");
        }
    });
    let mut options = ClientOptions::new();
    options.tls_ca_file(authority.ca());
    let text = refusal(&Client::new(&url, options).unwrap());
    assert!(text.contains("does not speak TLS"), "{text}");

    let plain = crate::client(&format!("redis://127.0.0.1:{}", secure.port));
    let error = failure(plain.ping(LONG));
    // By an alert, by the end of the connection, or by a reset.
    assert!([Status::NotRedis, Status::Disconnected].contains(&error.status()), "{error}");
    assert!(error.to_string().contains("expects TLS"), "{error}");
}

#[test]
fn a_silent_server_is_given_up_in_the_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rediss://{}", listener.local_addr().unwrap());
    let mut options = ClientOptions::new();
    options.connect_timeout(ms(300)).unwrap().tls_insecure_no_verification(true);
    let client = Client::new(&url, options).unwrap();
    let begun = Instant::now();
    assert_eq!(failure(client.ping(ms(300))).status(), Status::Unresponsive);
    assert_eq!(failure(lock(&client, "job").acquire(wait(600))).status(), Status::Unresponsive);
    assert!((ms(600)..ms(8_000)).contains(&begun.elapsed()));
}

#[test]
fn files_are_read_once_and_named_where_they_cannot_be() {
    let authority = Authority::new();
    let (certificate, key) = authority.certify("me", |_| {});
    let (other, _) = authority.certify("other", |_| {});
    let (missing, empty) = (authority.file("missing.pem"), authority.file("empty.pem"));
    std::fs::write(&empty, "nothing").unwrap();
    let refused = |named: &Path, set: &dyn Fn(&mut ClientOptions)| {
        let mut options = ClientOptions::new();
        set(&mut options);
        let error = failure(Client::new("rediss://127.0.0.1", options));
        assert_eq!(error.status(), Status::Invalid, "{error}");
        assert!(error.to_string().contains(named.to_str().unwrap()), "{error}");
    };
    for file in [&missing, &empty, &key] {
        refused(file, &|options| {
            options.tls_ca_file(file);
        });
    }
    for (certificate, key, named) in [
        (&missing, &key, &missing),
        (&certificate, &missing, &missing),
        (&certificate, &empty, &empty),
        (&other, &key, &key),
    ] {
        refused(named, &|options| {
            options.tls_insecure_no_verification(true).tls_client_certificate(certificate, key);
        });
    }
    let secure = Secure::start(&authority, "no");
    let client = secure.trusting(&authority);
    std::fs::remove_file(authority.ca()).unwrap();
    client.ping(LONG).unwrap();
}

#[test]
fn settings_for_tls_without_it_are_refused() {
    let mut options = ClientOptions::new();
    options.tls_server_name("localhost");
    let error = failure(Client::new("redis://127.0.0.1", options));
    assert_eq!(error.status(), Status::Invalid, "{error}");
    let mut options = ClientOptions::new();
    options.tls_insecure_no_verification(true).tls_server_name("not a name");
    let error = failure(Client::new("rediss://127.0.0.1", options));
    assert_eq!(error.status(), Status::Invalid, "{error}");
}
