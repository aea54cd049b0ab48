package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/broker"
	"github.com/rondo-streams/rondo/cause"
)

// cluster is the Kafka of a run: the broker inside this process, or another
// one.
type cluster struct {
	bootstrap string
	client    *kgo.Client
	admin     *kadm.Client
	own       *broker.Broker // nil on another cluster
	dir       string         // to remove, "" for none
	topics    []string       // to delete
	groups    []string

	mu     sync.Mutex
	events []cause.Event // of the embedded broker
}

// openCluster starts the embedded broker in dir ("" is a new temporary
// directory), or connects to bootstrap.
func openCluster(ctx context.Context, bootstrap, dir string, sessionMin time.Duration, log *slog.Logger, onEvent func(cause.Event)) (*cluster, error) {
	c := &cluster{bootstrap: bootstrap}
	if bootstrap == "" {
		if err := c.embed(ctx, dir, sessionMin, log, onEvent); err != nil {
			return nil, errors.Join(err, c.close(ctx))
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.bootstrap, ",")...), kgo.ClientID("rondo-demo"),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(0))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("configure client of %s: %w", c.bootstrap, err), c.close(ctx))
	}
	c.client, c.admin = client, kadm.NewClient(client)
	ping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := client.Ping(ping); err != nil {
		return nil, errors.Join(&Unreachable{Bootstrap: c.bootstrap, Err: err}, c.close(ctx))
	}
	return c, nil
}

// Unreachable is a cluster that does not answer.
type Unreachable struct {
	Bootstrap string
	Err       error
}

func (e *Unreachable) Error() string { return fmt.Sprintf("connect to %s: %v", e.Bootstrap, e.Err) }
func (e *Unreachable) Unwrap() error { return e.Err }

// Hint says what to do.
func (e *Unreachable) Hint() string {
	return "is a broker listening there? Without --bootstrap-server the demonstration brings its own"
}

func (c *cluster) embed(ctx context.Context, dir string, sessionMin time.Duration, log *slog.Logger, onEvent func(cause.Event)) error {
	if dir == "" {
		made, err := os.MkdirTemp("", "rondo-demo-")
		if err != nil {
			return fmt.Errorf("make a directory for the log: %w", err)
		}
		dir, c.dir = made, made
	}
	own, err := broker.Start(context.WithoutCancel(ctx), broker.Config{
		Dir: dir, Listen: "127.0.0.1:0", Logger: log,
		Properties: map[string]string{
			"group.min.session.timeout.ms":     fmt.Sprint(sessionMin.Milliseconds()),
			"group.initial.rebalance.delay.ms": "500",
		},
		OnEvent: func(e cause.Event) {
			c.mu.Lock()
			c.events = append(c.events, e)
			c.mu.Unlock()
			onEvent(e)
		},
	})
	if err != nil {
		return err
	}
	c.own, c.bootstrap = own, own.Addr()
	return nil
}

// rebalances are the events of a group until a time; known is false on
// another cluster, which does not tell.
func (c *cluster) rebalances(group string, until time.Time) (events []cause.Event, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.Group == group && e.At.Before(until) {
			events = append(events, e)
		}
	}
	return events, c.own != nil
}

// createTopics makes the topics of the run.
func (c *cluster) createTopics(ctx context.Context, partitions int32, names ...string) error {
	created, err := c.admin.CreateTopics(ctx, partitions, -1, nil, names...)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for _, name := range names {
		if err := created[name].Err; err != nil {
			return fmt.Errorf("create topic %s: %w %s", name, err, created[name].ErrMessage)
		}
		c.topics = append(c.topics, name)
	}
	return c.awaitTopics(ctx, names)
}

// awaitTopics waits until brokers tell clients of new topics: the controller
// answers before they have all heard of them.
func (c *cluster) awaitTopics(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		c.client.PurgeTopicsFromClient(names...)
		details, err := c.admin.ListTopics(ctx, names...)
		if err == nil {
			err = details.Error()
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for new topics: %w", err)
		}
	}
}

// close removes what the run made and stops the embedded broker.
func (c *cluster) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	var errs []error
	if c.client != nil {
		if c.own == nil {
			errs = append(errs, c.cleanUp(ctx))
		}
		c.client.Close()
	}
	if c.own != nil {
		errs = append(errs, c.own.Close())
	}
	if c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// cleanUp deletes topics and groups of the run from another cluster.
func (c *cluster) cleanUp(ctx context.Context) error {
	var errs []error
	if len(c.topics) > 0 {
		deleted, err := c.admin.DeleteTopics(ctx, c.topics...)
		if err == nil {
			err = deleted.Error()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("delete topics %s: %w", strings.Join(c.topics, ", "), err))
		}
	}
	for _, group := range c.groups {
		err := c.deleteGroup(ctx, group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			errs = append(errs, fmt.Errorf("delete group %s: %w", group, err))
		}
	}
	return errors.Join(errs...)
}

// deleteGroup waits for a killed member's session to end, as long as ctx lets
// it.
func (c *cluster) deleteGroup(ctx context.Context, group string) error {
	for {
		deleted, err := c.admin.DeleteGroups(ctx, group)
		if err == nil {
			err = deleted[group].Err
		}
		if !errors.Is(err, kerr.NonEmptyGroup) {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
