//! When a connection was last heard of, to be read without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A point in time that only moves forward.
#[derive(Debug)]
pub(crate) struct Heard {
    epoch: Instant,
    /// In nanoseconds since then.
    latest: AtomicU64,
}

impl Heard {
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now(), latest: AtomicU64::new(0) }
    }

    /// Takes note of a point in time, unless a later one is known.
    pub(crate) fn note(&self, at: Instant) {
        let nanos = at.saturating_duration_since(self.epoch).as_nanos();
        self.latest.fetch_max(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::AcqRel);
    }

    pub(crate) fn latest(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.latest.load(Ordering::Acquire))
    }
}
