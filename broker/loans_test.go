package broker

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Memory that answers stand in is used again. Consumers that read the same old
// records at different places, beside some that break off in the middle of an
// answer, get their own.
func TestLoansAreNotMixedUp(t *testing.T) {
	b := startBroker(t)
	c := dialClient(t, b)
	c.makeTopic("t", 1, nil)
	value := func(offset int64) string { return strings.Repeat(fmt.Sprintf("%07d ", offset), 25_000) }
	const all, old = 220, 40 // of 200 kB each: more than the log keeps in memory
	for offset := range int64(all) {
		r := do[*kmsg.ProduceResponse](c, produceRequest("t", 0, batchWith(value(offset))), 9)
		if code := r.Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatal(errorName(code))
		}
	}
	before := b.Stats().Journal
	var readers sync.WaitGroup
	for n := range int64(4) {
		quitter := dialClient(t, b)
		for range 5 {
			req := fetchRequest("t", 0, n, 0)
			req.SetVersion(12)
			quitter.send(req)
		}
		reader := dialClient(t, b)
		readers.Go(func() {
			for round := range int64(8) {
				if round == 2 {
					quitter.nc.Close() //nolint:errcheck // that is its part
				}
				// More than sockets hold: answers wait half written while others are read.
				var ids []int32
				var reqs []kmsg.Request
				for i := range int64(5) {
					req := fetchRequest("t", 0, (round*7+n*3+i)%old, 0)
					req.Topics[0].Partitions[0].PartitionMaxBytes = 1_900_000
					req.SetVersion(12)
					ids, reqs = append(ids, reader.send(req)), append(reqs, req)
				}
				time.Sleep(5 * time.Millisecond)
				for i, req := range reqs {
					resp, err := reader.receive(req, ids[i])
					if err != nil {
						t.Error(err)
						return
					}
					from := (round*7 + n*3 + int64(i)) % old
					got := values(t, resp.(*kmsg.FetchResponse))
					if len(got) == 0 {
						t.Errorf("nothing at offset %d", from)
					}
					for j, v := range got {
						if v != value(from+int64(j)) {
							t.Errorf("offset %d has %.20q", from+int64(j), v)
							return
						}
					}
				}
			}
		})
	}
	readers.Wait()
	if after := b.Stats().Journal; after.JournalReads+after.SegmentReads-before.JournalReads-before.SegmentReads < 160 {
		t.Errorf("too little was read from the disk: %+v", after)
	}
}
