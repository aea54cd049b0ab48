package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// advertised tells which APIs the broker offers, each with its newest version.
func (s *session) advertised() (map[int64]int64, error) {
	rec, err := s.ask("ApiVersions", 0, "")
	if err != nil {
		return nil, err
	}
	_, keys := lookup(rec, "ApiKeys")
	l, ok := keys.(list)
	if !ok || len(l) == 0 {
		return nil, fmt.Errorf("ApiVersions: no APIs in the answer")
	}
	apis := map[int64]int64{}
	for _, k := range l {
		_, key := lookup(k.(record), "ApiKey")
		_, newest := lookup(k.(record), "MaxVersion")
		apis[key.(int64)] = newest.(int64)
	}
	return apis, nil
}

// warmUp makes the broker create its internal topics and waits until every coordinator partition is loaded. What the
// broker does not advertise is left out.
func warmUp(bootstrap string) error {
	s := newSession(&caseFile{path: "warm-up"}, bootstrap)
	defer s.close()
	var ids []string
	for i := range 300 {
		ids = append(ids, "warm-up-"+strconv.Itoa(i))
	}
	all := "[" + strings.Join(ids, " ") + "]"
	steps := []struct {
		api, args string
		v         int
	}{
		{"FindCoordinator", "KeyType=0 CoordinatorKeys=[warm-up]", 4},
		{"FindCoordinator", "KeyType=1 CoordinatorKeys=[warm-up]", 4},
		{"DescribeGroups", "Groups=" + all, 5},
		{"DescribeTransactions", "TransactionalIds=" + all, 0},
		{"InitProducerId", "TransactionalId=null TransactionTimeoutMs=0", 4},
	}
	apis, err := s.advertised()
	if err != nil {
		return err
	}
	_, transactions := apis[int64(schemas["DescribeTransactionsRequest"].ApiKey)]
	var last string
	for _, st := range steps {
		if _, ok := apis[int64(schemas[st.api+"Request"].ApiKey)]; !ok || st.args == steps[1].args && !transactions {
			continue
		}
		ok := false
		for range 600 {
			rec, err := s.ask(st.api, st.v, st.args)
			if err != nil {
				return err
			}
			last = strings.Join(s.pr.lines(st.api, rec), " ")
			if ok = !strings.Contains(last, "=COORDINATOR_") && !strings.Contains(last, "=NOT_COORDINATOR"); ok {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if !ok {
			return fmt.Errorf("%s: coordinators still loading", st.api)
		}
	}
	return nil
}

// ask sends a request made of text and waits for the answer.
func (s *session) ask(api string, v int, args string) (record, error) {
	c, err := s.conn("~")
	if err != nil {
		return nil, err
	}
	p := &parser{s: args, expand: func(t string) (string, error) { return t, nil }}
	n := &node{kind: kStruct}
	if err := p.args(n, 0); err != nil {
		return nil, err
	}
	k, err := c.send(schemas[api+"Request"], api, v, n)
	if err != nil {
		return nil, err
	}
	k.wait(4 * answerWait)
	if !k.arrived() {
		return nil, fmt.Errorf("%s: no answer", api)
	}
	rec, _, err := k.decode()
	return rec, err
}

// createTopic handles "topic @t 2 key=value...": creates, waits for leaders, captures the topic id as $t.
func (s *session) createTopic(given string, w []string) error {
	name, parts := w[1], "1"
	if len(w) > 2 {
		parts = w[2]
	}
	var cfg []string
	for _, kv := range w[min(3, len(w)):] {
		k, v, _ := strings.Cut(kv, "=")
		cfg = append(cfg, fmt.Sprintf("{Name=%s Value=%q}", k, v))
	}
	rec, err := s.ask("CreateTopics", 7, fmt.Sprintf("TimeoutMs=10000 Topics=[{Name=%s NumPartitions=%s ReplicationFactor=1 Configs=[%s]}]",
		name, parts, strings.Join(cfg, " ")))
	if err != nil {
		return err
	}
	if _, e := lookup(rec, "Topics[0].ErrorCode"); e != int64(0) {
		return fmt.Errorf("topic %s: %v", given, errorNames[e.(int64)])
	}
	for range 200 {
		rec, err = s.ask("Metadata", 12, fmt.Sprintf("Topics=[{Name=%s}]", name))
		if err != nil {
			return err
		}
		_, ps := lookup(rec, "Topics[0].Partitions")
		_, id := lookup(rec, "Topics[0].TopicId")
		ready := fmt.Sprint(len(ps.(list))) == parts
		for _, p := range ps.(list) {
			e, _ := p.(record).get("ErrorCode")
			ready = ready && e == int64(0)
		}
		if ready {
			s.bind(strings.TrimPrefix(given, "@"), "TopicId", id)
			return s.settle(name)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("topic %s: no leader", given)
}

// settle waits until the group coordinators know the topic: Kafka tells them later than its metadata cache. A probe
// member of a group of its own joins until it is given a partition. It is a consumer-protocol member, for only those
// are told; a broker without that protocol is taken at its metadata's word.
func (s *session) settle(topic string) error {
	apis, err := s.advertised()
	if err != nil {
		return err
	}
	if _, ok := apis[int64(schemas["ConsumerGroupHeartbeatRequest"].ApiKey)]; !ok {
		return s.letItArrive()
	}
	join := fmt.Sprintf("GroupId=%s-probe MemberId=probe RebalanceTimeoutMs=60000 SubscribedTopicNames=[%s] TopicPartitions=[]", topic, topic)
	for range 100 {
		rec, err := s.ask("ConsumerGroupHeartbeat", 1, "MemberEpoch=0 "+join)
		if err != nil {
			return err
		}
		if _, ps := lookup(rec, "Assignment.TopicPartitions"); ps != nil {
			if l, ok := ps.(list); ok && len(l) > 0 {
				break
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	if _, err := s.ask("ConsumerGroupHeartbeat", 1, fmt.Sprintf("MemberEpoch=-1 GroupId=%s-probe MemberId=probe", topic)); err != nil {
		return err
	}
	if _, err := s.ask("DeleteGroups", 2, fmt.Sprintf("GroupsNames=[%s-probe]", topic)); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond)
	return s.letItArrive()
}

// restart runs the command of BROKER_RESTART with RESTART=clean or kill in its environment.
func (s *session) restart(w []string) error {
	sh := os.Getenv("BROKER_RESTART")
	if sh == "" {
		return errSkip
	}
	mode := "clean"
	if len(w) > 0 {
		mode = w[0]
	}
	for _, c := range s.conns {
		c.nc.Close()
	}
	s.conns = map[string]*conn{}
	cmd := exec.Command("sh", "-c", sh)
	cmd.Env = append(os.Environ(), "RESTART="+mode)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("BROKER_RESTART: %w: %s", err, out)
	}
	return nil
}
