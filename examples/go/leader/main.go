// One of several processes leads at any time; when it steps down, or dies, the next in line takes over.
//
//	leader URL NAME ROUNDS MILLISECONDS
//
// Runs for office so many times, and leads for so many milliseconds each time it is elected.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/portalock/portalock-go"
)

// lead returns when the term is over, or earlier when the office is lost.
func lead(ctx context.Context, term time.Duration) error {
	fmt.Println("leader", os.Getpid(), "leads")
	select {
	case <-time.After(term):
	case <-ctx.Done():
		return nil // WithLock tells why
	}
	// Before the release, or the next one could speak first.
	fmt.Println("leader", os.Getpid(), "steps down")
	return nil
}

func campaign(url, name string, rounds int, term time.Duration) error {
	client, err := portalock.NewClient(url)
	if err != nil {
		return err
	}
	defer client.Close()
	// A leader that cannot reach the server finds out within two seconds.
	office, err := client.NewMutex(name, portalock.WithHealthCheckInterval(time.Second))
	if err != nil {
		return err
	}
	defer office.Close()
	for ; rounds > 0; rounds-- {
		err := office.WithLock(context.Background(), func(ctx context.Context) error {
			return lead(ctx, term)
		})
		if errors.Is(err, portalock.ErrLost) {
			fmt.Printf("leader %d lost it: %v\n", os.Getpid(), err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: leader URL NAME ROUNDS MILLISECONDS")
		os.Exit(2)
	}
	rounds, err := strconv.Atoi(os.Args[3])
	span, wrong := strconv.Atoi(os.Args[4])
	if err != nil || wrong != nil {
		fmt.Fprintln(os.Stderr, "leader: ROUNDS and MILLISECONDS are numbers")
		os.Exit(2)
	}
	if err := campaign(os.Args[1], os.Args[2], rounds, time.Duration(span)*time.Millisecond); err != nil {
		fmt.Fprintln(os.Stderr, "leader:", err)
		os.Exit(1)
	}
}
