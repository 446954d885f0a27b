//! `portalock run`: waits for a lock, runs a command, and lets go.

mod job;
mod live;
mod tree;
mod waiting;
mod watch;

use std::time::{Duration, Instant};

use portalock::{Client, Lock, LockOptions, Mode, Status};
use rustix::process::{Signal, getpid, kill_process};

use crate::arguments::{OnLost, Run};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::news::{Inbox, News, Notice};
use crate::output::{quote, say, span};
use crate::voice;

use job::Job;
use waiting::Entry;
use watch::Watch;

/// How long the server has to confirm a release. Whoever is run next finds the lock free then.
const RELEASE: Duration = Duration::from_secs(2);

/// Runs the command under the lock; its exit status.
pub fn run(client: &Client, arguments: &Run) -> Outcome {
    if let Some(why) = arguments.refusal() {
        return Err(Failure::new(exit::USAGE, why));
    }
    let lock = client.lock(&arguments.name, options(arguments)?)?;
    let inbox = Inbox::open(client)?;
    let begun = Instant::now();
    if let Entry::GivenUp(code) = waiting::enter(client, &lock, &inbox, arguments)? {
        return Ok(code);
    }
    if arguments.verbose {
        say(&format!("{} acquired after {}", quote(&arguments.name), span(begun.elapsed())));
    }
    voice::settle();
    if let Some(code) = is_over(&lock, &inbox) {
        let loss = let_go(&lock);
        if code == exit::LOST {
            let why = loss.unwrap_or_else(|| "it is lost".to_owned());
            say(&format!("{}: {why}; the command was not run", quote(&arguments.name)));
        }
        return Ok(code);
    }
    let begun = Instant::now();
    let outcome = Job::start(arguments, &lock)
        .map(|job| Watch::new(job, arguments, begun).until_it_ends(&inbox));
    let loss = let_go(&lock);
    let (code, is_told) = outcome?;
    let Some(loss) = loss else {
        return Ok(code);
    };
    if !is_told {
        say(&format!("{}: {loss}", quote(&arguments.name)));
    }
    Ok(if arguments.on_lost == OnLost::Ignore { code } else { exit::LOST })
}

/// Whether the run is over before its command was started, as the terminal or somebody else has asked for
/// that since the wait, or the lock is lost already: the exit status.
fn is_over(lock: &Lock, inbox: &Inbox) -> Option<u8> {
    while let Some(news) = inbox.next(Some(Instant::now())) {
        match news {
            News::Signal(notice) if notice.is_end() => return Some(notice.code()),
            News::Signal(Notice { signal: Signal::TSTP, .. }) => stop_here(),
            _ => {}
        }
    }
    (!lock.is_held()).then_some(exit::LOST)
}

/// Stops portalock itself, until the shell has it go on.
fn stop_here() {
    let _ = kill_process(getpid(), Signal::STOP);
}

fn options(arguments: &Run) -> Result<LockOptions, Failure> {
    let mut options = LockOptions::new();
    options.mode(if arguments.shared { Mode::Shared } else { Mode::Exclusive });
    options.fencing(arguments.fence_env);
    if let Some(label) = &arguments.label {
        options.label(label)?;
    }
    Ok(options)
}

/// Releases; what there is to say if the lock had been lost before that.
fn let_go(lock: &Lock) -> Option<String> {
    let error = lock.release_wait(RELEASE).err()?;
    // One that is not confirmed ends with us all the same.
    (error.status() == Status::Lost).then(|| error.message().to_owned())
}
