//! Reads the journal that the workers keep, and what else they leave behind.
//!
//! A line is `EVENT LABEL TOKEN NANOSECONDS`, by one clock for all processes: `want` before an acquire,
//! `enter` and `leave` while the lock is held, `lost` if a worker was told so. Whoever kills a worker that
//! is inside writes `kill`, after it has stopped and before it dies.

use std::collections::{BTreeMap, BTreeSet};

/// What is to become of a worker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Goes through so many sections.
    Serves(u64),
    /// Is killed inside one.
    Dies,
}

#[derive(Debug, Default)]
pub struct Verdict {
    /// Those that were left alive.
    pub sections: u64,
    /// Those that were entered while somebody else waited.
    pub contended: u64,
    /// Those that were entered after the last death.
    pub after_deaths: u64,
    /// The longest that anybody waited who was served.
    pub longest_wait_ms: i64,
    /// The longest from a death to when the next was in.
    pub slowest_takeover_ms: i64,
    /// From the first line to the last end.
    pub span_ms: i64,
}

struct Line<'a> {
    event: &'a str,
    label: &'a str,
    token: u64,
    at: i64,
}

impl<'a> Line<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut words = text.split(' ');
        let (event, label) = (words.next()?, words.next()?);
        let (token, at) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        words.next().is_none().then_some(Self { event, label, token, at })
    }
}

#[derive(Default)]
struct Court<'a> {
    verdict: Verdict,
    inside: Option<(&'a str, u64)>,
    wanting: BTreeMap<&'a str, i64>,
    served: BTreeMap<&'a str, u64>,
    dead: BTreeSet<&'a str>,
    highest: u64,
    /// Whether the latest who was inside has died there.
    vacant: bool,
    /// When the latest entered or left.
    latest: i64,
}

/// Refuses what breaks a promise, and says which. `counter` is what the workers have counted without any
/// lock but this.
pub fn judge(journal: &str, counter: u64, crew: &[(String, Fate)]) -> Result<Verdict, String> {
    let mut court = Court::default();
    let mut begun = None;
    for text in journal.lines() {
        let line = Line::parse(text).ok_or("not a line of a journal").and_then(|line| {
            begun.get_or_insert(line.at);
            court.hear(&line)
        });
        line.map_err(|why| format!("{text:?}: {why}"))?;
    }
    if let Some((label, _)) = court.inside {
        return Err(format!("{label} is still inside"));
    }
    crew.iter().try_for_each(|(label, fate)| court.meets(label, *fate))?;
    // A worker that was killed may have counted before, or may not.
    let most = court.verdict.sections + court.dead.len() as u64;
    if counter < court.verdict.sections || counter > most {
        return Err(format!("{counter} counted, {} to {most} left", court.verdict.sections));
    }
    court.verdict.span_ms = (court.latest - begun.unwrap_or(0)) / 1_000_000;
    Ok(court.verdict)
}

