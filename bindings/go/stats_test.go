package portalock

import (
	"errors"
	"testing"
	"time"
)

func TestStatsCountWhatHappens(t *testing.T) {
	s := start(t)
	holding, waiting := s.client(t), s.client(t)
	first, second := named(t, holding, "counted"), named(t, waiting, "counted")
	must(t, first.Lock(background))
	if got, err := second.TryLock(background); got || err != nil {
		t.Fatal(got, err)
	}
	done := make(chan error, 1)
	go func() { done <- second.Lock(background) }()
	eventually(t, "the second waits", func() bool { return s.members(t, "counted") == 2 })
	time.Sleep(50 * time.Millisecond)
	if stats, err := waiting.Stats(); err != nil || stats.Waiting != 1 || stats.Held != 0 {
		t.Fatalf("%+v %v", stats, err)
	}
	must(t, first.Unlock())
	must(t, <-done)

	stats, err := waiting.Stats()
	must(t, err)
	waits := stats.Waits
	if stats.Acquires != 1 || stats.Locked != 1 || stats.HandOvers != 1 || stats.Held != 1 || stats.Waiting != 0 {
		t.Fatalf("%+v", stats)
	}
	if waits.Count != 1 || waits.P50 <= 0 || waits.P99 > waits.Max || waits.Sum < waits.Max {
		t.Fatalf("%+v", waits)
	}
	last := waits.Buckets[len(waits.Buckets)-1]
	if last.Bound != 5*time.Minute || last.Count != 1 || waits.Buckets[0].Bound != time.Millisecond {
		t.Fatalf("%+v", waits.Buckets)
	}
	stats, err = holding.Stats()
	must(t, err)
	if stats.Acquires != 1 || stats.Waits.Count != 0 || stats.Held != 0 || stats.Connections != 1 {
		t.Fatalf("%+v", stats)
	}
	must(t, holding.Close())
	if _, err := holding.Stats(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}
