//! What a client has done so far, in numbers.

use std::ffi::c_char;
use std::time::Duration;

use super::boundary::{check_place, guard, put, shield};
use super::client::pl_client;
use super::error::pl_error;
use super::handle::{get, make, opaque, take, with};
use super::status::pl_status;
use crate::stats::{NAMES, Stats};

/// The numbers of a client at one moment. Immutable, so it may be read from several threads at once.
pub struct pl_stats {
    _private: (),
}

opaque!(pl_stats, Stats, 8);

/// One of the numbers: one of the `PL_STAT_…` numbers, which begin at 1, leave none out, and are never
/// reused. A later version may add some. What is not called a gauge only goes up.
pub type pl_stat = i32;

/// Acquires that were granted.
pub const PL_STAT_ACQUIRES: pl_stat = 1;
/// Acquires that ended with `PL_LOCKED`: somebody else holds, and the caller did not want to wait.
pub const PL_STAT_LOCKED: pl_stat = 2;
/// Acquires that ended with `PL_TIMEOUT`.
pub const PL_STAT_TIMEOUTS: pl_stat = 3;
/// Acquires that ended with `PL_CANCELLED`.
pub const PL_STAT_CANCELLED: pl_stat = 4;
/// Acquires that ended with any other status: what keeps the server from being used. Those that were refused
/// with `PL_ACTIVE`, `PL_INVALID` or `PL_FORKED` never began, and are not counted.
pub const PL_STAT_FAILED: pl_stat = 5;
/// Acquires that had to wait: somebody came first, or did not answer. Counted when they end, whether with a
/// grant or not. One that gave up at once (`PL_STAT_LOCKED`), or only had to wait for the server, is none of
/// them.
pub const PL_STAT_WAITS: pl_stat = 6;
/// Acquires that had to wait and were let in when somebody left who had been in the way: released, or gave
/// up. Other waits that were granted came after a member that was ended or vanished, or after a portalocker,
/// which leaves without a word.
pub const PL_STAT_HAND_OVERS: pl_stat = 7;
/// Held locks that were lost.
pub const PL_STAT_LOSSES: pl_stat = 8;
/// Connections of members that did not answer, ended by acquires of this client or by `pl_reap_silent`.
pub const PL_STAT_REAPS: pl_stat = 9;
/// Messages sent to see whether they come back: at the health check interval, and for `pl_lock_verify`.
pub const PL_STAT_HEALTH_CHECKS: pl_stat = 10;
/// Connections that were made and logged in, those of `pl_client_ping`, `pl_probe_holders` and
/// `pl_reap_silent` included.
pub const PL_STAT_CONNECTIONS: pl_stat = 11;
/// Locks that are held now: a gauge.
pub const PL_STAT_HELD: pl_stat = 12;
/// Acquires that are under way now, whatever they wait for: a gauge.
pub const PL_STAT_WAITING: pl_stat = 13;
/// How long all waits (`PL_STAT_WAITS`) took together, in microseconds. A wait is measured from the call to
/// its end.
pub const PL_STAT_WAIT_SUM_US: pl_stat = 14;
/// The longest wait so far, in microseconds: a gauge.
pub const PL_STAT_WAIT_MAX_US: pl_stat = 15;

/// Reads what a client, with the locks made from it, has done since it was made. Sends nothing, does not
/// block, and is cheap: some kilobytes are copied. Each number is exact; while others work, two of them may be a
/// moment apart, and no part is greater than its whole.
///
/// @param client  the client
/// @param stats   where the numbers go; free them with `pl_stats_free`
/// @param error   where the error goes, or `NULL`
/// @return `PL_OK`; `PL_INVALID`; `PL_FORKED`
#[unsafe(no_mangle)]
pub extern "C" fn pl_client_stats(
    client: *const pl_client,
    stats: *mut *mut pl_stats,
    error: *mut *mut pl_error,
) -> pl_status {
    guard(error, || {
        check_place("stats", stats)?;
        let read = get(client)?.stats()?;
        put("stats", stats, make(read))
    })
}

