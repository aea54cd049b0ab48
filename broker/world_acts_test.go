//go:build synctests

package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/internal/wire"
)

// worldTopic is a topic as the broker must have it. What is called maybe was
// asked for and not answered.
type worldTopic struct {
	name       string
	id         topicID
	parts      []*worldPart
	configs    map[string]string
	compacted  bool // at some time
	retained   bool // only so long or so much, at some time
	maybeNew   bool
	maybeGone  bool
	maybeParts []int
	maybeConf  []map[string]string
}

// worldPart is one partition.
type worldPart struct {
	start, maybeStart int64
	acked             map[int64]worldRecord
	maybe             map[string]doubtful // by value
}

type worldRecord struct{ key, value string }

// doubtful is a record that may be there. If its producer was told that it is not,
// it is not in that life.
type doubtful struct {
	worldRecord
	refusedIn int
}

func newWorldPart() *worldPart {
	return &worldPart{acked: map[int64]worldRecord{}, maybe: map[string]doubtful{}}
}

// worldProducer is an idempotent producer. A batch that was not acknowledged is
// sent again, as it is, before anything else.
type worldProducer struct {
	id    int64
	epoch int16
	seq   map[topicID]map[int32]int32
	again *worldBatch
}

type worldBatch struct {
	id      topicID
	n       int32
	batch   []byte
	records []worldRecord
	seen    map[string]bool
}

type worldOffset struct {
	group, topic string
	n            int32
}

// worldValue is what a committed offset may be, -1 for none.
type worldValue struct{ allowed []int64 }

const worldNames = 4

// outcome says what is known of a request that changes something.
type outcome int

const (
	done outcome = iota
	refused
	unknown
)

func (w *world) outcome(what string, err error, code int16) outcome {
	o := refused
	switch {
	case err != nil || code != 0 && w.disk.dead.Load():
		o = unknown
		if !w.disk.dead.Load() {
			w.errorf("%s: %v", what, err)
		}
	case code == 0:
		o = done
	}
	w.logf("%s: %v %s", what, err, errorName(code))
	return o
}

// refusedChange keeps what a change of metadata that was refused may turn out to
// have been if the process ends before the next one is made.
func (w *world) refusedChange(maybe func()) { w.ghosts = append(w.ghosts, maybe) }

// healthy tells that nothing is wrong with the disk, nor was just now.
func (w *world) healthy() bool {
	return time.Since(w.healed) > 5*time.Second && w.disk.rate.Load() == 0 && w.disk.cutIn.Load() == 0 && w.fs.Limit == 0 && !w.disk.dead.Load()
}

// mustNot is told of a refusal, which on a disk that is well there is none of.
func (w *world) mustNot(what string, code int16) {
	if w.healthy() {
		w.errorf("%s: %s", what, errorName(code))
	}
}

func (w *world) act() {
	switch n := w.rng.IntN(100); {
	case n < 6:
		w.createTopic()
	case n < 10:
		w.deleteTopic()
	case n < 13:
		w.growTopic()
	case n < 20:
		w.alterConfigs()
	case n < 24:
		w.deleteRecords()
	case n < 30:
		w.move()
	case n < 55:
		w.produce()
	case n < 65:
		w.fetch()
	case n < 78:
		w.commit()
	case n < 81:
		w.deleteOffsets()
	case n < 83:
		w.deleteGroup()
	case n < 93:
		time.Sleep(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
	case n < 96 && w.healthy():
		w.breakDisk()
	case n < 99:
		w.logf("the disk is well")
		w.heal()
	default:
		w.check()
	}
}

func (w *world) name() string { return fmt.Sprint("t", w.rng.IntN(worldNames)) }

// some is a topic that is there, nil when there is none.
func (w *world) some() *worldTopic {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.topics)) {
		if t := w.topics[name]; !t.maybeNew && !t.maybeGone {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return w.topics[names[w.rng.IntN(len(names))]]
}

func (w *world) someConfigs() map[string]string {
	all := map[string][]string{
		"cleanup.policy": {"delete", "compact", "compact,delete"},
		"retention.ms":   {"-1", "20000"}, "retention.bytes": {"-1", "100000"},
		"segment.ms": {"2000", "3600000"}, "min.cleanable.dirty.ratio": {"0.01", "0.5"},
		"segment.bytes": {"1048576"}, "max.compaction.lag.ms": {"5000"}, "delete.retention.ms": {"1000"},
	}
	configs := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if w.rng.IntN(4) == 0 {
			configs[name] = all[name][w.rng.IntN(len(all[name]))]
		}
	}
	return configs
}