impl<'a> Court<'a> {
    fn hear(&mut self, line: &Line<'a>) -> Result<(), &'static str> {
        if self.dead.contains(line.label) {
            return Err("it is dead");
        }
        match line.event {
            "want" => match self.wanting.insert(line.label, line.at) {
                None => Ok(()),
                Some(_) => Err("it waits already"),
            },
            "enter" => self.enter(line),
            "leave" | "kill" => self.leave(line),
            "lost" => Err("a lock was lost"),
            _ => Err("no such event"),
        }
    }

    fn enter(&mut self, line: &Line<'a>) -> Result<(), &'static str> {
        if self.inside.is_some() {
            return Err("somebody is inside");
        }
        if line.token <= self.highest {
            return Err("its token is not higher than all before");
        }
        let Some(since) = self.wanting.remove(line.label) else {
            return Err("it did not wait");
        };
        self.verdict.contended += u64::from(!self.wanting.is_empty());
        let waited = (line.at - since) / 1_000_000;
        self.verdict.longest_wait_ms = self.verdict.longest_wait_ms.max(waited);
        if std::mem::take(&mut self.vacant) {
            let after = (line.at - self.latest) / 1_000_000;
            self.verdict.slowest_takeover_ms = self.verdict.slowest_takeover_ms.max(after);
        }
        self.verdict.after_deaths += 1;
        self.highest = line.token;
        self.inside = Some((line.label, line.token));
        self.pass(line.at)
    }

    fn leave(&mut self, line: &Line<'a>) -> Result<(), &'static str> {
        match self.inside.take() {
            Some((label, _)) if label == line.label && line.event == "kill" => {
                self.dead.insert(label);
                self.vacant = true;
                self.verdict.after_deaths = 0;
            }
            Some((label, token)) if label == line.label && token == line.token => {
                self.verdict.sections += 1;
                *self.served.entry(label).or_default() += 1;
            }
            _ => return Err("it is not inside"),
        }
        self.pass(line.at)
    }

    /// The clock runs as the journal does: no section began before the one before it was over.
    fn pass(&mut self, at: i64) -> Result<(), &'static str> {
        if at < self.latest {
            return Err("it was before the line before");
        }
        self.latest = at;
        Ok(())
    }

    fn meets(&self, label: &str, fate: Fate) -> Result<(), String> {
        let served = self.served.get(label).copied().unwrap_or(0);
        let as_wanted = match fate {
            Fate::Serves(wanted) => served == wanted && !self.dead.contains(label),
            Fate::Dies => self.dead.contains(label),
        };
        let state = if self.dead.contains(label) { "dead" } else { "alive" };
        as_wanted
            .then_some(())
            .ok_or_else(|| format!("{label} was served {served} times, and is {state}"))
    }
}

/// Whether the latest who has come or gone is this one, and has come.
pub fn is_inside(journal: &str, label: &str) -> bool {
    let latest = journal.lines().rfind(|line| !line.starts_with("want "));
    latest.and_then(Line::parse).is_some_and(|line| line.event == "enter" && line.label == label)
}

/// Two workers, and one that dies; nothing is wrong with it.
const SOUND: &str = "\
want a 0 10
want b 0 11
enter a 3 20
leave a 3 30
enter b 5 30
want v 0 31
leave b 5 40
want a 0 41
enter v 6 50
kill v 0 55
enter a 7 60
leave a 7 61";

fn tried(journal: &str, counter: u64) -> Result<Verdict, String> {
    let crew = [("a", Fate::Serves(2)), ("b", Fate::Serves(1)), ("v", Fate::Dies)];
    judge(journal, counter, &crew.map(|(label, fate)| (label.to_owned(), fate)))
}

#[test]
fn the_judge_accepts_what_is_sound() {
    for counter in [3, 4] {
        let verdict = tried(SOUND, counter).unwrap();
        assert_eq!((verdict.sections, verdict.contended, verdict.after_deaths), (3, 2, 1));
    }
    assert!(!is_inside(SOUND, "a"));
    let (earlier, _) = SOUND.split_once("leave a").unwrap();
    assert!(is_inside(earlier, "a") && !is_inside(earlier, "b"));
}

#[test]
fn the_judge_refuses_what_is_not() {
    let doctored = [
        ("an overlap", "leave a 3 30\nenter b 5 30", "enter b 5 29\nleave a 3 30", "is inside"),
        ("an overlap by the clock", "enter b 5 30", "enter b 5 29", "before the line before"),
        ("a repeated token", "b 5", "b 3", "not higher"),
        ("a token that falls", "b 5", "b 2", "not higher"),
        ("another's end", "leave b 5", "leave a 5", "not inside"),
        ("another section's end", "leave b 5", "leave b 4", "not inside"),
        ("a missing section", "\nenter a 7 60\nleave a 7 61", "", "a was served 1 times"),
        ("a missing end", "\nleave a 7 61", "", "still inside"),
        ("a missing wait", "want b 0 11\n", "", "did not wait"),
        ("a loss", "want a 0 41", "lost a 0 41", "was lost"),
        ("life after death", "enter a 7 60", "want v 0 59\nenter a 7 60", "is dead"),
        ("a survivor", "kill v 0 55", "leave v 6 55", "v was served 1 times, and is alive"),
        ("half a line", "leave a 7 61", "leave a 7", "not a line"),
    ];
    for (what, from, to, why) in doctored {
        assert!(SOUND.contains(from), "{what}");
        let refused = tried(&SOUND.replace(from, to), 3).expect_err(what);
        assert!(refused.contains(why), "{what}: {refused}");
    }
    for counter in [2, 5] {
        assert!(tried(SOUND, counter).expect_err("a lost update").contains("counted"));
    }
}
