package portalock

// #include <portalock.h>
//
// /* The outcome goes to the event queue. */
// static pl_status start(pl_lock *lock, pl_mode mode, int64_t timeout_ms, pl_error **error)
// {
//     pl_acquired_callback none = {NULL, NULL, NULL};
//     return pl_lock_acquire_start(lock, mode, timeout_ms, none, error);
// }
import "C"

import (
	"sync"
	"time"
)

// mutexCore is a lock without the goroutines that wait for it. An acquire goes through the gate, is
// started, and ends when the event queue says so: in onAcquired. From then on there is a holding, until
// unlock opens the gate for the next.
type mutexCore struct {
	client  *clientCore
	tag     uintptr
	name    string
	timeout time.Duration
	// Full from the beginning of an attempt until it has failed, or what it got is released.
	gate chan struct{}
	shut chan struct{}

	// Held for short calls only. The client's own is never held when this is taken.
	mu      sync.Mutex
	handle  *C.pl_lock
	attempt *attempt
	held    *holding
	// An outcome was found out after events were dropped. If its event was not dropped, it comes yet.
	owed bool
}

type attempt struct {
	mode  C.pl_mode
	limit C.int64_t
	// Closed at the end; err and holding are written before.
	done    chan struct{}
	err     error
	holding *holding
	// Nobody wants it any more.
	abandoned bool
	trouble   *Error
}

// holding is from a grant to its release.
type holding struct {
	// Closed when it is over without Unlock; err is written before.
	over chan struct{}
	err  error
}

func newMutexCore(
	client *clientCore, handle *C.pl_lock, tag uintptr, name string, timeout time.Duration,
) *mutexCore {
	return &mutexCore{
		client: client, handle: handle, tag: tag, name: name, timeout: timeout,
		gate: make(chan struct{}, 1), shut: make(chan struct{}),
	}
}

// begin starts an attempt, which may have ended with that: the server is asked in here, which takes 3 ms at
// the most. The caller has come through the gate, which is opened if this fails.
func (c *mutexCore) begin(mode C.pl_mode, limit C.int64_t) (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &attempt{mode: mode, limit: limit, done: make(chan struct{})}
	if c.handle == nil {
		return nil, c.closedError()
	}
	held, err := c.beginOrStart(a)
	if err != nil {
		<-c.gate
		return nil, err
	}
	c.attempt = a
	if held {
		c.grant(a)
	}
	return a, nil
}

// here is full while as many goroutines as may, in the whole process, ask the server themselves: each takes a
// thread for that time.
var here = make(chan struct{}, 2)

// beginOrStart tells whether the lock is held: otherwise an event will tell of the end.
func (c *mutexCore) beginOrStart(a *attempt) (bool, error) {
	select {
	case here <- struct{}{}:
		defer func() { <-here }()
		var e *C.pl_error
		var held C.bool
		err := failure(C.pl_lock_acquire_begin(c.handle, a.mode, a.limit, &held, &e), e)
		return bool(held), err
	default:
		return false, c.start(a)
	}
}

func (c *mutexCore) start(a *attempt) error {
	var e *C.pl_error
	return failure(C.start(c.handle, a.mode, a.limit, &e), e)
}

// abandon gives an attempt up, and tells whether it was still under way. Its end is not waited for: if it
// is granted all the same, it is released at once.
func (c *mutexCore) abandon(a *attempt) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempt != a {
		return false
	}
	a.abandoned = true
	C.pl_lock_cancel(c.handle)
	return true
}

func (c *mutexCore) onAcquired(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attempt
	switch {
	case a == nil || c.handle == nil || c.owed && c.isStale(e):
	case e.status == C.PL_OK:
		c.grant(a)
	default:
		c.fail(a, newError(e.status, e.words))
	}
}

// isStale tells whether an outcome is not that of the present attempt but of one before.
func (c *mutexCore) isStale(e event) bool {
	if e.status == C.PL_OK {
		return !bool(C.pl_lock_is_held(c.handle))
	}
	return c.isUnderWay()
}

// isUnderWay tells whether the library is acquiring, or holds.
func (c *mutexCore) isUnderWay() bool {
	var id [C.PL_HOLDER_ID_SIZE]C.char
	return C.pl_lock_holder_id(c.handle, &id[0], C.PL_HOLDER_ID_SIZE, nil) == C.PL_OK
}

func (c *mutexCore) grant(a *attempt) {
	c.attempt = nil
	if a.abandoned {
		C.pl_lock_release(c.handle, nil)
		<-c.gate
	} else {
		c.held = &holding{over: make(chan struct{})}
		a.holding = c.held
	}
	close(a.done)
}

func (c *mutexCore) fail(a *attempt, err error) {
	c.attempt = nil
	a.err = err
	<-c.gate
	close(a.done)
}

func (c *mutexCore) onTrouble(trouble *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempt != nil {
		c.attempt.trouble = trouble
	}
}

func (c *mutexCore) onLost(loss *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Events come in order, but for the one that was granted and lost without our knowing.
	switch {
	case c.handle == nil || bool(C.pl_lock_is_held(c.handle)):
	case c.held != nil:
		c.held.end(loss)
	case c.attempt != nil && c.owed:
		c.client.lookSoon()
	}
}

// end is called with the mu of the mutexCore held.
func (h *holding) end(err error) {
	if h.err == nil {
		h.err = err
		close(h.over)
	}
}

// look finds out what dropped events would have told.
func (c *mutexCore) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.handle == nil:
	case c.held != nil:
		c.lookAtHeld()
	case c.attempt != nil:
		c.lookAtAttempt(c.attempt)
	}
}

func (c *mutexCore) lookAtHeld() {
	var e *C.pl_error
	err := failure(C.pl_lock_verify(c.handle, 0, &e), e)
	if !bool(C.pl_lock_is_held(c.handle)) {
		c.held.end(err)
	}
}

// lookAtAttempt begins an attempt anew if the library knows nothing of it: how it ended was dropped.
func (c *mutexCore) lookAtAttempt(a *attempt) {
	if bool(C.pl_lock_is_held(c.handle)) {
		c.owed = true
		c.grant(a)
		return
	}
	if c.isUnderWay() {
		return
	}
	c.owed = true
	if err := c.start(a); err != nil {
		c.fail(a, err)
	} else if a.abandoned {
		C.pl_lock_cancel(c.handle)
	}
}

func (c *mutexCore) unlock() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == nil {
		return c.closedError()
	}
	if c.held == nil {
		return newError(StatusNotHeld, c.name+" is not held")
	}
	var e *C.pl_error
	err := failure(C.pl_lock_release(c.handle, &e), e)
	if err != nil {
		c.held.end(err)
	}
	c.held = nil
	<-c.gate
	return err
}

// close tells whether this was what closed it, and whether it was held.
func (c *mutexCore) close() (first, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == nil {
		return false, false
	}
	if held = c.held != nil; held {
		c.held.end(c.closedError())
	}
	if a := c.attempt; a != nil {
		a.err = c.closedError()
		close(a.done)
	}
	c.held, c.attempt = nil, nil
	close(c.shut)
	c.client.remove(c.tag)
	C.pl_lock_free(c.handle)
	c.handle = nil
	return true, held
}

func (c *mutexCore) closedError() *Error { return closedError("the Mutex " + c.name) }
