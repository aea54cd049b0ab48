package loop

import (
	"fmt"
	"time"
)

// Kind says what an Act asks for.
type Kind int8

// The acts of Streams42 are Poll, Process, Punctuate, Commit and Fence; those
// of PerCall are Burst, Commit, Pause, Resume, Release and Stop.
const (
	// Poll: pause and resume the partitions of Act.Pause and Act.Resume, poll
	// for at most Act.Timeout, answer Polled. The poll clock is reset by it.
	Poll Kind = iota + 1
	// Process: run up to Act.Max records of Act.Task, answer Processed.
	Process
	// Punctuate: run the punctuations that are due, answer Punctuated.
	Punctuate
	// Commit: commit what is finished. Streams42 waits for Committed; PerCall
	// goes on and gets CommitDone.
	Commit
	// Fence: close all tasks without a commit, unsubscribe, subscribe, answer
	// Fenced.
	Fence
	// Burst: run records of Act.Task until its queue is empty, its calls in
	// flight are at their limit, or Act.Until has come; look at the clock
	// after each record. Answer BurstEnded.
	Burst
	// Pause: fetch no more for Act.Task.
	Pause
	// Resume: fetch for Act.Task again.
	Resume
	// Release: the task may go. With Act.Abandon its calls in flight are
	// cancelled and their results thrown away and counted.
	Release
	// Stop: all lanes are released after Stopping; leave the group.
	Stop
)

// String names the act in one word.
func (k Kind) String() string {
	switch k {
	case Poll:
		return "poll"
	case Process:
		return "process"
	case Punctuate:
		return "punctuate"
	case Commit:
		return "commit"
	case Fence:
		return "fence"
	case Burst:
		return "burst"
	case Pause:
		return "pause"
	case Resume:
		return "resume"
	case Release:
		return "release"
	case Stop:
		return "stop"
	}
	return fmt.Sprintf("kind(%d)", int8(k))
}

// Act is what the shell has to do. Only the fields that its Kind names are
// set.
type Act struct {
	Kind    Kind
	Task    TaskID        // Process, Burst, Pause, Resume, Release
	Max     int           // Process: at most so many records
	Pass    int           // Process: the number of the pass, from 1
	Timeout time.Duration // Poll
	Until   time.Time     // Burst
	Abandon bool          // Release
	Pause   []TaskID      // Poll: queues over buffered.records.per.partition
	Resume  []TaskID      // Poll: queues that came down to it
}

// String is the act as transcripts show it.
func (a Act) String() string {
	switch a.Kind {
	case Poll:
		s := fmt.Sprintf("poll %s", a.Timeout)
		if len(a.Pause) > 0 {
			s += fmt.Sprintf(" pause=%v", a.Pause)
		}
		if len(a.Resume) > 0 {
			s += fmt.Sprintf(" resume=%v", a.Resume)
		}
		return s
	case Process:
		return fmt.Sprintf("process %s max=%d", a.Task, a.Max)
	case Burst, Pause, Resume:
		return fmt.Sprintf("%s %s", a.Kind, a.Task)
	case Release:
		if a.Abandon {
			return fmt.Sprintf("release %s abandon", a.Task)
		}
		return fmt.Sprintf("release %s", a.Task)
	}
	return a.Kind.String()
}
