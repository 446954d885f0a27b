// A job that runs again and again, one process at a time, and tells Prometheus how its locks do.
//
//	exporter URL NAME ADDRESS
//
// Serves http://ADDRESS/metrics, in the text exposition format; a port of 0 means any.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/portalock/portalock-go"
)

// head says what a metric is, which Prometheus wants to know before its first number.
func head(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP portalock_%s %s\n# TYPE portalock_%s %s\n", name, help, name, kind)
}

func single(w io.Writer, name, kind, help string, value uint64) {
	head(w, name, kind, help)
	fmt.Fprintf(w, "portalock_%s %d\n", name, value)
}

func outcomes(w io.Writer, s portalock.Stats) {
	head(w, "acquires_total", "counter", "Acquires that have ended, by how.")
	for _, each := range []struct {
		outcome string
		count   uint64
	}{
		{"granted", s.Acquires}, {"locked", s.Locked}, {"timeout", s.Timeouts},
		{"cancelled", s.Cancelled}, {"failed", s.Failed},
	} {
		fmt.Fprintf(w, "portalock_acquires_total{outcome=%q} %d\n", each.outcome, each.count)
	}
}

func waits(w io.Writer, waits portalock.WaitTimes) {
	head(w, "wait_seconds", "histogram", "How long acquires had to wait that had to.")
	for _, bucket := range waits.Buckets {
		fmt.Fprintf(w, "portalock_wait_seconds_bucket{le=\"%v\"} %d\n", bucket.Bound.Seconds(), bucket.Count)
	}
	fmt.Fprintf(w, "portalock_wait_seconds_bucket{le=\"+Inf\"} %d\n", waits.Count)
	fmt.Fprintf(w, "portalock_wait_seconds_sum %v\n", waits.Sum.Seconds())
	fmt.Fprintf(w, "portalock_wait_seconds_count %d\n", waits.Count)
}

func write(w io.Writer, s portalock.Stats) {
	outcomes(w, s)
	single(w, "hand_overs_total", "counter", "Acquires let in when somebody left.", s.HandOvers)
	single(w, "losses_total", "counter", "Held locks that were lost.", s.Losses)
	single(w, "reaps_total", "counter", "Connections of silent members that were ended.", s.Reaps)
	single(w, "health_checks_total", "counter", "Messages sent to see whether they come back.", s.HealthChecks)
	single(w, "connections_total", "counter", "Connections that were made.", s.Connections)
	single(w, "held", "gauge", "Locks that are held.", s.Held)
	single(w, "waiting", "gauge", "Acquires that are under way.", s.Waiting)
	waits(w, s.Waits)
}

func serve(client *portalock.Client, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		stats, err := client.Stats()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		write(w, stats)
	})
	fmt.Printf("serves http://%s/metrics\n", listener.Addr())
	go http.Serve(listener, nil)
	return nil
}

// work does nothing much, again and again, whenever it is the only one.
func work(ctx context.Context, client *portalock.Client, name string) error {
	mutex, err := client.NewMutex(name)
	if err != nil {
		return err
	}
	defer mutex.Close()
	for {
		err := mutex.WithLock(ctx, func(ctx context.Context) error {
			time.Sleep(50 * time.Millisecond)
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "exporter:", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func run(url, name, address string) error {
	client, err := portalock.NewClient(url)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := serve(client, address); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return work(ctx, client, name)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: exporter URL NAME ADDRESS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "exporter:", err)
		os.Exit(1)
	}
}
