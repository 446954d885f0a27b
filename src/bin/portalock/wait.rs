//! `portalock wait`: until a lock is free.

use std::time::{Duration, Instant};

use portalock::{Client, Error, Status};

use crate::arguments::Wait;
use crate::exit;
use crate::failure::Outcome;

/// From one look to the next, at first and in the end: who waits briefly is not to wait a second for it.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How long members have to answer, where the wait may take so long.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long they have at its end, when there is no time left.
const LAST: Duration = Duration::from_millis(100);

/// Looks until nobody is on the lock's channel.
pub fn wait(client: &Client, arguments: &Wait) -> Outcome {
    let begun = Instant::now();
    let limit = arguments.limit();
    let left = || limit.map(|limit| limit.saturating_sub(begun.elapsed()));
    let mut pause = PAUSE.0;
    let mut was_reached = false;
    loop {
        let patience = patience(limit, left());
        let seen = client.holders(&arguments.name, patience);
        let is_over = left() == Some(Duration::ZERO);
        match seen {
            Ok(members) if members.is_empty() => return Ok(exit::OK),
            Ok(_) if is_over => return Ok(arguments.conflict_exit_code),
            // Somebody was there, and nobody had the time to say that this has changed.
            Err(error) if is_over && was_reached && patience < PATIENCE && is_silence(&error) => {
                return Ok(arguments.conflict_exit_code);
            }
            // A server that was there may come back.
            Err(error) if is_over || !may_pass(&error, was_reached) => return Err(error.into()),
            seen => was_reached |= seen.is_ok(),
        }
        std::thread::sleep(left().map_or(pause, |left| left.min(pause)));
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Who wants to look once wants to know.
fn patience(limit: Option<Duration>, left: Option<Duration>) -> Duration {
    match (limit, left) {
        (None | Some(Duration::ZERO), _) | (_, None) => PATIENCE,
        (_, Some(left)) => left.clamp(LAST, PATIENCE),
    }
}

fn is_silence(error: &Error) -> bool {
    matches!(error.status(), Status::Unclear | Status::Unresponsive)
}

fn may_pass(error: &Error, was_reached: bool) -> bool {
    error.status() == Status::Unclear || (was_reached && error.is_retryable())
}
