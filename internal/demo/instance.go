package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/internal/stub"
	"github.com/rondo-streams/rondo/serde"
)

// The headers of a call, by which the parent knows whose it is and for what.
const (
	headerMember    = "Rondo-Demo-Member"
	headerPartition = "Rondo-Demo-Partition"
	headerOffset    = "Rondo-Demo-Offset"
)

// Instance is one process of one side. It travels as JSON in an argument.
type Instance struct {
	Name      string        `json:"name"`
	Policy    string        `json:"policy"`
	Bootstrap string        `json:"bootstrap"`
	Group     string        `json:"group"`
	Input     string        `json:"input"`
	Scores    string        `json:"scores"`
	Dead      string        `json:"dead"`
	Service   string        `json:"service"` // http://host:port
	Parallel  int           `json:"parallel"`
	Timeout   time.Duration `json:"timeout_ns"` // of a call
	Poll      time.Duration `json:"poll_ns"`
	Commit    time.Duration `json:"commit_ns"`
	Session   time.Duration `json:"session_ns"`
}

// statsEvery is how often an instance reports.
const statsEvery = 200 * time.Millisecond

// Run runs the instance until ctx ends, with a line of statistics on out every
// 200 ms. It also ends when in does: in is a pipe from the parent, and an
// instance whose parent died must not stay in the group.
func (i Instance) Run(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, err := io.Copy(io.Discard, in)
		cancel(fmt.Errorf("the parent is gone: %w", errors.Join(err, io.EOF)))
	}()
	topology, err := i.topology()
	if err != nil {
		return fmt.Errorf("build topology: %w", err)
	}
	app, err := rondo.NewApp(topology, append(i.options(), rondo.WithLogger(log))...)
	if err != nil {
		return err
	}
	ran := make(chan error, 1)
	go func() { ran <- app.Run(ctx) }()
	report := time.NewTicker(statsEvery)
	defer report.Stop()
	encoder := json.NewEncoder(out)
	for {
		select {
		case err := <-ran:
			// The last report is for a parent that waits for the end.
			return errors.Join(err, encoder.Encode(app.Stats()))
		case <-report.C:
			if err := encoder.Encode(app.Stats()); err != nil {
				cancel(err)
			}
		}
	}
}

func (i Instance) options() []rondo.Option {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return []rondo.Option{
		rondo.Bootstrap(i.Bootstrap),
		rondo.Set("application.id", i.Group),
		rondo.Set("client.id", i.Name),
		rondo.Set("loop.policy", i.Policy),
		rondo.Set("max.poll.interval.ms", ms(i.Poll)),
		rondo.Set("commit.interval.ms", ms(i.Commit)),
		rondo.Set("session.timeout.ms", ms(i.Session)),
		rondo.Set("heartbeat.interval.ms", ms(i.Session/4)),
		rondo.Set("drain.timeout.ms", ms(i.Poll/2)),
	}
}

// topology is the program: one call for every advisory, results to one topic,
// failures to another.
func (i Instance) topology() (*rondo.Topology, error) {
	advisories := rondo.TopicOf(i.Input, serde.String(), serde.JSON[Advisory]())
	scores := rondo.TopicOf(i.Scores, serde.String(), serde.JSON[stub.Score]())
	dead := rondo.TopicOf(i.Dead, serde.String(), serde.JSON[Advisory]())
	client := rondo.NewHTTP(rondo.HTTPOptions{})
	ask := func(ctx context.Context, r rondo.Record[string, Advisory]) (stub.Score, error) {
		return i.ask(ctx, client, r)
	}
	b := rondo.New(i.Group)
	b.From(advisories).
		CallRecord("score", i.Timeout, ask, rondo.CallPolicy{Parallel: i.Parallel}).
		FailuresTo(dead).
		To(scores)
	return b.Build()
}

// ask calls the service for one advisory.
func (i Instance) ask(ctx context.Context, client *rondo.HTTP, r rondo.Record[string, Advisory]) (stub.Score, error) {
	body, err := json.Marshal(r.Value)
	if err != nil {
		return stub.Score{}, rondo.Permanent(err)
	}
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, i.Service+"/score", bytes.NewReader(body))
	if err != nil {
		return stub.Score{}, rondo.Permanent(err)
	}
	rq.Header.Set(headerMember, i.Name)
	rq.Header.Set(headerPartition, strconv.FormatInt(int64(r.Partition), 10))
	rq.Header.Set(headerOffset, strconv.FormatInt(r.Offset, 10))
	answer, _, err := client.Do(rq)
	if err != nil {
		return stub.Score{}, err
	}
	var score stub.Score
	if err := json.Unmarshal(answer, &score); err != nil {
		return stub.Score{}, rondo.Permanent(fmt.Errorf("read score: %w", err))
	}
	return score, nil
}

// callOf reads the headers of a call.
func callOf(c stub.Call) (Call, error) {
	partition, err := strconv.ParseInt(c.Header.Get(headerPartition), 10, 32)
	if err != nil {
		return Call{}, fmt.Errorf("%s of a call: %w", headerPartition, err)
	}
	offset, err := strconv.ParseInt(c.Header.Get(headerOffset), 10, 64)
	if err != nil {
		return Call{}, fmt.Errorf("%s of a call: %w", headerOffset, err)
	}
	return Call{Place: Place{int32(partition), offset}, Member: c.Header.Get(headerMember), At: c.At}, nil
}
