package portalock

// #include <portalock.h>
import "C"

import (
	"context"
	"errors"
	"fmt"
)

// WithLock waits for the lock, calls f while it is held, and releases it, also if f panics. The context
// that f is given ends with ctx, and when the lock is lost: [Cause] of it, and of every context made from
// it, is [ErrLost] then, or [ErrClosed] if the Mutex was closed.
//
// It returns what Lock returns if that fails, else what f returns. If the lock was lost, errors.Is finds
// ErrLost in the result, and also what f has returned.
func (m *Mutex) WithLock(ctx context.Context, f func(ctx context.Context) error) error {
	return m.with(ctx, C.PL_MODE_EXCLUSIVE, f)
}

// WithRLock is as WithLock, together with other readers.
func (m *Mutex) WithRLock(ctx context.Context, f func(ctx context.Context) error) error {
	return m.with(ctx, C.PL_MODE_SHARED, f)
}

func (m *Mutex) with(ctx context.Context, mode C.pl_mode, f func(context.Context) error) (err error) {
	held, err := m.acquire(ctx, mode)
	if err != nil {
		return err
	}
	inner, cancel := withCause(ctx)
	left := make(chan struct{})
	go func() {
		select {
		case <-held.over:
			cancel(held.err)
		case <-left:
		}
	}()
	defer func() {
		close(left)
		cancel(nil)
		err = joined(m.Unlock(), err)
	}()
	return f(inner)
}

// joined is an error that is both. The loss comes first: whatever f did, it may have done it too late.
func joined(unlocked, returned error) error {
	if unlocked == nil {
		return returned
	}
	if returned == nil {
		return unlocked
	}
	loss := unlocked.(*Error)
	if errors.Is(returned, loss.Status) {
		return returned
	}
	words := fmt.Sprintf("%s; and before that: %v", loss.Message, returned)
	return &Error{loss.Status, words, loss.Retryable, []error{returned}}
}