// note remembers what configs permit the broker to drop.
func (t *worldTopic) note(configs map[string]string) {
	policy := configs["cleanup.policy"]
	t.compacted = t.compacted || strings.Contains(policy, "compact")
	t.retained = t.retained || configs["retention.ms"] == "20000" || configs["retention.bytes"] == "100000"
}

func (w *world) createTopic() { w.create(w.name(), 1+w.rng.IntN(4), w.someConfigs()) }

func (w *world) create(name string, n int, configs map[string]string) outcome {
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, int32(n), int16(1+w.rng.IntN(w.n))
	for k, v := range configs {
		rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: k, Value: &v})
	}
	req.Topics = append(req.Topics, rt)
	resp, err := ask[*kmsg.CreateTopicsResponse](w.any(), req, 7)
	code := int16(0)
	if err == nil {
		code = resp.Topics[0].ErrorCode
	}
	o := w.outcome(fmt.Sprintf("create %s of %d with %v", name, n, configs), err, code)
	there := w.topics[name] != nil
	if o != unknown && (code == kerr.TopicAlreadyExists.Code) != there || code != 0 && code != kerr.TopicAlreadyExists.Code && w.healthy() {
		w.errorf("create %s: %s, there: %v", name, errorName(code), there)
	}
	if there || o == refused && code == kerr.TopicAlreadyExists.Code {
		return o
	}
	t := &worldTopic{name: name, configs: configs}
	for range n {
		t.parts = append(t.parts, newWorldPart())
	}
	t.note(configs)
	switch o {
	case done:
		w.ghosts = nil
		t.id = resp.Topics[0].TopicID
	case unknown:
		t.maybeNew = true
	default:
		t.maybeNew = true
		w.refusedChange(func() {
			if w.topics[name] == nil {
				w.topics[name] = t
			}
		})
		return o
	}
	w.topics[name] = t
	return o
}

func (w *world) deleteTopic() {
	t := w.some()
	if t == nil || t.name == keptTopic {
		return
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	if w.rng.IntN(2) == 0 {
		rt.Topic = &t.name
	} else {
		rt.TopicID = t.id
	}
	req.Topics = append(req.Topics, rt)
	resp, err := ask[*kmsg.DeleteTopicsResponse](w.any(), req, 6)
	code := int16(0)
	if err == nil {
		code = resp.Topics[0].ErrorCode
	}
	switch o := w.outcome("delete "+t.name, err, code); {
	case o == done:
		w.ghosts = nil
		w.gone(t)
	case o == unknown:
		t.maybeGone = true
	default:
		w.refusedChange(func() { t.maybeGone = true })
		w.mustNot("delete "+t.name, code)
	}
}

// gone takes a topic out, with the offsets that were committed for it.
func (w *world) gone(t *worldTopic) {
	delete(w.topics, t.name)
	for at := range w.offsets {
		if at.topic == t.name {
			delete(w.offsets, at)
		}
	}
}

func (w *world) growTopic() {
	t := w.some()
	if t == nil || t.name == keptTopic || len(t.parts) > 6 {
		return
	}
	to := len(t.parts) + 1 + w.rng.IntN(3)
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: t.name, Count: int32(to)}}
	resp, err := ask[*kmsg.CreatePartitionsResponse](w.any(), req, 3)
	code := int16(0)
	if err == nil {
		code = resp.Topics[0].ErrorCode
	}
	switch o := w.outcome(fmt.Sprintf("grow %s to %d", t.name, to), err, code); {
	case o == done:
		w.ghosts = nil
		for len(t.parts) < to {
			t.parts = append(t.parts, newWorldPart())
		}
	case o == unknown:
		t.maybeParts = append(t.maybeParts, to)
	default:
		w.refusedChange(func() { t.maybeParts = append(t.maybeParts, to) })
		w.mustNot("grow "+t.name, code)
	}
}

