package broker

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/rondo-streams/rondo/internal/journal"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The cost of a request inside the broker: bytes in, bytes out, a connection
// without a network, a log without a sync. Allocations are all the broker's.
func BenchmarkRequest(b *testing.B) {
	br := startBroker(b, func(c *Config) { c.Dir, c.Flush = b.TempDir(), journal.FlushNever })
	setup := dialClient(b, br)
	setup.makeTopic("t", 1, nil)
	do[*kmsg.ProduceResponse](setup, produceRequest("t", 0, batchWith("x")), 9)
	produce := produceRequest("t", 0, batchWith("x"))
	produce.SetVersion(9)
	fetch := fetchRequest("t", 0, 0, 0)
	fetch.Topics[0].Partitions[0].PartitionMaxBytes = 100
	fetch.SetVersion(12)
	heartbeat := kmsg.NewPtrHeartbeatRequest()
	heartbeat.Group, heartbeat.MemberID = "g", "m"
	heartbeat.SetVersion(4)
	for name, req := range map[string]kmsg.Request{"produce": produce, "fetch": fetch, "heartbeat": heartbeat} {
		b.Run(name, func(b *testing.B) {
			here, there := net.Pipe()
			defer here.Close() //nolint:errcheck // the benchmark is over
			br.admit(newConn(br, br.nodes[0], there))
			frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
			in := make([]byte, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := here.Write(frame); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(here, in[:4]); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(here, in[:binary.BigEndian.Uint32(in)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
