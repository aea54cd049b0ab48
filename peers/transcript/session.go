package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var errSkip = errors.New("skipped")

const (
	answerWait = 15 * time.Second       // how long a request without "->" waits
	slack      = 100 * time.Millisecond // tolerance of "after"
	headStart  = 200 * time.Millisecond // of a request with "->" over the next one
	prompt     = 30 * time.Millisecond
)

// A session plays one case.
type session struct {
	cf        *caseFile
	bootstrap string
	prefix    string
	conns     map[string]*conn
	calls     map[string]*call
	dumped    map[string]int64  // topic/partition -> next offset to dump
	defaults  map[string]string // API -> fields
	pr        printer
	num       numbering
	out       []string
}

func newSession(cf *caseFile, bootstrap string) *session {
	host, port, _ := net.SplitHostPort(bootstrap)
	nonce := make([]byte, 3)
	rand.Read(nonce)
	base := strings.TrimSuffix(filepath.Base(cf.path), ".txt")
	return &session{
		cf: cf, bootstrap: bootstrap, prefix: base + "-" + hex.EncodeToString(nonce) + "-",
		conns: map[string]*conn{}, calls: map[string]*call{}, dumped: map[string]int64{}, defaults: map[string]string{},
		pr: printer{host: host, port: port, names: map[string]string{}},
	}
}

func (s *session) close() {
	for _, c := range s.conns {
		c.nc.Close()
	}
}

func (s *session) play() ([][]string, error) {
	outputs := make([][]string, len(s.cf.blocks))
	for i, b := range s.cf.blocks {
		s.out = nil
		for _, cmd := range b.cmds {
			if err := s.do(cmd.text); err != nil {
				if err == errSkip {
					return nil, err
				}
				return nil, fmt.Errorf("%d: %w", cmd.line, err)
			}
		}
		for _, l := range s.out {
			outputs[i] = append(outputs[i], strings.Split(s.num.apply(l), "\n")...)
		}
	}
	return outputs, nil
}

func (s *session) printf(f string, a ...any) { s.out = append(s.out, fmt.Sprintf(f, a...)) }

var nameRE = regexp.MustCompile(`@@|\$\$|[@$][a-zA-Z][a-zA-Z0-9]*`)

// expand replaces @name (a name of this case) and $name (a captured value).
func (s *session) expand(t string) (string, error) {
	var err error
	t = nameRE.ReplaceAllStringFunc(t, func(m string) string {
		if m == "@@" || m == "$$" {
			return m[:1]
		}
		if m[0] == '@' {
			u := s.prefix + m[1:]
			s.pr.names[u] = m
			return u
		}
		for _, v := range s.pr.vars {
			if v.name == m[1:] {
				if v.val == nil {
					return "null"
				}
				return fmt.Sprint(v.val)
			}
		}
		if m == "$now" {
			return strconv.FormatInt(time.Now().UnixMilli(), 10)
		}
		err = fmt.Errorf("nothing captured as %s", m)
		return m
	})
	return t, err
}

var connCmd = regexp.MustCompile(`^([a-z][a-z0-9]*): *([A-Za-z]+)(?: v([0-9]+))?`)

func (s *session) do(text string) error {
	if m := connCmd.FindStringSubmatch(text); m != nil {
		return s.doConn(m[1], m[2], m[3], text[len(m[0]):])
	}
	w := strings.Fields(text)
	if w[0] == "defaults" && len(w) > 1 {
		s.defaults[w[1]] = text[strings.Index(text, w[1])+len(w[1]):]
		return nil
	}
	for i := range w {
		t, err := s.expand(w[i])
		if err != nil && w[0] != "topic" {
			return err
		}
		if err == nil {
			w[i] = t
		}
	}
	switch w[0] {
	case "sleep":
		d, err := time.ParseDuration(w[1])
		time.Sleep(d)
		return err
	case "await", "silent", "closed":
		return s.wait(w)
	case "topic":
		return s.createTopic(strings.Fields(text)[1], w)
	case "dump":
		return s.dump(w[1:])
	case "skip":
		out := s.out
		err := s.dump(w[1:])
		s.out = out
		return err
	case "restart":
		return s.restart(w[1:])
	}
	return fmt.Errorf("unknown command %q", w[0])
}

func (s *session) conn(name string) (*conn, error) {
	if c := s.conns[name]; c != nil {
		return c, nil
	}
	nc, err := net.DialTimeout("tcp", s.bootstrap, 5*time.Second)
	if err != nil {
		return nil, err
	}
	c := &conn{name: name, nc: nc, pending: map[int32]*call{}, closed: make(chan struct{})}
	s.conns[name] = c
	go c.read()
	return c, nil
}

