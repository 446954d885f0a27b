//! The hand-over of `docs/hand-over.md`, captured anew: what passes on the wire between each of two members and
//! a real server, and in which order the server executes it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use crate::concepts::{hand_over, monitor};
use crate::lone_lock;
use crate::support::Server;

const PAGE: &str = include_str!("../../docs/hand-over.md");

/// What passes in one direction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToMember,
}

/// What has passed so far.
type Pieces = Arc<Mutex<Vec<(Way, Vec<u8>)>>>;

/// Passes the bytes of one connection on, and keeps them in the order in which they came.
struct Tap {
    port: u16,
    pieces: Pieces,
}

impl Tap {
    fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let pieces = Pieces::default();
        let own = pieces.clone();
        std::thread::spawn(move || {
            let (near, _) = listener.accept().unwrap();
            let far = TcpStream::connect(("127.0.0.1", server)).unwrap();
            let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
            pass_on(near, far, Way::ToServer, own.clone());
            pass_on(back.0, back.1, Way::ToMember, own);
        });
        Self { port, pieces }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, way: Way, pieces: Pieces) {
    to.set_nodelay(true).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            pieces.lock().unwrap().push((way, buffer[..count].to_vec()));
            if to.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

// --- RESP -----------------------------------------------------------------------------------------

/// One value at the beginning of the bytes, as a person would write it, and what is behind it; `None` if it is
/// not all there.
fn value(bytes: &[u8]) -> Option<(String, &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (head, rest) = (std::str::from_utf8(&bytes[1..end]).unwrap(), &bytes[end + 2..]);
    match bytes[0] {
        b'+' => Some((head.to_owned(), rest)),
        b'-' => Some((format!("error {head}"), rest)),
        b':' => Some((head.to_owned(), rest)),
        b'_' => Some(("nothing".to_owned(), rest)),
        b'$' => {
            let length: usize = head.parse().unwrap();
            let text = String::from_utf8(rest.get(..length)?.to_vec()).unwrap();
            Some((text, rest.get(length + 2..)?))
        }
        b'*' => values(head.parse().unwrap(), rest),
        b'%' => values(2 * head.parse::<usize>().unwrap(), rest),
        b'>' => {
            values(head.parse().unwrap(), rest).map(|(text, rest)| (format!("push {text}"), rest))
        }
        other => panic!("{:?}", char::from(other)),
    }
}

fn values(count: usize, mut rest: &[u8]) -> Option<(String, &[u8])> {
    let mut parts = Vec::new();
    for _ in 0..count {
        let (part, behind) = value(rest)?;
        (rest, _) = (behind, parts.push(part));
    }
    Some((parts.join(" "), rest))
}

/// `> ` for what a member says, `< ` for what it is told.
fn frames(pieces: &[(Way, Vec<u8>)]) -> Vec<String> {
    let mut open = [Vec::new(), Vec::new()];
    let mut found = Vec::new();
    for (way, bytes) in pieces {
        let (buffer, sign) = match way {
            Way::ToServer => (&mut open[0], '>'),
            Way::ToMember => (&mut open[1], '<'),
        };
        buffer.extend(bytes);
        while let Some((text, rest)) = value(buffer) {
            *buffer = rest.to_vec();
            found.push(format!("{sign} {}", text.trim_end()));
        }
    }
    found
}

// --- What differs from time to time -----------------------------------------------------------------

/// Leaves out the login, and all but the first of the counts that only say again what the one before has said.
fn essential(lines: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut skipped = [0, 0];
    for line in lines {
        let way = usize::from(line.starts_with('<'));
        // HELLO, and twice CLIENT SETINFO.
        if skipped[way] < 3 {
            skipped[way] += 1;
            continue;
        }
        kept.push(line);
        let count = kept.len();
        let is_again = count >= 4 && kept[count - 2..] == kept[count - 4..count - 2];
        if is_again && kept[count - 2].starts_with("> PUBSUB NUMSUB") {
            kept.truncate(count - 2);
        }
    }
    kept
}

/// A number or a text that follows a key in a message, by a word.
fn blank(line: &str, key: &str, word: &str) -> String {
    let start = format!("\"{key}\":");
    let Some((before, rest)) = line.split_once(&start) else {
        return line.to_owned();
    };
    let end = rest.find([',', '}']).unwrap();
    format!("{before}{start}{word}{}", &rest[end..])
}

fn named(line: &str, ids: &[(String, &str)]) -> String {
    let mut line = line.to_owned();
    for (id, name) in ids {
        line = line.replace(id, name);
    }
    for (key, word) in [("since_ms", "TIME"), ("pid", "PID"), ("host", "HOST")] {
        line = blank(&line, key, word);
    }
    line
}

// --- The capture --------------------------------------------------------------------------------------

struct Capture {
    ann: Vec<String>,
    bob: Vec<String>,
    /// What the server has executed, in that order, by whom.
    executed: Vec<String>,
}

fn capture() -> Capture {
    let server = Server::start();
    let monitored = monitor(&server);
    let taps = [(); 2].map(|()| Tap::before(server.port()));
    let [ann, bob] = taps.each_ref().map(|tap| lone_lock(&tap.url(), "jobs"));
    let ids = hand_over(&server, &ann, &bob);
    let executed = executed(monitored, &ids);
    let [ann, bob] = taps.map(|tap| {
        let lines = essential(frames(&tap.pieces.lock().unwrap()));
        lines.iter().map(|line| named(line, &ids)).collect()
    });
    Capture { ann, bob, executed }
}

/// By whom it is told by the name that a connection has been given first.
fn executed(monitored: BufReader<UnixStream>, ids: &[(String, &'static str)]) -> Vec<String> {
    let mut members: Vec<(String, &str)> = Vec::new();
    let mut told: Vec<String> = Vec::new();
    for line in monitored.lines().map_while(Result::ok) {
        let Some((address, words)) =
            line.split_once(" [0 ").and_then(|(_, rest)| rest.split_once("] "))
        else {
            continue;
        };
        let words = words.replace("\" \"", " ").replace("\\\"", "\"");
        let words = words.trim_start_matches('"').trim_end_matches('"').trim_end();
        for (id, name) in
            ids.iter().filter(|(id, _)| words == format!("CLIENT SETNAME jobs-lock-{id}"))
        {
            assert!(!id.is_empty());
            members.push((address.to_owned(), name));
        }
        if let Some((_, speaker)) = members.iter().find(|(known, _)| known == address) {
            told.push(named(&format!("{speaker} > {words}"), ids));
        }
    }
    told.dedup();
    told
}

/// What the page shows.
fn documented() -> Vec<&'static str> {
    let blocks = PAGE.split("```text\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    blocks.flat_map(str::lines).collect()
}

fn of<'a>(member: &str, lines: &[&'a str]) -> Vec<&'a str> {
    let start = format!("{member} ");
    lines.iter().filter_map(|line| line.strip_prefix(start.as_str())).collect()
}

