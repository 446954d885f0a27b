//! What a client has done so far, in numbers.

use std::ffi::CStr;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::error::Status;
use crate::keeper::lock;

/// The upper bounds of the buckets that waits are counted in, in microseconds. Fixed: whoever has kept the
/// numbers of a year wants to compare them.
const BOUNDS_US: [u64; 16] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
];
/// Of two digits the second is off by one at most: percentiles are good to 1 %.
const DIGITS: u8 = 2;
/// What a percentage of 0 is taken for.
const LEAST: f64 = 1e-9;

/// The names of the numbers, in the order of [`Stats::numbers`] and of the `PL_STAT_…` constants.
pub(crate) const NAMES: [&CStr; 15] = [
    c"acquires",
    c"locked",
    c"timeouts",
    c"cancelled",
    c"failed",
    c"waits",
    c"hand_overs",
    c"losses",
    c"reaps",
    c"health_checks",
    c"connections",
    c"held",
    c"waiting",
    c"wait_sum_us",
    c"wait_max_us",
];

/// What a client has done since it was made, as of one moment. Counts only go up; `held` and `waiting` are
/// how it stands. Each number is exact; while others work, two of them may be a moment apart, and
/// no part is greater than its whole.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Acquires that were granted.
    pub acquires: u64,
    /// Acquires that gave up at once because somebody else holds the lock: `Locked`.
    pub locked: u64,
    /// Acquires whose time was up: `Timeout`.
    pub timeouts: u64,
    /// Acquires that were cancelled: `Cancelled`.
    pub cancelled: u64,
    /// Acquires that ended for any other reason: what keeps the server from being used.
    pub failed: u64,
    /// Of those granted, the ones that had waited, and were let in when somebody left who had been in the
    /// way: released, or gave up. The others that had waited came after one that was ended, or that
    /// vanished, or after a portalocker, which leaves without a word.
    pub hand_overs: u64,
    /// Held locks that were lost.
    pub losses: u64,
    /// Connections of members that did not answer, ended by acquires of this client and by
    /// [`reap_silent`](crate::Client::reap_silent).
    pub reaps: u64,
    /// Messages sent to see whether they come back: as often as `health_check_interval` says, and for
    /// [`verify`](crate::Lock::verify).
    pub health_checks: u64,
    /// Connections that were made and logged in, those for a single question included.
    pub connections: u64,
    /// Locks that are held now.
    pub held: u64,
    /// Acquires that are under way now, whatever they wait for.
    pub waiting: u64,
    /// How long acquires had to wait.
    pub waits: Waits,
}

impl Stats {
    /// The single numbers, each with the name that it has in every language. Spans are microseconds.
    pub fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let names = NAMES.iter().map(|name| name.to_str().unwrap_or_default());
        names.zip(self.values())
    }

    pub(crate) fn values(&self) -> [u64; NAMES.len()] {
        [
            self.acquires,
            self.locked,
            self.timeouts,
            self.cancelled,
            self.failed,
            self.waits.count,
            self.hand_overs,
            self.losses,
            self.reaps,
            self.health_checks,
            self.connections,
            self.held,
            self.waiting,
            self.waits.sum_us,
            self.waits.max_us,
        ]
    }
}

/// How long acquires had to wait, those that had to: somebody came first, or did not answer. From the call to
/// its end, whether that was a grant or not. One that gave up at once (`locked`), or only had to wait for the
/// server, is none of them.
#[derive(Clone, Default)]
pub struct Waits {
    /// `None` before the first wait: it is some kilobytes.
    histogram: Option<Box<Histogram<u64>>>,
    buckets: [u64; BOUNDS_US.len()],
    count: u64,
    sum_us: u64,
    max_us: u64,
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Waits");
        text.field("count", &self.count).field("sum", &self.sum()).field("max", &self.max());
        text.finish()
    }
}

