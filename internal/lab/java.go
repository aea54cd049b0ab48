package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Java is what runs Kafka Streams and Apache Kafka 4.2.0: a JVM, and the
// folder of this project that fetches their jars.
type Java struct {
	Peers string // the folder peers of a checkout
	path  string // class path, once it is known
}

// JavaError is a JVM or jars that are not there.
type JavaError struct {
	Op   string
	Err  error
	Help string
}

func (e *JavaError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }
func (e *JavaError) Unwrap() error { return e.Err }

// Hint says what to do.
func (e *JavaError) Hint() string { return e.Help }

// prepare looks for the JVM, fetches the jars and compiles the application
// when they are not there.
func (j *Java) prepare(ctx context.Context) error {
	script, err := filepath.Abs(filepath.Join(j.Peers, "kafka.sh"))
	if err == nil {
		_, err = os.Stat(script)
	}
	if err != nil {
		return &JavaError{"find the application for Kafka Streams", err, "run it in a checkout of the project, or say where its folder peers is: --peers DIR"}
	}
	for _, program := range []string{"java", "javac"} {
		if _, err := exec.LookPath(program); err != nil {
			return &JavaError{"find a JVM", err, "Kafka Streams needs a JDK of 17 or later (Debian: apt-get install default-jdk maven)"}
		}
	}
	out, err := j.script(ctx, "classes")
	if err != nil {
		return &JavaError{"prepare Kafka Streams 4.2.0", err, "kafka.sh classes in " + j.Peers + " fetches the jars with Maven and compiles; it can be run by hand"}
	}
	j.path = strings.TrimSpace(out)
	return nil
}

// script runs kafka.sh. An error holds the end of what it said.
func (j *Java) script(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", append([]string{filepath.Join(j.Peers, "kafka.sh")}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // Kafka itself stays, with its own files
	if err := cmd.Run(); err != nil {
		said := bytes.TrimSpace(errs.Bytes())
		return "", fmt.Errorf("%w: %s", err, said[max(0, len(said)-600):])
	}
	return out.String(), nil
}

// openKafka starts Apache Kafka 4.2.0 with one node on a free port.
func openKafka(ctx context.Context, j *Java, joinDelay time.Duration) (*cluster, error) {
	dir, err := os.MkdirTemp("", "rondo-lab-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for Kafka: %w", err)
	}
	node := filepath.Join(dir, "kafka")
	for range 3 { // somebody else may be quicker with the port
		var address string
		address, err = j.script(ctx, "start", node, fmt.Sprint(freePort()), "offsets.topic.num.partitions=1",
			"group.min.session.timeout.ms=10", fmt.Sprintf("group.initial.rebalance.delay.ms=%d", joinDelay.Milliseconds()))
		if err == nil {
			c, err := connect(ctx, strings.TrimSpace(address))
			if err != nil {
				return nil, errors.Join(err, j.stop(node), os.RemoveAll(dir))
			}
			c.dir, c.free = dir, true
			c.halt = func() error { return j.stop(node) }
			return c, nil
		}
		if ctx.Err() != nil {
			break
		}
		j.stop(node) // it may not have begun
		os.RemoveAll(node)
	}
	return nil, errors.Join(&JavaError{"start Apache Kafka 4.2.0", err, "or give the address of one that runs: --bootstrap-server HOST:PORT"}, os.RemoveAll(dir))
}

// stop stops a node; one that never was is no error.
func (j *Java) stop(node string) error {
	if _, err := os.Stat(filepath.Join(node, "pid")); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := j.script(ctx, "stop", node)
	return err
}

// freePort finds a port that is free and has a free one after it, below those
// that the system gives out by itself.
func freePort() int {
	for {
		port := 20000 + 2*rand.IntN(6000)
		if free(port) && free(port+1) {
			return port
		}
	}
}

func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
