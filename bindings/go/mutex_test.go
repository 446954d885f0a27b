package portalock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

var background = context.Background()

func TestALockGoesThroughItsLife(t *testing.T) {
	s := start(t)
	client := s.client(t, WithConnectTimeout(time.Second), WithPoolSize(2))
	if rtt, err := client.Ping(background); err != nil || rtt <= 0 || rtt > time.Second {
		t.Fatal(rtt, err)
	}
	mutex := named(t, client, "life", WithLabel("me"))
	if mutex.Name() != "life" || mutex.Held() || mutex.Lost() != nil {
		t.Fatal("held before Lock")
	}
	if err := mutex.Unlock(); !errors.Is(err, ErrNotHeld) {
		t.Fatal(err)
	}
	if err := mutex.Verify(background); !errors.Is(err, ErrNotHeld) {
		t.Fatal(err)
	}
	must(t, mutex.Lock(background))
	must(t, mutex.Verify(background))
	if age, held := mutex.VerifiedAge(); !held || !mutex.Held() || age < 0 || age > time.Second {
		t.Fatal(age, held)
	}
	other := named(t, client, "life")
	if got, err := other.TryLock(background); got || err != nil {
		t.Fatal(got, err)
	}
	holders, err := other.Holders(background)
	if err != nil || len(holders) != 1 {
		t.Fatal(holders, err)
	}
	h := holders[0]
	if h.State != StateHeld || h.Mode != ModeExclusive || h.Label != "me" || h.PID <= 0 ||
		len(h.ID) != 32 || time.Since(h.Since) > time.Minute {
		t.Fatalf("%+v", h)
	}
	must(t, mutex.Unlock())
	if _, held := mutex.VerifiedAge(); held || mutex.Held() || mutex.Lost() != nil {
		t.Fatal("held after Unlock")
	}
	eventually(t, "the channel is left", func() bool { return s.members(t, "life") == 0 })
}

