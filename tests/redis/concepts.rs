//! A hand-over as `docs/concepts.md` shows it, beside what a server is told.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use portalock::Lock;

use crate::support::{Server, wait_until};
use crate::{LONG, lone_lock, ms, wait};

const PAGE: &str = include_str!("../../docs/concepts.md");

fn documented() -> Vec<&'static str> {
    let block = PAGE.split_once("```text\n").expect("no block").1;
    block.split_once("```").unwrap().0.lines().collect()
}

/// What is executed, line by line, from now until the server ends.
pub fn monitor(server: &Server) -> BufReader<UnixStream> {
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.set_read_timeout(Some(ms(500))).unwrap();
    stream.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(stream);
    let mut said = String::new();
    lines.read_line(&mut said).unwrap();
    assert_eq!(said, "+OK\r\n");
    lines
}

/// A message by what it says, of all that is in it.
fn short(message: &str) -> &str {
    let words = ["\"message\":\"ping\"", "\"state\":\"held\"", "\"event\":\"left\""];
    let found = words.into_iter().find(|word| message.contains(word));
    found.map_or(message, |word| word.rsplit('"').nth(1).unwrap())
}

/// One line of the page for one of the monitor; `None` for what no member says.
fn line(
    said: &str,
    members: &mut Vec<(String, &'static str)>,
    ids: &[(String, &'static str)],
) -> Option<String> {
    let (address, command) = said.split_once(" [0 ")?.1.split_once("] ")?;
    let words: Vec<_> =
        command.trim().strip_prefix('"')?.strip_suffix('"')?.split("\" \"").collect();
    let mut text = words.join(" ").replace("\\\"", "\"");
    if let ["PUBLISH", channel, message] = words[..] {
        text = format!("PUBLISH {channel} ({})", short(&message.replace("\\\"", "\"")));
    }
    for (id, name) in ids {
        if text == format!("CLIENT SETNAME jobs-lock-{id}") {
            members.push((address.to_owned(), name));
        }
        text = text.replace(id, name);
    }
    let speaker = members.iter().find(|(known, _)| known == address)?.1;
    Some(format!("{speaker}: {}", text.trim_end()))
}

/// Ann holds, Bob waits, she leaves, he holds and leaves.
pub fn hand_over(server: &Server, ann: &Lock, bob: &Lock) -> [(String, &'static str); 2] {
    ann.acquire(wait(5_000)).unwrap();
    let ids = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bob.acquire(wait(20_000)));
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        std::thread::sleep(ms(200));
        let ids =
            [(ann, "ann"), (bob, "bob")].map(|(lock, name)| (lock.holder_id().unwrap(), name));
        ann.release_wait(LONG).unwrap();
        waiting.join().unwrap().unwrap();
        ids
    });
    std::thread::sleep(ms(100));
    bob.release_wait(LONG).unwrap();
    ids
}

fn observed() -> Vec<String> {
    let server = Server::start();
    let lines = monitor(&server);
    let [ann, bob] = [(); 2].map(|()| lone_lock(&server.tcp_url(), "jobs"));
    let ids = hand_over(&server, &ann, &bob);
    let mut members = Vec::new();
    let said = lines.lines().map_while(Result::ok);
    let mut told: Vec<_> = said.filter_map(|said| line(&said, &mut members, &ids)).collect();
    told.dedup();
    told
}

/// On a busy machine an answer may take so long that somebody asks twice: that is another story.
#[test]
fn a_hand_over_is_what_the_page_shows() {
    let documented = documented();
    let mut told = Vec::new();
    for _ in 0..5 {
        told = observed();
        if told == documented {
            return;
        }
    }
    panic!("{told:#?}");
}
