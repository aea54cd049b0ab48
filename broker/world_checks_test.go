//go:build synctests

package broker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
	"github.com/rondo-streams/rondo/internal/wire"
)

// worldSession is a fetch session.
type worldSession struct {
	id, epoch int32
	node      int
}

// placed is a record with its place.
type placed struct {
	offset int64
	worldRecord
}

func recordsIn(batches []byte) ([]placed, error) {
	var out []placed
	err := wire.EachBatch(batches, func(_ wire.Header, batch []byte) error {
		return wire.EachRecord(batch, func(r wire.Record) error {
			out = append(out, placed{r.Offset, worldRecord{string(r.Key), string(r.Value)}})
			return nil
		})
	})
	if errors.Is(err, wire.ErrShort) {
		err = nil
	}
	return out, err
}

// genuine checks that records are what was produced, where it was put.
func (w *world) genuine(t *worldTopic, n int32, records []placed) {
	p, last := t.parts[n], int64(-1)
	for _, r := range records {
		if r.offset <= last {
			w.errorf("%s-%d: offset %d after %d", t.name, n, r.offset, last)
		}
		last = r.offset
		if r.offset < p.start {
			continue // batches are whole
		}
		known, acked := p.acked[r.offset]
		doubt, maybe := p.maybe[r.value]
		if acked && known != r.worldRecord || !acked && (!maybe || doubt.refusedIn == w.life) {
			w.errorf("%s-%d offset %d: %.12s=%.12s, want %.12s=%.12s", t.name, n, r.offset, r.key, r.value, known.key, known.value)
		}
	}
}

// fetch reads from somewhere, as consumers do.
func (w *world) fetch() {
	t := w.some()
	if t == nil {
		return
	}
	if w.rng.IntN(2) == 0 {
		w.fetchInSession(t)
		return
	}
	n := int32(w.rng.IntN(len(t.parts)))
	c, epoch := w.leader(t.name, n)
	req := fetchRequest(t.name, n, t.parts[n].start, time.Duration(w.rng.IntN(500))*time.Millisecond)
	req.Topics[0].TopicID = t.id
	believed := epoch - int32(w.rng.IntN(2))
	req.Topics[0].Partitions[0].CurrentLeaderEpoch = believed
	version := int16(12 + w.rng.IntN(5))
	resp, err := ask[*kmsg.FetchResponse](c, req, version)
	if err != nil {
		w.outcome("fetch", err, 0)
		return
	}
	r := resp.Topics[0].Partitions[0]
	w.logf("fetch %s-%d: %s", t.name, n, errorName(r.ErrorCode))
	records, err := recordsIn(r.RecordBatches)
	if err != nil {
		w.errorf("fetch %s-%d: %v", t.name, n, err)
	}
	w.genuine(t, n, records)
	switch {
	case w.disk.dead.Load():
	case epoch > 0 && believed == epoch-1 && r.ErrorCode != kerr.FencedLeaderEpoch.Code:
		w.errorf("fetch %s-%d at epoch %d of %d: %s", t.name, n, believed, epoch, errorName(r.ErrorCode))
	case believed == epoch && r.ErrorCode != 0 && w.healthy() && !(r.ErrorCode == kerr.OffsetOutOfRange.Code && t.retained):
		w.errorf("fetch %s-%d: %s", t.name, n, errorName(r.ErrorCode))
	}
}