impl Waits {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them together.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us)
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.max_us)
    }

    /// What so many percent of them did not exceed, 1 % at most above the true value: `percentile(50.0)` is
    /// the median. Zero if there were none; 0 and 100 are the bounds of `percent`.
    pub fn percentile(&self, percent: f64) -> Duration {
        let Some(histogram) = &self.histogram else {
            return Duration::ZERO;
        };
        // Of none at all it would tell the lower end of the first bucket.
        let percent = if percent.is_nan() { LEAST } else { percent.clamp(LEAST, 100.0) };
        let value = histogram.value_at_percentile(percent);
        Duration::from_micros(value.min(self.max_us))
    }

    /// For each bound, from the least to the greatest, how many waits did not exceed it: the cumulative
    /// buckets of a Prometheus histogram, without the last, `+Inf`, which is [`count`](Self::count). The
    /// bounds are 1, 2.5, 5, 10, 25, 50, 100, 250 and 500 ms, 1, 2.5, 5, 10, 30 and 60 s, and 5 min.
    pub fn buckets(&self) -> Vec<(Duration, u64)> {
        let mut below = 0;
        let pairs = BOUNDS_US.into_iter().zip(self.buckets);
        let cumulative = pairs.map(|(bound, count)| {
            below += count;
            (Duration::from_micros(bound), below)
        });
        cumulative.collect()
    }

    fn record(&mut self, wait: Duration) {
        let us = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(us);
        self.max_us = self.max_us.max(us);
        if let Some(bucket) = self.buckets.get_mut(BOUNDS_US.partition_point(|bound| *bound < us)) {
            *bucket += 1;
        }
        if self.histogram.is_none() {
            self.histogram = Histogram::new(DIGITS).ok().map(Box::new);
        }
        if let Some(histogram) = &mut self.histogram {
            // It grows as it has to, up to more than any wait can take.
            let _ = histogram.record(us);
        }
    }
}

/// Where a client counts. Nobody waits for anybody here, but for those who have waited for a lock anyway.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    begun: AtomicU64,
    granted: AtomicU64,
    locked: AtomicU64,
    timeouts: AtomicU64,
    cancelled: AtomicU64,
    failed: AtomicU64,
    hand_overs: AtomicU64,
    losses: AtomicU64,
    reaps: AtomicU64,
    health_checks: AtomicU64,
    connections: AtomicU64,
    held: AtomicU64,
    waits: Mutex<Waits>,
}

