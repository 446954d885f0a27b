//! What has happened, to be asked for instead of being called: for programs with an event loop, and for
//! languages that do not like foreign threads.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::broker::await_descriptor;
use crate::error::{Error, Result, Status};
use crate::keeper::lock;
use crate::lock::Loss;

/// How many events wait to be fetched at most.
pub const MAX_EVENTS: usize = 4096;

/// Something that has happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// The name of the lock; empty for an overflow.
    pub name: String,
    /// The tag of the lock ([`Lock::set_tag`](crate::Lock::set_tag)).
    pub tag: usize,
}

/// What has happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// An acquire that was started has ended.
    Acquired(Result<()>),
    /// A held lock is lost.
    Lost(Loss),
    /// The connection of a member that did not answer was ended, on behalf of this lock's acquire:
    /// whose it was, unless it is one that names nobody.
    Reaped(Option<String>),
    /// An acquire has trouble with the server and goes on trying. Told once for each kind of trouble.
    Trouble(Error),
    /// So many events were not kept, because nobody fetched them: see how every lock stands.
    Overflow(u64),
}

/// A bounded queue with a descriptor that can be read as long as something is in it.
#[derive(Debug)]
pub(crate) struct Events {
    queue: Mutex<Queue>,
    reader: PipeReader,
    writer: PipeWriter,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    closed: bool,
}

impl Events {
    pub(crate) fn new() -> Result<Self> {
        let failed = |error: io::Error| {
            Error::new(Status::Internal, format!("no descriptor for events: {error}"))
        };
        let (reader, writer) = io::pipe().map_err(failed)?;
        for descriptor in [reader.as_raw_fd(), writer.as_raw_fd()] {
            // SAFETY: plain calls on a descriptor that we own.
            let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
            // SAFETY: as above.
            let set = unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) };
            if flags < 0 || set < 0 {
                return Err(failed(io::Error::last_os_error()));
            }
        }
        Ok(Self { queue: Mutex::default(), reader, writer })
    }

    /// To be polled for reading, and for nothing else.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Adds an event, unless its lock was closed: [`forget`](Self::forget) has the last word then.
    pub(crate) fn push(&self, event: Event, lock_closed: &AtomicBool) {
        let mut queue = lock(&self.queue);
        if queue.closed || lock_closed.load(Ordering::Acquire) {
            return;
        }
        let full = queue.events.len() >= MAX_EVENTS;
        match queue.events.back_mut().map(|last| &mut last.kind).filter(|_| full) {
            Some(EventKind::Overflow(missed)) => *missed += 1,
            Some(_) => queue.events.push_back(Event {
                kind: EventKind::Overflow(1),
                name: String::new(),
                tag: 0,
            }),
            None => queue.events.push_back(event),
        }
        if queue.events.len() == 1 {
            self.raise();
        }
    }

    /// The next event; `None` if there is none by then.
    pub(crate) fn next(&self, until: Option<Instant>) -> Result<Option<Event>> {
        loop {
            let mut queue = lock(&self.queue);
            if queue.closed {
                return Err(Error::new(Status::Invalid, "the client was freed before"));
            }
            if let Some(event) = queue.events.pop_front() {
                self.lower_if(queue.events.is_empty());
                return Ok(Some(event));
            }
            drop(queue);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            await_descriptor(self.descriptor(), left);
        }
    }

    /// Forgets what concerns a lock that is no more.
    pub(crate) fn forget(&self, tag: usize) {
        let mut queue = lock(&self.queue);
        if queue.events.is_empty() {
            return;
        }
        let of_lock = |event: &Event| !matches!(event.kind, EventKind::Overflow(_));
        queue.events.retain(|event| event.tag != tag || !of_lock(event));
        self.lower_if(queue.events.is_empty());
    }

    /// Takes no more events, and wakes whoever waits for one.
    pub(crate) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.closed = true;
        queue.events.clear();
        self.raise();
    }

    // Neither can fail but where there is a byte already, or none: one byte is in the pipe at most,
    // but for that of `close`.
    fn raise(&self) {
        let _ = (&self.writer).write(&[1]);
    }

    fn lower_if(&self, empty: bool) {
        if empty {
            let _ = (&self.reader).read(&mut [0; 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tag: usize) -> Event {
        Event { kind: EventKind::Acquired(Ok(())), name: "name".into(), tag }
    }

    fn push(events: &Events, tag: usize) {
        events.push(event(tag), &AtomicBool::new(false));
    }

    fn is_raised(events: &Events) -> bool {
        let mut entry = libc::pollfd { fd: events.descriptor(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut entry, 1, 0) == 1 }
    }

    fn next(events: &Events) -> Option<Event> {
        events.next(Some(Instant::now())).unwrap()
    }

    #[test]
    fn the_descriptor_can_be_read_as_long_as_there_is_an_event() {
        let events = Events::new().unwrap();
        assert!(!is_raised(&events) && next(&events).is_none());
        push(&events, 1);
        push(&events, 2);
        assert!(is_raised(&events));
        assert_eq!(next(&events).unwrap().tag, 1);
        assert!(is_raised(&events));
        assert_eq!(next(&events).unwrap().tag, 2);
        assert!(!is_raised(&events) && next(&events).is_none());
    }

    #[test]
    fn what_is_too_much_is_counted_at_its_place() {
        let events = Events::new().unwrap();
        (0..MAX_EVENTS + 3).for_each(|tag| push(&events, tag));
        (0..MAX_EVENTS).for_each(|tag| assert_eq!(next(&events).unwrap().tag, tag));
        push(&events, 7);
        assert!(matches!(next(&events).unwrap().kind, EventKind::Overflow(3)));
        assert_eq!(next(&events).unwrap().tag, 7);
        assert!(!is_raised(&events));
    }

    #[test]
    fn a_lock_that_is_freed_takes_its_events_along() {
        let events = Events::new().unwrap();
        [1, 2, 1].into_iter().for_each(|tag| push(&events, tag));
        events.forget(1);
        assert_eq!(next(&events).unwrap().tag, 2);
        push(&events, 1);
        events.forget(1);
        assert!(!is_raised(&events) && next(&events).is_none());
    }

    #[test]
    fn whoever_waits_is_told_of_the_end() {
        let events = Events::new().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| events.next(None));
            std::thread::sleep(Duration::from_millis(20));
            events.close();
            assert_eq!(waiting.join().unwrap().unwrap_err().status(), Status::Invalid);
        });
        push(&events, 1);
        assert!(events.next(None).is_err());
    }
}
