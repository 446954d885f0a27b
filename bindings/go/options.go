package portalock

// #include <portalock.h>
// #include <stdlib.h>
import "C"

import (
	"time"
	"unsafe"
)

// ClientOption is a setting of a [Client].
type ClientOption struct {
	apply func(*C.pl_client_options, **C.pl_error) C.pl_status
}

// MutexOption is a setting of a [Mutex].
type MutexOption struct {
	apply func(*mutexSettings, **C.pl_error) C.pl_status
}

type mutexSettings struct {
	raw *C.pl_lock_options
	// How long an acquire may take, as the library wants it.
	timeout time.Duration
}

// WithConnectTimeout says how long one attempt to connect and log in may take, and how long the server
// may leave a command unanswered: 1 ms to a year, 5 s unless set.
func WithConnectTimeout(d time.Duration) ClientOption {
	return ClientOption{func(raw *C.pl_client_options, e **C.pl_error) C.pl_status {
		return C.pl_client_options_set_connect_timeout(raw, milliseconds(d), e)
	}}
}

// WithPoolSize says how many unused connections are kept open for later acquires: 0 to 1024, 8 unless
// set.
func WithPoolSize(connections uint32) ClientOption {
	return ClientOption{func(raw *C.pl_client_options, e **C.pl_error) C.pl_status {
		return C.pl_client_options_set_pool_size(raw, C.uint32_t(connections), e)
	}}
}

// WithSharedConnection has all mutexes of the client live on one connection. Many need few connections
// then, and the loss of that connection is the loss of them all. Those of one name stand in line among
// themselves, in the order of their coming; readers hold together all the same.
func WithSharedConnection() ClientOption {
	return ClientOption{func(raw *C.pl_client_options, e **C.pl_error) C.pl_status {
		return C.pl_client_options_set_shared_connection(raw, C.bool(true), e)
	}}
}

// WithTLSCAFile names the PEM file of the authorities that are trusted with a rediss:// URL, instead of the
// system's. It is read by [New], as are the files of [WithTLSClientCertificate].
func WithTLSCAFile(file string) ClientOption {
	return textOption(file, func(raw *C.pl_client_options, text *C.char, e **C.pl_error) C.pl_status {
		return C.pl_client_options_set_tls_ca_file(raw, text, e)
	})
}

// WithTLSClientCertificate names the PEM files of the certificate and of its private key that are shown to
// a server that asks for them.
func WithTLSClientCertificate(certificate, key string) ClientOption {
	return textOption(certificate, func(raw *C.pl_client_options, text *C.char, e **C.pl_error) C.pl_status {
		file, err := cString(key)
		if err != nil {
			return C.PL_INVALID
		}
		defer C.free(unsafe.Pointer(file))
		return C.pl_client_options_set_tls_client_certificate(raw, text, file, e)
	})
}

// WithTLSServerName says whom the server's certificate has to be for, instead of the URL's host.
func WithTLSServerName(name string) ClientOption {
	return textOption(name, func(raw *C.pl_client_options, text *C.char, e **C.pl_error) C.pl_status {
		return C.pl_client_options_set_tls_server_name(raw, text, e)
	})
}

// WithTLSInsecureNoVerification accepts any certificate. Whoever is on the way to the server can then read
// and change everything: for trials only.
func WithTLSInsecureNoVerification() ClientOption {
	return ClientOption{func(raw *C.pl_client_options, e **C.pl_error) C.pl_status {
		return C.pl_client_options_set_tls_insecure_no_verification(raw, C.bool(true), e)
	}}
}

func textOption(value string, set func(*C.pl_client_options, *C.char, **C.pl_error) C.pl_status) ClientOption {
	return ClientOption{func(raw *C.pl_client_options, e **C.pl_error) C.pl_status {
		text, err := cString(value)
		if err != nil {
			return C.PL_INVALID
		}
		defer C.free(unsafe.Pointer(text))
		return set(raw, text, e)
	}}
}

