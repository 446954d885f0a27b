//! Keeps asking sentinels where the master is, as long as somebody wants to know.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::sentinel::{Doubt, PATIENCE, Sentinels};
use crate::broker::dialogue::Dialogue;
use crate::broker::sighting::{self, News};
use crate::broker::socket::OwnSocket;
use crate::error::Status;

/// Between two questions. A change is told sooner by who is subscribed to that; the question finds what
/// a subscription does not: that the sentinel is cut off, or stands still.
const EVERY: Duration = Duration::from_secs(1);
/// Before the sentinels are gone through again: doubles from the first to the last.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(800));

/// Who wants to know.
pub(crate) trait Ear {
    /// The master is where it is known to be.
    fn heard(&self);
    /// No sentinel tells where it is.
    fn doubts(&self, doubt: Doubt);
    /// The socket that is listened to: to shut it down wakes whoever listens.
    fn listens(&self, socket: Option<Arc<OwnSocket>>);
    /// Sleeps so long; `false` once nobody wants to know any more.
    fn rest(&self, span: Duration) -> bool;
}

impl Sentinels {
    /// Asks until nobody wants to know any more.
    pub(crate) fn watch(&self, ear: &impl Ear) {
        let mut pause = PAUSE.0;
        while ear.rest(pause) {
            pause = match self.survey() {
                Ok((dialogue, _)) => {
                    ear.heard();
                    ear.listens(Some(dialogue.socket()));
                    self.attend(dialogue, ear);
                    ear.listens(None);
                    PAUSE.0
                }
                Err(doubt) => {
                    ear.doubts(doubt);
                    (pause * 2).min(PAUSE.1)
                }
            };
        }
    }

    /// Stays with one sentinel as long as it tells where the master is.
    fn attend(&self, mut dialogue: Dialogue, ear: &impl Ear) {
        if self.subscribes.load(Ordering::Relaxed) {
            sighting::follow(&mut dialogue);
        }
        loop {
            let next = Instant::now() + EVERY;
            dialogue.set_deadline(next);
            match sighting::listen(&mut dialogue, self.name(), next) {
                Ok(News::Switched | News::None) => {}
                Err(error) => {
                    // It may be asked all the same.
                    let denied = matches!(error.status(), Status::Denied | Status::Server);
                    self.subscribes.fetch_and(!denied, Ordering::Relaxed);
                    return;
                }
            }
            dialogue.set_deadline(Instant::now() + PATIENCE);
            let Ok(Some(sighting)) = sighting::ask(&mut dialogue, self.name()) else { return };
            if !self.is_current(&sighting) || self.note(sighting).is_err() {
                return;
            }
            ear.heard();
        }
    }
}
