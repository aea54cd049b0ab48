package crash

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rondo-streams/rondo/internal/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const partitions = 4

// client is a kgo client that comes back soon after the broker does.
func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr),
		kgo.RetryBackoffFn(func(int) time.Duration { return 25 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryTimeout(2 * time.Minute),
		kgo.RequestRetries(10000),
		kgo.AlwaysRetryEOF(),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// body is the value of record n of a writer: its name, and as many bytes as
// its number says, of a kind that no codec makes smaller, so that a record that
// is cut or mixed up shows.
func body(writer string, n int) []byte {
	size := n * 7919 % 900
	if n%97 == 0 {
		size += 20_000
	}
	b := fmt.Appendf(nil, "%s/%d/", writer, n)
	random := rand.NewPCG(uint64(n), uint64(len(writer)))
	for end := len(b) + size; len(b) < end; {
		b = binary.LittleEndian.AppendUint64(b, random.Uint64())
	}
	return b
}

// A ledger is what the writers were told: the part of the truth that must not
// be lost.
type ledger struct {
	mu      sync.Mutex
	offsets map[string]map[int]place // idempotent writer -> record number -> where it was acknowledged
	sent    map[string]int           // one-shot batch -> its number of records, before the answer
	acked   map[string]place         // one-shot batch -> where its first record was acknowledged
	problem []string
	news    chan struct{} // has something when an acknowledgement came
}

type place struct {
	partition int32
	offset    int64
}

func newLedger() *ledger {
	return &ledger{offsets: map[string]map[int]place{}, sent: map[string]int{}, acked: map[string]place{}, news: make(chan struct{}, 1)}
}

// acknowledged tells who waits for the next acknowledgement.
func (l *ledger) acknowledged() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// nextAck returns as soon as a writer is told that a batch is safe.
func (l *ledger) nextAck() {
	select {
	case <-l.news: // an old one
	default:
	}
	select {
	case <-l.news:
	case <-time.After(time.Second):
	}
}

func (l *ledger) problemf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problem = append(l.problem, fmt.Sprintf(format, args...))
}

// produceIdempotently numbers records onto one partition until ctx ends, then
// waits for all of them to be acknowledged.
func produceIdempotently(ctx context.Context, c *kgo.Client, l *ledger, writer string, partition int32) {
	l.mu.Lock()
	acked := map[int]place{}
	l.offsets[writer] = acked
	l.mu.Unlock()
	for n := 0; ctx.Err() == nil; {
		for burst := 1 + rand.IntN(20); burst > 0; burst-- {
			number := n
			c.Produce(context.Background(), &kgo.Record{Partition: partition, Value: body(writer, n)}, func(r *kgo.Record, err error) {
				if err != nil {
					l.problemf("%s: record %d was not produced: %v", writer, number, err)
					return
				}
				l.mu.Lock()
				acked[number] = place{r.Partition, r.Offset}
				l.mu.Unlock()
				l.acknowledged()
			})
			n++
		}
		pause(ctx, time.Duration(rand.IntN(6))*time.Millisecond)
	}
	if err := c.Flush(context.Background()); err != nil {
		l.problemf("%s: flush: %v", writer, err)
	}
}

// produceOnce sends batches that are never sent again, whatever the answer.
func produceOnce(ctx context.Context, c *kgo.Client, l *ledger, writer string, topic string, id [16]byte) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("%s-%d", writer, n)
		count := 2 + rand.IntN(60)
		records := make([]wire.Record, count)
		for i := range records {
			records[i] = wire.Record{Offset: int64(i), Timestamp: time.Now().UnixMilli(), Value: body(name, i)}
		}
		partition := rand.Int32N(partitions)
		l.mu.Lock()
		l.sent[name] = count
		l.mu.Unlock()
		base, err := send(ctx, c, topic, id, partition, wire.AppendBatch(nil, wire.BatchOptions{}, records...))
		switch {
		case err == nil:
			l.mu.Lock()
			l.acked[name] = place{partition, base}
			l.mu.Unlock()
			l.acknowledged()
		case errors.As(err, new(*kerr.Error)) && !kerr.IsRetriable(err):
			l.problemf("%s: %v", name, err)
		default: // the connection broke: nobody knows
			pause(ctx, 10*time.Millisecond)
		}
		pause(ctx, time.Duration(rand.IntN(5))*time.Millisecond)
	}
}

func send(ctx context.Context, c *kgo.Client, topic string, id [16]byte, partition int32, batch []byte) (int64, error) {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, id
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 30_000
	req.Topics = append(req.Topics, t)
	resp, err := c.Broker(1).Request(ctx, req)
	if err != nil {
		return 0, err
	}
	answer := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return answer.BaseOffset, kerr.ErrorForCode(answer.ErrorCode)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
