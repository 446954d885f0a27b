package portalock

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// Each counter is read and written apart: if two were ever inside together, a count would be lost.
func TestNoUpdateIsLost(t *testing.T) {
	const goroutines, locks, rounds = 200, 10, 5
	client := start(t).client(t, WithPoolSize(32))
	var counters [locks]int
	var group sync.WaitGroup
	for i := 0; i < goroutines; i++ {
		counter := &counters[i%locks]
		mutex := named(t, client, fmt.Sprint("counter-", i%locks))
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; round < rounds; round++ {
				if err := mutex.Lock(background); err != nil {
					t.Error(err)
					return
				}
				before := *counter
				time.Sleep(100 * time.Microsecond)
				*counter = before + 1
				if err := mutex.Unlock(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	for i, count := range counters {
		if count != goroutines/locks*rounds {
			t.Error(i, count)
		}
	}
}

func threads(t *testing.T) int {
	tasks, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(tasks)
}

func TestGoroutinesThatWaitHoldNoThreads(t *testing.T) {
	const waiters, locks = 200, 10
	s := start(t)
	client := s.client(t)
	var holders []*Mutex
	for i := 0; i < locks; i++ {
		holders = append(holders, named(t, client, fmt.Sprint("threads-", i)))
		must(t, holders[i].Lock(background))
	}
	before := threads(t)
	var group sync.WaitGroup
	for i := 0; i < waiters; i++ {
		mutex := named(t, client, holders[i%locks].Name())
		group.Add(1)
		go func() {
			defer group.Done()
			if err := mutex.Lock(background); err != nil {
				t.Error(err)
				return
			}
			mutex.Unlock()
		}()
	}
	for _, holder := range holders {
		name := holder.Name()
		eventually(t, "all wait", func() bool { return s.members(t, name) == waiters/locks+1 })
	}
	if now := threads(t); now > before+10 {
		t.Errorf("%d threads before, %d with %d goroutines that wait", before, now, waiters)
	}
	for _, holder := range holders {
		must(t, holder.Unlock())
	}
	group.Wait()
}

func BenchmarkLockUnlock(b *testing.B) {
	mutex := named(b, start(b).client(b), "bench")
	for i := 0; i < b.N; i++ {
		must(b, mutex.Lock(background))
		must(b, mutex.Unlock())
	}
}