// WithTimeout bounds every Lock and RLock beside its context: 1 ms to a year. They return [ErrTimeout],
// or what kept them from using the server. Unless it is set, the context alone bounds them.
func WithTimeout(d time.Duration) MutexOption {
	return MutexOption{func(s *mutexSettings, e **C.pl_error) C.pl_status {
		s.timeout = d
		if d <= 0 {
			d = -time.Hour // refused by the library, as a zero is not
		}
		return C.pl_lock_options_set_timeout(s.raw, milliseconds(d), e)
	}}
}

// WithCheckInterval says how long a waiter steps aside at most when a writer of portalocker comes
// first: once to three times this. 1 ms to a year, 250 ms unless set.
func WithCheckInterval(d time.Duration) MutexOption {
	return MutexOption{func(s *mutexSettings, e **C.pl_error) C.pl_status {
		return C.pl_lock_options_set_check_interval(s.raw, milliseconds(d), e)
	}}
}

// WithUnavailableTimeout says how long a member of the channel may stay silent before it is taken for
// dead and its connection is ended: 1 ms to a year, 1 s unless set.
func WithUnavailableTimeout(d time.Duration) MutexOption {
	return MutexOption{func(s *mutexSettings, e **C.pl_error) C.pl_status {
		return C.pl_lock_options_set_unavailable_timeout(s.raw, milliseconds(d), e)
	}}
}

// WithHealthCheckInterval says how often a held lock is checked: 100 ms to a year, 0 for never, 10 s
// unless set.
func WithHealthCheckInterval(d time.Duration) MutexOption {
	return MutexOption{func(s *mutexSettings, e **C.pl_error) C.pl_status {
		return C.pl_lock_options_set_health_check_interval(s.raw, milliseconds(d), e)
	}}
}

// WithFencing has every exclusive grant draw a token: see [Mutex.FencingToken].
func WithFencing() MutexOption {
	return MutexOption{func(s *mutexSettings, e **C.pl_error) C.pl_status {
		return C.pl_lock_options_set_fencing(s.raw, true, e)
	}}
}

// WithFailWhenLocked has Lock and RLock give up with [ErrLocked] at once when somebody else holds the
// lock.
func WithFailWhenLocked() MutexOption {
	return MutexOption{func(s *mutexSettings, e **C.pl_error) C.pl_status {
		return C.pl_lock_options_set_fail_when_locked(s.raw, true, e)
	}}
}

// WithLabel gives a text that is shown to whoever asks who holds the lock: at most 256 bytes of UTF-8.
func WithLabel(label string) MutexOption {
	return MutexOption{func(s *mutexSettings, e **C.pl_error) C.pl_status {
		text, err := cString(label)
		if err != nil {
			return C.PL_INVALID
		}
		defer C.free(unsafe.Pointer(text))
		return C.pl_lock_options_set_label(s.raw, text, e)
	}}
}

// WithoutDisclosure hides host name, process id, label and time from whoever asks who holds the lock.
func WithoutDisclosure() MutexOption {
	return MutexOption{func(s *mutexSettings, e **C.pl_error) C.pl_status {
		return C.pl_lock_options_set_disclose(s.raw, false, e)
	}}
}

// milliseconds rounds up, so that a short span does not become none, and below -1, so that no negative
// span comes to mean "for ever".
func milliseconds(d time.Duration) C.int64_t {
	if d < 0 {
		return -1000
	}
	return C.int64_t((d + time.Millisecond - 1) / time.Millisecond)
}

// clientOptions makes what pl_client_new takes; the caller frees it.
func clientOptions(options []ClientOption) (*C.pl_client_options, error) {
	var raw *C.pl_client_options
	var e *C.pl_error
	if err := failure(C.pl_client_options_new(&raw, &e), e); err != nil {
		return nil, err
	}
	for _, option := range options {
		if err := failure(option.apply(raw, &e), e); err != nil {
			C.pl_client_options_free(raw)
			return nil, err
		}
	}
	return raw, nil
}

// settings makes what pl_lock_new takes; the caller frees it.
func settings(options []MutexOption) (*mutexSettings, error) {
	s := &mutexSettings{}
	var e *C.pl_error
	if err := failure(C.pl_lock_options_new(&s.raw, &e), e); err != nil {
		return nil, err
	}
	for _, option := range options {
		if err := failure(option.apply(s, &e), e); err != nil {
			C.pl_lock_options_free(s.raw)
			return nil, err
		}
	}
	return s, nil
}
