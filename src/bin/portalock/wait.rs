//! `portalock wait`: until a lock is free.

use std::time::{Duration, Instant};

use portalock::{Client, Error, Status};

use crate::arguments::Wait;
use crate::exit;
use crate::failure::Outcome;

/// From one look to the next, at first and in the end: who waits briefly is not to wait a second for it.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How long members have to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks until nobody is on the lock's channel.
pub fn wait(client: &Client, arguments: &Wait) -> Outcome {
    let begun = Instant::now();
    let limit = if arguments.nonblock { Some(Duration::ZERO) } else { arguments.wait };
    let mut pause = PAUSE.0;
    let mut was_reached = false;
    loop {
        let seen = client.holders(&arguments.name, PATIENCE);
        let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        let is_over = left == Some(Duration::ZERO);
        match seen {
            Ok(members) if members.is_empty() => return Ok(exit::OK),
            Ok(_) if is_over => return Ok(arguments.conflict_exit_code),
            // A server that was there may come back.
            Err(error) if is_over || !may_pass(&error, was_reached) => return Err(error.into()),
            seen => was_reached |= seen.is_ok(),
        }
        std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
        pause = (pause * 2).min(PAUSE.1);
    }
}

fn may_pass(error: &Error, was_reached: bool) -> bool {
    error.status() == Status::Unclear || (was_reached && error.is_retryable())
}
