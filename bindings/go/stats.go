package portalock

// #include <portalock.h>
import "C"

import (
	"runtime"
	"time"
)

// Stats is what a Client has done since it was made, as of one moment. Held and Waiting are how it stands;
// all else only goes up. A later version may add fields.
type Stats struct {
	// Acquires were granted. Locked gave up at once, since somebody else held; of Timeouts the time was up;
	// Cancelled were, by the end of their context for one; Failed ended for another reason.
	Acquires, Locked, Timeouts, Cancelled, Failed uint64
	// HandOvers counts the acquires that had to wait, and were let in when somebody left who had been in
	// the way.
	HandOvers uint64
	// Losses counts held locks that were lost.
	Losses uint64
	// Reaps counts connections of members that did not answer, which this client has ended.
	Reaps uint64
	// HealthChecks counts messages that were sent to see whether they come back.
	HealthChecks uint64
	// Connections counts those that were made and logged in.
	Connections uint64
	// Held locks there are now, and acquires that are under way.
	Held, Waiting uint64
	// Waits are those of the acquires that had to wait: somebody came first, or did not answer.
	Waits WaitTimes
}

// WaitTimes is how long acquires had to wait, from the call to its end, whether that was a grant or not.
type WaitTimes struct {
	// Count is how many waits there were; Sum is all of them together.
	Count uint64
	Sum   time.Duration
	// P50, P90 and P99 are what so many percent did not exceed, 1 % at most above the true value. Max is
	// the longest.
	P50, P90, P99, Max time.Duration
	// Buckets count those that did not exceed a bound: cumulative, as Prometheus wants it, without the
	// last, which is Count.
	Buckets []WaitBucket
}

// WaitBucket says how many waits did not exceed a bound.
type WaitBucket struct {
	Bound time.Duration
	Count uint64
}

// Stats reads what the client has done so far, with its mutexes. Sends nothing and does not block. It fails
// with [ErrClosed].
func (c *Client) Stats() (Stats, error) {
	defer runtime.KeepAlive(c)
	handle, err := c.core.use()
	if err != nil {
		return Stats{}, err
	}
	var raw *C.pl_stats
	var e *C.pl_error
	status := C.pl_client_stats(handle, &raw, &e)
	if err := failure(status, e); err != nil {
		return Stats{}, err
	}
	defer C.pl_stats_free(raw)
	value := func(which C.pl_stat) uint64 { return uint64(C.pl_stats_value(raw, which)) }
	return Stats{
		Acquires: value(C.PL_STAT_ACQUIRES), Locked: value(C.PL_STAT_LOCKED),
		Timeouts: value(C.PL_STAT_TIMEOUTS), Cancelled: value(C.PL_STAT_CANCELLED),
		Failed: value(C.PL_STAT_FAILED), HandOvers: value(C.PL_STAT_HAND_OVERS),
		Losses: value(C.PL_STAT_LOSSES), Reaps: value(C.PL_STAT_REAPS),
		HealthChecks: value(C.PL_STAT_HEALTH_CHECKS), Connections: value(C.PL_STAT_CONNECTIONS),
		Held: value(C.PL_STAT_HELD), Waiting: value(C.PL_STAT_WAITING), Waits: waitTimes(raw),
	}, nil
}

func waitTimes(raw *C.pl_stats) WaitTimes {
	span := func(us uint64) time.Duration { return time.Duration(us) * time.Microsecond }
	value := func(which C.pl_stat) uint64 { return uint64(C.pl_stats_value(raw, which)) }
	percentile := func(percent C.double) time.Duration {
		return span(uint64(C.pl_stats_wait_percentile_us(raw, percent)))
	}
	waits := WaitTimes{
		Count: value(C.PL_STAT_WAITS), Sum: span(value(C.PL_STAT_WAIT_SUM_US)),
		P50: percentile(50), P90: percentile(90), P99: percentile(99),
		Max: span(value(C.PL_STAT_WAIT_MAX_US)),
	}
	for i := C.size_t(0); i < C.pl_stats_wait_buckets(raw); i++ {
		bound := span(uint64(C.pl_stats_wait_bound_us(raw, i)))
		waits.Buckets = append(waits.Buckets, WaitBucket{bound, uint64(C.pl_stats_wait_bucket(raw, i))})
	}
	return waits
}
