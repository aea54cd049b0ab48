package member

import (
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/group"
)

// world is a group in virtual time: member cores, each with a small
// application and a link, around one coordinator core. Everything happens in
// one order, so a seed or a script always gives the same story.
type world struct {
	now, start time.Time
	rng        *rand.Rand
	latency    time.Duration
	todo       todo
	order      int

	shard   *group.Shard
	down    bool
	durable []group.Record
	token   uint64
	asked   map[uint64]func(kmsg.Response)
	topics  map[string]int32
	config  group.Config

	apps  map[string]*application
	names []string
	alias map[string]string // member id to "a1"

	paper  strings.Builder
	quiet  bool
	inPoll bool                      // newcomers behave as the Java client
	holder map[TopicPartition]string // who works on a partition, in truth
	faults []string                  // broken promises
	ended  []cause.Event
}

// application is what runs around a member.
type application struct {
	name    string
	core    *Core
	cfg     CoreConfig
	cut     bool
	gone    bool
	ids     int
	drain   time.Duration
	works   []openWork
	owned   []TopicPartition
	flights map[uint64]bool // still wanted
	thread  *thread
	drawn   string // the last line about it, to leave out repeated beats
	moved   int    // partitions ever revoked
	lost    int    // losses so far
}

type openWork struct {
	Work
	began time.Time
}

type event struct {
	at    time.Time
	order int
	do    func()
}

type todo []event

func (t todo) Len() int { return len(t) }
func (t todo) Less(i, j int) bool {
	return t[i].at.Before(t[j].at) || t[i].at.Equal(t[j].at) && t[i].order < t[j].order
}
func (t todo) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *todo) Push(x any)   { *t = append(*t, x.(event)) }
func (t *todo) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}

func newWorld(seed uint64, cfg group.Config) *world {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := &world{
		now: start, start: start, rng: rand.New(rand.NewPCG(seed, 1)), latency: 5 * time.Millisecond, config: cfg,
		asked: map[uint64]func(kmsg.Response){}, topics: map[string]int32{}, apps: map[string]*application{},
		alias: map[string]string{}, holder: map[TopicPartition]string{},
	}
	w.open()
	return w
}

// open starts a coordinator on what is durable.
func (w *world) open() {
	w.shard = group.New(w.config, rand.New(rand.NewPCG(w.rng.Uint64(), 2)))
	for _, r := range w.durable {
		if err := w.shard.Apply(r); err != nil {
			panic(err)
		}
	}
	w.down = false
	w.carry(w.shard.Step(w.now, group.Loaded{}))
}

// move takes the coordinator away and starts it anew from its log.
func (w *world) move() {
	w.carry(w.shard.Step(w.now, group.Unload{}))
	w.open()
}

func (w *world) kill() {
	w.down = true
	broken := w.asked
	w.asked = map[uint64]func(kmsg.Response){}
	for _, token := range slices.Sorted(maps.Keys(broken)) {
		broken[token](nil) // connections break
	}
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.todo, event{w.now.Add(d), w.order, do})
}

func (w *world) draw(who, format string, args ...any) {
	if w.quiet {
		return
	}
	text := fmt.Sprintf(format, args...)
	ids := sortedKeys(w.alias)
	for _, id := range ids {
		text = strings.ReplaceAll(text, id, w.alias[id])
	}
	if a := w.apps[who]; a != nil {
		if a.drawn == text && strings.HasPrefix(text, "<- ") {
			return
		}
		a.drawn = text
	}
	fmt.Fprintf(&w.paper, "%9s  %-2s %s\n", w.now.Sub(w.start).Round(time.Millisecond), who, text)
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf("%s: %s", w.now.Sub(w.start), fmt.Sprintf(format, args...)))
}

// carry does what the coordinator says; its log is always willing.
func (w *world) carry(out group.Output) {
	for {
		for _, r := range out.Replies {
			if then := w.asked[r.Token]; then != nil {
				delete(w.asked, r.Token)
				then(r.Resp)
			}
		}
		for _, e := range out.Events {
			w.ended = append(w.ended, e)
			if e.To != e.From {
				w.draw("**", "generation %d: %s, trigger %s, reason %q", e.To, e.Cause, short(e.Trigger.ID), e.Reason)
			}
		}
		if out.Seq == 0 {
			return
		}
		w.durable = append(w.durable, out.Records...)
		out = w.shard.Step(w.now, group.Appended{Seq: out.Seq})
	}
}

func short(id string) string {
	if id == "" {
		return "nobody"
	}
	return id
}

