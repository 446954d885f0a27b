// Many processes read a cache; when it is stale, one of them refills it, and the others wait for that
// instead of doing the same work.
//
//	cache_refill URL NAME FILE
//
// FILE is the cache, and is stale when it is missing or empty. Readers share the lock; whoever refills
// has it alone.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/portalock/portalock-go"
)

// read gives what is in the cache, or nothing if it is stale.
func read(file string) (string, error) {
	content, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		err = nil
	}
	return strings.TrimSpace(string(content)), err
}

// refill does the expensive work, unless somebody else has done it while this process waited for the
// lock. Tells whether it was this process.
func refill(mutex *portalock.Mutex, file string) (refilled bool, err error) {
	err = mutex.WithLock(context.Background(), func(ctx context.Context) error {
		value, err := read(file)
		if err != nil || value != "" {
			return err
		}
		time.Sleep(50 * time.Millisecond) // the expensive work
		if ctx.Err() != nil {
			return portalock.Cause(ctx)
		}
		refilled = true
		return os.WriteFile(file, []byte(fmt.Sprintf("made-by-%d\n", os.Getpid())), 0o644)
	})
	return refilled, err
}

func use(mutex *portalock.Mutex, file string) error {
	for {
		var value string
		err := mutex.WithRLock(context.Background(), func(context.Context) (err error) {
			value, err = read(file)
			return err
		})
		if err != nil {
			return err
		}
		if value != "" {
			fmt.Println(os.Getpid(), "reads", value)
			return nil
		}
		if refilled, err := refill(mutex, file); err != nil {
			return err
		} else if refilled {
			fmt.Println(os.Getpid(), "refills")
			return nil
		}
	}
}

func run(url, name, file string) error {
	client, err := portalock.NewClient(url)
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := client.NewMutex(name)
	if err != nil {
		return err
	}
	defer mutex.Close()
	return use(mutex, file)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: cache_refill URL NAME FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "cache_refill:", err)
		os.Exit(1)
	}
}