fn look<T>(stats: *const pl_stats, otherwise: T, what: impl FnOnce(&Stats) -> T) -> T {
    shield(None, || with(stats, |stats| what(stats)).ok()).unwrap_or(otherwise)
}

/// What belongs to one of the numbers, which begin at 1.
fn of<T>(all: &[T], which: pl_stat) -> Option<&T> {
    let at = usize::try_from(which).ok()?.checked_sub(1)?;
    all.get(at)
}

fn us(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

/// One of the numbers.
///
/// @param stats  the numbers
/// @param which  one of the `PL_STAT_…` numbers
/// @return the number; 0 for one that this version does not know, and of `NULL`
#[unsafe(no_mangle)]
pub extern "C" fn pl_stats_value(stats: *const pl_stats, which: pl_stat) -> u64 {
    look(stats, 0, |stats| of(&stats.values(), which).copied().unwrap_or(0))
}

/// The name of a number, in small letters with underscores, such as `"hand_overs"` for
/// `PL_STAT_HAND_OVERS`; `NULL` for one that this version does not know. So whoever shows all of them needs
/// no list: count up from 1 until there is none.
///
/// Returns a string that lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn pl_stat_name(which: pl_stat) -> *const c_char {
    of(&NAMES, which).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// How long a wait took that so many percent of all did not exceed, 1 % at most above the true value.
///
/// @param stats    the numbers
/// @param percent  0 to 100, such as 50 for the median; what is beyond is taken for the bound
/// @return microseconds; 0 if there were no waits, and of `NULL`
#[unsafe(no_mangle)]
pub extern "C" fn pl_stats_wait_percentile_us(stats: *const pl_stats, percent: f64) -> i64 {
    look(stats, 0, |stats| signed(us(stats.waits.percentile(percent))))
}

/// How many buckets the waits are counted in, without the last one, of those above all bounds; 0 of `NULL`.
#[unsafe(no_mangle)]
pub extern "C" fn pl_stats_wait_buckets(stats: *const pl_stats) -> usize {
    look(stats, 0, |stats| stats.waits.buckets().len())
}

/// The upper bound of a bucket, in microseconds: 1, 2.5, 5, 10, 25, 50, 100, 250 and 500 ms, 1, 2.5, 5, 10, 30
/// and 60 s, and 5 min. -1 if `index` is not less than the number of buckets.
#[unsafe(no_mangle)]
pub extern "C" fn pl_stats_wait_bound_us(stats: *const pl_stats, index: usize) -> i64 {
    look(stats, -1, |stats| stats.waits.buckets().get(index).map_or(-1, |(at, _)| signed(us(*at))))
}

/// How many waits did not exceed the bound of a bucket. They are cumulative, as a Prometheus histogram wants
/// them: the number for `+Inf` is `PL_STAT_WAITS`, and that for an `index` beyond the last is the same.
#[unsafe(no_mangle)]
pub extern "C" fn pl_stats_wait_bucket(stats: *const pl_stats, index: usize) -> u64 {
    look(stats, 0, |stats| {
        let all = stats.waits.count();
        stats.waits.buckets().get(index).map_or(all, |(_, count)| *count)
    })
}

/// Frees the numbers. `NULL`, and what was freed before, is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn pl_stats_free(stats: *mut pl_stats) {
    shield((), || drop(take(stats)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_name_and_no_other_has() {
        assert_eq!(NAMES.len(), PL_STAT_WAIT_MAX_US as usize);
        for which in [i32::MIN, -1, 0, PL_STAT_WAIT_MAX_US + 1, i32::MAX] {
            assert!(pl_stat_name(which).is_null(), "{which}");
        }
        for which in PL_STAT_ACQUIRES..=PL_STAT_WAIT_MAX_US {
            assert!(!pl_stat_name(which).is_null(), "{which}");
        }
    }
}
