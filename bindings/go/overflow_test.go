package portalock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// More than the library keeps.
const tooMany = 5000

// isHeld asks the library, not the Mutex.
func isHeld(mutex *Mutex) bool {
	_, held := mutex.VerifiedAge()
	return held
}

// flood acquires and releases, behind the backs of Mutexes, until there are more events than the
// library keeps.
func flood(t *testing.T, mutexes []*Mutex) {
	a := &attempt{mode: 2, limit: -1}
	for begun := 0; begun < tooMany; begun += len(mutexes) {
		for _, mutex := range mutexes {
			must(t, mutex.core.start(a))
		}
		for _, mutex := range mutexes {
			eventually(t, "it is granted", func() bool { return isHeld(mutex) })
		}
		// The event of a grant comes a moment later, unless the lock is released before.
		time.Sleep(3 * time.Millisecond)
		for _, mutex := range mutexes {
			release(mutex)
		}
	}
}

func release(mutex *Mutex) {
	mutex.core.gate <- struct{}{}
	mutex.core.held = &holding{over: make(chan struct{})}
	mutex.Unlock()
}

func TestDroppedEventsAreMadeUpFor(t *testing.T) {
	s := start(t)
	client := s.client(t)
	busy := named(t, s.client(t), "busy")
	must(t, busy.Lock(background))
	var mutexes []*Mutex
	for i := 0; i < 64; i++ {
		mutexes = append(mutexes, named(t, client, fmt.Sprint("flood-", i)))
	}
	lost, won := named(t, client, "lost"), named(t, client, "won")
	failed, gone := named(t, client, "busy", WithFailWhenLocked()), named(t, client, "busy")
	late := named(t, client, "late")
	must(t, lost.Lock(background))
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	lock := func(ctx context.Context, mutex *Mutex) chan error {
		outcome := make(chan error, 1)
		go func() { outcome <- mutex.Lock(ctx) }()
		return outcome
	}

	client.core.mu.Lock() // to fetch an event takes it
	for i := 0; i < cap(here); i++ {
		here <- struct{}{} // so that grants are told by events
	}
	flood(t, mutexes)
	s.sever(t, "lost")
	wonOutcome, failedOutcome := lock(background, won), lock(background, failed)
	goneOutcome, lateOutcome := lock(ctx, gone), lock(ctx, late)
	eventually(t, "they are granted", func() bool { return isHeld(won) && isHeld(late) })
	eventually(t, "one waits", func() bool { return s.members(t, "busy") == 2 })
	cancel()
	for _, outcome := range []chan error{goneOutcome, lateOutcome} {
		if err := <-outcome; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	eventually(t, "it has left", func() bool { return s.members(t, "busy") == 1 })
	client.core.mu.Unlock()
	for i := 0; i < cap(here); i++ {
		<-here
	}

	must(t, <-wonOutcome)
	if err := <-failedOutcome; !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	closes(t, "the loss", lost.Lost())
	if err := lost.Unlock(); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
	eventually(t, "what nobody wants is released", func() bool { return s.members(t, "late") == 0 })
	must(t, won.Unlock())
	must(t, busy.Unlock())
	for _, mutex := range []*Mutex{lost, won, failed, gone, late} {
		must(t, mutex.Lock(background))
		must(t, mutex.Unlock())
	}
}