func (w *world) alterConfigs() {
	t := w.some()
	if t == nil {
		return
	}
	configs := w.someConfigs()
	var code int16
	var err error
	if w.rng.IntN(2) == 0 {
		req := kmsg.NewPtrAlterConfigsRequest()
		rr := kmsg.NewAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, t.name
		for k, v := range configs {
			rr.Configs = append(rr.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: k, Value: &v})
		}
		req.Resources = append(req.Resources, rr)
		var resp *kmsg.AlterConfigsResponse
		if resp, err = ask[*kmsg.AlterConfigsResponse](w.any(), req, 2); err == nil {
			code = resp.Resources[0].ErrorCode
		}
	} else {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		rr := kmsg.NewIncrementalAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, t.name
		for k, v := range configs {
			rr.Configs = append(rr.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: k, Value: &v})
		}
		merged := map[string]string{}
		maps.Copy(merged, t.configs)
		maps.Copy(merged, configs)
		for _, k := range slices.Sorted(maps.Keys(t.configs)) {
			if _, set := configs[k]; !set && w.rng.IntN(2) == 0 {
				rr.Configs = append(rr.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: k, Op: kmsg.IncrementalAlterConfigOpDelete})
				delete(merged, k)
			}
		}
		configs = merged
		req.Resources = append(req.Resources, rr)
		var resp *kmsg.IncrementalAlterConfigsResponse
		if resp, err = ask[*kmsg.IncrementalAlterConfigsResponse](w.any(), req, 1); err == nil {
			code = resp.Resources[0].ErrorCode
		}
	}
	o := w.outcome(fmt.Sprintf("configs of %s to %v", t.name, configs), err, code)
	t.note(configs)
	switch {
	case o == done:
		w.ghosts = nil
		t.configs = configs
	case o == unknown:
		t.maybeConf = append(t.maybeConf, configs)
	default:
		w.refusedChange(func() { t.maybeConf = append(t.maybeConf, configs) })
		w.mustNot("configs of "+t.name, code)
	}
}

// leader is who leads a partition, as metadata say.
func (w *world) leader(topic string, n int32) (*caller, int32) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	resp, err := ask[*kmsg.MetadataResponse](w.any(), req, 12)
	if err != nil || len(resp.Topics) == 0 {
		return w.calls[0], -1
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.Partition == n {
			return w.calls[p.Leader-1], p.LeaderEpoch
		}
	}
	return w.calls[0], -1
}

func (w *world) deleteRecords() {
	t := w.some()
	if t == nil {
		return
	}
	n := int32(w.rng.IntN(len(t.parts)))
	p := t.parts[n]
	at := int64(-1)
	if len(p.acked) > 0 && w.rng.IntN(2) == 0 {
		offsets := slices.Sorted(maps.Keys(p.acked))
		at = offsets[w.rng.IntN(len(offsets))]
	}
	req := kmsg.NewPtrDeleteRecordsRequest()
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = t.name
	rt.Partitions = []kmsg.DeleteRecordsRequestTopicPartition{{Partition: n, Offset: at}}
	req.Topics = append(req.Topics, rt)
	c, _ := w.leader(t.name, n)
	resp, err := ask[*kmsg.DeleteRecordsResponse](c, req, 2)
	var r kmsg.DeleteRecordsResponseTopicPartition
	if err == nil {
		r = resp.Topics[0].Partitions[0]
	}
	switch o := w.outcome(fmt.Sprintf("delete records of %s-%d before %d", t.name, n, at), err, r.ErrorCode); {
	case o == done:
		p.start = max(p.start, r.LowWatermark)
	case at < 0:
		p.maybeStart = 1 << 62
	default:
		p.maybeStart = max(p.maybeStart, at)
	}
	if r.ErrorCode != 0 && !w.disk.dead.Load() {
		w.mustNot(fmt.Sprintf("delete records of %s-%d", t.name, n), r.ErrorCode)
	}
}

// move gives a partition another leader, or its preferred one.
func (w *world) move() {
	topic, n := offsetsTopicName, int32(w.rng.IntN(5))
	if t := w.some(); t != nil && w.rng.IntN(2) == 0 {
		topic, n = t.name, int32(w.rng.IntN(len(t.parts)))
	}
	code, err := int16(0), error(nil)
	if w.rng.IntN(3) == 0 {
		req := kmsg.NewPtrElectLeadersRequest()
		req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: topic, Partitions: []int32{n}}}
		var resp *kmsg.ElectLeadersResponse
		if resp, err = ask[*kmsg.ElectLeadersResponse](w.any(), req, 2); err == nil {
			code = resp.Topics[0].Partitions[0].ErrorCode
		}
		if code == kerr.ElectionNotNeeded.Code {
			code = 0
		}
	} else {
		code, err = w.tryReassign(topic, n, 1+w.rng.Int32N(int32(w.n)))
	}
	if o := w.outcome(fmt.Sprintf("move %s-%d", topic, n), err, code); o == refused && w.healthy() && w.b.catalog().topic(topic) != nil {
		w.errorf("move %s-%d: %s", topic, n, errorName(code))
	}
}

func (w *world) tryReassign(topic string, n, to int32) (int16, error) {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
		Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: n, Replicas: []int32{to}}},
	}}
	resp, err := ask[*kmsg.AlterPartitionAssignmentsResponse](w.any(), req, 0)
	if err != nil {
		return 0, err
	}
	return resp.Topics[0].Partitions[0].ErrorCode, nil
}

