//! Standard error, written by a thread of its own: nobody else is held up by a reader that does not read, a
//! full pipe or a terminal that was told to pause. Who watches over a lock must not be.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many texts wait at the most. The log of a busy second fits in.
const ROOM: usize = 1024;
/// How long a reader has before something that is to come after what was said.
const PAUSE: Duration = Duration::from_millis(200);
/// How long it has at the end.
const LAST: Duration = Duration::from_secs(1);

static VOICE: Voice = Voice {
    queue: Mutex::new(Queue {
        texts: VecDeque::new(),
        is_started: false,
        is_writing: false,
        left_out: 0,
    }),
    changed: Condvar::new(),
};

struct Voice {
    queue: Mutex<Queue>,
    /// There is something to write, or something was written.
    changed: Condvar,
}

struct Queue {
    texts: VecDeque<Text>,
    is_started: bool,
    is_writing: bool,
    /// How many there was no room for.
    left_out: usize,
}

enum Text {
    /// Is written unless there is no room.
    Line(String),
    /// Of several in a row only the newest is written.
    Picture(String),
}

/// Has a whole line written; it ends with its newline.
pub fn line(text: String) {
    VOICE.put(Text::Line(text));
}

/// Has a line drawn over, or erased.
pub fn picture(text: String) {
    VOICE.put(Text::Picture(text));
}

/// Waits until all is written that was to be, for a short time at the most.
pub fn settle() {
    VOICE.drain(PAUSE);
}

/// The same at the end of the process.
pub fn finish() {
    VOICE.drain(LAST);
}

impl Voice {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&'static self, text: Text) {
        let mut queue = self.lock();
        if !queue.is_started {
            let writer = std::thread::Builder::new().name("voice".to_owned());
            queue.is_started = writer.spawn(|| self.write()).is_ok();
        }
        queue.put(text);
        self.changed.notify_all();
    }

    fn drain(&self, limit: Duration) {
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.texts.is_empty();
        let _ = self.changed.wait_timeout_while(self.lock(), limit, is_busy);
    }

    fn write(&self) {
        let mut queue = self.lock();
        loop {
            let Some(text) = queue.take() else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.is_writing = true;
            drop(queue);
            // In one write: others may write there too.
            let _ = io::stderr().write_all(text.as_bytes());
            queue = self.lock();
            queue.is_writing = false;
            self.changed.notify_all();
        }
    }
}

impl Queue {
    fn put(&mut self, text: Text) {
        if let (Text::Picture(_), Some(Text::Picture(last))) = (&text, self.texts.back_mut()) {
            let Text::Picture(text) = text else { return };
            *last = text;
        } else if self.texts.len() < ROOM {
            self.texts.push_back(text);
        } else {
            self.left_out += 1;
        }
    }

    fn take(&mut self) -> Option<String> {
        let text = self.texts.pop_front().map(|text| match text {
            Text::Line(text) | Text::Picture(text) => text,
        });
        if text.is_some() || self.left_out == 0 {
            return text;
        }
        let left_out = std::mem::take(&mut self.left_out);
        Some(format!("portalock: {left_out} lines were left out, as nobody read them in time\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue { texts: VecDeque::new(), is_started: true, is_writing: false, left_out: 0 }
    }

    #[test]
    fn of_pictures_the_newest_is_kept() {
        let mut queue = queue();
        queue.put(Text::Picture("1".to_owned()));
        queue.put(Text::Picture("2".to_owned()));
        queue.put(Text::Line("said".to_owned()));
        queue.put(Text::Picture("3".to_owned()));
        let taken: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(taken, ["2", "said", "3"]);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut queue = queue();
        for _ in 0..ROOM + 2 {
            queue.put(Text::Line("said".to_owned()));
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(taken.len(), ROOM + 1);
        assert!(taken[ROOM].contains(" 2 lines"), "{taken:?}");
    }
}