func (w *world) fetchInSession(t *worldTopic) {
	s := &w.session
	version := int16(12)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 200, 1, 1<<20
	if s.id == 0 || w.rng.IntN(4) == 0 {
		s.node, s.epoch = w.rng.IntN(w.n), 0
	}
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	if s.epoch == 0 || w.rng.IntN(2) == 0 {
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = t.name
		for n, p := range t.parts {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = int32(n), p.start, 1<<20, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := ask[*kmsg.FetchResponse](w.calls[s.node], req, version)
	if err != nil || resp.ErrorCode != 0 {
		w.outcome("fetch in a session", err, 0)
		if err == nil && !w.disk.dead.Load() {
			w.errorf("fetch in session %d at epoch %d: %s", s.id, s.epoch, errorName(resp.ErrorCode))
		}
		*s = worldSession{}
		return
	}
	s.id, s.epoch = resp.SessionID, s.epoch+1
	w.logf("fetch in session %d: %d topics", s.id, len(resp.Topics))
	for _, rt := range resp.Topics {
		for _, r := range rt.Partitions {
			of := w.topics[rt.Topic]
			if of == nil || int(r.Partition) >= len(of.parts) || of.maybeNew {
				if len(r.RecordBatches) > 0 {
					w.errorf("records of %s-%d, which is not there", rt.Topic, r.Partition)
				}
				continue
			}
			records, err := recordsIn(r.RecordBatches)
			if err != nil {
				w.errorf("fetch %s-%d in a session: %v", rt.Topic, r.Partition, err)
			}
			w.genuine(of, r.Partition, records)
		}
	}
}

// described is what metadata and configs say of all topics.
type described struct {
	id      topicID
	parts   int
	configs map[string]string
}

func (w *world) describe() (map[string]described, error) {
	all := map[string]described{}
	resp, err := ask[*kmsg.MetadataResponse](w.any(), kmsg.NewPtrMetadataRequest(), 12)
	if err != nil {
		return nil, err
	}
	configs := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range resp.Topics {
		if t.ErrorCode != 0 {
			return nil, fmt.Errorf("metadata of %s: %s", *t.Topic, errorName(t.ErrorCode))
		}
		for i, p := range t.Partitions {
			if int(p.Partition) != i || p.ErrorCode != 0 || p.Leader < 1 || int(p.Leader) > w.n || !slices.Contains(p.Replicas, p.Leader) {
				return nil, fmt.Errorf("metadata of %s: %+v", *t.Topic, p)
			}
		}
		if strings.HasPrefix(*t.Topic, "__") {
			continue
		}
		all[*t.Topic] = described{t.TopicID, len(t.Partitions), map[string]string{}}
		rr := kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, *t.Topic
		configs.Resources = append(configs.Resources, rr)
	}
	if len(configs.Resources) == 0 {
		return all, nil
	}
	has, err := ask[*kmsg.DescribeConfigsResponse](w.any(), configs, 4)
	if err != nil {
		return nil, err
	}
	for _, r := range has.Resources {
		if r.ErrorCode != 0 {
			return nil, fmt.Errorf("configs of %s: %s", r.ResourceName, errorName(r.ErrorCode))
		}
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				all[r.ResourceName].configs[c.Name] = *c.Value
			}
		}
	}
	return all, nil
}

// adopt looks what became of what was asked for when the last life ended.
func (w *world) adopt() {
	var has map[string]described
	w.await("describe", func() (err error) {
		has, err = w.describe()
		return err
	})
	if w.disk.dead.Load() || w.t.Failed() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(w.topics)) {
		t := w.topics[name]
		is, there := has[name]
		switch {
		case !there && !t.maybeNew && !t.maybeGone:
			w.errorf("topic %s is not there", name)
		case !there && t.maybeNew:
			delete(w.topics, name)
		case !there:
			w.logf("%s is deleted", name)
			w.gone(t)
		default:
			w.adoptTopic(t, is)
		}
	}
	for name := range has {
		if w.topics[name] == nil && name != "streams-counts-changelog" {
			w.errorf("topic %s is there", name)
		}
	}
}

func (w *world) adoptTopic(t *worldTopic, is described) {
	if t.maybeNew {
		t.id = is.id
		w.logf("%s is made", t.name)
	}
	t.maybeNew, t.maybeGone = false, false
	if t.id != is.id {
		w.errorf("topic %s is another one", t.name)
	}
	if slices.Contains(t.maybeParts, is.parts) {
		for len(t.parts) < is.parts {
			t.parts = append(t.parts, newWorldPart())
		}
	}
	t.maybeParts = nil
	if len(t.parts) != is.parts {
		w.errorf("topic %s has %d partitions, want %d", t.name, is.parts, len(t.parts))
	}
	for _, maybe := range t.maybeConf {
		if maps.Equal(maybe, is.configs) {
			t.configs = maybe
		}
	}
	t.maybeConf = nil
	if !maps.Equal(t.configs, is.configs) {
		w.errorf("topic %s has configs %v, want %v", t.name, is.configs, t.configs)
	}
}