func (w *world) records() []worldRecord {
	var records []worldRecord
	for range 1 + w.rng.IntN(4) {
		w.serial++
		size := w.rng.IntN(200)
		if w.rng.IntN(10) == 0 {
			size = w.rng.IntN(40_000)
		}
		records = append(records, worldRecord{fmt.Sprint("k", w.rng.IntN(6)), fmt.Sprintf("%d-%s", w.serial, strings.Repeat("x", size))})
	}
	return records
}

func batchOfRecords(o wire.BatchOptions, records []worldRecord) []byte {
	var all []wire.Record
	for _, r := range records {
		all = append(all, wire.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(r.key), Value: []byte(r.value)})
	}
	return wire.AppendBatch(nil, o, all...)
}

func (w *world) produce() {
	t := w.some()
	if t == nil {
		return
	}
	n := int32(w.rng.IntN(len(t.parts)))
	if w.rng.IntN(2) == 0 {
		w.produceIdempotent(t, n)
		return
	}
	records := w.records()
	w.send(t, n, batchOfRecords(wire.BatchOptions{}, records), records, int16(w.rng.IntN(3)-1))
}

// send produces one batch and notes what became of it.
func (w *world) send(t *worldTopic, n int32, batch []byte, records []worldRecord, acks int16) (outcome, int16) {
	req := produceRequest(t.name, n, slices.Clone(batch))
	req.Acks = acks
	version := int16(9)
	if w.rng.IntN(2) == 0 {
		version = 13
		req.Topics[0].TopicID = t.id
	}
	c, _ := w.leader(t.name, n)
	p := t.parts[n]
	if acks == 0 {
		for _, r := range records {
			p.maybe[r.value] = doubtful{r, 0}
		}
		c = &caller{w: w, name: "silent", node: c.node}
		defer c.hangUp()
		c.post(req, version) //nolint:errcheck // nobody answers
		time.Sleep(10 * time.Millisecond)
		return unknown, 0
	}
	resp, err := ask[*kmsg.ProduceResponse](c, req, version)
	var r kmsg.ProduceResponseTopicPartition
	if err == nil {
		r = resp.Topics[0].Partitions[0]
	}
	o := w.outcome(fmt.Sprintf("produce %d to %s-%d acks %d from %.8s", len(records), t.name, n, acks, records[0].value), err, r.ErrorCode)
	switch {
	case o == done:
		for i, each := range records {
			delete(p.maybe, each.value)
			p.acked[r.BaseOffset+int64(i)] = each
		}
	case o == unknown:
		for _, each := range records {
			p.maybe[each.value] = doubtful{each, 0}
		}
	default:
		for _, each := range records {
			if _, before := p.maybe[each.value]; !before {
				p.maybe[each.value] = doubtful{each, w.life}
			}
		}
	}
	if o == refused && w.healthy() {
		w.errorf("produce to %s-%d: %s", t.name, n, errorName(r.ErrorCode))
	}
	return o, r.ErrorCode
}

func (w *world) produceIdempotent(t *worldTopic, n int32) {
	if len(w.pids) < 2 || w.rng.IntN(20) == 0 {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := ask[*kmsg.InitProducerIDResponse](w.any(), req, 4)
		code := int16(0)
		if err == nil {
			code = resp.ErrorCode
		}
		switch o := w.outcome("producer id", err, code); {
		case o != done && w.healthy():
			w.errorf("producer id: %s", errorName(code))
		case o == done:
			for _, other := range w.pids {
				if other.id == resp.ProducerID {
					w.errorf("producer id %d twice", other.id)
				}
			}
			w.pids = append(w.pids, &worldProducer{id: resp.ProducerID, epoch: resp.ProducerEpoch, seq: map[topicID]map[int32]int32{}})
		}
	}
	if len(w.pids) == 0 {
		return
	}
	pr := w.pids[w.rng.IntN(len(w.pids))]
	b := pr.again
	if b != nil {
		t = nil
		for _, each := range w.topics {
			if each.id == b.id && !each.maybeGone {
				t = each
			}
		}
		if t == nil {
			pr.again = nil
			return
		}
	} else {
		if pr.seq[t.id] == nil {
			pr.seq[t.id] = map[int32]int32{}
		}
		b = &worldBatch{id: t.id, n: n, records: w.records()}
		b.batch = batchOfRecords(wire.BatchOptions{Idempotent: true, ProducerID: pr.id, ProducerEpoch: pr.epoch, BaseSequence: pr.seq[t.id][n]}, b.records)
	}
	o, code := w.send(t, b.n, b.batch, b.records, -1)
	pr.again = nil
	switch {
	case o == done:
		pr.seq[b.id][b.n] += int32(len(b.records))
	case o == unknown || code == kerr.KafkaStorageError.Code:
		pr.again = b
	default:
		w.errorf("idempotent produce to %s-%d: %s", t.name, b.n, errorName(code))
	}
}
