package broker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The operations of IncrementalAlterConfigs.
const (
	opSet      = 0
	opDelete   = 1
	opAppend   = 2
	opSubtract = 3
)

// alteration is one change of one config.
type alteration struct {
	name  string
	op    int8
	value *string
}

// alterTarget is a resource whose configs can be changed.
type alterTarget struct {
	configs map[string]string
	kind    func(name string) kind                   // 0: no such config
	current func(name string) string                 // for append and subtract
	check   func(configs map[string]string) *failure // the outcome
	write   func(configs map[string]string) error    // make it durable
	name    string
}

// handleIncrementalAlterConfigs changes single configs and keeps the others.
func (b *Broker) handleIncrementalAlterConfigs(rq *request) {
	msg := rq.msg.(*kmsg.IncrementalAlterConfigsRequest)
	b.meta.do(func() {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for i, asked := range msg.Resources {
			r := kmsg.NewIncrementalAlterConfigsResponseResource()
			r.ResourceType, r.ResourceName = asked.ResourceType, asked.ResourceName
			var changes []alteration
			for _, c := range asked.Configs {
				changes = append(changes, alteration{c.Name, int8(c.Op), c.Value})
			}
			twice := slices.ContainsFunc(msg.Resources[:i], func(o kmsg.IncrementalAlterConfigsRequestResource) bool {
				return o.ResourceType == asked.ResourceType && o.ResourceName == asked.ResourceName
			})
			if f := b.alter(int(asked.ResourceType), asked.ResourceName, changes, twice, false, msg.ValidateOnly); f != nil {
				r.ErrorCode = f.code
				if f.text != "" {
					r.ErrorMessage = &f.text
				}
			}
			resp.Resources = append(resp.Resources, r)
		}
		rq.reply(resp)
	})
}

// handleAlterConfigs replaces all configs of a resource by those it names.
func (b *Broker) handleAlterConfigs(rq *request) {
	msg := rq.msg.(*kmsg.AlterConfigsRequest)
	b.meta.do(func() {
		resp := kmsg.NewPtrAlterConfigsResponse()
		for i, asked := range msg.Resources {
			r := kmsg.NewAlterConfigsResponseResource()
			r.ResourceType, r.ResourceName = asked.ResourceType, asked.ResourceName
			var changes []alteration
			for _, c := range asked.Configs {
				changes = append(changes, alteration{c.Name, opSet, c.Value})
			}
			twice := slices.ContainsFunc(msg.Resources[:i], func(o kmsg.AlterConfigsRequestResource) bool {
				return o.ResourceType == asked.ResourceType && o.ResourceName == asked.ResourceName
			})
			if f := b.alter(int(asked.ResourceType), asked.ResourceName, changes, twice, true, msg.ValidateOnly); f != nil {
				r.ErrorCode = f.code
				if f.text != "" {
					r.ErrorMessage = &f.text
				}
			}
			resp.Resources = append(resp.Resources, r)
		}
		rq.reply(resp)
	})
}

// alter runs on the metadata goroutine.
func (b *Broker) alter(resource int, name string, changes []alteration, twice, replace, dry bool) *failure {
	if twice {
		return fail(kerr.InvalidRequest, "Error due to duplicate resources")
	}
	if f := checkAlterations(changes); f != nil {
		return f
	}
	target, f := b.alterTarget(resource, name)
	if f != nil {
		return f
	}
	configs := map[string]string{}
	if !replace {
		maps.Copy(configs, target.configs)
	}
	for _, c := range changes {
		if f := target.apply(configs, c); f != nil {
			return f
		}
	}
	if f := target.check(configs); f != nil {
		return f
	}
	if dry {
		return nil
	}
	if err := target.write(configs); err != nil {
		b.log.Error("alter configs", "resource", name, "cause", err)
		return storageFailure(fmt.Errorf("alter configs of %s: %w", name, err))
	}
	return nil
}

