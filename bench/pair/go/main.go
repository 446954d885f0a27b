// Pairs through the Go package: pair-go Go pair URL NAME COUNT HOLD_US, as bench/src/work.rs does them.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strconv"
	"time"

	portalock "github.com/portalock/portalock-go"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	client, err := portalock.NewClient(os.Args[3])
	must(err)
	mutex, err := client.NewMutex(os.Args[4])
	must(err)
	count, err := strconv.Atoi(os.Args[5])
	must(err)
	one := func() [2]int64 {
		begin := time.Now()
		must(mutex.Lock(context.Background()))
		acquired := time.Since(begin)
		must(mutex.Unlock())
		return [2]int64{int64(acquired), int64(time.Since(begin))}
	}
	for i := 0; i < 20; i++ {
		one()
	}
	spans := make([][2]int64, count)
	for i := range spans {
		spans[i] = one()
	}
	must(json.NewEncoder(os.Stdout).Encode(spans))
}
