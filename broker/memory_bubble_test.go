//go:build synctests

package broker

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/memnet"
)

// Thirty readers ask for everything and take nothing. What waits for them is
// bound; a reader that does read gets its records all the same, for those who
// do not are hung up on after five seconds, and only while memory is short.
func TestReadersThatTakeNothing(t *testing.T) {
	memnet.Bubble(t, func(t *testing.T) {
		n := memnet.New(0)
		var lines bytes.Buffer
		b := startBroker(t, func(c *Config) {
			c.ListenFunc, c.Listen, c.Properties = n.Listen, "127.0.0.1:9092", nil
			c.Logger = slog.New(slog.NewTextHandler(&lines, nil))
		})
		defer b.Close() //nolint:errcheck // the harness looks again
		pipe := func() *client {
			here, there := net.Pipe()
			if !b.admit(newConn(b, b.nodes[0], there)) {
				t.Fatal("not admitted")
			}
			return &client{t: t, nc: here}
		}
		good := pipe()
		good.makeTopic("t", 1, nil)
		for range 40 {
			do[*kmsg.ProduceResponse](good, produceRequest("t", 0, batchWith(strings.Repeat("x", 100<<10))), 9)
		}
		b.replies.mu.Lock()
		b.replies.limit = 10 << 20
		b.replies.mu.Unlock()
		var slow []*client
		for range 30 {
			c := pipe()
			defer c.nc.Close() //nolint:errcheck // done
			slow = append(slow, c)
			req := fetchRequest("t", 0, 0, time.Minute)
			req.SetVersion(12)
			c.send(req)
		}
		time.Sleep(time.Second)
		if used := b.replies.inUse(); used > 11<<20 {
			t.Errorf("%d bytes wait for their readers", used)
		}
		began := time.Now()
		for tries := 1; len(values(t, do[*kmsg.FetchResponse](good, fetchRequest("t", 0, 0, time.Second), 12))) == 0; tries++ {
			if tries == 60 {
				t.Fatal("the good reader got nothing")
			}
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the good reader waited %v", took)
		}
		synctest.Wait() // who writes a line has written it
		if !strings.Contains(lines.String(), "it does not read its answers") {
			t.Errorf("nobody was hung up on:\n%s", lines.String())
		}
		for _, c := range slow {
			io.CopyN(io.Discard, c.nc, 8<<20) //nolint:errcheck // they read at last, or have been hung up on
			c.nc.Close()                      //nolint:errcheck // done
		}
		good.nc.Close() //nolint:errcheck // done
		time.Sleep(time.Second)
		if used := b.replies.inUse(); used != 0 {
			t.Errorf("%d bytes are held for nobody", used)
		}
	})
}
