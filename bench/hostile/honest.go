package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// patience is how long the honest client waits for one record.
const patience = 30 * time.Second

// honest sends a record and reads it back, every 20 ms.
type honest struct {
	client *kgo.Client
	cancel context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	waits []time.Duration
	bad   error
}

// newHonest also makes the topic "much", 64 MiB, for readers that want it all.
func newHonest(ctx context.Context, addr string) (*honest, error) {
	ctx, cancel := context.WithCancel(ctx)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ClientID("honest"), kgo.ConsumeTopics("honest"),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		cancel()
		return nil, err
	}
	h := &honest{client: cl, cancel: cancel, ended: make(chan struct{})}
	if _, err := kadm.NewClient(cl).CreateTopics(ctx, 1, 1, nil, "honest", "much"); err != nil {
		cancel()
		return nil, err
	}
	for range 128 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "much", Value: make([]byte, 512<<10)}).FirstErr(); err != nil {
			cancel()
			return nil, err
		}
	}
	go h.run(ctx)
	return h, nil
}

func (h *honest) run(ctx context.Context) {
	defer close(h.ended)
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		err := h.once(ctx, fmt.Sprint(n))
		if ctx.Err() != nil {
			return
		}
		h.mu.Lock()
		h.waits = append(h.waits, time.Since(began))
		if err != nil && h.bad == nil {
			h.bad = err
		}
		h.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
}

func (h *honest) once(ctx context.Context, value string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := h.client.ProduceSync(ctx, &kgo.Record{Topic: "honest", Value: []byte(value)}).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	for {
		fetches := h.client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		found := false
		fetches.EachRecord(func(r *kgo.Record) { found = found || string(r.Value) == value })
		if found {
			return nil
		}
	}
}

type waits struct {
	n               int
	median, longest time.Duration
}

// take tells how it went since the last time.
func (h *honest) take() (waits, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, bad := h.waits, h.bad
	h.waits, h.bad = nil, nil
	if len(all) == 0 {
		return waits{}, bad
	}
	slices.Sort(all)
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }
	return waits{len(all), round(all[len(all)/2]), round(all[len(all)-1])}, bad
}

func (h *honest) close() {
	h.cancel()
	<-h.ended
	h.client.Close()
}
