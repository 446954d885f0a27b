//go:build go1.20

package portalock

import "context"

func withCause(parent context.Context) (context.Context, func(error)) {
	inner, cancel := context.WithCancelCause(parent)
	return inner, func(cause error) { cancel(cause) }
}

// Cause tells why a context has ended that [Mutex.WithLock] has given, or one made from it: an *[Error]
// that is [ErrLost], if the lock was lost, else ctx.Err(). With Go 1.20 or newer it is context.Cause.
func Cause(ctx context.Context) error { return context.Cause(ctx) }
