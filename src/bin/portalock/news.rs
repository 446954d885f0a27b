//! What happens while `portalock run` waits and watches: all of it comes through one channel.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use portalock::{Client, Error, EventKind, Holder, Loss};
use rustix::process::Signal;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use crate::exit;
use crate::failure::Failure;

/// Something that has happened.
pub enum News {
    /// A signal came.
    Signal(Notice),
    /// The acquire has ended.
    Acquired(Result<(), Error>),
    /// The lock is lost.
    Lost(Loss),
    /// The acquire has trouble with the server and goes on trying.
    Trouble(Error),
    /// The answer to the question who is there.
    Members(Result<Vec<Holder>, Error>),
}

/// A signal that has come.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    /// Which.
    pub signal: Signal,
    /// Whether the terminal sent it, to all processes of the foreground at once.
    pub from_terminal: bool,
    /// When it was noticed.
    pub at: Instant,
}

impl Notice {
    /// Whether it asks for the end.
    pub fn is_end(self) -> bool {
        matches!(self.signal, Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT)
    }

    /// The exit status for it.
    pub fn code(self) -> u8 {
        exit::SIGNALLED + u8::try_from(self.signal.as_raw()).unwrap_or_default()
    }
}

/// Those that are listened to, unless they are ignored already: who starts a program by `nohup` means it.
const HEARD: [Signal; 9] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::CONT,
    Signal::TSTP,
];

/// The channel's end at which news are taken out.
pub struct Inbox {
    receiver: Receiver<News>,
    sender: Sender<News>,
}

impl Inbox {
    /// Begins to listen to signals and to the client's events.
    pub fn open(client: &Client) -> Result<Self, Failure> {
        let (sender, receiver) = mpsc::channel();
        let failed =
            |error: io::Error| Failure::new(exit::SOFTWARE, format!("no signals: {error}"));
        listen_to_signals(sender.clone()).map_err(failed)?;
        client.event_descriptor()?;
        listen_to_events(client.clone(), sender.clone());
        Ok(Self { receiver, sender })
    }

    /// The channel's other end.
    pub fn sender(&self) -> Sender<News> {
        self.sender.clone()
    }

    /// The next news; `None` if there are none by then.
    pub fn next(&self, until: Option<Instant>) -> Option<News> {
        let Some(until) = until else {
            return self.receiver.recv().ok();
        };
        let span = until.saturating_duration_since(Instant::now());
        self.receiver.recv_timeout(span).ok()
    }
}

fn listen_to_signals(sender: Sender<News>) -> io::Result<()> {
    let heard = HEARD.into_iter().filter(|signal| !is_ignored(*signal));
    // A parent may have us ignore the ends of children: then there would be no status.
    let numbers: Vec<_> = heard.chain([Signal::CHILD]).map(Signal::as_raw).collect();
    let mut signals = SignalsInfo::<WithRawSiginfo>::new(&numbers)?;
    std::thread::spawn(move || {
        unblock(&numbers);
        for info in &mut signals {
            let Some(signal) = Signal::from_named_raw(info.si_signo) else {
                continue;
            };
            // What a process sends has a code of zero or below.
            let notice = Notice { signal, from_terminal: info.si_code > 0, at: Instant::now() };
            if sender.send(News::Signal(notice)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Lets signals through that the parent has blocked: one thread is enough. The command is started by another,
/// and gets the mask that it would have had without us.
fn unblock(numbers: &[i32]) {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is made empty before it is read, and the numbers are those of signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for number in numbers {
            libc::sigaddset(set.as_mut_ptr(), *number);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

fn is_ignored(signal: Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only, and the place is valid for what is written there.
    unsafe {
        let asked = libc::sigaction(signal.as_raw(), std::ptr::null(), action.as_mut_ptr());
        asked == 0 && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn listen_to_events(client: Client, sender: Sender<News>) {
    std::thread::spawn(move || {
        while let Ok(Some(event)) = client.next_event(None) {
            let news = match event.kind {
                EventKind::Acquired(outcome) => News::Acquired(outcome),
                EventKind::Lost(loss) => News::Lost(loss),
                EventKind::Trouble(error) => News::Trouble(error),
                _ => continue,
            };
            if sender.send(news).is_err() {
                return;
            }
        }
    });
}
