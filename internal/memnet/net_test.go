package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pair connects the client called "a" to a fresh listener.
func pair(t *testing.T, n *Net) (client, server net.Conn) {
	t.Helper()
	l, err := n.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			got <- c
		}
	}()
	client, err = n.Dialer("a")(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return client, <-got
}

// Bytes arrive after the latency of the link, in order, whatever it becomes
// meanwhile.
func TestLatency(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		n := New(20 * time.Millisecond)
		a, b := pair(t, n)
		start := time.Now()
		a.Write([]byte("slow "))
		n.SetLatency("a", 0)
		a.Write([]byte("fast"))
		a.Close()
		got, err := io.ReadAll(b)
		if err != nil || string(got) != "slow fast" {
			t.Fatalf("read %q, %v", got, err)
		}
		if took := time.Since(start); took != 20*time.Millisecond {
			t.Errorf("took %s, want 20ms", took)
		}
		b.Close()
	})
}

// A cut holds everything back and tells nobody; healing delivers it.
func TestCutHeals(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		n := New(time.Millisecond)
		a, b := pair(t, n)
		n.Cut("a")
		if _, err := a.Write([]byte("held")); err != nil {
			t.Fatal(err)
		}
		b.SetReadDeadline(time.Now().Add(time.Hour))
		buf := make([]byte, 16)
		if _, err := b.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read over a cut link: %v, want the deadline", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := n.Dialer("a")(ctx, "tcp", a.RemoteAddr().String()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("dial over a cut link: %v, want the deadline", err)
		}
		b.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { n.Heal("a") })
		if k, err := b.Read(buf); err != nil || string(buf[:k]) != "held" {
			t.Fatalf("read %q, %v after healing", buf[:k], err)
		}
		a.Close()
		b.Close()
	})
}

// A reset breaks both sides; a closed port refuses.
func TestResetAndRefusal(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		n := New(time.Millisecond)
		a, b := pair(t, n)
		n.Reset("a")
		for _, c := range []net.Conn{a, b} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read after reset: %v", err)
			}
			c.Close()
		}
		_, err := n.Dialer("a")(context.Background(), "tcp", a.RemoteAddr().String())
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial to a closed port: %v", err)
		}
	})
}

// A full pipe blocks its writer until the reader makes room, or the deadline.
func TestBackPressure(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		a, b := pair(t, New(0))
		big := strings.Repeat("x", pipeBuffer+10)
		a.SetWriteDeadline(time.Now().Add(time.Second))
		if k, err := a.Write([]byte(big)); k != pipeBuffer || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("wrote %d, %v", k, err)
		}
		a.SetWriteDeadline(time.Time{})
		go func() {
			a.Write([]byte(big))
			a.Close()
		}()
		time.Sleep(time.Minute)
		got, err := io.ReadAll(b)
		if err != nil || len(got) != pipeBuffer+len(big) {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		b.Close()
	})
}

func TestListenTwice(t *testing.T) {
	n := New(0)
	l, err := n.Listen("tcp", "127.0.0.1:9092")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Listen("tcp", "127.0.0.1:9092"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second listener on one port: %v", err)
	}
	l.Close()
	if _, err := n.Listen("tcp", "127.0.0.1:9092"); err != nil {
		t.Errorf("port after Close: %v", err)
	}
	for _, bad := range []string{"nonsense", "host:http"} {
		if _, err := n.Listen("tcp", bad); err == nil {
			t.Errorf("listen on %q succeeded", bad)
		}
	}
}
