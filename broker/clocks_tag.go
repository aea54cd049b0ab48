package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rondo-streams/rondo/cause"
)

// wantsClocks says whether a request asks for the clocks of members.
func wantsClocks(request *kmsg.Tags) bool {
	asked := false
	request.Each(func(tag uint32, _ []byte) { asked = asked || tag == cause.ClocksTag })
	return asked
}
