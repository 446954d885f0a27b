package portalock

// #include <portalock.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"time"
	"unsafe"
)

// How much longer than its context a question may take, so that it is the context that ends first.
const slack = 100 * time.Millisecond

type outcome[T any] struct {
	answer T
	err    error
}

// ask runs a call that blocks, in a goroutine if ctx can end before it. Then the call ends by itself, some
// time after.
func ask[T any](
	ctx context.Context, what string, unless time.Duration, closed func() error,
	call func(patience time.Duration) (T, error),
) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, contextError(ctx, what, nil)
	}
	patience := unless
	if deadline, some := ctx.Deadline(); some {
		patience = time.Until(deadline) + slack
	}
	answered := func() (T, error) {
		answer, err := call(patience)
		if err == nil {
			return answer, nil
		}
		// A handle that was freed meanwhile is no mistake of the caller's.
		if gone := closed(); gone != nil {
			err = gone
		}
		return none, err
	}
	if ctx.Done() == nil {
		return answered()
	}
	done := make(chan outcome[T], 1)
	go func() {
		answer, err := answered()
		done <- outcome[T]{answer, err}
	}()
	select {
	case o := <-done:
		return o.answer, o.err
	case <-ctx.Done():
		return none, contextError(ctx, what, nil)
	}
}

func (c *mutexCore) use() (*C.pl_lock, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == nil {
		return nil, c.closedError()
	}
	return c.handle, nil
}

func (c *mutexCore) verify(ctx context.Context) error {
	handle, err := c.use()
	if err != nil {
		return err
	}
	closed := func() error { _, err := c.use(); return err }
	call := func(patience time.Duration) (struct{}, error) {
		var e *C.pl_error
		status := C.pl_lock_verify(handle, milliseconds(patience), &e)
		return struct{}{}, failure(status, e)
	}
	_, err = ask(ctx, c.name, 5*time.Second, closed, call)
	return err
}

// Mode is how a lock is wanted or held.
type Mode int

const (
	// ModeNone: neither; of a member that waits, or does not say.
	ModeNone Mode = C.PL_MODE_NONE
	// ModeShared: together with other readers.
	ModeShared Mode = C.PL_MODE_SHARED
	// ModeExclusive: alone.
	ModeExclusive Mode = C.PL_MODE_EXCLUSIVE
)

// State is where a member of a lock's channel stands.
type State int

const (
	// StateWaiting: it waits for the lock.
	StateWaiting State = C.PL_STATE_WAITING
	// StateHeld: it holds it.
	StateHeld State = C.PL_STATE_HELD
	// StateLeaving: it has left, and answers only because it was still counted.
	StateLeaving State = C.PL_STATE_LEAVING
)

// Holder is a member of a lock's channel, as it describes itself. A later version may add fields.
type Holder struct {
	// ID is 32 hex digits, or "legacy-N" for a member that sends no id.
	ID string
	// Mode is what it holds, Wants what it wants or holds.
	Mode, Wants Mode
	// State is where it stands.
	State State
	// Legacy: it is a portalocker 3.2.0 or older. Foreign: it is any portalocker.
	Legacy, Foreign bool
	// Host is its host's name, Label its label; empty if it does not say.
	Host, Label string
	// PID is its process id, or -1 if it does not say.
	PID int64
	// Since is when it came into this state, by its own clock; zero if it does not say.
	Since time.Time
}

func (k *clientCore) holders(ctx context.Context, name string) ([]Holder, error) {
	handle, err := k.use()
	if err != nil {
		return nil, err
	}
	text, err := cString(name)
	if err != nil {
		return nil, err
	}
	C.free(unsafe.Pointer(text))
	call := func(patience time.Duration) ([]Holder, error) {
		text := C.CString(name)
		defer C.free(unsafe.Pointer(text))
		var list *C.pl_holders
		var e *C.pl_error
		status := C.pl_probe_holders(handle, text, milliseconds(probeTime(patience)), &list, &e)
		if err := failure(status, e); err != nil {
			return nil, err
		}
		defer C.pl_holders_free(list)
		return holderList(list), nil
	}
	return ask(ctx, name, time.Second, k.shut, call)
}

// probeTime leaves time to say that somebody does not answer, before the context ends.
func probeTime(patience time.Duration) time.Duration {
	return (patience - slack) * 9 / 10
}

func holderList(list *C.pl_holders) []Holder {
	count := C.pl_holders_count(list)
	holders := make([]Holder, 0, count)
	for i := C.size_t(0); i < count; i++ {
		raw := C.pl_holders_at(list, i)
		holder := Holder{
			ID: C.GoString(raw.id), Mode: Mode(raw.mode), Wants: Mode(raw.wants),
			State: State(raw.state), Legacy: bool(raw.legacy), Foreign: bool(raw.foreign),
			Host: C.GoString(raw.host), Label: C.GoString(raw.label), PID: int64(raw.pid),
		}
		if raw.since_ms >= 0 {
			holder.Since = time.UnixMilli(int64(raw.since_ms))
		}
		holders = append(holders, holder)
	}
	return holders
}
