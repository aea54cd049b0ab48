package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/rondo-streams/rondo/internal/demo"
)

// demoCmd runs the demonstration.
type demoCmd struct {
	Bootstrap  string `name:"bootstrap-server" short:"b" placeholder:"HOST:PORT" help:"Run on this Kafka instead of the embedded broker; topics and groups are the run's own and are deleted at the end."`
	Data       string `placeholder:"DIR" help:"Keep the embedded broker's log here, default a temporary directory."`
	Seconds    int    `default:"90" help:"Length of the timetable; every clock and latency is scaled with it."`
	Records    int    `default:"1000" help:"How many advisories to score."`
	Partitions int32  `default:"12" help:"Partitions of the topics."`
	Parallel   int    `default:"8" help:"Calls in flight of one partition."`
	Alone      bool   `help:"Leave out the same case under the loop of Kafka Streams."`
	Plain      bool   `help:"Print lines instead of redrawing the screen."`
}

// Run runs the demonstration, prints its table, and fails when a record was
// lost, or repeated without need.
func (c *demoCmd) Run(ctx context.Context, t *terminal) error {
	program, err := self()
	if err != nil {
		return err
	}
	options := demo.Options{
		Command:   []string{program, "instance"},
		Bootstrap: c.Bootstrap, Dir: c.Data, Length: time.Duration(c.Seconds) * time.Second, Records: c.Records,
		Partitions: c.Partitions, Parallel: c.Parallel, Alone: c.Alone,
		Talk: t.err, Redraw: !c.Plain && t.redraws(), Logger: t.log,
	}
	if err := options.Check(); err != nil {
		return fail(exitUsage, err, "rondo demo --help")
	}
	report, err := demo.Run(ctx, options)
	if err != nil {
		if _, ok := errors.AsType[*demo.Unreachable](err); ok {
			return fail(exitUnreachable, err, "is a broker listening there? Without --bootstrap-server the demonstration brings its own")
		}
		return err
	}
	if err := report.Write(t.out); err != nil {
		return err
	}
	if err := report.Check(); err != nil {
		return fail(exitFailed, err, "this is a defect of the project: please report it with the table above and --log-level info")
	}
	return nil
}

// self is this program as it was called. The name comes first: what is
// behind /proc/self/exe may be another one that a link points to.
func self() (string, error) {
	if program, err := exec.LookPath(os.Args[0]); err == nil {
		return program, nil
	}
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return program, nil
}

// redraws says whether standard error is a terminal that can move its cursor.
func (t *terminal) redraws() bool {
	file, ok := t.err.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// instanceCmd is what the demonstration starts.
type instanceCmd struct {
	Instance string `arg:"" help:"The instance as JSON."`
}

// Run runs the instance until standard input or the context ends.
func (c *instanceCmd) Run(ctx context.Context, t *terminal) error {
	var instance demo.Instance
	if err := json.Unmarshal([]byte(c.Instance), &instance); err != nil {
		return fail(exitUsage, fmt.Errorf("read instance: %w", err), "rondo demo starts instances")
	}
	return instance.Run(ctx, t.in, t.out, t.log)
}
