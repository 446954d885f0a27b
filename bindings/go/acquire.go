package portalock

// #include <portalock.h>
import "C"

import (
	"context"
	"errors"
	"time"
)

// acquire waits for the lock, without a thread.
func (c *mutexCore) acquire(ctx context.Context, mode C.pl_mode) (*holding, error) {
	begun := time.Now()
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	limit := C.int64_t(C.PL_WAIT_FOREVER)
	if c.timeout > 0 {
		// At least some wait: 0 would mean one attempt.
		if limit = milliseconds(c.timeout - time.Since(begun)); limit < 1 {
			limit = 1
		}
	}
	return c.run(ctx, mode, limit)
}

func (c *mutexCore) try(ctx context.Context, mode C.pl_mode) (bool, error) {
	if entered, err := c.tryEnter(ctx); !entered {
		return false, err
	}
	switch _, err := c.run(ctx, mode, 0); {
	case err == nil:
		return true, nil
	case errors.Is(err, ErrLocked):
		return false, nil
	default:
		return false, err
	}
}

// run is one attempt, from the gate to its outcome or the end of ctx.
func (c *mutexCore) run(ctx context.Context, mode C.pl_mode, limit C.int64_t) (*holding, error) {
	a, err := c.begin(mode, limit)
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		if c.abandon(a) {
			return nil, contextError(ctx, c.name, c.troubleOf(a))
		}
		// It was granted, or has failed, before it could be given up.
		<-a.done
	}
	return a.holding, a.err
}

func (c *mutexCore) troubleOf(a *attempt) *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return a.trouble
}

// enter waits for the gate: other goroutines with the same Mutex come first.
func (c *mutexCore) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return contextError(ctx, c.name, nil)
	}
	var late <-chan time.Time
	if c.timeout > 0 {
		timer := time.NewTimer(c.timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case c.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return contextError(ctx, c.name, nil)
	case <-c.shut:
		return c.closedError()
	case <-late:
		return newError(StatusTimeout, c.name+" is locked by another goroutine")
	}
}

// tryEnter does not wait, unless it is for an attempt that was given up and is about to end.
func (c *mutexCore) tryEnter(ctx context.Context) (bool, error) {
	for {
		if ctx.Err() != nil {
			return false, contextError(ctx, c.name, nil)
		}
		select {
		case c.gate <- struct{}{}:
			return true, nil
		case <-c.shut:
			return false, c.closedError()
		default:
		}
		ending := c.ending()
		if ending == nil {
			return false, nil
		}
		select {
		case <-ending:
		case <-ctx.Done():
		}
	}
}

// ending is closed when the attempt that was given up has ended; nil if there is none.
func (c *mutexCore) ending() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempt == nil || !c.attempt.abandoned {
		return nil
	}
	return c.attempt.done
}