// doConn handles "a: Api vN fields...", "a: raw bytes", "a: frame bytes" and "a: close".
func (s *session) doConn(name, api, ver, rest string) error {
	c, err := s.conn(name)
	if err != nil {
		return err
	}
	if api != "raw" && api != "frame" && c.next == 0 {
		// So that the broker has surely accepted the connection before the first request.
		k, err := c.send(schemas["ApiVersionsRequest"], "ApiVersions", 0, &node{kind: kStruct})
		if err != nil {
			return err
		}
		k.wait(answerWait)
	}
	p := &parser{s: rest, expand: s.expand}
	switch api {
	case "close":
		delete(s.conns, name)
		return c.nc.Close()
	case "raw", "frame":
		n, err := p.value()
		if err != nil {
			return err
		}
		b, err := n.bytes()
		if err != nil {
			return err
		}
		if api == "frame" {
			b = append(appendInt(nil, 4, int64(len(b))), b...)
		}
		_, err = c.nc.Write(b)
		return err
	}
	v, err := strconv.Atoi(ver)
	if err != nil {
		return fmt.Errorf("%s: version missing", api)
	}
	req := schemas[api+"Request"]
	if req == nil {
		return fmt.Errorf("no API %s", api)
	}
	fields := &node{kind: kStruct}
	if err := p.args(fields, 0); err != nil {
		return err
	}
	tail, err := parseTail(p)
	if err != nil {
		return err
	}
	if err := s.addDefaults(fields, req, v); err != nil {
		return err
	}
	deadline := time.Now().Add(tail.within)
	for {
		k, err := c.send(req, api, v, fields)
		if err != nil {
			return err
		}
		k.captures, k.only = tail.captures, tail.only
		if tail.name != "" {
			s.calls[tail.name] = k
			return s.letItArrive()
		}
		if k.noReply {
			return nil
		}
		k.wait(answerWait)
		lines := s.show(name, k)
		all := strings.Join(lines, "\n")
		again := tail.until != "" && !strings.Contains(all, tail.until) || tail.while != "" && strings.Contains(all, tail.while)
		if again && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		s.capture(k)
		s.out = append(s.out, strings.Join(s.show(name, k), "\n"))
		return nil
	}
}

// letItArrive gives a request that was sent without waiting a lead over what follows on other connections: a fixed
// time, and on a busy machine until the broker answers others promptly.
func (s *session) letItArrive() error {
	time.Sleep(headStart)
	for range 20 {
		start := time.Now()
		if _, err := s.ask("ApiVersions", 0, ""); err != nil {
			return err
		}
		if time.Since(start) < prompt {
			return nil
		}
	}
	return nil
}

// addDefaults fills in what "defaults API fields..." gave and the request did not, as far as its version has it.
func (s *session) addDefaults(fields *node, req *schema, v int) error {
	p := &parser{s: s.defaults[strings.TrimSuffix(req.Name, "Request")], expand: s.expand}
	d := &node{kind: kStruct}
	if err := p.args(d, 0); err != nil {
		return fmt.Errorf("defaults: %w", err)
	}
	for _, f := range d.fields {
		if x := findField(req.Fields, f.name); x != nil && inRange(x.Versions, v) && fields.field(f.name) == nil {
			fields.fields = append(fields.fields, f)
		}
	}
	return nil
}

// tail is what may follow the fields of a request.
type tail struct {
	name         string // -> name
	captures     []nodeField
	until, while string
	only         string // print only the lines with this text, and the first
	within       time.Duration
}

func parseTail(p *parser) (t tail, err error) {
	t.within = 10 * time.Second
	p.expand = func(t string) (string, error) { return t, nil } // what follows is matched against printed text
	for !p.eof() {
		w := p.word()
		switch w {
		case "->":
			p.space()
			t.name = p.word()
		case "|":
			for !p.eof() {
				start := p.i
				v := p.word()
				if v == "until" || v == "while" || v == "only" || v == "within" || v == "->" {
					p.i = start
					break
				}
				if p.i >= len(p.s) || p.s[p.i] != '=' {
					return t, fmt.Errorf("capture: want name=Path")
				}
				p.i++
				j := p.i
				for p.i < len(p.s) && strings.IndexByte(" \t\n", p.s[p.i]) < 0 {
					p.i++
				}
				t.captures = append(t.captures, nodeField{v, &node{kind: kWord, text: p.s[j:p.i]}})
			}
		case "until", "while", "within", "only":
			n, err := p.value()
			if err != nil {
				return t, err
			}
			switch w {
			case "until":
				t.until = n.text
			case "while":
				t.while = n.text
			case "only":
				t.only = n.text
			default:
				if t.within, err = time.ParseDuration(n.text); err != nil {
					return t, err
				}
			}
		default:
			return t, fmt.Errorf("unexpected %q", p.s[p.i-len(w):])
		}
	}
	return t, nil
}

