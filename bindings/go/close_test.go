package portalock

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestCloseEndsWhatWaits(t *testing.T) {
	s := start(t)
	client := s.client(t)
	holder, waiter, other := named(t, client, "c"), named(t, client, "c"), named(t, client, "c")
	must(t, holder.Lock(background))
	lost := holder.Lost()
	outcomes := make(chan error, 3)
	wait := func(mutex *Mutex) { go func() { outcomes <- mutex.Lock(background) }() }
	wait(waiter)
	wait(other)
	wait(holder) // waits for its own goroutine
	eventually(t, "all wait", func() bool { return s.members(t, "c") == 3 })
	must(t, waiter.Close())
	if err := <-outcomes; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	eventually(t, "one has left", func() bool { return s.members(t, "c") == 2 })
	must(t, client.Close())
	for i := 0; i < 2; i++ {
		if err := <-outcomes; !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
	closes(t, "the holding", lost)
	eventually(t, "all have left", func() bool { return s.members(t, "c") == 0 })
	must(t, waiter.Close())
	must(t, client.Close())
	refuse(t, client, holder)
}

// refuse makes sure that everything says that it is closed.
func refuse(t *testing.T, client *Client, mutex *Mutex) {
	t.Helper()
	errs := []error{mutex.Lock(background), mutex.RLock(background), mutex.Unlock(), mutex.Verify(background)}
	add := func(_ any, err error) { errs = append(errs, err) }
	add(mutex.TryLock(background))
	add(mutex.TryRLock(background))
	add(mutex.FencingToken())
	add(mutex.Holders(background))
	add(client.Holders(background, "c"))
	add(client.Ping(background))
	add(client.NewMutex("c"))
	errs = append(errs, mutex.WithLock(background, func(context.Context) error { return nil }))
	for i, err := range errs {
		if !errors.Is(err, ErrClosed) {
			t.Error(i, err)
		}
	}
	if _, held := mutex.VerifiedAge(); held || mutex.Held() || mutex.Lost() != nil {
		t.Error("held")
	}
}

func TestCloseIsTheCauseForAFunctionUnderTheLock(t *testing.T) {
	mutex := named(t, start(t).client(t), "c")
	err := mutex.WithLock(background, func(ctx context.Context) error {
		go mutex.Close()
		closes(t, "the context", ctx.Done())
		return Cause(ctx)
	})
	if !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestCloseAtAnyMomentFromManyGoroutines(t *testing.T) {
	s := start(t)
	for round := 0; round < 20; round++ {
		client := s.client(t)
		ended := make(chan error)
		for i := 0; i < 8; i++ {
			mutex := named(t, client, "c")
			go func() {
				err := mutex.Lock(background)
				for err == nil {
					if err = mutex.Unlock(); err == nil {
						err = mutex.Lock(background)
					}
				}
				ended <- err
			}()
		}
		time.Sleep(time.Duration(round) * time.Millisecond / 2)
		for i := 0; i < 3; i++ {
			go client.Close()
		}
		for i := 0; i < 8; i++ {
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "all have left", func() bool { return s.members(t, "c") == 0 })
}

func TestWhatIsForgottenIsReportedAndFreed(t *testing.T) {
	told := make(chan string, 16)
	SetLeakHandler(func(message string) { told <- message })
	defer SetLeakHandler(nil)
	s := start(t)
	forget(t, s)
	wanted := []string{"the Mutex kept was not closed, and held its lock", "the Mutex idle", "a Client"}
	for end := time.Now().Add(10 * time.Second); len(wanted) > 0; {
		runtime.GC()
		select {
		case message := <-told:
			for i, words := range wanted {
				if strings.HasPrefix(message, words) {
					wanted = append(wanted[:i], wanted[i+1:]...)
					break
				}
			}
		case <-time.After(10 * time.Millisecond):
			if time.Now().After(end) {
				t.Fatal("not reported:", wanted)
			}
		}
	}
	eventually(t, "it is released", func() bool { return s.members(t, "kept") == 0 })
}

// forget leaves nothing behind on the stack of its caller.
//
//go:noinline
func forget(t *testing.T, s *server) {
	client, err := NewClient(s.url())
	must(t, err)
	kept, err := client.NewMutex("kept")
	must(t, err)
	must(t, kept.Lock(background))
	_, err = client.NewMutex("idle")
	must(t, err)
	closed, err := client.NewMutex("closed")
	must(t, err)
	must(t, closed.Close())
}
