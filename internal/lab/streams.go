package lab

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/sim"
)

// maxJVMs is how many members a scenario may have on Kafka Streams: each is a
// process of its own, which can be killed.
const maxJVMs = 4

// OnStreams says whether a scenario can be measured on Kafka Streams, and if
// not, why.
func (s *Scenario) OnStreams() error {
	switch {
	case s.Plain != nil:
		return errors.New("its members are plain consumers")
	case !s.Measures(ColumnStreams42) && !s.Measures(ColumnStreams):
		return errors.New("its Streams loop is predicted only")
	case s.Eager:
		return errors.New("Kafka Streams 4.2.0 has no eager protocol")
	case len(s.Members) > maxJVMs:
		return fmt.Errorf("it has %d members, each a JVM; %d are the most", len(s.Members), maxJVMs)
	}
	return nil
}

// javaLog sends what is read of the log to standard output: the time in
// milliseconds, the class, the message.
const javaLog = `status = error
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{UNIX_MILLIS} %c{1} %m%n%ex{0}
logger.thread.name = org.apache.kafka.streams.processor.internals.StreamThread
logger.thread.level = DEBUG
logger.group.name = org.apache.kafka.clients.consumer.internals.ConsumerCoordinator
logger.group.level = WARN
rootLogger.level = ERROR
rootLogger.appenderRef.out.ref = OUT
`

// jvm is a member in a process of its own: a Kafka Streams application with
// one thread.
type jvm struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	ready  chan struct{} // closed when it can be started
	ended  chan struct{} // closed when it is gone

	mu   sync.Mutex
	seen streamsLog
	said string // on standard error
}

// streamsLog is what the log of a Kafka Streams application has told.
type streamsLog struct {
	n       int
	owned   []int32
	checks  int         // times that the commit clock ran out, with or without something to commit
	fenced  []time.Time // the thread found out that its tasks are others'
	expired []time.Time // the poll clock ran out
	windows [][][]int   // from one assignment to the next: the partitions that each poll brought the first records of
}

// fetched takes the end of the log line of a poll: "3 records from partitions
// [in-0, in-2]". The first window begins with the first records.
func (s *streamsLog) fetched(text string) {
	_, list, ok := strings.Cut(text, "[")
	if !ok {
		return
	}
	if len(s.windows) == 0 {
		s.windows = make([][][]int, 1)
	}
	window := &s.windows[len(s.windows)-1]
	var fresh []int
	for _, name := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == ']' }) {
		p, err := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 10, 31)
		if err == nil && !slices.ContainsFunc(*window, func(poll []int) bool { return slices.Contains(poll, int(p)) }) {
			fresh = append(fresh, int(p))
		}
	}
	if slices.Sort(fresh); len(fresh) > 0 {
		*window = append(*window, fresh)
	}
}

// hear takes a line of the log. Lines that tell nothing are passed over.
func (s *streamsLog) hear(line string) {
	stamp, text, _ := strings.Cut(line, " ")
	ms, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return
	}
	at := time.UnixMilli(ms)
	if has, ok := strings.CutPrefix(text, "owns"); ok {
		s.owned = nil
		for _, word := range strings.Fields(has) {
			if p, err := strconv.ParseInt(word, 10, 32); err == nil {
				s.owned = append(s.owned, int32(p))
			}
		}
		return
	}
	class, text, _ := strings.Cut(text, " ")
	switch class {
	case "StreamThread":
		if _, rest, ok := strings.Cut(text, "Processing tasks with "); ok {
			count, _, _ := strings.Cut(rest, " ")
			if n, err := strconv.Atoi(count); err == nil {
				s.n = n
			}
		}
		if strings.Contains(text, "Committing all active tasks") {
			s.checks++
		}
		if _, rest, ok := strings.Cut(text, " and fetched "); ok {
			s.fetched(rest)
		}
		if strings.Contains(text, "Detected that the thread is being fenced") {
			s.windows = append(s.windows, nil)
			s.fenced = append(s.fenced, at)
		}
	case "ConsumerCoordinator":
		if strings.Contains(text, "consumer poll timeout has expired") {
			s.expired = append(s.expired, at)
		}
	}
}