// advance lets the time pass, deadline by deadline.
func (w *world) advance(d time.Duration) {
	end := w.now.Add(d)
	for {
		next, do := end, func() {}
		found := false
		at := func(t time.Time, f func()) {
			if t.Before(w.now) {
				t = w.now
			}
			if !t.After(end) && (!found || t.Before(next)) {
				next, do, found = t, f, true
			}
		}
		if len(w.todo) > 0 {
			at(w.todo[0].at, func() { heap.Pop(&w.todo).(event).do() })
		}
		if t, ok := w.shard.Next(); ok && !w.down {
			at(t, func() { w.carry(w.shard.Step(w.now, group.Tick{})) })
		}
		for _, name := range w.names {
			a := w.apps[name]
			if a.gone {
				continue
			}
			if len(a.works) > 0 && !a.cfg.InPoll {
				at(a.works[0].began.Add(a.cfg.MaxPoll), func() { w.expire(a) })
			}
			if t, ok := a.core.Next(); ok {
				at(t, func() { w.step(a, Tick{Oldest: a.oldest()}) })
			}
		}
		w.now = next
		if !found {
			return
		}
		do()
	}
}

func (a *application) oldest() Work {
	if len(a.works) == 0 {
		return Work{}
	}
	return a.works[0].Work
}

func (w *world) expire(a *application) {
	work := a.works[0]
	a.works = a.works[1:]
	w.draw(a.name, "context of %q is cut", work.Work)
	w.step(a, Expired{Work: work.Work, Age: w.now.Sub(work.began)})
}

func (w *world) defaults() CoreConfig {
	return CoreConfig{
		Group: "g", Topics: []string{"in"}, Session: 45 * time.Second, Heartbeat: 3 * time.Second,
		MaxPoll: 5 * time.Minute, MetadataMaxAge: 5 * time.Minute, Assignor: Sticky{},
	}
}

func (w *world) join(name string, cfg CoreConfig) *application {
	cfg.ClientID = name
	a := &application{name: name, cfg: cfg, core: NewCore(cfg, w.rng), flights: map[uint64]bool{}, drain: 200 * time.Millisecond}
	if old := w.apps[name]; old != nil {
		a.ids = old.ids
	} else {
		w.names = append(w.names, name)
	}
	w.apps[name] = a
	w.step(a, Started{})
	return a
}

// crash ends an application without a word.
func (w *world) crash(a *application) {
	w.release(a, a.owned)
	a.gone = true
}

func (w *world) step(a *application, in In) {
	if a.gone {
		return
	}
	out := a.core.Step(w.now, in)
	for _, seq := range out.Cancels {
		delete(a.flights, seq)
	}
	for _, s := range out.Sends {
		a.flights[s.Seq] = true
		w.send(a, s)
	}
	for _, e := range out.Events {
		w.told(a, e)
	}
	if a.thread != nil {
		a.thread.stepped(w, a)
	}
}

// send carries a request over the member's link.
func (w *world) send(a *application, s Send) {
	w.drawSend(a, s.Req)
	fail := func(after time.Duration) {
		w.after(after, func() { w.reply(a, s.Seq, nil, errors.New("connection lost")) })
	}
	if a.cut {
		fail(10 * time.Second)
		return
	}
	w.after(w.latency, func() {
		if w.down || a.cut {
			fail(w.latency)
			return
		}
		w.arrive(a, s)
	})
}

func (w *world) arrive(a *application, s Send) {
	back := func(resp kmsg.Response) {
		w.learn(a, resp)
		w.after(w.latency, func() {
			if a.cut {
				w.after(10*time.Second, func() { w.reply(a, s.Seq, nil, errors.New("connection lost")) })
				return
			}
			if resp == nil {
				w.reply(a, s.Seq, nil, errors.New("connection lost"))
				return
			}
			w.reply(a, s.Seq, resp, nil)
		})
	}
	if m, ok := s.Req.(*kmsg.MetadataRequest); ok {
		back(w.metadata(m))
		return
	}
	w.token++
	w.asked[w.token] = back
	s.Req.SetVersion(s.Req.MaxVersion())
	w.carry(w.shard.Step(w.now, group.Request{Token: w.token, ClientID: a.name, Host: "/10.0.0.1", Req: s.Req}))
}

