package main

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/broker"
)

// "rondo serve &" and "rondo produce" in one breath: the broker does not listen
// yet when the client knocks.
func TestConnectWaitsForTheBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	connected := make(chan error, 1)
	go func() {
		f := &clientFlags{Bootstrap: []string{address}, Timeout: time.Minute}
		client, err := f.connect(context.Background(), &terminal{})
		if err == nil {
			client.Close()
		}
		connected <- err
	}()
	select {
	case err := <-connected:
		t.Fatalf("connect: %v, want patience", err)
	case <-time.After(200 * time.Millisecond):
	}
	b, err := broker.Start(context.Background(), broker.Config{Dir: t.TempDir(), Listen: address, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := <-connected; err != nil {
		t.Error(err)
	}
}
