package portalock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestALostLockIsReported(t *testing.T) {
	s := start(t)
	client := s.client(t)
	mutex, waiter := named(t, client, "lost"), named(t, client, "lost")
	must(t, mutex.Lock(background))
	lost := mutex.Lost()
	if n := s.sever(t, "lost"); n != 1 {
		t.Fatal(n)
	}
	closes(t, "the loss", lost)
	closes(t, "the loss, asked for late", mutex.Lost())
	if _, held := mutex.VerifiedAge(); held || mutex.Held() {
		t.Fatal("still held")
	}
	if err := mutex.Verify(background); !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
	// Others come in, while the goroutine that has lost it does not know yet.
	must(t, waiter.Lock(background))
	must(t, waiter.Unlock())
	var e *Error
	if err := mutex.Unlock(); !errors.Is(err, ErrLost) || !errors.As(err, &e) || e.Message == "" {
		t.Fatal(err)
	}
	if err := mutex.Unlock(); !errors.Is(err, ErrNotHeld) {
		t.Fatal(err)
	}
	must(t, mutex.Lock(background))
	select {
	case <-mutex.Lost():
		t.Fatal("lost anew")
	case <-time.After(50 * time.Millisecond):
	}
	must(t, mutex.Unlock())
}

func TestTheFunctionUnderTheLockIsToldOfTheLoss(t *testing.T) {
	s := start(t)
	mutex := named(t, s.client(t), "with")
	mine := errors.New("mine")
	err := mutex.WithLock(background, func(ctx context.Context) error {
		child, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if Cause(ctx) != nil || ctx.Err() != nil {
			t.Error("ended before the loss")
		}
		s.sever(t, "with")
		closes(t, "the context", child.Done())
		if !errors.Is(Cause(ctx), ErrLost) || !errors.Is(Cause(child), ErrLost) {
			t.Error(Cause(ctx), Cause(child))
		}
		if ctx.Err() != context.Canceled {
			t.Error(ctx.Err())
		}
		return mine
	})
	if !errors.Is(err, ErrLost) || !errors.Is(err, mine) {
		t.Fatal(err)
	}
	err = mutex.WithLock(background, func(context.Context) error {
		s.sever(t, "with")
		closes(t, "the loss", mutex.Lost())
		return nil
	})
	if !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
}

func TestTheFunctionUnderTheLockLeavesItReleased(t *testing.T) {
	s := start(t)
	mutex := named(t, s.client(t), "left")
	mine := errors.New("mine")
	var inner context.Context
	err := mutex.WithRLock(background, func(ctx context.Context) error {
		inner = ctx
		return mine
	})
	if err != mine || mutex.Held() {
		t.Fatal(err)
	}
	if Cause(inner) != context.Canceled {
		t.Fatal(Cause(inner))
	}
	ctx, cancel := context.WithCancel(background)
	must(t, mutex.WithLock(ctx, func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		if Cause(ctx) != context.Canceled {
			t.Error(Cause(ctx))
		}
		return nil
	}))
	func() {
		defer func() {
			if recover() != "panic" {
				t.Error("another panic")
			}
		}()
		mutex.WithLock(background, func(context.Context) error { panic("panic") })
	}()
	if mutex.Held() {
		t.Fatal("held after a panic")
	}
	if got, err := named(t, mutex.client, "left").TryLock(background); !got || err != nil {
		t.Fatal(got, err)
	}
}

func TestAServerThatRestartsTakesAllLocksAway(t *testing.T) {
	s := start(t)
	client := s.client(t)
	var mutexes []*Mutex
	for _, name := range []string{"a", "b", "c", "d"} {
		mutex := named(t, client, name)
		must(t, mutex.Lock(background))
		mutexes = append(mutexes, mutex)
	}
	s.kill()
	for _, mutex := range mutexes {
		closes(t, "the loss", mutex.Lost())
	}
	waited := make(chan error, 1)
	go func() {
		if err := mutexes[0].Unlock(); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		waited <- mutexes[0].Lock(background)
	}()
	time.Sleep(50 * time.Millisecond)
	must(t, s.run())
	must(t, <-waited)
}

// A connection that ends at any moment, just granted or not, is made up for by Lock or told by Unlock.
func TestLossAtRandomMomentsIsNeverMissed(t *testing.T) {
	s := start(t)
	client := s.client(t)
	stop := make(chan struct{})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				if _, err := s.command("CLIENT KILL TYPE pubsub"); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	ended, losses := make(chan error, 4), make(chan int, 4)
	for i := 0; i < 4; i++ {
		mutex := named(t, client, fmt.Sprint("killed-", i%2))
		go func() {
			lost, err := lockAgainAndAgain(mutex)
			losses <- lost
			ended <- err
		}()
	}
	lost := 0
	for i := 0; i < 4; i++ {
		lost += <-losses
		must(t, <-ended)
	}
	close(stop)
	<-killed
	if lost == 0 {
		t.Error("nothing was ever lost")
	}
}

func lockAgainAndAgain(mutex *Mutex) (lost int, err error) {
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		err := mutex.Lock(ctx)
		cancel()
		if err != nil {
			return lost, err
		}
		time.Sleep(500 * time.Microsecond)
		if err = mutex.Unlock(); errors.Is(err, ErrLost) {
			lost++
		} else if err != nil {
			return lost, err
		}
	}
	return lost, nil
}