// check holds the broker against what it was told, on a disk in any state.
func (w *world) check() {
	w.adopt()
	if !w.healthy() || w.t.Failed() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(w.topics)) {
		t := w.topics[name]
		for n := range t.parts {
			w.checkPartition(t, int32(n))
		}
	}
}

// checkPartition reads a partition from its start and looks whether everything is
// there.
func (w *world) checkPartition(t *worldTopic, n int32) {
	var all []placed
	var start, end int64
	ok := w.await(fmt.Sprintf("fetch of %s-%d", t.name, n), func() (err error) {
		all, start, end, err = w.readAll(t, n)
		return err
	})
	if !ok {
		return
	}
	p := t.parts[n]
	w.genuine(t, n, all)
	if start < p.start {
		w.errorf("%s-%d starts at %d, records before %d were deleted", t.name, n, start, p.start)
	}
	if start > max(p.start, min(p.maybeStart, end)) && !t.retained {
		w.errorf("%s-%d starts at %d, records were deleted before %d or %d", t.name, n, start, p.start, p.maybeStart)
	}
	p.start, p.maybeStart = start, 0
	there, newest, seen := map[int64]bool{}, map[string]int64{}, map[string]int64{}
	for _, r := range all {
		there[r.offset] = true
		newest[r.key] = r.offset
		if at, twice := seen[r.value]; twice {
			w.errorf("%s-%d: %.12s is at %d and at %d", t.name, n, r.value, at, r.offset)
		}
		seen[r.value] = r.offset
		if _, maybe := p.maybe[r.value]; maybe { // it has been read, so it stays
			delete(p.maybe, r.value)
			p.acked[r.offset] = r.worldRecord
		}
	}
	for offset, r := range p.acked {
		if offset < start {
			delete(p.acked, offset)
			continue
		}
		if offset >= end {
			w.errorf("%s-%d ends at %d, offset %d was acknowledged", t.name, n, end, offset)
		}
		if !there[offset] && !(t.compacted && newest[r.key] > offset) {
			w.errorf("%s-%d offset %d, %s=%.12s, is not there: start %d, end %d", t.name, n, offset, r.key, r.value, start, end)
		}
	}
}

func (w *world) readAll(t *worldTopic, n int32) (all []placed, start, end int64, err error) {
	c, epoch := w.leader(t.name, n)
	list := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = n, -2, epoch
	rt.Topic, rt.Partitions = t.name, []kmsg.ListOffsetsRequestTopicPartition{rp}
	list.Topics = append(list.Topics, rt)
	at, err := ask[*kmsg.ListOffsetsResponse](c, list, 7)
	if err != nil {
		return nil, 0, 0, err
	}
	if code := at.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return nil, 0, 0, fmt.Errorf("list offsets: %s", errorName(code))
	}
	start = at.Topics[0].Partitions[0].Offset
	for from := start; ; {
		req := fetchRequest(t.name, n, from, 0)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		resp, err := ask[*kmsg.FetchResponse](c, req, 12)
		if err != nil {
			return nil, 0, 0, err
		}
		r := resp.Topics[0].Partitions[0]
		if r.ErrorCode != 0 {
			return nil, 0, 0, fmt.Errorf("fetch at %d: %s", from, errorName(r.ErrorCode))
		}
		end = r.HighWatermark
		records, err := recordsIn(r.RecordBatches)
		if err != nil {
			return nil, 0, 0, fmt.Errorf("fetch at %d: %w", from, err)
		}
		next := from
		for _, each := range records {
			if each.offset >= from {
				all = append(all, each)
				next = each.offset + 1
			}
		}
		if next == from {
			return all, start, end, nil
		}
		from = next
	}
}

