//! The line that a terminal shows while the lock is waited for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::Thread;
use std::time::{Duration, Instant};

use portalock::{Client, Error, Holder, Lock, State, Status};
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use unicode_width::UnicodeWidthChar;

use crate::arguments::Run;
use crate::member;
use crate::news::{Inbox, News};
use crate::output::{is_lively, quote, span};
use crate::voice;

/// A lock that is free by then is not worth a line.
const FIRST: Duration = Duration::from_millis(200);
/// From one drawing to the next, and from one question to the next at the least.
const EVERY: Duration = Duration::from_secs(1);
/// Each member answers each question. Where there are many, they are asked less often: a member answers
/// one watcher no more than about twenty times in a second per member of the whole queue.
const PER_MEMBER: Duration = Duration::from_millis(50);
/// How long members have to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Of a terminal that does not say how wide it is.
const WIDTH: usize = 80;
/// So many columns of a label are always left.
const LEAST: usize = 4;

/// The line, if there is a terminal to show it.
pub struct Live<'a> {
    picture: Option<Picture<'a>>,
}

struct Picture<'a> {
    lock: &'a Lock,
    arguments: &'a Run,
    begun: Instant,
    members: Option<Result<Vec<Holder>, Error>>,
    next: Instant,
    is_shown: bool,
    /// Asks no more once it is dropped.
    _asker: Asker,
}

impl<'a> Live<'a> {
    /// Begins to ask who is there, if standard error is a terminal.
    pub fn begin(client: &Client, lock: &'a Lock, inbox: &Inbox, arguments: &'a Run) -> Self {
        if !is_lively() {
            return Self { picture: None };
        }
        let begun = Instant::now();
        let picture = Picture {
            lock,
            arguments,
            begun,
            members: None,
            next: begun + FIRST,
            is_shown: false,
            _asker: Asker::start(client.clone(), arguments.name.clone(), inbox.sender()),
        };
        Self { picture: Some(picture) }
    }

    /// When it is to be drawn next.
    pub fn next_drawing(&self) -> Option<Instant> {
        self.picture.as_ref().map(|picture| picture.next)
    }

    /// Takes note of who is there.
    pub fn take(&mut self, members: Result<Vec<Holder>, Error>) {
        if let Some(picture) = &mut self.picture {
            picture.members = Some(members);
        }
    }

    /// Draws it anew.
    pub fn draw(&mut self) {
        if let Some(picture) = &mut self.picture {
            picture.next = Instant::now() + EVERY;
            picture.draw();
        }
    }

    /// Takes it off the terminal. It may be drawn again.
    pub fn erase(&mut self) {
        if let Some(picture) = &mut self.picture {
            picture.erase();
        }
    }

    /// Takes it off for good, and asks no more.
    pub fn end(&mut self) {
        self.erase();
        self.picture = None;
    }
}

impl Picture<'_> {
    fn draw(&mut self) {
        // The terminal is somebody else's while this runs in the background.
        if tcgetpgrp(io::stderr()).is_ok_and(|group| group != getpgrp()) {
            return;
        }
        let width = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let width = if width == 0 { WIDTH } else { width };
        // A line that reaches the edge would go on in the next one.
        let columns = width - 1;
        let excess = columns_of(&self.text(0)).saturating_sub(columns);
        let text = cut(&self.text(excess), columns);
        voice::picture(format!("\r{text}\x1b[K"));
        self.is_shown = true;
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            voice::picture("\r\x1b[K".to_owned());
        }
    }

    /// The whole line, with a label that takes so many columns less.
    fn text(&self, less: usize) -> String {
        let waited = self.begun.elapsed();
        let mut parts = vec![format!("waiting for {}", quote(&self.arguments.name))];
        match &self.members {
            None => {}
            Some(Ok(members)) => {
                let own = self.lock.holder_id().unwrap_or_default();
                parts.extend(place(members, &own));
                parts.push(inside(members, &own, member::now_ms(), less));
            }
            Some(Err(error)) => parts.push(trouble(error)),
        }
        parts.push(match self.arguments.wait {
            Some(limit) => format!("{} left", whole(limit.saturating_sub(waited))),
            None => format!("since {}", whole(waited)),
        });
        parts.join(", ")
    }
}

