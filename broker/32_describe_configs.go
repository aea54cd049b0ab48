package broker

import (
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// synonym is one place that gives a config its value.
type synonym struct {
	name, value string
	source      configSource
}

// synonyms lists the places that give a broker property its value, the one
// that counts first (KafkaConfig's and DynamicBrokerConfig's configSynonyms):
// the property itself and, for times, those in coarser units.
func (v configView) synonyms(name string) []synonym {
	names := []string{name}
	for _, fine := range []string{"log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"} {
		family := []string{fine}
		for _, c := range coarser(fine) {
			family = append(family, c.name)
		}
		if slices.Contains(family, name) && (name == fine || fine != "log.flush.interval.ms") {
			names = family
		}
	}
	var all []synonym
	add := func(configs map[string]string, source configSource) {
		for _, n := range names {
			if value, ok := configs[n]; ok {
				all = append(all, synonym{n, value, source})
			}
		}
	}
	add(v.node, sourceBroker)
	add(v.cluster, sourceBrokers)
	add(v.static.given, sourceStatic)
	for _, n := range names {
		if p := v.static.table[n]; !p.null && p.name != "" {
			all = append(all, synonym{n, p.value, sourceDefault})
		}
	}
	for len(all) > 0 && all[0].name != name {
		all = all[1:]
	}
	return all
}

// describeTopicConfig returns the value of a topic's config, where it is from,
// and what stands behind it.
func (v configView) describeTopicConfig(d topicConfigDef, configs map[string]string) (value string, source configSource, all []synonym) {
	if d.broker != "" {
		all = v.synonyms(d.broker)
	}
	value = v.effective(d, configs)
	if _, own := configs[d.name]; own {
		all = append([]synonym{{d.name, value, sourceTopic}}, all...)
	}
	if len(all) == 0 {
		return value, sourceDefault, nil
	}
	return value, all[0].source, all
}

// handleDescribeConfigs shows the configs of topics, of this broker and of
// groups, with their sources. One resource of a kind that Kafka does not know
// spoils the whole request there, and so here (KafkaApis.scala).
func (b *Broker) handleDescribeConfigs(rq *request) {
	msg := rq.msg.(*kmsg.DescribeConfigsRequest)
	resp := kmsg.NewPtrDescribeConfigsResponse()
	c := b.catalog()
	spoiled := slices.ContainsFunc(msg.Resources, func(asked kmsg.DescribeConfigsRequestResource) bool {
		return !knownResource(int(asked.ResourceType))
	})
	for _, asked := range msg.Resources {
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName, r.ErrorMessage = asked.ResourceType, asked.ResourceName, kmsg.StringPtr("")
		configs, failed := b.describeConfigs(c, asked)
		if spoiled {
			configs, failed = nil, fail(kerr.InvalidRequest, malformedText)
		}
		if failed != nil {
			r.ErrorCode, r.ErrorMessage = failed.code, kmsg.StringPtr(failed.text)
		}
		for _, config := range configs {
			if len(asked.ConfigNames) > 0 && !slices.Contains(asked.ConfigNames, config.Name) {
				continue
			}
			if !msg.IncludeSynonyms {
				config.ConfigSynonyms = nil
			}
			r.Configs = append(r.Configs, config)
		}
		resp.Resources = append(resp.Resources, r)
	}
	rq.reply(resp)
}

// describeConfigs lists the configs of one resource. What is said of one that
// is not there are Kafka's words (ConfigHelper.scala).
func (b *Broker) describeConfigs(c *catalog, asked kmsg.DescribeConfigsRequestResource) ([]kmsg.DescribeConfigsResponseResourceConfig, *failure) {
	view, name := b.viewOf(c), asked.ResourceName
	switch int(asked.ResourceType) {
	case resourceTopic:
		if wrong := checkTopicName(name); wrong != "" {
			return nil, fail(kerr.InvalidTopicException, "%s", wrong)
		}
		t := c.topic(name)
		if t == nil {
			return nil, fail(kerr.UnknownTopicOrPartition, "")
		}
		var out []kmsg.DescribeConfigsResponseResourceConfig
		for _, d := range topicConfigs() {
			value, source, all := view.describeTopicConfig(d, t.configs)
			out = append(out, configEntry(d.name, &value, source, d.kind, false, all))
		}
		return out, nil
	case resourceBroker:
		switch {
		case name == "":
			return view.describeBroker(false), nil
		case b.isNodeName(name):
			return view.describeBroker(true), nil
		}
		return nil, b.otherBroker(name, " or empty string,")
	case resourceBrokerLogger:
		if !b.isNodeName(name) {
			return nil, b.otherBroker(name, "")
		}
	case resourceGroup:
		if name == "" {
			return nil, fail(kerr.InvalidRequest, "Group name must not be empty")
		}
		return describeGroup(c.groups[name]), nil
	}
	return nil, fail(kerr.InvalidRequest, malformedText)
}

// otherBroker says that a broker's config was asked of another one.
func (b *Broker) otherBroker(name, or string) *failure {
	if _, err := strconv.ParseInt(name, 10, 32); err != nil {
		return fail(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", name)
	}
	return fail(kerr.InvalidRequest, "Unexpected broker id, expected %s%s but received %s", b.nodeName(), or, name)
}

// describeBroker lists every property, or, for the default of all brokers,
// those that somebody has set there.
func (v configView) describeBroker(one bool) []kmsg.DescribeConfigsResponseResourceConfig {
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, name := range slices.Sorted(maps.Keys(v.static.table)) {
		p := v.static.table[name]
		all := v.synonyms(name)
		value, source, null := v.lookup(name)
		if !one {
			if value, source = v.cluster[name], sourceBrokers; v.cluster[name] == "" {
				continue
			}
			all = []synonym{{name, value, sourceBrokers}}
		}
		shown := &value
		if null || p.kind == kindPassword {
			shown = nil
		}
		out = append(out, configEntry(name, shown, source, p.kind, !p.dynamic, all))
	}
	return out
}

func configEntry(name string, value *string, source configSource, k kind, readOnly bool, all []synonym) kmsg.DescribeConfigsResponseResourceConfig {
	e := kmsg.NewDescribeConfigsResponseResourceConfig()
	e.Name, e.Value, e.Source, e.ReadOnly = name, value, kmsg.ConfigSource(source), readOnly
	e.ConfigType, e.IsSensitive = kmsg.ConfigType(k), k == kindPassword
	e.IsDefault = source == sourceDefault
	for _, s := range all {
		syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		syn.Name, syn.Source = s.name, kmsg.ConfigSource(s.source)
		if !e.IsSensitive {
			syn.Value = &s.value
		}
		e.ConfigSynonyms = append(e.ConfigSynonyms, syn)
	}
	return e
}

// groupConfigDef is a config that a group may have (GroupConfig.java).
type groupConfigDef struct {
	name, value string
	kind        kind
	min         string // the broker property that bounds it from below
	max         string // and from above
	oneOf       []string
}

func groupConfigs() []groupConfigDef {
	return []groupConfigDef{
		{"consumer.heartbeat.interval.ms", "5000", kindInt, "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms", nil},
		{"consumer.session.timeout.ms", "45000", kindInt, "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms", nil},
		{"share.auto.offset.reset", "latest", kindString, "", "", []string{"latest", "earliest"}},
		{"share.heartbeat.interval.ms", "5000", kindInt, "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms", nil},
		{"share.isolation.level", "read_uncommitted", kindString, "", "", []string{"read_uncommitted", "read_committed"}},
		{"share.record.lock.duration.ms", "30000", kindInt, "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms", nil},
		{"share.session.timeout.ms", "45000", kindInt, "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms", nil},
		{"streams.heartbeat.interval.ms", "5000", kindInt, "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms", nil},
		{"streams.initial.rebalance.delay.ms", "3000", kindInt, "", "", nil},
		{"streams.num.standby.replicas", "0", kindInt, "", "group.streams.max.standby.replicas", nil},
		{"streams.session.timeout.ms", "45000", kindInt, "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms", nil},
	}
}

func describeGroup(configs map[string]string) []kmsg.DescribeConfigsResponseResourceConfig {
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, d := range groupConfigs() {
		value, source := d.value, sourceDefault
		if own, ok := configs[d.name]; ok {
			value, source = own, sourceGroup
		}
		out = append(out, configEntry(d.name, &value, source, d.kind, false, []synonym{{d.name, value, source}}))
	}
	return out
}

// handleListConfigResources names what has configs of its own.
func (b *Broker) handleListConfigResources(rq *request) {
	msg := rq.msg.(*kmsg.ListConfigResourcesRequest)
	resp := kmsg.NewPtrListConfigResourcesResponse()
	types := msg.ResourceTypes
	if rq.version == 0 {
		types = []int8{resourceClientMetrics}
	} else if len(types) == 0 {
		types = []int8{resourceTopic, resourceBroker, resourceBrokerLogger, resourceClientMetrics, resourceGroup}
	}
	c := b.catalog()
	for _, t := range types {
		var names []string
		switch t {
		case resourceTopic:
			names = c.names()
		case resourceBroker, resourceBrokerLogger:
			for _, n := range b.nodes {
				names = append(names, strconv.Itoa(int(n.id)))
			}
		case resourceGroup:
			names = slices.Sorted(maps.Keys(c.groups))
		case resourceClientMetrics:
		default:
			resp.ErrorCode, resp.ConfigResources = kerr.UnsupportedVersion.Code, nil
			rq.reply(resp)
			return
		}
		for _, name := range names {
			r := kmsg.NewListConfigResourcesResponseConfigResource()
			r.Name, r.Type = name, t
			resp.ConfigResources = append(resp.ConfigResources, r)
		}
	}
	rq.reply(resp)
}
