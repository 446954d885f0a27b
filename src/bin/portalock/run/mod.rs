//! `portalock run`: waits for a lock, runs a command, and lets go.

mod job;
mod live;
mod tree;
mod waiting;
mod watch;

use std::time::{Duration, Instant};

use portalock::{Client, Lock, LockOptions, Mode, Status};

use crate::arguments::{OnLost, Run};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::news::Inbox;
use crate::output::{quote, say, span};

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
    let outcome =
        Job::start(arguments, &lock).map(|job| Watch::new(job, arguments).until_it_ends(&inbox));
    let lost = let_go(&lock, arguments);
    match outcome? {
        _ if lost && arguments.on_lost != OnLost::Ignore => Ok(exit::LOST),
        code => Ok(code),
    }
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

/// Releases, and tells whether the lock had been lost before that.
fn let_go(lock: &Lock, arguments: &Run) -> bool {
    let Err(error) = lock.release_wait(RELEASE) else {
        return false;
    };
    if error.status() == Status::Lost {
        let name = quote(&arguments.name);
        say(&format!("{name} was lost before the command ended: {}", error.message()));
        return true;
    }
    // It ends with us all the same.
    log::debug!("the release is not confirmed: {error}");
    false
}
