package portalock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/portalock/portalock-go"
)

// The examples need a Redis server: url is something like redis://127.0.0.1:6379.
var url = portalock.ServerURL

func Example() {
	client, err := portalock.NewClient(url())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mutex, err := client.NewMutex("nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer mutex.Close()

	err = mutex.WithLock(context.Background(), func(ctx context.Context) error {
		fmt.Println("I am the only one here.")
		return ctx.Err() // ctx ends when the lock is lost
	})
	fmt.Println(err)
	// Output:
	// I am the only one here.
	// <nil>
}

func ExampleMutex_Lock() {
	client, err := portalock.NewClient(url())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	holder, _ := client.NewMutex("printer")
	waiter, _ := client.NewMutex("printer")
	if err := holder.Lock(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer holder.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err = waiter.Lock(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleMutex_TryLock() {
	client, err := portalock.NewClient(url())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	first, _ := client.NewMutex("job")
	second, _ := client.NewMutex("job")
	fmt.Println(first.TryLock(context.Background()))
	fmt.Println(second.TryLock(context.Background()))
	// Output:
	// true <nil>
	// false <nil>
}

// Lost tells of the end of a holding, for loops that have more to wait for.
func ExampleMutex_Lost() {
	client, err := portalock.NewClient(url())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mutex, _ := client.NewMutex("shard-7")
	if err := mutex.Lock(context.Background()); err != nil {
		log.Fatal(err)
	}
	select {
	case <-mutex.Lost():
		fmt.Println("stop:", mutex.Unlock())
	case <-time.After(10 * time.Millisecond):
		fmt.Println("worked, and left:", mutex.Unlock())
	}
	// Output: worked, and left: <nil>
}

// A resource that remembers the highest token refuses a holder that acts late.
func ExampleMutex_FencingToken() {
	client, err := portalock.NewClient(url())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mutex, _ := client.NewMutex("ledger", portalock.WithFencing())
	var tokens []uint64
	for i := 0; i < 2; i++ {
		if err := mutex.Lock(context.Background()); err != nil {
			log.Fatal(err)
		}
		token, err := mutex.FencingToken()
		if err != nil {
			log.Fatal(err)
		}
		tokens = append(tokens, token)
		mutex.Unlock()
	}
	fmt.Println(tokens[1] > tokens[0])
	// Output: true
}

// Holders shows who is there, for instance to a person who wonders what a job waits for.
func ExampleMutex_Holders() {
	client, err := portalock.NewClient(url())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mutex, _ := client.NewMutex("backup", portalock.WithLabel("backup of tuesday"))
	if err := mutex.Lock(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer mutex.Unlock()
	holders, err := mutex.Holders(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, holder := range holders {
		fmt.Println(holder.Label, holder.State == portalock.StateHeld)
	}
	// Output: backup of tuesday true
}
