package portalock

// #include <fcntl.h>
// #include <portalock.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Client is a Redis server to hold locks on. Every method may be called from any goroutine.
//
// One goroutine of its own learns what happens to its locks; it waits in the runtime's poller and holds
// no thread.
type Client struct {
	// What the goroutine refers to, so that a Client that is forgotten can be found out.
	core *clientCore
}

type clientCore struct {
	// When a Client was closed, its goroutine has ended.
	ended chan struct{}
	// A duplicate of the library's descriptor: ours to close.
	ready *os.File

	mu      sync.Mutex
	handle  *C.pl_client
	mutexes map[uintptr]*mutexCore
	lastTag uintptr
	looking bool
}

// NewClient makes a client. Nothing is connected yet: see [Client.Ping]. The url is
// redis://[user[:password]@]host[:port][/db], with percent-encoded specials, or
// unix:///path[?db=N&user=…&pass=…], or one of the others that
// docs/connecting.md lists: rediss, redis-sentinel, redis-cluster, and memory for tests.
//
// It fails with [ErrInvalid], [ErrUnsupported] for an unknown scheme, or [ErrInternal] where the
// process may open no more files.
func NewClient(url string, options ...ClientOption) (*Client, error) {
	raw, err := clientOptions(options)
	if err != nil {
		return nil, err
	}
	defer C.pl_client_options_free(raw)
	text, err := cString(url)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(text))
	core := &clientCore{ended: make(chan struct{}), mutexes: map[uintptr]*mutexCore{}}
	var e *C.pl_error
	if err := failure(C.pl_client_new(text, raw, &core.handle, &e), e); err != nil {
		return nil, err
	}
	if core.ready, err = eventFile(core.handle); err != nil {
		C.pl_client_free(core.handle)
		return nil, err
	}
	go core.pump()
	client := &Client{core}
	runtime.SetFinalizer(client, func(client *Client) { go client.forgotten() })
	return client, nil
}

// eventFile duplicates the descriptor of the event queue into the runtime's poller.
func eventFile(handle *C.pl_client) (*os.File, error) {
	var fd C.int
	var e *C.pl_error
	if err := failure(C.pl_client_event_fd(handle, &fd, &e), e); err != nil {
		return nil, err
	}
	own, _, number := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if number != 0 {
		return nil, newError(StatusInternal, "no descriptor for events: "+number.Error(), number)
	}
	file := os.NewFile(own, "portalock events")
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		file.Close()
		return nil, newError(StatusInternal, "the descriptor for events cannot be polled", err)
	}
	return file, nil
}

// Ping connects, logs in and waits for an answer, to find a wrong address or login early. Returns how
// long the answer took. Unless ctx has a deadline it gives up after 5 s.
func (c *Client) Ping(ctx context.Context) (time.Duration, error) {
	defer runtime.KeepAlive(c)
	handle, err := c.core.use()
	if err != nil {
		return 0, err
	}
	return ask(ctx, "ping", 5*time.Second, c.core.shut, func(patience time.Duration) (time.Duration, error) {
		var us C.int64_t
		var e *C.pl_error
		status := C.pl_client_ping(handle, milliseconds(patience), &us, &e)
		return time.Duration(us) * time.Microsecond, failure(status, e)
	})
}

// Holders asks who is on the channel of a lock, over a connection of its own; changes nothing. Holders
// come first, then waiters in their order. [ErrUnclear] means that somebody is there who does not
// answer, for which it waits 1 s, or most of the time that ctx leaves.
func (c *Client) Holders(ctx context.Context, name string) ([]Holder, error) {
	defer runtime.KeepAlive(c)
	return c.core.holders(ctx, name)
}

// NewMutex names a lock. Nothing is sent. The name is the channel: 1 to 1024 bytes of UTF-8 that do not
// end in "-lock-events". It fails with [ErrInvalid] or [ErrClosed].
//
// Mutexes of the same name are independent of each other, as if they were of different processes.
func (c *Client) NewMutex(name string, options ...MutexOption) (*Mutex, error) {
	defer runtime.KeepAlive(c)
	s, err := settings(options)
	if err != nil {
		return nil, err
	}
	defer C.pl_lock_options_free(s.raw)
	text, err := cString(name)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(text))
	core, err := c.core.add(text, name, s)
	if err != nil {
		return nil, err
	}
	mutex := &Mutex{core, c}
	runtime.SetFinalizer(mutex, func(mutex *Mutex) { go mutex.forgotten() })
	return mutex, nil
}

// Close closes every Mutex of the client, which releases what they hold and ends what waits with
// [ErrClosed], and then the client. Further calls do nothing. The error is always nil.
func (c *Client) Close() error {
	runtime.SetFinalizer(c, nil)
	c.core.close()
	return nil
}

func (c *Client) forgotten() {
	if c.core.close() {
		leaked("a Client was not closed")
	}
}

// use gives the handle. Whoever uses it after the client was closed is refused by the library.
func (k *clientCore) use() (*C.pl_client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.handle == nil {
		return nil, closedError("the Client")
	}
	return k.handle, nil
}

func (k *clientCore) shut() error {
	_, err := k.use()
	return err
}

// close tells whether this was what closed it.
func (k *clientCore) close() bool {
	k.mu.Lock()
	handle := k.handle
	k.handle = nil
	mutexes := k.all()
	k.mu.Unlock()
	if handle != nil {
		for _, mutex := range mutexes {
			mutex.close()
		}
		k.ready.Close()
	}
	<-k.ended
	// Nobody fetches events any more.
	C.pl_client_free(handle)
	return handle != nil
}

// all is called with mu held.
func (k *clientCore) all() []*mutexCore {
	mutexes := make([]*mutexCore, 0, len(k.mutexes))
	for _, mutex := range k.mutexes {
		mutexes = append(mutexes, mutex)
	}
	return mutexes
}

func cString(text string) (*C.char, error) {
	for i := 0; i < len(text); i++ {
		if text[i] == 0 {
			return nil, newError(StatusInvalid, "a NUL in a name, label or url")
		}
	}
	return C.CString(text), nil
}
