// Package portalock holds distributed locks on a Redis server. A lock is a live subscription, not a key
// that expires: if the process of its holder dies, the lock is free at once, and there is no lease to
// renew or to outlive.
//
// A [Client] stands for a server, a [Mutex] for a lock on it:
//
//	client, err := portalock.NewClient("redis://127.0.0.1:6379")
//	...
//	mutex, err := client.NewMutex("nightly-report")
//	...
//	err = mutex.WithLock(ctx, func(ctx context.Context) error {
//		return report(ctx) // ctx ends when the lock is lost
//	})
//
// Waiters are served in the order in which they came, in this process and in all others, whatever
// language they are written in. A goroutine that waits holds no thread of the operating system.
//
// # Loss
//
// A lock that is held can be lost: the server restarts, the network fails, somebody ends the connection.
// [Mutex.Lost] gives a channel that is closed then, [Mutex.WithLock] cancels a context, and
// [Mutex.Unlock] returns [ErrLost]. A holder that is stopped for a while can find out too late that
// others have taken over. What helps against that is a resource that refuses an old [Mutex.FencingToken].
//
// # Errors
//
// Errors of this package are of type *[Error]. Compare them with errors.Is and the Err… values; where a
// context has ended, errors.Is(err, context.Canceled) or context.DeadlineExceeded holds.
//
// The package needs cgo, and the C library portalock where pkg-config finds it.
package portalock