func checkAlterations(changes []alteration) *failure {
	seen := map[string]bool{}
	for _, c := range changes {
		if seen[c.name] {
			return fail(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[c.name] = true
	}
	for _, c := range changes {
		if c.value == nil && c.op != opDelete {
			return fail(kerr.InvalidRequest, "Null value not supported for : %s", c.name)
		}
	}
	for _, c := range changes {
		if c.op < opSet || c.op > opSubtract {
			return &failure{code: kerr.UnknownServerError.Code} // as Kafka, without a text
		}
	}
	return nil
}

// apply makes one change in the outcome.
func (t alterTarget) apply(configs map[string]string, c alteration) *failure {
	switch c.op {
	case opSet:
		configs[c.name] = strings.TrimSpace(*c.value)
	case opDelete:
		delete(configs, c.name)
	case opAppend, opSubtract:
		if k := t.kind(c.name); k != kindList {
			word := map[int8]string{opAppend: "APPEND", opSubtract: "SUBTRACT"}[c.op]
			return fail(kerr.InvalidConfig, "Can't %s to key %s because its type is not LIST.", word, c.name)
		}
		have, ok := configs[c.name]
		if !ok {
			have = t.current(c.name)
		}
		list := splitList(have)
		for _, v := range splitList(*c.value) {
			at := slices.Index(list, v)
			if c.op == opAppend && at < 0 {
				list = append(list, v)
			}
			if c.op == opSubtract && at >= 0 {
				list = slices.Delete(list, at, at+1)
			}
		}
		configs[c.name] = strings.Join(list, ",")
	}
	return nil
}

func (b *Broker) alterTarget(resource int, name string) (alterTarget, *failure) {
	switch resource {
	case resourceTopic:
		return b.topicTarget(name)
	case resourceBroker:
		return b.brokerTarget(name)
	case resourceGroup:
		return b.groupTarget(name)
	}
	return alterTarget{}, fail(kerr.InvalidRequest, "Unknown resource type %d", resource)
}

func (b *Broker) topicTarget(name string) (alterTarget, *failure) {
	c := b.catalog()
	t := c.topic(name)
	if t == nil {
		return alterTarget{}, fail(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", name)
	}
	view := b.viewOf(c)
	return alterTarget{
		name: name, configs: t.configs,
		kind:    func(n string) kind { return topicConfig(n).kind },
		current: func(n string) string { return view.effective(topicConfig(n), t.configs) },
		check: func(configs map[string]string) *failure {
			if text := checkTopicConfigs(configs); text != "" {
				return fail(kerr.InvalidConfig, "%s", text)
			}
			return nil
		},
		write: func(configs map[string]string) error { return b.meta.setTopicConfigs(t, configs) },
	}, nil
}

// brokerTarget is this broker, or with the empty name all brokers. What takes
// effect without a restart are the defaults of topics.
func (b *Broker) brokerTarget(name string) (alterTarget, *failure) {
	switch {
	case b.isNodeName(name):
		name = b.nodeName() // one configuration for all brokers of the process
	case name != "":
		return alterTarget{}, fail(kerr.InvalidRequest, "Unexpected broker id, expected %s, but received %s", b.nodeName(), name)
	}
	c := b.catalog()
	view := b.viewOf(c)
	table := b.settings.table
	return alterTarget{
		name: name, configs: c.brokers[name],
		kind:    func(n string) kind { return table[n].kind },
		current: func(n string) string { s, _, _ := view.lookup(n); return s },
		check: func(configs map[string]string) *failure {
			for _, n := range slices.Sorted(maps.Keys(configs)) {
				p, ok := table[n]
				if !ok {
					return fail(kerr.InvalidRequest, "Unknown Config (or dynamic config) : %s", n)
				}
				if !p.dynamic {
					return fail(kerr.InvalidRequest, "Cannot update these configs dynamically: Set(%s)", n)
				}
				if msg := checkValue(p.kind, configs[n]); msg != "" {
					return fail(kerr.InvalidRequest, "Invalid value %s for configuration %s: %s", configs[n], n, msg)
				}
			}
			changed := view
			if name == "" {
				changed.cluster = configs
			} else {
				changed.node = configs
			}
			for _, d := range topicConfigs() {
				if value, from := changed.topicDefault(d); d.check(value) != "" {
					return fail(kerr.InvalidRequest, "Invalid value %s for configuration %s: %s", value, from, d.check(value))
				}
			}
			return nil
		},
		write: func(configs map[string]string) error { return b.meta.setConfigs(keyBroker, name, configs) },
	}, nil
}

func (b *Broker) groupTarget(name string) (alterTarget, *failure) {
	if name == "" {
		return alterTarget{}, fail(kerr.InvalidRequest, "Default group resources are not allowed.")
	}
	find := func(n string) (groupConfigDef, bool) {
		i := slices.IndexFunc(groupConfigs(), func(d groupConfigDef) bool { return d.name == n })
		if i < 0 {
			return groupConfigDef{}, false
		}
		return groupConfigs()[i], true
	}
	return alterTarget{
		name: name, configs: b.catalog().groups[name],
		kind:    func(n string) kind { d, _ := find(n); return d.kind },
		current: func(n string) string { d, _ := find(n); return d.value },
		check: func(configs map[string]string) *failure {
			for _, n := range slices.Sorted(maps.Keys(configs)) {
				d, ok := find(n)
				if !ok {
					return fail(kerr.InvalidConfig, "Unknown group config name: %s", n)
				}
				if f := b.checkGroupConfig(d, configs[n]); f != nil {
					return f
				}
			}
			return nil
		},
		write: func(configs map[string]string) error { return b.meta.setConfigs(keyGroup, name, configs) },
	}, nil
}

func (b *Broker) checkGroupConfig(d groupConfigDef, value string) *failure {
	msg := checkValue(d.kind, value)
	if msg == "" && d.oneOf != nil && !slices.Contains(d.oneOf, value) {
		msg = "String must be one of: " + strings.Join(d.oneOf, ", ")
	}
	n, _ := strconv.ParseInt(value, 10, 64)
	if msg == "" && d.kind == kindInt && n < 0 {
		msg = "Value must be at least 0"
	}
	switch {
	case msg != "":
		return fail(kerr.InvalidConfig, "Invalid value %s for configuration %s: %s", value, d.name, msg)
	case d.min != "" && n < b.settings.int(d.min):
		return fail(kerr.InvalidConfig, "%s must be greater than or equal to %s", d.name, d.min)
	case d.max != "" && n > b.settings.int(d.max):
		return fail(kerr.InvalidConfig, "%s must be less than or equal to %s", d.name, d.max)
	}
	return nil
}
