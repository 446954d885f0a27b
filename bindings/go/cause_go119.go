//go:build !go1.20

package portalock

import (
	"context"
	"sync"
)

// Before Go 1.20 contexts know no cause: this one is found as a value, also from contexts made from it.
type causeContext struct {
	context.Context
	mu    sync.Mutex
	cause error
}

type causeKey struct{}

func (c *causeContext) Value(key any) any {
	if key == (causeKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func withCause(parent context.Context) (context.Context, func(error)) {
	inner, cancel := context.WithCancel(parent)
	c := &causeContext{Context: inner}
	return c, func(cause error) {
		c.mu.Lock()
		// What came first counts, as for contexts themselves.
		if inner.Err() == nil {
			c.cause = cause
		}
		c.mu.Unlock()
		cancel()
	}
}

// Cause tells why a context has ended that [Mutex.WithLock] has given, or one made from it: an *[Error]
// that is [ErrLost], if the lock was lost, else ctx.Err(). With Go 1.20 or newer it is context.Cause.
func Cause(ctx context.Context) error {
	err := ctx.Err()
	c, some := ctx.Value(causeKey{}).(*causeContext)
	if err == nil || !some {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.cause
	}
	return err
}