func TestReadersHoldTogetherAndWritersAlone(t *testing.T) {
	s := start(t)
	client := s.client(t)
	first, second, writer := named(t, client, "rw"), named(t, client, "rw"), named(t, client, "rw")
	must(t, first.RLock(background))
	if got, err := second.TryRLock(background); !got || err != nil {
		t.Fatal(got, err)
	}
	if got, err := writer.TryLock(background); got || err != nil {
		t.Fatal(got, err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- writer.Lock(background) }()
	eventually(t, "the writer waits", func() bool { return s.members(t, "rw") == 3 })
	must(t, first.Unlock())
	select {
	case err := <-wrote:
		t.Fatal("in together with a reader", err)
	case <-time.After(50 * time.Millisecond):
	}
	must(t, second.Unlock())
	must(t, <-wrote)
	if got, err := first.TryRLock(background); got || err != nil {
		t.Fatal(got, err)
	}
	must(t, writer.Unlock())
}

func TestFencingTokensRise(t *testing.T) {
	client := start(t).client(t)
	mutex, plain := named(t, client, "fence", WithFencing()), named(t, client, "plain")
	last := uint64(0)
	for i := 0; i < 5; i++ {
		must(t, mutex.Lock(background))
		token, err := mutex.FencingToken()
		if err != nil || token <= last {
			t.Fatal(token, last, err)
		}
		last = token
		must(t, mutex.Unlock())
	}
	must(t, plain.Lock(background))
	for _, without := range []*Mutex{mutex, plain} {
		if _, err := without.FencingToken(); !errors.Is(err, ErrNotHeld) {
			t.Fatal(err)
		}
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	s := start(t)
	client := s.client(t)
	holder := named(t, client, "busy")
	must(t, holder.Lock(background))
	err := named(t, client, "busy", WithTimeout(50*time.Millisecond)).Lock(background)
	var e *Error
	if !errors.Is(err, ErrTimeout) || !errors.As(err, &e) {
		t.Fatal(err)
	}
	if e.Status != StatusTimeout || e.Message == "" || !e.Retryable || errors.Is(err, ErrLocked) {
		t.Fatalf("%+v", e)
	}
	var status Status
	if errors.As(err, &status) {
		t.Fatal("the status is no cause")
	}
	if err := named(t, client, "busy", WithFailWhenLocked()).Lock(background); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	if words := ErrTimeout.Error() + ErrClosed.Error() + Status(99).Error(); words != "PL_TIMEOUTPL_CLOSEDPL_UNKNOWN" {
		t.Fatal(words)
	}
	for _, status := range []Status{StatusTimeout, StatusUnreachable} {
		if !newError(status, "").Retryable {
			t.Fatal(status)
		}
	}
	nobody, err := NewClient("unix:///nonexistent/socket")
	must(t, err)
	defer nobody.Close()
	if got, err := named(t, nobody, "x").TryLock(background); got || !errors.Is(err, ErrUnreachable) {
		t.Fatal(got, err)
	}
	if _, err := nobody.Ping(background); !errors.Is(err, ErrUnreachable) {
		t.Fatal(err)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	client := start(t).client(t)
	for _, url := range []string{"", "redis://h:port", "unix:///a\x00b"} {
		if _, err := NewClient(url); !errors.Is(err, ErrInvalid) {
			t.Fatal(url, err)
		}
	}
	if _, err := NewClient("gopher://h"); !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
	for _, option := range []ClientOption{WithPoolSize(1025), WithConnectTimeout(0), WithConnectTimeout(-1)} {
		if _, err := NewClient("redis://h", option); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", "a\x00b", "x-lock-events", strings.Repeat("x", 1025), "\xff"} {
		if _, err := client.NewMutex(name); !errors.Is(err, ErrInvalid) {
			t.Fatal(name, err)
		}
	}
	wrong := []MutexOption{
		WithTimeout(0), WithTimeout(-time.Millisecond), WithTimeout(10000 * time.Hour),
		WithCheckInterval(-1), WithUnavailableTimeout(0), WithHealthCheckInterval(50 * time.Millisecond),
		WithLabel(strings.Repeat("x", 257)), WithLabel("a\x00b"),
	}
	for i, option := range wrong {
		if _, err := client.NewMutex("name", option); !errors.Is(err, ErrInvalid) {
			t.Fatal(i, err)
		}
	}
	must(t, named(t, client, "fine", WithCheckInterval(1), WithUnavailableTimeout(time.Second),
		WithHealthCheckInterval(0), WithoutDisclosure(), WithTimeout(time.Second)).Lock(background))
}

func TestGoroutinesMayShareAMutex(t *testing.T) {
	client := start(t).client(t)
	mutex := named(t, client, "shared", WithTimeout(30*time.Second))
	var group sync.WaitGroup
	counter := 0
	for i := 0; i < 20; i++ {
		group.Add(1)
		lock := mutex.Locker()
		if i%2 == 1 {
			lock = mutex.RLocker()
		}
		go func() {
			defer group.Done()
			lock.Lock()
			defer lock.Unlock()
			counter++
		}()
	}
	group.Wait()
	if counter != 20 {
		t.Fatal(counter)
	}
	must(t, mutex.Lock(background))
	if got, err := mutex.TryLock(background); got || err != nil {
		t.Fatal(got, err)
	}
	hurried := named(t, client, "shared, not", WithTimeout(20*time.Millisecond))
	must(t, hurried.Lock(background))
	if err := hurried.Lock(background); !errors.Is(err, ErrTimeout) {
		t.Fatal(err)
	}
}

func TestALockerPanicsWithTheError(t *testing.T) {
	mutex := named(t, start(t).client(t), "panics")
	caught := func(f func()) (err error) {
		defer func() { err, _ = recover().(error) }()
		f()
		return nil
	}
	if err := caught(mutex.Locker().Unlock); !errors.Is(err, ErrNotHeld) {
		t.Fatal(err)
	}
	mutex.Close()
	if err := caught(mutex.Locker().Lock); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}
