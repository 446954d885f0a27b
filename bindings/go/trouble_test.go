package portalock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// However the function under the lock is left, and whatever it did to the lock, nothing stays locked.
func TestTheFunctionUnderTheLockMayDoAnything(t *testing.T) {
	s := start(t)
	client := s.client(t)
	mutex, other := named(t, client, "odd"), named(t, client, "odd")
	free := func(what string) {
		t.Helper()
		if mutex.Held() {
			t.Fatal("held after", what)
		}
		must(t, other.Lock(background))
		must(t, other.Unlock())
	}

	left := make(chan struct{})
	go func() {
		defer close(left)
		mutex.WithLock(background, func(context.Context) error {
			runtime.Goexit()
			return nil
		})
	}()
	closes(t, "the goroutine", left)
	free("Goexit")

	func() {
		defer func() { recover() }()
		mutex.WithLock(background, nil)
		t.Error("nothing was called")
	}()
	free("a call of nil")

	err := mutex.WithLock(background, func(context.Context) error { return mutex.Unlock() })
	if !errors.Is(err, ErrNotHeld) {
		t.Fatal(err)
	}
	free("Unlock within")

	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	err = mutex.WithLock(background, func(context.Context) error { return mutex.Lock(ctx) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal("it is not reentrant:", err)
	}
	free("Lock within")

	err = mutex.WithLock(background, func(context.Context) error { return mutex.Close() })
	if !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	err = other.WithLock(background, func(context.Context) error { return client.Close() })
	if !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	eventually(t, "everybody has left", func() bool { return s.members(t, "odd") == 0 })
}

// A context that has ended already has nothing sent, also where the lock could be had.
func TestAContextThatHasEndedTakesNothing(t *testing.T) {
	s := start(t)
	mutex := named(t, s.client(t), "before")
	ctx, cancel := context.WithCancel(background)
	cancel()
	for i := 0; i < 100; i++ {
		if err := mutex.Lock(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if got, err := mutex.TryRLock(ctx); got || !errors.Is(err, context.Canceled) {
			t.Fatal(got, err)
		}
	}
	if n := s.members(t, "before"); n != 0 {
		t.Fatal(n)
	}
}

// The same Mutex is given up and wanted again, over and over, by several goroutines at once.
func TestContextsOfGoroutinesThatShareAMutexEndAtAnyMoment(t *testing.T) {
	s := start(t)
	client := s.client(t)
	mutex := named(t, client, "shared")
	var group sync.WaitGroup
	counter := 0
	for i := 0; i < 6; i++ {
		i := i
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; round < 50; round++ {
				ctx, cancel := context.WithCancel(background)
				timer := time.AfterFunc(time.Duration(i*round)*7*time.Microsecond, cancel)
				if err := mutex.Lock(ctx); err == nil {
					counter++
					if err = mutex.Unlock(); err != nil {
						t.Error(err)
					}
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				timer.Stop()
				cancel()
			}
		}()
	}
	group.Wait()
	must(t, mutex.Lock(background))
	must(t, mutex.Unlock())
	eventually(t, "everybody has left", func() bool { return s.members(t, "shared") == 0 })
}

// The runtime and profilers interrupt threads with signals; system calls of the library end early then.
func TestSignalsHarmNothing(t *testing.T) {
	client := start(t).client(t)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	defer signal.Stop(signals)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				syscall.Kill(os.Getpid(), syscall.SIGUSR1)
				time.Sleep(20 * time.Microsecond)
			}
		}
	}()
	first, second := named(t, client, "signals"), named(t, client, "signals")
	var group sync.WaitGroup
	for _, mutex := range []*Mutex{first, second} {
		mutex := mutex
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 100; i++ {
				if err := mutex.WithLock(background, func(context.Context) error {
					return mutex.Verify(background)
				}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	close(stop)
	<-stopped
}

// What a program starts inherits no connection: a holder would not be gone when its process is.
func TestOtherProgramsInheritNothing(t *testing.T) {
	mutex := named(t, start(t).client(t), "inherited")
	must(t, mutex.WithLock(background, func(context.Context) error {
		list, err := exec.Command("ls", "-l", "/proc/self/fd").Output()
		if words := string(list); strings.Contains(words, "socket:") || strings.Contains(words, "eventfd") {
			t.Error(words)
		}
		return err
	}))
}