impl Counters {
    /// An acquire begins.
    pub(crate) fn begins(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// An acquire ends: well or not, and after so long a wait if it had to wait. Whoever sees the end sees
    /// the beginning.
    pub(crate) fn ends(&self, status: Status, waited: Option<Duration>) {
        let outcome = match status {
            Status::Ok => &self.granted,
            Status::Locked => &self.locked,
            Status::Timeout => &self.timeouts,
            Status::Cancelled => &self.cancelled,
            _ => &self.failed,
        };
        outcome.fetch_add(1, Ordering::Release);
        if let Some(wait) = waited {
            lock(&self.waits).record(wait);
        }
    }

    /// A lock is held from now on: its acquire has ended.
    pub(crate) fn holds(&self, handed_over: bool) {
        self.held.fetch_add(1, Ordering::Release);
        if handed_over {
            self.hand_overs.fetch_add(1, Ordering::Release);
        }
    }

    /// A held lock is held no more.
    pub(crate) fn holds_no_more(&self) {
        self.held.fetch_sub(1, Ordering::Release);
    }

    /// A held lock was lost.
    pub(crate) fn lost(&self) {
        self.losses.fetch_add(1, Ordering::Release);
    }

    /// Connections of others were ended.
    pub(crate) fn reaped(&self, count: u64) {
        self.reaps.fetch_add(count, Ordering::Relaxed);
    }

    /// Health checks were sent.
    pub(crate) fn checked(&self, count: u64) {
        self.health_checks.fetch_add(count, Ordering::Relaxed);
    }

    /// A connection was made.
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// How it stands. What comes of an acquire is read before the acquires, and those before their beginnings:
    /// so no part is ever greater than its whole, whatever happens meanwhile.
    pub(crate) fn read(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        let (hand_overs, held, losses) =
            (read(&self.hand_overs), read(&self.held), read(&self.losses));
        let waits = lock(&self.waits).clone();
        let (acquires, locked, timeouts) =
            (read(&self.granted), read(&self.locked), read(&self.timeouts));
        let (cancelled, failed) = (read(&self.cancelled), read(&self.failed));
        let ended = acquires + locked + timeouts + cancelled + failed;
        let waiting = read(&self.begun).saturating_sub(ended);
        Stats {
            acquires,
            locked,
            timeouts,
            cancelled,
            failed,
            hand_overs,
            losses,
            reaps: read(&self.reaps),
            health_checks: read(&self.health_checks),
            connections: read(&self.connections),
            held,
            waiting,
            waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn waits(all: impl IntoIterator<Item = Duration>) -> Waits {
        let mut waits = Waits::default();
        all.into_iter().for_each(|wait| waits.record(wait));
        waits
    }

    #[test]
    fn percentiles_are_good_to_one_percent() {
        let waits = waits((1..=10_000).map(ms));
        for (percent, exact) in [(50.0, 5_000), (90.0, 9_000), (99.0, 9_900), (100.0, 10_000)] {
            let found = waits.percentile(percent);
            assert!(found >= ms(exact) && found <= ms(exact + exact / 100), "{percent}: {found:?}");
        }
        assert_eq!((waits.count(), waits.max()), (10_000, ms(10_000)));
        assert_eq!(waits.sum(), ms(10_000 * 10_001 / 2));
    }

    #[test]
    fn odd_percentiles_are_those_at_the_bounds() {
        let waits = waits([ms(3)]);
        for percent in [-1.0, 0.0, 50.0, 100.0, 1e300, f64::NAN, f64::INFINITY] {
            assert_eq!(waits.percentile(percent), ms(3), "{percent}");
        }
        assert_eq!(Waits::default().percentile(99.0), Duration::ZERO);
    }

    #[test]
    fn a_wait_is_in_its_bucket_and_in_all_above() {
        let year = Duration::from_secs(31_622_400);
        let waits = waits([ms(0), ms(1), ms(1) + Duration::from_micros(1), ms(60_000), year]);
        let buckets = waits.buckets();
        let at = |bound| buckets.iter().find(|(at, _)| *at == bound).unwrap().1;
        assert_eq!([at(ms(1)), at(ms(2) + ms(1) / 2), at(ms(30_000))], [2, 3, 3]);
        assert_eq!([at(ms(60_000)), at(ms(300_000)), waits.count()], [4, 4, 5]);
        assert_eq!(waits.max(), year);
        assert_eq!(waits.percentile(100.0), year);
    }

    #[test]
    fn no_part_is_greater_than_its_whole_while_others_count() {
        let counters = Counters::default();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..50_000 {
                    counters.begins();
                    counters.ends(Status::Ok, Some(ms(1)));
                    counters.holds(true);
                    counters.lost();
                    counters.holds_no_more();
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                let stats = counters.read();
                let parts = [stats.hand_overs, stats.losses, stats.held, stats.waits.count()];
                assert!(parts.iter().all(|part| *part <= stats.acquires), "{stats:?}");
            }
        });
    }

    #[test]
    fn whoever_has_begun_and_not_ended_waits() {
        let counters = Counters::default();
        (0..7).for_each(|_| counters.begins());
        use Status::*;
        for status in [Ok, Locked, Timeout, Cancelled, Refused] {
            counters.ends(status, None);
        }
        let stats = counters.read();
        assert_eq!([stats.acquires, stats.locked, stats.timeouts, stats.cancelled], [1; 4]);
        assert_eq!((stats.failed, stats.waiting), (1, 2));
    }
}
