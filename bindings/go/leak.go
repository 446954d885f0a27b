package portalock

import (
	"log"
	"sync"
)

var leaks = struct {
	sync.Mutex
	handler func(message string)
}{handler: func(message string) { log.Print("portalock: ", message) }}

// SetLeakHandler sets what is told, in a goroutine of its own, when a Client or a Mutex was forgotten
// without Close. The garbage collector finds that out some time, and what was forgotten is closed
// then. Unless set, the log package is told; nil is for silence. Goroutine-safe.
func SetLeakHandler(handler func(message string)) {
	leaks.Lock()
	defer leaks.Unlock()
	leaks.handler = handler
}

func leaked(message string) {
	leaks.Lock()
	handler := leaks.handler
	leaks.Unlock()
	if handler != nil {
		handler(message)
	}
}
