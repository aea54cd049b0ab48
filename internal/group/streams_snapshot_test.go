package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// snapshot is everything of a streams group that must survive.
func (t *streams) snapshot(b *strings.Builder) {
	fmt.Fprintf(b, "group %s: %s, epoch %d, hash %x, topology %d validated, standbys %q, target epoch %d\n",
		t.g.id, t.state(), t.epoch, t.hash, t.validated, t.standbys, t.targetEpoch)
	if t.topology != nil {
		fmt.Fprintf(b, "  topology %x\n", t.topology.encode())
	}
	for _, m := range t.sorted() {
		fmt.Fprintf(b, "  member %s %x\n    at %x\n", m.id, m.meta.encode(), m.current.encode())
	}
	for _, id := range slices.Sorted(maps.Keys(t.targets)) {
		fmt.Fprintf(b, "  target of %s: %s\n", id, t.targets[id])
	}
}

// records are those that make the group again.
func (t *streams) records() []Record {
	var records []Record
	put := func(kind int16, value []byte, names ...string) {
		records = append(records, Record{coordinatorKey(kind, append([]string{t.g.id}, names...)...), value})
	}
	for _, m := range t.sorted() {
		put(keyStreamsMember, m.meta.encode(), m.id)
	}
	if t.topology != nil {
		put(keyStreamsTopology, t.topology.encode())
	}
	put(keyStreamsGroup, streamsEpoch{t.epoch, t.hash, t.validated, t.standbys}.encode())
	for _, id := range slices.Sorted(maps.Keys(t.targets)) {
		put(keyStreamsTarget, encodeStreamsTarget(t.targets[id]), id)
	}
	put(keyStreamsTargetEpoch, encodeTargetEpoch(t.targetEpoch))
	for _, m := range t.sorted() {
		put(keyStreamsCurrent, m.current.encode(), m.id)
	}
	return records
}