// show renders an answer.
func (s *session) show(label string, k *call) []string {
	switch {
	case k.err != nil:
		return []string{label + "< " + k.err.Error()}
	case !k.arrived():
		return []string{label + "< no answer"}
	}
	head := fmt.Sprintf("%s< %s v%d", label, k.api, k.ver)
	rec, rest, err := k.decode()
	if err != nil {
		return []string{head + " undecodable: " + err.Error() + " hex(" + hex.EncodeToString(k.body) + ")"}
	}
	if len(rest) > 0 {
		head += fmt.Sprintf(" (%d bytes left)", len(rest))
	}
	ls := s.pr.lines(head, rec)
	out := ls[:1]
	for _, l := range ls[1:] {
		if strings.Contains(l, k.only) {
			out = append(out, "  "+l)
		}
	}
	return out
}

// capture stores the values that the request asked for with "| name=Path".
func (s *session) capture(k *call) {
	if !k.arrived() || k.err != nil {
		return
	}
	rec, _, err := k.decode()
	if err != nil {
		return
	}
	for _, c := range k.captures {
		field, v := lookup(rec, c.val.text)
		if _, ok := v.(missing); ok {
			continue
		}
		s.bind(c.name, field, v)
	}
}

func (s *session) bind(name, field string, v any) {
	for i := range s.pr.vars {
		if s.pr.vars[i].name == name {
			s.pr.vars[i].val = v
			return
		}
	}
	s.pr.vars = append(s.pr.vars, variable{name, field, v})
}

type missing struct{}

var stepRE = regexp.MustCompile(`([A-Za-z]+)(?:\[([0-9]+)\])?`)

// lookup follows a path such as Groups[0].Members[1].MemberId.
func lookup(rec record, path string) (field string, v any) {
	v = rec
	for _, m := range stepRE.FindAllStringSubmatch(path, -1) {
		r, ok := v.(record)
		if !ok {
			return "", missing{}
		}
		if v, ok = r.get(m[1]); !ok {
			return "", missing{}
		}
		field = m[1]
		if m[2] == "" {
			continue
		}
		i, _ := strconv.Atoi(m[2])
		l, ok := v.(list)
		if !ok || i >= len(l) {
			return "", missing{}
		}
		v = l[i]
	}
	return field, v
}

// wait handles "await NAME [after D] [within D]", "silent NAME for D" and "closed CONN [within D]".
func (s *session) wait(w []string) error {
	if len(w) < 2 {
		return fmt.Errorf("%s: name missing", w[0])
	}
	opt := map[string]time.Duration{}
	for i := 2; i+1 < len(w); i += 2 {
		d, err := time.ParseDuration(w[i+1])
		if err != nil {
			return err
		}
		opt[w[i]] = d
	}
	if w[0] == "closed" {
		return s.waitClosed(w[1], opt["within"])
	}
	k := s.calls[w[1]]
	if k == nil {
		return fmt.Errorf("no request called %s", w[1])
	}
	if w[0] == "silent" {
		k.wait(opt["for"])
		if !k.arrived() && k.err == nil {
			s.printf("%s: silent", w[1])
			return nil
		}
		s.printf("%s: answered", w[1])
	} else {
		d, given := opt["within"]
		if !given {
			d = answerWait
		}
		k.wait(time.Until(k.sentAt.Add(d)))
		if !k.arrived() && k.err == nil {
			s.printf("%s: no answer within %s", w[1], d)
			return nil
		}
		if early := opt["after"] - k.recvAt.Sub(k.sentAt); early > slack {
			s.printf("%s: too early, after %s", w[1], k.recvAt.Sub(k.sentAt).Round(100*time.Millisecond))
		}
	}
	s.capture(k)
	s.out = append(s.out, strings.Join(s.show(w[1], k), "\n"))
	return nil
}

func (s *session) waitClosed(name string, d time.Duration) error {
	c, err := s.conn(name)
	if err != nil {
		return err
	}
	if d == 0 {
		d = 3 * time.Second
	}
	select {
	case <-c.closed:
		delete(s.conns, name)
		s.printf("%s: closed by the broker", name)
	case <-time.After(d):
		s.printf("%s: still open", name)
	}
	if b := c.unasked(); len(b) > 0 {
		s.printf("%s< hex(%s)", name, hex.EncodeToString(b))
	}
	return nil
}