fn whole(time: Duration) -> String {
    span(Duration::from_secs(time.as_secs()))
}

fn trouble(error: &Error) -> String {
    match error.status() {
        Status::Unclear => "some members do not answer".to_owned(),
        Status::Server | Status::Denied | Status::Auth => error.message().to_owned(),
        _ => "the server does not answer".to_owned(),
    }
}

/// The place in the queue.
fn place(members: &[Holder], own: &str) -> Option<String> {
    let mut waiting = members.iter().filter(|member| member.state == State::Waiting);
    let count = waiting.clone().count();
    let at = waiting.position(|member| member.id == own)?;
    Some(format!("{} of {count} in line", at + 1))
}

/// Who holds it. The times say more than the end of a label, which is taken off first.
fn inside(members: &[Holder], own: &str, now_ms: u64, less: usize) -> String {
    let mut holders =
        members.iter().filter(|member| member.state == State::Held && member.id != own);
    let Some(first) = holders.next() else {
        return "nobody holds it".to_owned();
    };
    let mut text = format!("held by {}", shortened(first, less));
    match holders.count() {
        0 => {}
        1 => text += " and another",
        others => text += &format!(" and {others} others"),
    }
    if let Some(age) = member::age(first, now_ms) {
        text += &format!(" for {}", whole(age));
    }
    text
}

fn shortened(member: &Holder, less: usize) -> String {
    let mut shown = member.clone();
    shown.label = member.label.as_deref().map(|label| shorten(label, less));
    member::who(&shown)
}

/// A text that takes so many columns less, with a mark where it ends; of a long one a little is left.
fn shorten(text: &str, less: usize) -> String {
    let columns = columns_of(text);
    if less == 0 || columns <= LEAST {
        return text.to_owned();
    }
    let kept = columns.saturating_sub(less).max(LEAST);
    cut(text, kept - 1) + "\u{2026}"
}

fn columns_of(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// As much of a text as fits into so many columns.
fn cut(text: &str, columns: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= columns
    };
    text.chars().take_while(fits).collect()
}

/// A thread that asks who is there. It takes no part in the queue: members answer it as they answer
/// anybody who looks.
struct Asker {
    thread: Thread,
    is_over: Arc<AtomicBool>,
}

impl Asker {
    fn start(client: Client, name: String, sender: Sender<News>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let asking = std::thread::spawn(move || {
            let mut pause = FIRST / 2;
            loop {
                std::thread::park_timeout(pause);
                if over.load(Ordering::Acquire) {
                    return;
                }
                let members = client.holders(&name, PATIENCE);
                let count = members.as_ref().map_or(0, Vec::len);
                pause = EVERY.max(PER_MEMBER * u32::try_from(count).unwrap_or(u32::MAX));
                if sender.send(News::Members(members)).is_err() {
                    return;
                }
            }
        });
        Self { thread: asking.thread().clone(), is_over }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::tests::member;

    #[test]
    fn the_line_says_the_place_and_who_is_inside() {
        let members =
            [member("a", State::Held), member("b", State::Waiting), member("c", State::Waiting)];
        assert_eq!(place(&members, "c").as_deref(), Some("2 of 2 in line"));
        assert_eq!(place(&members, "d"), None);
        assert_eq!(inside(&members, "c", 66_000, 0), "held by reporter (host:7) for 1m 5s");
        assert_eq!(inside(&members[1..], "c", 66_000, 0), "nobody holds it");
        let two = [members[0].clone(), members[0].clone()];
        assert_eq!(inside(&two, "c", 500, 0), "held by reporter (host:7) and another for 0s");
    }

    #[test]
    fn a_label_is_shortened_first() {
        let members = [member("a", State::Held)];
        assert_eq!(inside(&members, "c", 66_000, 2), "held by repor… (host:7) for 1m 5s");
        assert_eq!(inside(&members, "c", 66_000, 99), "held by rep… (host:7) for 1m 5s");
        assert_eq!(shorten("日本語だ", 1), "日本語…");
        assert_eq!(shorten("abcd", 3), "abcd");
    }

    #[test]
    fn it_is_cut_by_columns() {
        assert_eq!(cut("waiting", 4), "wait");
        assert_eq!(cut("日本語", 5), "日本");
        assert_eq!(cut("e\u{301}a", 1), "e\u{301}");
    }
}