/// From Redis 7.2 on, a message to oneself comes behind the reply to its `PUBLISH`, and not before it.
fn reply_first(lines: &[impl AsRef<str>]) -> Vec<&str> {
    let mut lines: Vec<_> = lines.iter().map(AsRef::as_ref).collect();
    let is_number = |line: &str| line.strip_prefix("< ").is_some_and(|n| n.parse::<u32>().is_ok());
    for at in 1..lines.len() {
        if is_number(lines[at]) && lines[at - 1].starts_with("< push message") {
            lines.swap(at - 1, at);
        }
    }
    lines
}

/// On a busy machine an answer may take so long that somebody asks twice: that is another story.
#[test]
fn a_hand_over_on_the_wire_is_what_the_page_shows() {
    let page = documented();
    let commands: Vec<_> = page.iter().filter(|line| line.contains(" > ")).copied().collect();
    let mut last = None;
    for _ in 0..5 {
        let seen = capture();
        let same = |seen: &[String], who| reply_first(seen) == reply_first(&of(who, &page));
        if same(&seen.ann, "ann") && same(&seen.bob, "bob") && seen.executed == commands {
            return;
        }
        last = Some(seen);
    }
    let Capture { ann, bob, executed } = last.unwrap();
    let all = [("ann", ann), ("bob", bob), ("executed", executed)];
    panic!("{}", all.map(|(who, lines)| format!("{who}:\n{}\n", lines.join("\n"))).concat());
}
