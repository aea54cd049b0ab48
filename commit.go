package rondo

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/member"
)

// commitPoint is what one commit says of one partition.
type commitPoint struct {
	task  *task
	part  *inputPartition
	below int64 // records below it
	at    int64
	note  string
}

// collect takes the lowest unfinished offset of every partition that has moved
// since its last commit, or whose note has changed.
func (th *thread) collect() (map[member.TopicPartition]member.Offset, []commitPoint) {
	offsets := map[member.TopicPartition]member.Offset{}
	var points []commitPoint
	for _, t := range th.snapshot() {
		if t.fenced.Load() {
			continue
		}
		t.mu.Lock()
		for _, p := range t.parts {
			at, epoch := p.offsets.Lowest()
			below, note := p.offsets.Passed(), t.note(p, at)
			if below > p.covered || note != p.noted {
				offsets[p.at] = member.Offset{At: at, LeaderEpoch: epoch, Metadata: note}
				points = append(points, commitPoint{t, p, below, at, note})
			}
		}
		t.mu.Unlock()
	}
	return offsets, points
}

// commitTimeout bounds one commit. A commit that gets no answer is repeated
// with what is finished then.
const commitTimeout = 30 * time.Second

// commit carries out the loop's Commit beside everything else.
func (th *thread) commit() {
	if th.pending > 0 {
		th.again = true
		return
	}
	th.startCommit(func(err error) { th.step(loop.CommitDone{Err: err != nil}) })
}

// commitIfAsked commits for user code, unless a commit is under way.
func (th *thread) commitIfAsked() {
	if !th.asked || th.pending > 0 {
		return
	}
	th.asked = false
	th.startCommit(func(error) {})
}

func (th *thread) startCommit(then func(error)) {
	offsets, points := th.collect()
	th.pending++
	finish := func(err error) {
		th.pending--
		th.committed(points, err)
		then(err)
		th.part()
		if th.again {
			th.again = false
			th.commit()
		}
		th.commitIfAsked()
	}
	if len(offsets) == 0 {
		th.box.put(func() { finish(nil) })
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(th.ctx, commitTimeout)
		defer cancel()
		err := th.member.Commit(ctx, offsets)
		th.box.put(func() { finish(err) })
	}()
}

// farewell commits what is finished when the poll clock has fired for w, while
// the lease still stands: what is younger than the last commit would be done
// again otherwise. The commit carries the strike of w. It answers when the
// commit has, or ctx ends: the member does not wait for a cluster that is slow.
func (th *thread) farewell(ctx context.Context, w member.Work) {
	done := make(chan struct{})
	th.box.put(func() {
		th.hold(w)
		th.parting = append(th.parting, func() {
			th.startCommit(func(error) { close(done) })
		})
		th.part()
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// part begins the commit before the end of a lease, unless one is under way.
func (th *thread) part() {
	if th.pending > 0 || len(th.parting) == 0 {
		return
	}
	next := th.parting[0]
	th.parting = th.parting[1:]
	next()
}

// committed notes the outcome of a commit.
func (th *thread) committed(points []commitPoint, err error) {
	counts := &th.app.counts
	if err != nil {
		counts.commitErrors.Add(1)
		th.log.Warn("commit", "partitions", len(points), "error", err)
		if errors.Is(err, kerr.OffsetMetadataTooLarge) && !th.app.noNotes.Swap(true) {
			th.log.Warn("commits carry no notes from here on: a record that holds the poll clock may cost every instance a lease, once each", "hint", "raise offset.metadata.max.bytes of the cluster to Kafka's 4096")
		}
		return
	}
	if len(points) == 0 {
		return
	}
	counts.commits.Add(1)
	for _, c := range points {
		c.task.mu.Lock()
		counts.committed.Add(c.below - c.part.covered)
		c.part.covered, c.part.committed, c.part.noted = c.below, c.at, c.note
		c.task.mu.Unlock()
	}
	th.mu.Lock()
	th.lastCommit = time.Now()
	th.mu.Unlock()
}

// commitNow commits and waits: for Streams42 and for the end of a thread.
func (th *thread) commitNow(ctx context.Context) (tasks int, err error) {
	offsets, points := th.collect()
	if len(offsets) == 0 {
		return 0, nil
	}
	err = th.member.Commit(ctx, offsets)
	th.committed(points, err)
	seen := map[*task]bool{}
	for _, c := range points {
		seen[c.task] = true
	}
	return len(seen), err
}
