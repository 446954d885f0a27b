package portalock

import (
	"context"
	"errors"
	"math/rand"
	"sync"
	"testing"
	"time"
)

func TestAContextThatEndsEndsTheWaiting(t *testing.T) {
	s := start(t)
	client := s.client(t)
	holder, waiter := named(t, client, "ctx"), named(t, client, "ctx")
	must(t, holder.Lock(background))
	ctx, cancel := context.WithCancel(background)
	waited := make(chan error, 1)
	go func() { waited <- waiter.Lock(ctx) }()
	eventually(t, "it waits", func() bool { return s.members(t, "ctx") == 2 })
	cancel()
	begun := time.Now()
	err := <-waited
	if took := time.Since(begun); took > time.Second {
		t.Fatal(took)
	}
	var e *Error
	if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrCancelled) || !errors.As(err, &e) {
		t.Fatal(err)
	}
	if errors.Unwrap(err) != context.Canceled {
		t.Fatal(errors.Unwrap(err))
	}
	eventually(t, "it has left", func() bool { return s.members(t, "ctx") == 1 })

	ctx, cancel = context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	if err := waiter.RLock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if got, err := waiter.TryLock(ctx); got || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(got, err)
	}
	if err := waiter.WithLock(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := holder.Verify(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := holder.Holders(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	// The Mutex itself is fine, also at once after it was given up.
	must(t, holder.Unlock())
	if got, err := waiter.TryLock(background); !got || err != nil {
		t.Fatal(got, err)
	}
}

func TestAContextBoundsTheWaitForAnotherGoroutine(t *testing.T) {
	mutex := named(t, start(t).client(t), "local")
	must(t, mutex.Lock(background))
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if err := mutex.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	must(t, mutex.Unlock())
}

func TestADeadlineTellsOfTheTroubleBefore(t *testing.T) {
	client, err := NewClient("unix:///nonexistent/socket")
	must(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
	defer cancel()
	err = named(t, client, "x").Lock(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnreachable) {
		t.Fatal(err)
	}
}

func TestQuestionsEndWithTheirContext(t *testing.T) {
	s := start(t)
	client := s.client(t)
	mutex := named(t, client, "asked")
	must(t, mutex.Lock(background))
	s.pause()
	defer s.resume()
	questions := map[string]func(context.Context) error{
		"verify":  mutex.Verify,
		"holders": func(ctx context.Context) error { _, err := mutex.Holders(ctx); return err },
		"ping":    func(ctx context.Context) error { _, err := client.Ping(ctx); return err },
	}
	for name, question := range questions {
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(50*time.Millisecond, cancel)
		begun := time.Now()
		if err := question(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(name, err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Fatal(name, took)
		}
	}
}

// What is given up at any moment, just granted or not, leaves nobody on the channel and nothing locked.
func TestCancellationAtRandomMomentsLeavesNothingBehind(t *testing.T) {
	s := start(t)
	client := s.client(t)
	var group sync.WaitGroup
	inside := make(chan struct{}, 1)
	for i := 0; i < 8; i++ {
		mutex := named(t, client, "random")
		random := rand.New(rand.NewSource(int64(i)))
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; round < 60; round++ {
				limit := time.Duration(random.Intn(4000)) * time.Microsecond
				ctx, cancel := context.WithTimeout(background, limit)
				err := mutex.Lock(ctx)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					continue
				}
				select {
				case inside <- struct{}{}:
					<-inside
				default:
					t.Error("two are inside")
				}
				if err := mutex.Unlock(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	eventually(t, "everybody has left", func() bool { return s.members(t, "random") == 0 })
	last := named(t, client, "random")
	if got, err := last.TryLock(background); !got || err != nil {
		t.Fatal(got, err)
	}
}
