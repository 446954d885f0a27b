// A daemon that looks after many shards, each under a lock of its own: it works on those whose locks it
// holds. Start it twice, and the second takes over what the first leaves, however it ends.
//
//	event_loop URL PREFIX [COUNT]
//
// The locks are PREFIX-0, PREFIX-1 and so on, 100 unless told otherwise. SIGTERM and SIGINT end it. A
// goroutine for each shard waits for its lock; none of them holds a thread.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"github.com/portalock/portalock-go"
)

// change is what a shard's goroutine tells the loop: it is ours now, or it is ours no longer.
type change struct {
	shard int
	owned bool
	why   error
}

// keep holds a shard's lock, and waits for it anew when it is lost, until ctx ends.
func keep(ctx context.Context, shard int, mutex *portalock.Mutex, changes chan<- change) {
	for ctx.Err() == nil {
		if err := mutex.Lock(ctx); err != nil {
			if ctx.Err() == nil {
				changes <- change{shard, false, err}
			}
			return
		}
		changes <- change{shard, true, nil}
		select {
		case <-mutex.Lost():
			changes <- change{shard, false, mutex.Unlock()}
		case <-ctx.Done():
			mutex.Unlock()
		}
	}
}

// watch counts what is ours, and speaks when a batch of changes is through.
func watch(changes <-chan change, count int) {
	owned := make(map[int]bool)
	for change := range changes {
		if change.owned {
			owned[change.shard] = true
		} else {
			delete(owned, change.shard)
			fmt.Printf("shard %d is lost: %v\n", change.shard, change.why)
		}
		if len(changes) == 0 {
			fmt.Printf("event_loop[%d] owns %d of %d shards\n", os.Getpid(), len(owned), count)
		}
	}
}

func run(ctx context.Context, url, prefix string, count int) error {
	client, err := portalock.NewClient(url)
	if err != nil {
		return err
	}
	defer client.Close()
	changes := make(chan change, count)
	var group sync.WaitGroup
	for shard := 0; shard < count; shard++ {
		mutex, err := client.NewMutex(fmt.Sprint(prefix, "-", shard))
		if err != nil {
			return err
		}
		group.Add(1)
		go func(shard int) {
			defer group.Done()
			keep(ctx, shard, mutex, changes)
		}(shard)
	}
	go func() {
		group.Wait()
		close(changes)
	}()
	watch(changes, count)
	return nil
}

func main() {
	count := 100
	if len(os.Args) == 4 {
		count, _ = strconv.Atoi(os.Args[3])
	}
	if len(os.Args) < 3 || len(os.Args) > 4 || count < 1 {
		fmt.Fprintln(os.Stderr, "usage: event_loop URL PREFIX [COUNT]")
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], count); err != nil {
		fmt.Fprintln(os.Stderr, "event_loop:", err)
		os.Exit(1)
	}
	fmt.Printf("event_loop[%d] has left\n", os.Getpid())
}