// checkSettled looks at what comes to rest some time after failures have ended.
func (w *world) checkSettled() {
	if w.t.Failed() {
		return
	}
	for g := range 4 {
		w.checkOffsets(fmt.Sprint("g", g))
	}
	w.everythingWorks()
	w.checkBots()
	if n := w.b.groups.crowd.Load(); n != 4 {
		w.errorf("%d members of the newer protocols are counted, want 4", n)
	}
	w.checkGroups()
	w.checkHistory()
	w.checkOrphans()
}

// fetchOffsets reads all committed offsets of a group.
func (w *world) fetchOffsets(group string) (map[worldOffset]int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group}}
	resp, err := ask[*kmsg.OffsetFetchResponse](w.coordinator(group), req, 8)
	if err != nil {
		return nil, err
	}
	if code := resp.Groups[0].ErrorCode; code != 0 {
		return nil, fmt.Errorf("fetch offsets of %s: %s", group, errorName(code))
	}
	has := map[worldOffset]int64{}
	for _, t := range resp.Groups[0].Topics {
		for _, p := range t.Partitions {
			has[worldOffset{group, t.Topic, p.Partition}] = p.Offset
		}
	}
	return has, nil
}

func (w *world) checkOffsets(group string) {
	var has map[worldOffset]int64
	w.await("offsets of "+group, func() (err error) {
		has, err = w.fetchOffsets(group)
		return err
	})
	for at, offset := range has {
		if w.offsets[at] == nil {
			w.errorf("%v is committed at %d, want none", at, offset)
		}
	}
	for at, v := range w.offsets {
		if at.group != group {
			continue
		}
		is, there := has[at]
		if !there {
			is = -1
		}
		if !slices.Contains(v.allowed, is) {
			w.errorf("%v is committed at %d, want one of %v", at, is, v.allowed)
		}
		v.allowed = []int64{is}
	}
}

// everythingWorks does each thing once more, on a disk that is well.
func (w *world) everythingWorks() {
	if w.topics["probe"] == nil {
		w.create("probe", 2, nil)
	}
	t := w.topics["probe"]
	if t == nil || w.t.Failed() {
		return
	}
	for n := range t.parts {
		records := w.records()
		w.send(t, int32(n), batchOfRecords(wire.BatchOptions{}, records), records, -1)
		w.checkPartition(t, int32(n))
	}
	for _, name := range slices.Sorted(maps.Keys(w.topics)) { // topics that were hit by failures can still grow
		if name == keptTopic {
			continue
		}
		t := w.topics[name]
		to := len(t.parts) + 1
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: int32(to)}}
		if resp, err := ask[*kmsg.CreatePartitionsResponse](w.any(), req, 3); err != nil || resp.Topics[0].ErrorCode != 0 {
			w.errorf("grow %s: %v %v", name, resp, err)
		}
		t.parts = append(t.parts, newWorldPart())
	}
	w.ghosts = nil
	for g := range 6 {
		group := fmt.Sprint("probe", g) // of every coordinator
		w.serial++
		w.await("commit of "+group, func() error { return w.commitAt(worldOffset{group, "probe", 0}, int64(w.serial)) })
	}
}

// groups lists the groups of all brokers with their states.
func (w *world) groups() (map[string]string, error) {
	all := map[string]string{}
	for _, c := range w.calls {
		resp, err := ask[*kmsg.ListGroupsResponse](c, kmsg.NewPtrListGroupsRequest(), 5)
		if err != nil {
			return nil, err
		}
		if resp.ErrorCode != 0 {
			return nil, fmt.Errorf("list groups of broker %d: %s", c.node+1, errorName(resp.ErrorCode))
		}
		for _, g := range resp.Groups {
			if all[g.Group] != "" {
				return nil, fmt.Errorf("group %s is listed twice", g.Group)
			}
			all[g.Group] = g.GroupType + " " + g.GroupState
		}
	}
	return all, nil
}

