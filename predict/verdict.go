package predict

import (
	"fmt"
	"time"
)

// Verdict is what a prediction comes to. A larger one is worse.
type Verdict int8

// The verdicts.
const (
	Safe   Verdict = iota
	Tight          // lost if calls take a tenth longer, or in a race that a busy machine loses
	Unsafe         // lost in a run that the settings allow
)

// String is the verdict in one word.
func (v Verdict) String() string {
	switch v {
	case Safe:
		return "safe"
	case Tight:
		return "tight"
	}
	return "unsafe"
}

// MarshalText is the verdict in one word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Bound is one rule applied to settings.
type Bound struct {
	Rule    string
	Verdict Verdict
	Worst   time.Duration // what the settings can lead to
	Limit   time.Duration // what it must stay below; 0: nothing limits it
	Unknown bool          // Worst has no bound
	Note    string

	handOver int  // tasks in the first poll of the run that shows it
	queued   int  // records waiting in that run, when not Settings.Queued
	timeouts bool // that run's calls take as long as their time-outs
}

// Margin is how far the worst is below the limit; negative when it is above.
func (b Bound) Margin() time.Duration { return b.Limit - b.Worst }

// Judgement is the outcome of all rules.
type Judgement struct {
	Verdict Verdict // the worst of the bounds
	Bounds  []Bound
	Round   time.Duration // one record of each task of a thread, at the slowest
	Band    bool          // Kafka Streams: the round is between a third and a half of max.poll.interval.ms
	MaxN    int           // the largest N at a poll in the run of the poll-clock rule
	Pass    time.Duration // the longest pass in it

	steps int // what the walks took
}

// walk plays a thread and counts what that took.
func (j *Judgement) walk(s *Settings, handOver int, until time.Duration) outcome {
	out := walk(s, handOver, until)
	j.steps += out.steps
	return out
}

// Of finds the bound of a rule; ok tells whether the rule applies.
func (j *Judgement) Of(rule string) (b Bound, ok bool) {
	for _, b := range j.Bounds {
		if b.Rule == rule {
			return b, true
		}
	}
	return Bound{}, false
}

func (j *Judgement) add(b Bound) {
	j.Bounds = append(j.Bounds, b)
	j.Verdict = max(j.Verdict, b.Verdict)
}

// near is tight when worst is within a tenth of the limit, unsafe when it is
// above.
func near(worst, limit time.Duration) Verdict {
	switch {
	case worst >= limit:
		return Unsafe
	case worst > limit/10*9:
		return Tight
	}
	return Safe
}

// Evaluate applies the rules, without advice and without a counter-example.
// The settings must have passed Check; zero fields have their defaults.
func Evaluate(s Settings) Judgement {
	deep := s.Queued == 0 && s.Arrival == 0
	s = s.complete()
	var j Judgement
	j.Round = s.Round()
	clocks := s.Kind.Clocks(s.Protocol)
	long := s.Latency.Worst() + s.Overhead
	switch {
	case s.Kind == Rondo:
		s.oneCall(&j)
		long = s.Drain
	case clocks.PollClock:
		long = s.thread(&j, deep)
	default:
		long *= time.Duration(s.inHand(s.PerThread()))
		s.noPollClock(&j, long, clocks)
	}
	s.always(&j, long, clocks)
	return j
}

// complete fills in what the rules need: defaults, and the time-outs as the
// latency when nothing else is known of it.
func (s Settings) complete() Settings {
	if s.Latency.Worst() == 0 {
		s.Latency = Always(s.Call.Worst())
	}
	return s.WithDefaults()
}

// oneCall is Rondo: the poll clock bounds one call.
func (s *Settings) oneCall(j *Judgement) {
	worst, note := s.Latency.Worst(), "the longest call"
	if w := s.Call.Worst(); w > 0 {
		worst, note = w, "the longest call, as its time-outs allow"
	}
	j.Pass = worst
	b := Bound{Rule: RulePollClock, Worst: worst, Limit: s.MaxPollInterval, Verdict: near(worst, s.MaxPollInterval), Note: note}
	if worst == s.MaxPollInterval {
		b.Verdict = Tight // a race between two timers
	}
	j.add(b)
}

