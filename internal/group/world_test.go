package group

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// world is everything around a shard in a transcript: the time, the log, the
// clients with the member ids they were given, and the paper on which what
// happens is drawn.
type world struct {
	s       *Shard
	cfg     Config
	start   time.Time
	now     time.Time
	durable []Record // the log
	printed int      // of durable
	hold    bool     // appends wait
	flight  []Output // appends that wait, in order

	streams streamsWorld
	clients map[string]*client // by name
	asked   map[uint64]ask     // by token
	token   uint64
	aliases map[string]string // member id -> "a1"
	counts  map[string]int
	paper   bytes.Buffer
}

// client is one that a transcript calls by name.
type client struct {
	name       string
	id         string // member id
	instance   *string
	generation int32
	protocol   string
	offers     []kmsg.JoinGroupRequestProtocol
	session    time.Duration
	rebalance  time.Duration
}

// ask is a request that has not been answered.
type ask struct {
	who  string
	what string
	then func(kmsg.Response)
}

func newWorld(cfg Config) *world {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := &world{
		cfg: cfg, start: start, now: start,
		clients: map[string]*client{}, asked: map[uint64]ask{}, aliases: map[string]string{}, counts: map[string]int{},
	}
	w.s = New(cfg, rand.New(rand.NewPCG(1, 2)))
	w.step(Loaded{})
	return w
}

func (w *world) client(name string) *client {
	c := w.clients[name]
	if c == nil {
		c = &client{name: name, session: 45 * time.Second, rebalance: 5 * time.Minute}
		w.clients[name] = c
	}
	return c
}

// draw adds a line to the timeline.
func (w *world) draw(who, format string, args ...any) {
	line := w.alias(fmt.Sprintf(format, args...))
	fmt.Fprintf(&w.paper, "%8s  %-2s %s\n", w.now.Sub(w.start), who, line)
}

// alias replaces member ids by short names: the first id of client a is a1.
func (w *world) alias(text string) string {
	for id, name := range w.aliases {
		if len(id) == 22 { // of a classic member in a consumer group
			text = strings.ReplaceAll(text, id, name)
		}
	}
	return memberIDs.ReplaceAllStringFunc(text, func(id string) string {
		w.learn(id, "")
		return w.aliases[id]
	})
}

var memberIDs = regexp.MustCompile(`[\w.]+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// learn names a member id after its client: the one that got it, or the one
// whose client id or instance id it begins with.
func (w *world) learn(id, name string) {
	if id == "" || w.aliases[id] != "" {
		return
	}
	prefix := id[:max(len(id)-37, 0)]
	for _, c := range w.clients {
		if name == "" && (c.name == prefix || c.instance != nil && *c.instance == prefix) {
			name = c.name
		}
	}
	w.counts[name]++
	w.aliases[id] = fmt.Sprintf("%s%d", name, w.counts[name])
}

// request sends one request on behalf of a client.
func (w *world) request(who, what string, req kmsg.Request, then func(kmsg.Response)) {
	w.token++
	w.asked[w.token] = ask{who, what, then}
	w.step(Request{Token: w.token, ClientID: who, Host: "/10.0.0.1", Req: req})
}

// step feeds the shard and carries out what it says.
func (w *world) step(in Input) {
	w.carry(w.s.Step(w.now, in))
}

func (w *world) carry(out Output) {
	for _, r := range out.Replies {
		a, ok := w.asked[r.Token]
		if !ok {
			w.draw("??", "answered twice: token %d with %T", r.Token, r.Resp)
			continue
		}
		delete(w.asked, r.Token)
		a.then(r.Resp)
	}
	for _, e := range out.Events {
		w.draw("**", "%s", tell(e))
	}
	if out.Seq == 0 {
		return
	}
	w.flight = append(w.flight, out)
	if !w.hold {
		w.land(0)
	}
}

// land reports what became of the appends in flight.
func (w *world) land(code int16) {
	flight := w.flight
	w.flight = nil
	if code != 0 && len(flight) > 0 {
		w.step(Appended{Seq: flight[0].Seq, Code: code})
		return
	}
	for _, out := range flight {
		w.durable = append(w.durable, out.Records...)
		w.step(Appended{Seq: out.Seq})
	}
}

// advance lets the time pass, deadline by deadline.
func (w *world) advance(d time.Duration) {
	end := w.now.Add(d)
	for range 100000 {
		at, ok := w.s.Next()
		if !ok || at.After(end) {
			break
		}
		if at.After(w.now) {
			w.now = at
		}
		w.step(Tick{})
	}
	w.now = end
}

// restart throws the shard away and makes a new one from the log.
func (w *world) restart() {
	w.flight, w.asked = nil, map[uint64]ask{}
	w.s = New(w.cfg, rand.New(rand.NewPCG(3, 4)))
	w.replay()
	w.step(Loaded{})
}

// lastCurrent finds the last record of what a member of group g has.
func (w *world) lastCurrent(member string) int {
	for i, r := range slices.Backward(w.durable) {
		for _, kind := range []int16{keyConsumerCurrent, keyStreamsCurrent} {
			if bytes.Equal(r.Key, coordinatorKey(kind, "g", member)) {
				return i
			}
		}
	}
	panic("no record of what " + member + " has")
}

// rewriteState changes the state of a member in the log to one that this version may
// not know.
func (w *world) rewriteState(member string, state byte) {
	w.durable[w.lastCurrent(member)].Value[2+4+4] = state // after the version and two epochs
	w.draw("--", "the log says that %s is in state %d", member, state)
}

// moveLast puts the last record of what a member has to the end of the log.
func (w *world) moveLast(member string) {
	i := w.lastCurrent(member)
	r := w.durable[i]
	w.draw("--", "%d records later the log says that %s", len(w.durable)-1-i, w.record(r))
	w.durable = append(slices.Delete(w.durable, i, i+1), r)
}

func (w *world) replay() {
	for _, r := range w.durable {
		if err := w.s.Apply(r); err != nil {
			w.draw("!!", "%v", err)
		}
	}
}

// tell is an event as a transcript shows it.
func tell(e cause.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d -> %d: %s", e.From, e.To, e.Cause)
	if e.Confidence == cause.Inferred {
		b.WriteString(" (inferred)")
	}
	name := func(m cause.Member) string {
		if m.Instance != "" {
			return m.ID + "/" + m.Instance
		}
		return m.ID
	}
	if e.Trigger.ID != "" {
		fmt.Fprintf(&b, " by %s", name(e.Trigger))
	}
	for _, m := range e.Casualties {
		fmt.Fprintf(&b, ", lost %s", name(m))
	}
	for _, m := range e.HeldOpen {
		fmt.Fprintf(&b, ", held open by %s", name(m))
	}
	fmt.Fprintf(&b, "; %s; took %s, members %d", e.Clocks, e.Took, e.Members)
	if e.Reason != "" {
		fmt.Fprintf(&b, "; %q", e.Reason)
	}
	return b.String()
}

// errorName is an error as clients know it.
func errorName(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return "ok"
}