// stats are what the log tells, in the form of Rondo's own members.
func (s *streamsLog) stats(topic string) rondo.Stats {
	thread := rondo.ThreadStats{N: s.n}
	for _, p := range s.owned {
		thread.Tasks = append(thread.Tasks, rondo.TaskStats{Partitions: []rondo.PartitionStats{{Topic: topic, Partition: p}}})
	}
	out := rondo.Stats{Threads: []rondo.ThreadStats{thread}}
	for _, at := range s.fenced {
		out.Evictions = append(out.Evictions, rondo.Eviction{At: at, Cause: cause.PollClock})
	}
	out.Counts.CommitErrors = int64(len(s.fenced))
	return out
}

// launch starts the process of a member; it waits for its order.
func (t *trial) launch(ctx context.Context, m *instance) (*jvm, error) {
	dir := filepath.Join(t.scratch, fmt.Sprintf("m%d", m.index))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a directory for the state: %w", err)
	}
	logging := filepath.Join(dir, "log4j2.properties")
	if err := os.WriteFile(logging, []byte(javaLog), 0o644); err != nil {
		return nil, fmt.Errorf("write %s: %w", logging, err)
	}
	timeout := int64(0)
	if t.s.CallTimeout > 0 {
		timeout = t.s.CallTimeout.Milliseconds()
	}
	args := []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.configurationFile=" + logging, "-cp", t.java.path,
		"peers.LabStreams", t.service.url + "/" + strconv.Itoa(m.index), t.in, t.out, fmt.Sprint(timeout)}
	j := &jvm{cmd: exec.CommandContext(ctx, "java", append(args, t.streamsConfig(m, dir)...)...), ready: make(chan struct{}), ended: make(chan struct{})}
	orders, err := j.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a JVM: %w", err)
	}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a JVM: %w", err)
	}
	errs, err := j.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start a JVM: %w", err)
	}
	if err := j.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a JVM: %w", err)
	}
	j.orders = orders
	go j.follow(out, errs)
	return j, nil
}

// streamsConfig is the scenario as Kafka Streams is told it. What is not here
// has the default of Kafka Streams.
func (t *trial) streamsConfig(m *instance, dir string) []string {
	ms := func(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
	set := t.s.Settings.WithDefaults()
	session, beat := t.clocks()
	out := []string{
		"bootstrap.servers=" + t.cluster.bootstrap, "application.id=" + t.group, "client.id=" + fmt.Sprintf("m%d", m.index),
		"state.dir=" + dir, "num.stream.threads=1", "producer.linger.ms=0",
		"commit.interval.ms=" + ms(set.CommitInterval), "poll.ms=" + ms(set.PollTimeout),
		"buffered.records.per.partition=" + strconv.Itoa(set.BufferedRecords),
		"main.consumer.max.poll.interval.ms=" + ms(set.MaxPollInterval),
		"main.consumer.max.poll.records=" + strconv.Itoa(set.MaxPollRecords),
		"main.consumer.session.timeout.ms=" + ms(session), "main.consumer.heartbeat.interval.ms=" + ms(beat),
		"main.consumer.auto.offset.reset=earliest",
	}
	if t.s.Exactly {
		out = append(out, "processing.guarantee=exactly_once_v2", "producer.transaction.timeout.ms="+ms(cmp.Or(t.s.Txn, 10*time.Second)))
	}
	if id := t.s.Threads[m.index]; id != "" {
		out = append(out, "main.consumer.group.instance.id="+id)
	}
	return out
}

// follow reads what a process says until it is gone.
func (j *jvm) follow(out, errs io.Reader) {
	defer close(j.ended)
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(errs, 4<<10)) // a pipe that breaks is the end of it
		io.Copy(io.Discard, errs)
		said <- string(text)
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() == "ready" {
			close(j.ready)
			continue
		}
		j.mu.Lock()
		j.seen.hear(lines.Text())
		j.mu.Unlock()
	}
	text := <-said
	j.mu.Lock()
	j.said = text
	j.mu.Unlock()
	j.cmd.Wait() // killed, as a rule; what it said tells more than its status
}