// noPollClock is a client that never leaves by itself.
func (s *Settings) noPollClock(j *Judgement, batch time.Duration, c Clocks) {
	j.Pass = batch
	if !c.HeartbeatsApart {
		call := s.Latency.Worst() + s.Overhead
		b := Bound{Rule: RuleBetween, Worst: call, Limit: s.SessionTimeout, Verdict: near(call, s.SessionTimeout)}
		if b.Verdict == Safe && call+s.HeartbeatInterval >= s.SessionTimeout {
			b.Verdict = Tight
		}
		j.add(b)
	}
	note := "with a rebalance while a record is handled"
	if s.Kind == FranzGo {
		note = "with BlockRebalanceOnPoll, or an OnPartitionsRevoked that waits for the work in hand"
	}
	j.add(Bound{Rule: RuleRebalance, Worst: batch, Limit: s.MaxPollInterval, Verdict: near(batch, s.MaxPollInterval), Note: note})
}

// thread is the rules of a client with a poll clock that is restarted by
// polls. It returns the longest time between two polls while commits are held
// up.
func (s *Settings) thread(j *Judgement, deep bool) time.Duration {
	per, until := s.PerThread(), s.horizon()
	first := per
	if s.HandOver > 0 {
		first = s.HandOver
	}
	out := j.walk(s, first, until)
	j.MaxN, j.Pass = out.most, out.pass
	if s.Kind == KafkaStreams {
		j.Band = 3*j.Round >= s.MaxPollInterval && 2*j.Round < s.MaxPollInterval
	}
	poll := Bound{Rule: RulePollClock, Worst: out.gap, Limit: s.MaxPollInterval, handOver: first}
	switch {
	case out.evicted > 0:
		poll.Verdict = Unsafe
	case out.lost():
	case out.cut():
		poll.Verdict, poll.Note = Tight, "only the beginning was played: the settings make too long a run"
	case near(out.gap, s.MaxPollInterval) > Safe:
		poll.Verdict = Tight
	default:
		slower := *s
		slower.Latency = s.Latency.longer(10)
		if o := j.walk(&slower, first, until); o.evicted > 0 {
			poll.Verdict, poll.Note = Tight, "lost when calls take a tenth longer"
		}
	}
	j.add(poll)
	if s.ExactlyOnce {
		s.transaction(j, out, first)
	}
	if s.Kind == KafkaStreams && s.HandOver == 0 && per > 1 && !out.lost() {
		s.partial(j, until)
	}
	if s.Kind == KafkaStreams && deep && per > 1 && !out.lost() {
		s.backlog(j, until)
	}
	s.timeouts(j, first, until)
	return s.together(j, max(out.most, 1))
}

func (s *Settings) transaction(j *Judgement, out outcome, first int) {
	b := Bound{Rule: RuleTransaction, Worst: out.open, Limit: s.TransactionTimeout, handOver: first}
	switch {
	case out.aborted > 0 || out.open >= s.TransactionTimeout+abortEvery:
		b.Verdict = Unsafe
	case near(out.open, s.TransactionTimeout) > Safe:
		b.Verdict = Tight
	}
	j.add(b)
}

// starts are the numbers of tasks that the first poll is tried with.
func starts(tasks int) []int {
	var list []int
	for _, k := range []int{1, 2, tasks / 2, tasks - 1} {
		if k >= 1 && k < tasks && (len(list) == 0 || k > list[len(list)-1]) {
			list = append(list, k)
		}
	}
	return list
}

// partial tries every start.
func (s *Settings) partial(j *Judgement, until time.Duration) {
	b := Bound{Rule: RuleHandOver, Limit: s.MaxPollInterval}
	for _, k := range starts(s.PerThread()) {
		out := j.walk(s, k, until)
		if v := near(out.gap, s.MaxPollInterval); out.lost() {
			b.Verdict, b.Worst, b.handOver = Unsafe, out.gap, k
			break
		} else if out.gap > b.Worst {
			b.Worst, b.Verdict, b.handOver = out.gap, min(v, Tight), k
		}
	}
	j.add(b)
}

