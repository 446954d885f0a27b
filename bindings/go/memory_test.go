package portalock

import (
	"errors"
	"testing"
)

func inMemory(t *testing.T, url string) *Mutex {
	t.Helper()
	client, err := NewClient(url)
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return named(t, client, "job")
}

func TestWithoutAServer(t *testing.T) {
	first, second := inMemory(t, "memory://go-tests"), inMemory(t, "memory://go-tests")
	must(t, first.Lock(background))
	if got, err := second.TryLock(background); got || err != nil {
		t.Fatal(got, err)
	}
	if got, err := inMemory(t, "memory://other-tests").TryLock(background); !got || err != nil {
		t.Fatal(got, err)
	}
	done := make(chan error, 1)
	go func() { done <- second.Lock(background) }()
	must(t, first.Unlock())
	must(t, <-done)
	if _, err := NewClient("memory://"); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
}
