package portalock

// #include <portalock.h>
//
// typedef struct {
//     pl_event *event;
//     pl_event_type type;
//     pl_status status;
//     uintptr_t tag;
// } fetched;
//
// /* All there is to know of the oldest event, in one call. */
// static pl_status fetch(const pl_client *client, fetched *to)
// {
//     pl_event *event = NULL;
//     pl_status status = pl_client_next_event(client, 0, &event, NULL);
//     if (status != PL_OK || event == NULL)
//         return status;
//     to->event = event;
//     to->type = pl_event_type_of(event);
//     to->status = pl_event_status(event);
//     to->tag = (uintptr_t)pl_lock_data(pl_event_lock(event));
//     return PL_OK;
// }
//
// /* A number, not a pointer: nothing of Go is kept in C. */
// static pl_status set_tag(pl_lock *lock, uintptr_t tag)
// {
//     return pl_lock_set_data(lock, (void *)tag, NULL);
// }
import "C"

import "time"

// How long after events were dropped every lock is looked at. What was not dropped has come by then.
const overflowDelay = 20 * time.Millisecond

// event is what the library tells, with what Go has to free already freed.
type event struct {
	kind   int
	status Status
	tag    uintptr
	words  string
}

// add makes a lock and has its events found by a number.
func (k *clientCore) add(text *C.char, name string, s *mutexSettings) (*mutexCore, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.handle == nil {
		return nil, closedError("the Client")
	}
	var handle *C.pl_lock
	var e *C.pl_error
	if err := failure(C.pl_lock_new(k.handle, text, s.raw, &handle, &e), e); err != nil {
		return nil, err
	}
	k.lastTag++
	C.set_tag(handle, C.uintptr_t(k.lastTag))
	mutex := newMutexCore(k, handle, k.lastTag, name, s.timeout)
	k.mutexes[k.lastTag] = mutex
	return mutex, nil
}

// remove has the events of a lock ignored.
func (k *clientCore) remove(tag uintptr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.mutexes, tag)
}

// pump handles events until the client is closed. The descriptor is never read: it says that
// there are events, and fetching the last one makes it say so no longer. The runtime asks the system for
// changes only, so the queue is looked at before each wait, which RawConn does after it has forgotten
// earlier changes: an event that comes in between is not missed.
func (k *clientCore) pump() {
	defer close(k.ended)
	poller, err := k.ready.SyscallConn()
	for err == nil {
		err = poller.Read(func(uintptr) bool { return k.handleNext() })
	}
}

// handleNext tells whether there was an event.
func (k *clientCore) handleNext() bool {
	e, some := k.fetch()
	if some {
		k.dispatch(e)
	}
	return some
}

func (k *clientCore) fetch() (event, bool) {
	handle, err := k.use()
	if err != nil {
		return event{}, false
	}
	var raw C.fetched
	if C.fetch(handle, &raw) != C.PL_OK || raw.event == nil {
		return event{}, false
	}
	defer C.pl_event_free(raw.event)
	e := event{kind: int(raw._type), status: Status(raw.status), tag: uintptr(raw.tag)}
	if e.status != C.PL_OK {
		e.words = C.GoString(C.pl_event_message(raw.event))
	}
	return e, true
}

func (k *clientCore) dispatch(e event) {
	if e.kind == C.PL_EVENT_OVERFLOW {
		k.lookSoon()
		return
	}
	k.mu.Lock()
	mutex := k.mutexes[e.tag]
	k.mu.Unlock()
	if mutex == nil {
		return // closed meanwhile
	}
	switch e.kind {
	case C.PL_EVENT_ACQUIRED:
		mutex.onAcquired(e)
	case C.PL_EVENT_LOST:
		mutex.onLost(newError(StatusLost, e.words))
	case C.PL_EVENT_TROUBLE:
		mutex.onTrouble(newError(e.status, e.words))
	}
}

// lookSoon looks at every lock after events were dropped, once what is still queued has come in.
func (k *clientCore) lookSoon() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looking {
		return
	}
	k.looking = true
	time.AfterFunc(overflowDelay, k.look)
}

func (k *clientCore) look() {
	k.mu.Lock()
	k.looking = false
	mutexes := k.all()
	k.mu.Unlock()
	for _, mutex := range mutexes {
		mutex.look()
	}
}