// checkGroups compares the lists with each other and with what has offsets.
func (w *world) checkGroups() {
	var listed map[string]string
	w.await("list of groups", func() (err error) {
		listed, err = w.groups()
		return err
	})
	want := map[string]bool{}
	for at, v := range w.offsets {
		if v.allowed[0] >= 0 {
			want[at.group] = true
		}
	}
	for group := range want {
		if listed[group] == "" {
			w.errorf("group %s has offsets and is not listed", group)
		}
	}
	for group, state := range listed {
		if strings.HasPrefix(group, "g") && !want[group] && state != "classic Dead" {
			if has, err := w.fetchOffsets(group); err == nil && len(has) == 0 {
				w.logf("group %s is listed as %s without offsets", group, state)
			}
		}
	}
}

// checkHistory looks for one cause for each generation that somebody was told.
func (w *world) checkHistory() {
	counts := map[worldGeneration]int{}
	for _, e := range history(w.t, w.b) {
		counts[worldGeneration{e.Group, e.To}]++
	}
	for _, bot := range w.bots {
		for g := range bot.told() {
			// A classic generation that could not be stored may come again, as in Kafka.
			if counts[g] != 1 && (g.group != "classic" || counts[g] == 0) {
				w.errorf("generation %d of %s has %d causes in the history", g.number, g.group, counts[g])
			}
		}
	}
}

type worldGeneration struct {
	group  string
	number int32
}

// checkOrphans looks for partitions that no topic names: they would fill the disk.
func (w *world) checkOrphans() {
	c := w.b.catalog()
	for _, id := range w.b.journal.Partitions() {
		if id == metadataID() {
			continue
		}
		if t := c.byID[id.Topic]; t == nil || int(id.Partition) >= len(t.partitions) {
			w.errorf("partition %s belongs to no topic", id)
		}
	}
}

// checkHeld looks for what is held for clients that are all gone.
func (w *world) checkHeld() {
	b := w.b
	if f, d, r := b.frames.inUse(), b.decoding.inUse(), b.replies.inUse(); f != 0 || d != 0 || r != 0 {
		w.errorf("%d bytes are held of frames, %d of decoding, %d of answers, and nobody is connected", f, d, r)
	}
	if n := b.Stats().Connections; n != 0 {
		w.errorf("%d connections are open, and nobody is connected", n)
	}
	b.meta.mu.Lock()
	making := len(b.meta.creating)
	b.meta.mu.Unlock()
	b.groups.streams.mu.Lock()
	making += len(b.groups.streams.making)
	b.groups.streams.mu.Unlock()
	if making > 0 {
		w.errorf("%d topics are being made", making)
	}
}

// snapshot is everything that must not change by a restart.
func (w *world) snapshot() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	w.await("snapshot of topics", func() error {
		lines = nil
		has, err := w.describe()
		for name, t := range has {
			add("topic %s %s of %d, %v", name, t.id, t.parts, t.configs)
		}
		return err
	})
	for _, name := range slices.Sorted(maps.Keys(w.topics)) {
		t := w.topics[name]
		if t.compacted || t.retained {
			continue
		}
		for n := range t.parts {
			w.await("snapshot of records", func() error {
				all, start, end, err := w.readAll(t, int32(n))
				if err == nil {
					add("%s-%d from %d to %d, %d records", name, n, start, end, len(all))
				}
				return err
			})
		}
	}
	var groups map[string]string
	w.await("snapshot of groups", func() (err error) {
		groups, err = w.groups()
		return err
	})
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		add("group %s %s", g, groups[g])
		w.await("snapshot of offsets", func() error {
			has, err := w.fetchOffsets(g)
			for at, offset := range has {
				add("%v at %d", at, offset)
			}
			return err
		})
	}
	for _, line := range w.describeGroups() {
		add("%s", line)
	}
	var events int
	if w.b.catalog().topic(cause.HistoryTopic) != nil {
		events = len(history(w.t, w.b))
	}
	add("%d events", events)
	slices.Sort(lines)
	return lines
}
