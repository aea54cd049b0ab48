package broker

import "github.com/rondo-streams/rondo/internal/group"

// groupMetadata is a catalog as the coordinator's shards see it.
func (b *Broker) groupMetadata(c *catalog) group.Metadata {
	topics := make([]group.Topic, 0, len(c.byName))
	var racks []string
	if rack := b.settings.string("broker.rack"); rack != "" {
		racks = []string{rack}
	}
	for _, t := range c.byName {
		topics = append(topics, group.Topic{
			Name: t.name, ID: group.TopicID(t.id), Partitions: int32(len(t.partitions)), Racks: racks,
		})
	}
	return group.Metadata{Topics: group.NewImage(c.version, topics), Groups: c.groups}
}

// catalogChanged tells the running shards of new metadata. It is called from
// the metadata goroutine, with every catalog in order, and does not block.
func (c *coordinator) catalogChanged(now *catalog) {
	shards := c.running()
	if len(shards) == 0 {
		return
	}
	in := c.b.groupMetadata(now)
	for _, s := range shards {
		s.post(in)
	}
}