func (w *world) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	for _, t := range req.Topics {
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic = t.Topic
		n, ok := w.topics[*t.Topic]
		if !ok {
			rt.ErrorCode = kerr.UnknownTopicOrPartition.Code
		}
		for p := range n {
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Partition = p
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (w *world) learn(a *application, resp kmsg.Response) {
	if j, ok := resp.(*kmsg.JoinGroupResponse); ok && j.MemberID != "" && w.alias[j.MemberID] == "" {
		a.ids++
		w.alias[j.MemberID] = fmt.Sprintf("%s%d", a.name, a.ids)
	}
}

func (w *world) reply(a *application, seq uint64, resp kmsg.Response, err error) {
	if !a.flights[seq] {
		return
	}
	delete(a.flights, seq)
	w.drawReply(a, resp, err)
	w.step(a, Replied{Seq: seq, Resp: resp, Err: err})
}

func (w *world) drawSend(a *application, req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.JoinGroupRequest:
		w.draw(a.name, "-> join as %q: %s", r.MemberID, *r.Reason)
	case *kmsg.LeaveGroupRequest:
		w.draw(a.name, "-> leave: %s", *r.Members[0].Reason)
	}
}

func (w *world) drawReply(a *application, resp kmsg.Response, err error) {
	var code int16
	var what string
	switch r := resp.(type) {
	case nil:
		w.draw(a.name, "<- %v", err)
		return
	case *kmsg.JoinGroupResponse:
		what, code = "join", r.ErrorCode
	case *kmsg.SyncGroupResponse:
		what, code = "sync", r.ErrorCode
	case *kmsg.HeartbeatResponse:
		what, code = "beat", r.ErrorCode
	}
	if code != 0 && code != kerr.MemberIDRequired.Code {
		w.draw(a.name, "<- %s: %s", what, errorName(kerr.ErrorForCode(code)))
	}
}

// told is the application: it works on what it is given, and drains what it
// must give back.
func (w *world) told(a *application, e Event) {
	switch e := e.(type) {
	case Assigned:
		w.draw(a.name, "generation %d: new %s, owns %s", e.Generation, list(e.Partitions), list(e.Owned))
		for _, p := range e.Partitions {
			if h, ok := w.holder[p]; ok && (w.apps[h].cfg.InPoll || a.cfg.InstanceID != "") {
				// Kafka promises no better: a thread that is not polling does not
				// know, and the older of two twins learns with its next beat.

				w.draw(a.name, "... while %s still works on %s", h, p)
			} else if ok {
				w.fault("%s is given to %s while %s holds it", p, a.name, h)
			}
			w.holder[p] = a.name
		}
		a.owned = sorted(append(a.owned, e.Partitions...))
		if !slices.Equal(a.owned, e.Owned) {
			w.fault("%s thinks that it owns %s, the event says %s", a.name, list(a.owned), list(e.Owned))
		}
	case Revoke:
		w.draw(a.name, "revoke %s", list(e.Partitions))
		a.moved += len(e.Partitions)
		if a.thread != nil {
			w.after(0, func() { // the thread commits and closes inside its poll
				w.release(a, e.Partitions)
				w.step(a, Drained{ID: e.id})
			})
			return
		}
		lost := a.lost
		w.after(a.drain, func() {
			if a.gone || a.lost > lost {
				return // what drained is lost; it may even be back
			}
			w.draw(a.name, "drained %s", list(e.Partitions))
			w.release(a, e.Partitions)
			w.step(a, Drained{ID: e.id})
		})
	case Lost:
		w.draw(a.name, "lost %s: %s", list(e.Partitions), firstWords(e.Cause))
		a.lost++
		w.release(a, e.Partitions)
	case Evicted:
		w.draw(a.name, "evicted by %q at age %s, time %d", e.Work, e.Age, e.Times)
	case Fatal:
		w.draw(a.name, "fatal: %v", e.Err)
	}
}

func firstWords(err error) string {
	text, _, _ := strings.Cut(err.Error(), ":")
	var answer *AnswerError
	if errors.As(err, &answer) {
		return answer.Error()
	}
	return text
}

// errorName is the protocol's name of an error, without its prose.
func errorName(err error) string {
	name, _, _ := strings.Cut(err.Error(), ":")
	return name
}

func (w *world) release(a *application, parts []TopicPartition) {
	for _, p := range parts {
		if w.holder[p] == a.name {
			delete(w.holder, p)
		}
	}
	a.owned = without(a.owned, parts)
}

// list writes partitions shortly: "in-0 in-3", or "nothing".
func list(parts []TopicPartition) string {
	if len(parts) == 0 {
		return "nothing"
	}
	var out []string
	for _, p := range parts {
		out = append(out, p.String())
	}
	return strings.Join(out, " ")
}

// commit sends an offset commit under the current membership, as the shell
// would, and draws the answer.
func (w *world) commit(a *application, p TopicPartition, at int64, then func(error)) {
	ms := a.core.Membership()
	switch {
	case !ms.Held:
		w.draw(a.name, "commit %s@%d: fenced, nothing sent", p, at)
		then(ErrFenced)
		return
	case ms.Unsettled:
		w.draw(a.name, "commit %s@%d: rebalancing, nothing sent", p, at)
		then(ErrRebalancing)
		return
	}
	req := commitRequest("g", ms, map[TopicPartition]Offset{p: {At: at, LeaderEpoch: -1}})
	req.SetVersion(9)
	w.after(w.latency, func() {
		w.token++
		w.asked[w.token] = func(resp kmsg.Response) {
			if resp == nil {
				w.after(w.latency, func() { then(errors.New("connection lost")) })
				return
			}
			code, _ := worstCode(resp.(*kmsg.OffsetCommitResponse))
			answer := "ok"
			if code != 0 {
				answer = errorName(kerr.ErrorForCode(code))
			}
			w.after(w.latency, func() {
				w.draw(a.name, "commit %s@%d: %s", p, at, answer)
				w.step(a, Refused{Code: code, MemberID: ms.MemberID, Generation: ms.Generation})
				then(kerr.ErrorForCode(code))
			})
		}
		w.carry(w.shard.Step(w.now, group.Request{Token: w.token, ClientID: a.name, Host: "/10.0.0.1", Req: req}))
	})
}
