package portalock

// #include <portalock.h>
import "C"

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Mutex is a lock on a server. Every method may be called from any goroutine, and as with sync.Mutex,
// one goroutine may unlock what another has locked.
//
// A Mutex is held once at a time: goroutines that use the same one wait for each other in this process,
// also to read. Those that want to read together use a Mutex of the same name each. It is not
// reentrant.
//
// A Mutex that is no longer needed has to be closed. One that is forgotten is closed, and reported, when
// the garbage collector finds it: a program that waits for [Mutex.Lost] has to keep the Mutex too.
type Mutex struct {
	core   *mutexCore
	client *Client
}

// Name is the name of the lock.
func (m *Mutex) Name() string { return m.core.name }

// Lock waits for the lock, in the order in which waiters came, and holds it alone. Without
// [WithTimeout], it waits, and tries to reach the server, until ctx ends.
//
// When ctx ends, it returns at once; errors.Is finds ctx.Err(), and the trouble with the server, if there
// was any. The library leaves the lock's channel meanwhile. Other errors are [ErrTimeout], [ErrLocked]
// after [WithFailWhenLocked], [ErrClosed], [ErrAuth], [ErrDenied], [ErrNotRedis], [ErrUnsupported],
// [ErrFence], and after [WithTimeout] what kept it from using the server, such as [ErrRefused].
func (m *Mutex) Lock(ctx context.Context) error {
	_, err := m.acquire(ctx, C.PL_MODE_EXCLUSIVE)
	return err
}

// RLock is as Lock, and holds together with other readers. A writer that waits keeps later readers
// waiting.
func (m *Mutex) RLock(ctx context.Context) error {
	_, err := m.acquire(ctx, C.PL_MODE_SHARED)
	return err
}

// TryLock makes one attempt, and tells whether the lock is held now. That somebody else holds it is no
// error. It asks the server, and returns at once when ctx ends. Errors are those of [Mutex.Lock], and of
// a server that cannot be used.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	return m.try(ctx, C.PL_MODE_EXCLUSIVE)
}

// TryRLock is as TryLock, together with other readers.
func (m *Mutex) TryRLock(ctx context.Context) (bool, error) {
	return m.try(ctx, C.PL_MODE_SHARED)
}

func (m *Mutex) acquire(ctx context.Context, mode C.pl_mode) (*holding, error) {
	defer runtime.KeepAlive(m)
	return m.core.acquire(ctx, mode)
}

func (m *Mutex) try(ctx context.Context, mode C.pl_mode) (bool, error) {
	defer runtime.KeepAlive(m)
	return m.core.try(ctx, mode)
}

// Unlock releases the lock. The release is written to the connection and not waited for: whoever comes
// next is told by the server. It fails with [ErrNotHeld], with [ErrClosed], and with [ErrLost] if the
// lock was lost while it was held. Also after ErrLost the Mutex can be locked again.
func (m *Mutex) Unlock() error {
	defer runtime.KeepAlive(m)
	return m.core.unlock()
}

// Lost gives a channel that is closed when the present holding is lost, or ended by Close; Unlock does
// not close it. Each holding has a channel of its own: ask after Lock. Without a holding it is nil.
func (m *Mutex) Lost() <-chan struct{} {
	defer runtime.KeepAlive(m)
	m.core.mu.Lock()
	defer m.core.mu.Unlock()
	if m.core.held == nil {
		return nil
	}
	return m.core.held.over
}

// Held tells whether the lock is held as far as this process knows. It makes no system call.
func (m *Mutex) Held() bool {
	defer runtime.KeepAlive(m)
	m.core.mu.Lock()
	defer m.core.mu.Unlock()
	return m.core.held != nil && bool(C.pl_lock_is_held(m.core.handle))
}

// FencingToken is a number that is higher than that of every exclusive grant before, also of other
// processes and languages. A resource that remembers the highest token it has seen, and refuses lower
// ones, is safe from a holder that acts late. [ErrNotHeld] if there is none: not held, held with readers,
// or [WithFencing] not given.
func (m *Mutex) FencingToken() (uint64, error) {
	defer runtime.KeepAlive(m)
	m.core.mu.Lock()
	defer m.core.mu.Unlock()
	if m.core.handle == nil {
		return 0, m.core.closedError()
	}
	var token C.uint64_t
	var e *C.pl_error
	err := failure(C.pl_lock_fencing_token(m.core.handle, &token, &e), e)
	return uint64(token), err
}

// VerifiedAge is how long ago the lock was last known good, rounded up to milliseconds: since the latest
// of those commands was sent that the server has answered on its connection. The second result is
// false if the lock is not held. It makes no system call.
func (m *Mutex) VerifiedAge() (time.Duration, bool) {
	defer runtime.KeepAlive(m)
	m.core.mu.Lock()
	defer m.core.mu.Unlock()
	if m.core.handle == nil {
		return 0, false
	}
	age := C.pl_lock_verified_age(m.core.handle)
	if age < 0 {
		return 0, false
	}
	return time.Duration(age) * time.Millisecond, true
}

// Verify makes sure that the lock is still held: a message is sent to the server that has to come back.
// nil means that it was held after this was called. [ErrTimeout] after 5 s, or, if ctx has an end, its
// error: it may be lost, and is not given up for that. [ErrLost], [ErrNotHeld], [ErrClosed].
func (m *Mutex) Verify(ctx context.Context) error {
	defer runtime.KeepAlive(m)
	return m.core.verify(ctx)
}

// Holders asks who is on the lock's channel: see [Client.Holders].
func (m *Mutex) Holders(ctx context.Context) ([]Holder, error) {
	defer runtime.KeepAlive(m)
	return m.client.core.holders(ctx, m.core.name)
}

// Close releases what is held, ends what waits with [ErrClosed], and frees the lock. Further calls do
// nothing. The error is always nil.
func (m *Mutex) Close() error {
	runtime.SetFinalizer(m, nil)
	m.core.close()
	return nil
}

func (m *Mutex) forgotten() {
	switch first, held := m.core.close(); {
	case first && held:
		leaked("the Mutex " + m.core.name + " was not closed, and held its lock")
	case first:
		leaked("the Mutex " + m.core.name + " was not closed")
	}
}

// Locker gives the Mutex as a sync.Locker. It waits for as long as it takes, and panics with the *[Error]
// where Lock or Unlock fails: among others when the lock was lost before Unlock.
func (m *Mutex) Locker() sync.Locker { return locker{m, m.Lock} }

// RLocker is as Locker, and locks with RLock.
func (m *Mutex) RLocker() sync.Locker { return locker{m, m.RLock} }

type locker struct {
	mutex *Mutex
	lock  func(context.Context) error
}

func (l locker) Lock() {
	if err := l.lock(context.Background()); err != nil {
		panic(err)
	}
}

func (l locker) Unlock() {
	if err := l.mutex.Unlock(); err != nil {
		panic(err)
	}
}
