// A job of which only one may run at a time, on however many machines.
//
//	guarded_job URL NAME MILLISECONDS [LABEL]
//
// Waits for its turn for as long as it takes, works for so many milliseconds, and leaves. SIGINT and
// SIGTERM end the waiting and the work. Exit status: 0 done, 1 the lock could not be had, 2 wrong usage,
// 3 the lock was lost on the way.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/portalock/portalock-go"
)

func say(format string, words ...any) {
	fmt.Printf("guarded_job[%d] %s\n", os.Getpid(), fmt.Sprintf(format, words...))
}

// work does something in small steps, for as long as the context lasts.
func work(ctx context.Context, span time.Duration) error {
	say("holds")
	end := time.After(span)
	step := time.NewTicker(time.Millisecond)
	defer step.Stop()
	for {
		select {
		case <-ctx.Done():
			say("stops in the middle of its work: %v", portalock.Cause(ctx))
			return portalock.Cause(ctx)
		case <-end:
			return nil
		case <-step.C:
		}
	}
}

// sayWhoIsThere is to be read while the job waits. That nobody could tell is no error.
func sayWhoIsThere(ctx context.Context, mutex *portalock.Mutex) {
	holders, _ := mutex.Holders(ctx)
	for _, holder := range holders {
		does := "waits"
		if holder.State == portalock.StateHeld {
			does = "is inside"
		}
		say("  sees %s (pid %d on %s), which %s", holder.Label, holder.PID, holder.Host, does)
	}
}

func run(ctx context.Context, url, name, label string, span time.Duration) error {
	client, err := portalock.NewClient(url)
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := client.NewMutex(name, portalock.WithLabel(label))
	if err != nil {
		return err
	}
	defer mutex.Close()
	say("waits")
	sayWhoIsThere(ctx, mutex)
	return mutex.WithLock(ctx, func(ctx context.Context) error { return work(ctx, span) })
}

func main() {
	if len(os.Args) < 4 || len(os.Args) > 5 {
		fmt.Fprintln(os.Stderr, "usage: guarded_job URL NAME MILLISECONDS [LABEL]")
		os.Exit(2)
	}
	span, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "guarded_job: not a number:", os.Args[3])
		os.Exit(2)
	}
	label := ""
	if len(os.Args) > 4 {
		label = os.Args[4]
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err = run(ctx, os.Args[1], os.Args[2], label, time.Duration(span)*time.Millisecond)
	switch {
	case errors.Is(err, portalock.ErrLost):
		say("LOST the lock: %v", err)
		os.Exit(3)
	case err != nil:
		say("cannot work: %v", err)
		os.Exit(1)
	}
	say("done")
}
