package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	kills = flag.Int("kills", 20, "how often the broker is killed")
	seed  = flag.Uint64("seed", 0, "seed of the instants, 0 chooses one")
	built = flag.String("rondo", "", "a command that is built already, to be killed instead of this tree's")
)

const (
	topic = "survivors"
	group = "readers"
)

// TestKilledBroker kills a real broker at random instants while producers, a
// consumer group and an administrator are at work.
func TestKilledBroker(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-kills %d -seed %d", *kills, s)
	random := rand.New(rand.NewPCG(s, 0))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute+time.Duration(*kills)*5*time.Second)
	defer cancel()

	p := newProcess(t)
	p.start()
	p.wait()
	admin := kadm.NewClient(client(t, p.addr))
	created, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
	if err != nil {
		t.Fatal(err)
	}
	w := startWork(ctx, t, p.addr, created.ID)
	a := &administrator{admin: admin, want: map[string]bool{topic: true}}

	for range *kills {
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		a.work(ctx, t, random)
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
		if random.IntN(2) == 0 { // when a promise is youngest
			w.ledger.nextAck()
		}
		p.kill()
		p.start()
		for random.IntN(5) == 0 { // and in the middle of its recovery
			time.Sleep(time.Duration(random.IntN(60_000)) * time.Microsecond)
			p.kill()
			p.start()
		}
		p.wait()
		a.check(ctx, t)
		w.reader.check(ctx, t, admin, topic)
		if t.Failed() {
			break
		}
	}
	w.stop()
	p.stop()
	p.start()
	p.wait()
	w.reader.check(ctx, t, admin, topic)
	w.ledger.check(t, readLog(ctx, t, p.addr, topic))
	t.Logf("group %s: generation %d, committed %v", group, w.reader.generation, w.reader.committed)
	p.stop()
}

// work is everybody who writes while the broker is killed.
type work struct {
	ledger *ledger
	reader *reader
	stop   func()
}

func startWork(ctx context.Context, t *testing.T, addr string, id [16]byte) *work {
	t.Helper()
	w := &work{ledger: newLedger(), reader: newReader(t, addr, id)}
	if err := w.reader.join(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for n := range int32(partitions) {
		c := client(t, addr, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(codecs[n]))
		wg.Go(func() { produceIdempotently(ctx, c, w.ledger, fmt.Sprintf("writer%d", n), n) })
	}
	for n := range 2 {
		c := client(t, addr)
		wg.Go(func() { produceOnce(ctx, c, w.ledger, fmt.Sprintf("once%d", n), topic, id) })
	}
	wg.Go(func() { w.reader.run(ctx, w.ledger) })
	w.stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(cancel)
	return w
}

var codecs = []kgo.CompressionCodec{kgo.NoCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}

// An administrator creates and deletes topics and knows which must be there.
type administrator struct {
	admin *kadm.Client
	want  map[string]bool
	next  int
}

func (a *administrator) work(ctx context.Context, t *testing.T, random *rand.Rand) {
	t.Helper()
	a.next++
	name := fmt.Sprintf("topic%d", a.next)
	if _, err := a.admin.CreateTopic(ctx, 1+random.Int32N(3), 1, nil, name); err != nil {
		t.Errorf("create %s: %v", name, err)
	}
	a.want[name] = true
	if old := fmt.Sprintf("topic%d", random.IntN(a.next)+1); random.IntN(2) == 0 && a.want[old] {
		if _, err := a.admin.DeleteTopic(ctx, old); err != nil {
			t.Errorf("delete %s: %v", old, err)
		}
		a.want[old] = false
	}
}

func (a *administrator) check(ctx context.Context, t *testing.T) {
	t.Helper()
	topics, err := a.admin.ListTopics(ctx)
	if err != nil {
		t.Errorf("list topics: %v", err)
		return
	}
	for name, want := range a.want {
		if topics.Has(name) != want {
			t.Errorf("topic %s: there %v, acknowledged %v; all: %v", name, topics.Has(name), want, slices.Sorted(slices.Values(topics.Names())))
		}
	}
}