// order is one line for the process: start, or close.
func (j *jvm) order(word string) error {
	if _, err := io.WriteString(j.orders, word+"\n"); err != nil {
		return fmt.Errorf("%s a JVM: %w", word, err)
	}
	return nil
}

func (j *jvm) kill() {
	j.cmd.Process.Kill() // it may be gone already
	<-j.ended
}

// awaitReady waits until a process can be started.
func (j *jvm) awaitReady(ctx context.Context) error {
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	select {
	case <-j.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-j.ended:
		return fmt.Errorf("a JVM ended before its start: %s", strings.TrimSpace(j.said))
	case <-patience.C:
		return errors.New("a JVM was not ready within a minute")
	}
}

// driveJVM is the life of one member on Kafka Streams.
func (t *trial) driveJVM(ctx context.Context, m *instance) {
	if !m.early {
		<-t.ready
		if !sleepUntil(ctx, t.began.Add(m.set.Start)) {
			return
		}
	}
	if err := m.jvm.order("start"); err != nil {
		m.fail(err)
		return
	}
	<-t.ready
	closing := m.set.Close > 0
	if closing && sleepUntil(ctx, t.began.Add(m.set.Close)) {
		if err := m.jvm.order("close"); err != nil {
			m.fail(err)
		}
	}
	if m.set.Kill > 0 && sleepUntil(ctx, t.began.Add(m.set.Kill)) {
		m.jvm.kill()
		return
	}
	select {
	case <-ctx.Done():
	case <-m.jvm.ended:
		if !closing && ctx.Err() == nil {
			m.fail(fmt.Errorf("the JVM ended: %s", strings.TrimSpace(m.jvm.said)))
		}
	}
}

// openJVMs launches the processes of all members.
func (t *trial) openJVMs(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "rondo-lab-")
	if err != nil {
		return fmt.Errorf("make a directory for states: %w", err)
	}
	t.scratch = dir
	for _, m := range t.members {
		if m.jvm, err = t.launch(ctx, m); err != nil {
			return err
		}
	}
	for _, m := range t.members {
		if err := m.jvm.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// closeJVMs ends what is left of them.
func (t *trial) closeJVMs() error {
	for _, m := range t.members {
		if m.jvm != nil {
			m.jvm.kill()
		}
	}
	if t.scratch == "" {
		return nil
	}
	return os.RemoveAll(t.scratch)
}

// awaitCheck waits until the commit clock of the first member has run out once
// more: the clock of the run begins with it, as it does in the model.
func (t *trial) awaitCheck(ctx context.Context) {
	checks := func() int {
		j := t.members[0].jvm
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.seen.checks
	}
	limit := time.Now().Add(2*t.s.Settings.WithDefaults().CommitInterval + time.Second)
	for before := checks(); checks() == before && time.Now().Before(limit) && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
}

// streamsFacts are the evictions as the members saw them: their poll clocks.
func (t *trial) streamsFacts(f *Facts, r real) {
	f.Evicted = nil
	for _, m := range t.members {
		m.jvm.mu.Lock()
		for _, at := range m.jvm.seen.expired {
			if at := r.at(at); at >= 0 && at <= f.Length {
				f.Evicted = append(f.Evicted, at)
			}
		}
		m.jvm.mu.Unlock()
	}
	slices.Sort(f.Evicted)
	if only := t.members[0].jvm; len(t.members) == 1 {
		only.mu.Lock()
		f.Windows = slices.Clone(only.seen.windows)
		only.mu.Unlock()
	}
}

// replay predicts a run of Kafka Streams again, with the hand-overs that it
// had: which tasks were back for which poll is a race between two threads, and
// the model takes its outcome from outside. Everything else is predicted.
func (s *Scenario) replay(ran *Facts) *Facts {
	again := *s
	again.HandOvers = nil
	for _, polls := range ran.Windows {
		h := sim.HandOver{}
		seen := 0
		for _, p := range polls {
			seen += len(p)
		}
		if len(polls) > 1 || seen < s.Partitions {
			h.Ready = polls
		}
		again.HandOvers = append(again.HandOvers, h)
	}
	f := Predict(&again, sim.Streams42, ran.Scale)
	f.Column = ColumnReplayed
	return f
}
