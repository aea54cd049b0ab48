package group

import (
	"encoding/json"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// clocksTag is what the clocks of a member show, for the tagged fields of the
// member in an answer to a describing request. The shell takes it out again
// for clients that did not ask for it.
func clocksTag(c cause.Clocks) kmsg.Tags {
	value, err := json.Marshal(c)
	if err != nil {
		panic(err) // four numbers
	}
	var tags kmsg.Tags
	tags.Set(cause.ClocksTag, value)
	return tags
}
