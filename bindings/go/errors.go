package portalock

// #cgo pkg-config: portalock
// #include <portalock.h>
import "C"

import (
	"context"
	"errors"
	"fmt"
)

// Status is the kind of an [Error]. It is itself an error, so that errors.Is can look for it.
type Status int

// The kinds of errors. A later version may add some.
const (
	StatusTimeout      Status = C.PL_TIMEOUT
	StatusLocked       Status = C.PL_LOCKED
	StatusActive       Status = C.PL_ACTIVE
	StatusNotHeld      Status = C.PL_NOT_HELD
	StatusLost         Status = C.PL_LOST
	StatusCancelled    Status = C.PL_CANCELLED
	StatusInvalid      Status = C.PL_INVALID
	StatusRefused      Status = C.PL_REFUSED
	StatusUnreachable  Status = C.PL_UNREACHABLE
	StatusUnresponsive Status = C.PL_UNRESPONSIVE
	StatusAuth         Status = C.PL_AUTH
	StatusDenied       Status = C.PL_DENIED
	StatusNotRedis     Status = C.PL_NOT_REDIS
	StatusServer       Status = C.PL_SERVER
	StatusDisconnected Status = C.PL_DISCONNECTED
	StatusForked       Status = C.PL_FORKED
	StatusUnsupported  Status = C.PL_UNSUPPORTED
	StatusInternal     Status = C.PL_INTERNAL
	StatusUnclear      Status = C.PL_UNCLEAR
	StatusFence        Status = C.PL_FENCE
	StatusTLS          Status = C.PL_TLS
	// StatusClosed is of this package alone: the Client or the Mutex was closed.
	StatusClosed Status = -1
)

// What errors.Is looks for.
var (
	// ErrTimeout: the time of [WithTimeout], or that of a question to the server, has passed.
	ErrTimeout error = StatusTimeout
	// ErrLocked: somebody else holds the lock, and the caller did not want to wait.
	ErrLocked error = StatusLocked
	// ErrActive: the lock is being acquired or is held already.
	ErrActive error = StatusActive
	// ErrNotHeld: the lock is not held, so there is nothing to release or to ask about.
	ErrNotHeld error = StatusNotHeld
	// ErrLost: the lock was held and has been lost.
	ErrLost error = StatusLost
	// ErrCancelled: the acquire was given up before it was granted.
	ErrCancelled error = StatusCancelled
	// ErrInvalid: an argument is missing or out of range.
	ErrInvalid error = StatusInvalid
	// ErrRefused: nothing listens at the server's address.
	ErrRefused error = StatusRefused
	// ErrUnreachable: the server's address leads nowhere.
	ErrUnreachable error = StatusUnreachable
	// ErrUnresponsive: the server does not answer in time.
	ErrUnresponsive error = StatusUnresponsive
	// ErrAuth: the server does not accept the user or the password.
	ErrAuth error = StatusAuth
	// ErrDenied: the user lacks the permission for a command, channel or key.
	ErrDenied error = StatusDenied
	// ErrNotRedis: whatever answers is no Redis server.
	ErrNotRedis error = StatusNotRedis
	// ErrServer: the server answered with an error.
	ErrServer error = StatusServer
	// ErrDisconnected: the connection ended.
	ErrDisconnected error = StatusDisconnected
	// ErrForked: the handle was made before a fork, by the parent of this process.
	ErrForked error = StatusForked
	// ErrUnsupported: the library was built without this, or does not know it.
	ErrUnsupported error = StatusUnsupported
	// ErrInternal: a fault of the library itself.
	ErrInternal error = StatusInternal
	// ErrUnclear: somebody is there and does not answer, so that what was asked cannot be told.
	ErrUnclear error = StatusUnclear
	// ErrFence: the key of the fencing counter cannot be counted up.
	ErrFence error = StatusFence
	// ErrTLS: TLS with the server cannot be agreed on.
	ErrTLS error = StatusTLS
	// ErrClosed: the Client or the Mutex was closed, before the call or during it.
	ErrClosed error = StatusClosed
)

// Error names the status, as the C library does: "PL_TIMEOUT".
func (s Status) Error() string {
	if s == StatusClosed {
		return "PL_CLOSED"
	}
	return C.GoString(C.pl_status_name(C.pl_status(s)))
}

// retryable is for outcomes that come as events, which do not tell it. It says what pl_error_retryable
// says of the same status.
func (s Status) retryable() bool {
	switch s {
	case StatusTimeout, StatusLocked, StatusActive, StatusLost, StatusRefused, StatusUnreachable,
		StatusUnresponsive, StatusServer, StatusDisconnected, StatusUnclear:
		return true
	}
	return false
}

// Error is what every function of this package fails with. It never holds a password. Immutable, so
// any goroutine may read it.
type Error struct {
	// Status is the kind. It is StatusCancelled where a context has ended.
	Status Status
	// Message says what happened, in one line for people.
	Message string
	// Retryable tells whether the same call can succeed later although nothing is changed.
	Retryable bool

	causes []error
}

// Error is the message, with the name of the package.
func (e *Error) Error() string { return "portalock: " + e.Message }

// Is tells whether target is the status of this error, or whether one of its causes is target: the end
// of a context, the trouble with the server that it met, or what a function under the lock returned.
func (e *Error) Is(target error) bool {
	if status, ok := target.(Status); ok && status == e.Status {
		return true
	}
	for _, cause := range e.causes {
		if errors.Is(cause, target) {
			return true
		}
	}
	return false
}

// Unwrap is the first cause: what a context ended with, or what a function under the lock returned. nil if
// there is none.
func (e *Error) Unwrap() error {
	if len(e.causes) == 0 {
		return nil
	}
	return e.causes[0]
}

// As finds causes that are of target's type.
func (e *Error) As(target any) bool {
	for _, cause := range e.causes {
		if errors.As(cause, target) {
			return true
		}
	}
	return false
}

func newError(status Status, message string, causes ...error) *Error {
	return &Error{status, message, status.retryable(), causes}
}

func closedError(what string) *Error {
	return newError(StatusClosed, what+" is closed")
}

// contextError tells of a context that has ended, and of what kept the acquire from its end, if that is
// known: "deadline exceeded" alone would not tell a busy lock from a server that is gone.
func contextError(ctx context.Context, name string, trouble *Error) *Error {
	cause := ctx.Err()
	if trouble == nil {
		return newError(StatusCancelled, fmt.Sprintf("%q: %v", name, cause), cause)
	}
	words := fmt.Sprintf("%q: %v, and before that: %s", name, cause, trouble.Message)
	return newError(StatusCancelled, words, cause, trouble)
}

// failure is the error of a call, which it frees; nil for PL_OK.
func failure(status C.pl_status, raw *C.pl_error) error {
	if status == C.PL_OK {
		return nil
	}
	defer C.pl_error_free(raw)
	message := C.GoString(C.pl_error_message(raw))
	if message == "" {
		message = Status(status).Error()
	}
	e := newError(Status(status), message)
	e.Retryable = bool(C.pl_error_retryable(raw))
	return e
}
