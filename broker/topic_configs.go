package broker

// offsetsTopicName is where groups keep their state.
const offsetsTopicName = "__consumer_offsets"

// topicSettings are the configs of a topic that the broker acts on.
type topicSettings struct {
	maxMessageBytes int32
	logAppendTime   bool
	compact         bool
}