// backlog is a deep one, from which polls bring one task at a time.
func (s *Settings) backlog(j *Judgement, until time.Duration) {
	deep := *s
	deep.Queued = s.MaxPollRecords
	out := j.walk(&deep, s.PerThread(), until)
	b := Bound{Rule: RuleBacklog, Worst: out.gap, Limit: s.MaxPollInterval, queued: deep.Queued, handOver: s.PerThread()}
	if b.Verdict = min(near(out.gap, s.MaxPollInterval), Tight); out.lost() {
		b.Verdict = Unsafe
	}
	j.add(b)
}

// timeouts is a service that is down.
func (s *Settings) timeouts(j *Judgement, first int, until time.Duration) {
	worst := s.Call.Worst()
	if s.Call.Timeout == 0 || worst > 0 && worst <= s.Latency.Worst() {
		return
	}
	if worst == 0 {
		j.add(Bound{Rule: RuleNoTimeout, Unknown: true, Limit: s.MaxPollInterval, Verdict: Unsafe})
		return
	}
	down := *s
	down.Latency = Always(worst)
	out := j.walk(&down, first, until)
	b := Bound{Rule: RuleTimeouts, Worst: out.gap, Limit: s.MaxPollInterval, handOver: first, timeouts: true}
	switch {
	case out.lost():
		b.Verdict = Unsafe
	default:
		b.Verdict = min(near(out.gap, s.MaxPollInterval), Tight)
	}
	j.add(b)
}

// together is what other members can do to us. It returns the longest time
// between two polls while commits are held up.
func (s *Settings) together(j *Judgement, n int) time.Duration {
	gap := s.frozen(n)
	if s.Protocol != Classic {
		return gap
	}
	b := Bound{Rule: RuleSessionJoin, Worst: gap, Limit: s.SessionTimeout + pollTimeout, Verdict: near(gap, s.SessionTimeout+pollTimeout)}
	switch {
	case s.Kind == JavaConsumer || s.Kind == Librdkafka:
		b.Verdict = min(b.Verdict, Tight)
		b.Note = "with a cooperative assignor; an eager one has no work while it waits"
	case s.Threads == 1:
		b.Verdict = min(b.Verdict, Tight)
		b.Note = "alone only when the broker takes longer than poll.ms to answer; certain with two busy members"
	case b.Verdict == Unsafe && s.atLeast() < b.Limit:
		b.Verdict = Tight
		b.Note = "depends on the N that the thread has when the rebalance comes"
	}
	j.add(b)
	if s.Kind == KafkaStreams {
		b := Bound{Rule: RuleFrozen, Worst: gap, Limit: s.MaxPollInterval, Verdict: min(near(gap, s.MaxPollInterval), Tight)}
		if b.Verdict > Safe {
			b.Note = "when the assignment misses the poll in which it was asked for"
		}
		j.add(b)
	}
	return gap
}

// always is what every member is asked.
func (s *Settings) always(j *Judgement, long time.Duration, c Clocks) {
	heartbeat := Bound{Rule: RuleHeartbeat, Worst: s.HeartbeatInterval, Limit: s.SessionTimeout / 3}
	if heartbeat.Worst > heartbeat.Limit {
		heartbeat.Verdict = Tight
	}
	if s.Protocol != Classic {
		heartbeat.Note = fmt.Sprintf("both are configs of the group: %[1]s.heartbeat.interval.ms, %[1]s.session.timeout.ms", s.Protocol)
	}
	j.add(heartbeat)
	if s.Call.Timeout == NoTimeout {
		if _, ok := j.Of(RuleNoTimeout); !ok {
			j.add(Bound{Rule: RuleNoTimeout, Unknown: true, Limit: s.MaxPollInterval, Verdict: Unsafe, Note: c.Hung})
		}
	}
	b := Bound{Rule: RuleNewcomer, Worst: min(long, s.MaxPollInterval), Limit: s.MaxPollInterval}
	switch {
	case s.Kind == Rondo:
		b.Note = "drain.timeout.ms; calls that take longer are cut at a hand-over and made again"
	case c.JoinsApart:
		b.Note = "only for partitions that are ours"
	}
	j.add(b)
	if s.Static {
		worst := s.SessionTimeout
		if c.PollClock {
			worst += s.MaxPollInterval
		}
		j.add(Bound{Rule: RuleStatic, Worst: worst})
	}
}
