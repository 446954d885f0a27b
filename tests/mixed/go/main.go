// Goes through critical sections; see tests/mixed/main.rs.
//
//	mixed URL NAME FOLDER LABEL SECTIONS INSIDE_MS PAUSE_MS
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/portalock/portalock-go"
)

type worker struct {
	label            string
	journal, counter *os.File
	mutex            *portalock.Mutex
	inside, pause    time.Duration
}

// monotonic is the clock that the other languages read; package time does not show it.
func monotonic() int64 {
	const clockMonotonic = 1
	var now syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if failed != 0 {
		panic(failed)
	}
	return now.Nano()
}

// note writes a line at once, to a file opened for appending: no other process can come in between.
func (w *worker) note(event string, token uint64) error {
	_, err := fmt.Fprintf(w.journal, "%s %s %d %d\n", event, w.label, token, monotonic())
	return err
}

// count has no lock of its own: it loses some if two do it at once.
func (w *worker) count() error {
	digits := make([]byte, 16)
	if _, err := w.counter.ReadAt(digits, 0); err != nil {
		return err
	}
	number, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return err
	}
	time.Sleep(w.inside)
	_, err = w.counter.WriteAt([]byte(fmt.Sprintf("%016d", number+1)), 0)
	return err
}

// section fails with ErrLost if the lock was lost on the way.
func (w *worker) section() error {
	if err := w.note("want", 0); err != nil {
		return err
	}
	return w.mutex.WithLock(context.Background(), func(ctx context.Context) error {
		token, err := w.mutex.FencingToken()
		if err != nil {
			return err
		}
		if err := os.Mkdir("inside", 0o700); err != nil {
			return err
		}
		if err := w.note("enter", token); err != nil {
			return err
		}
		if err := w.count(); err != nil {
			return err
		}
		if err := w.note("leave", token); err != nil {
			return err
		}
		return os.Remove("inside")
	})
}

func (w *worker) run(sections int) error {
	fmt.Println("worker> ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	for ; sections > 0; sections-- {
		if err := w.section(); err != nil {
			return err
		}
		time.Sleep(w.pause)
	}
	return w.mutex.Close()
}

func begin(args []string) error {
	var numbers [3]int
	for i, word := range args[5:] {
		number, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		numbers[i] = number
	}
	if err := os.Chdir(args[3]); err != nil {
		return err
	}
	journal, err := os.OpenFile("journal", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	counter, err := os.OpenFile("counter", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	client, err := portalock.NewClient(args[1])
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := client.NewMutex(args[2], portalock.WithFencing())
	if err != nil {
		return err
	}
	ms := func(number int) time.Duration { return time.Duration(number) * time.Millisecond }
	w := &worker{args[4], journal, counter, mutex, ms(numbers[1]), ms(numbers[2])}
	return w.run(numbers[0])
}

func main() {
	if len(os.Args) != 8 {
		fmt.Fprintln(os.Stderr, "usage: "+strings.Join([]string{
			os.Args[0], "URL NAME FOLDER LABEL SECTIONS INSIDE_MS PAUSE_MS"}, " "))
		os.Exit(2)
	}
	if err := begin(os.Args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[4], err)
		os.Exit(1)
	}
}
