//go:build synctests

package broker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *world) commit() {
	group := fmt.Sprint("g", w.rng.IntN(4))
	t := w.some()
	if t == nil {
		return
	}
	at := worldOffset{group, t.name, int32(w.rng.IntN(len(t.parts)))}
	w.serial++
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = at.n, int64(w.serial)
	rt := kmsg.OffsetCommitRequestTopic{Topic: t.name, TopicID: t.id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}
	req.Topics = append(req.Topics, rt)
	resp, err := ask[*kmsg.OffsetCommitResponse](w.coordinator(group), req, int16(9+w.rng.IntN(2)))
	code := int16(0)
	if err == nil {
		code = resp.Topics[0].Partitions[0].ErrorCode
	}
	w.valued(at, int64(w.serial), w.outcome(fmt.Sprintf("commit %v at %d", at, w.serial), err, code), code)
}

// commitAt commits an offset without a group protocol.
func (w *world) commitAt(at worldOffset, offset int64) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = at.group, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = at.n, offset
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: at.topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	resp, err := ask[*kmsg.OffsetCommitResponse](w.coordinator(at.group), req, 9)
	if err == nil && resp.Topics[0].Partitions[0].ErrorCode != 0 {
		err = errors.New(errorName(resp.Topics[0].Partitions[0].ErrorCode))
	}
	return err
}

// refusal is an outcome as an error.
func (w *world) refusal(o outcome) error {
	if o != done {
		return errors.New("refused")
	}
	return nil
}

// valued notes what a committed offset is now.
func (w *world) valued(at worldOffset, value int64, o outcome, code int16) {
	v := w.offsets[at]
	if v == nil {
		v = &worldValue{allowed: []int64{-1}}
	}
	switch {
	case o == done:
		v.allowed = []int64{value}
	case o == unknown:
		v.allowed = append(v.allowed, value)
	case code == kerr.NotCoordinator.Code && !w.healthy():
		v.allowed = append(v.allowed, value)
	case w.healthy() && code != kerr.CoordinatorLoadInProgress.Code && code != kerr.NotCoordinator.Code && code != kerr.GroupIDNotFound.Code && code != kerr.CoordinatorNotAvailable.Code:
		w.errorf("commit %v: %s", at, errorName(code))
	}
	w.offsets[at] = v
}

func (w *world) deleteOffsets() {
	if len(w.offsets) == 0 {
		return
	}
	all := slices.SortedFunc(maps.Keys(w.offsets), func(a, b worldOffset) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	at := all[w.rng.IntN(len(all))]
	if t := w.topics[at.topic]; t == nil || t.maybeGone || t.maybeNew {
		return
	}
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = at.group
	req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: at.topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: at.n}}}}
	resp, err := ask[*kmsg.OffsetDeleteResponse](w.coordinator(at.group), req, 0)
	code := int16(0)
	if err == nil {
		if code = resp.ErrorCode; code == 0 {
			code = resp.Topics[0].Partitions[0].ErrorCode
		}
	}
	w.valued(at, -1, w.outcome(fmt.Sprintf("delete offset %v", at), err, code), code)
}

func (w *world) deleteGroup() {
	group := fmt.Sprint("g", w.rng.IntN(4))
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	resp, err := ask[*kmsg.DeleteGroupsResponse](w.coordinator(group), req, 2)
	code := int16(0)
	if err == nil {
		code = resp.Groups[0].ErrorCode
	}
	o := w.outcome("delete group "+group, err, code)
	for at := range w.offsets {
		if at.group == group {
			w.valued(at, -1, o, code)
		}
	}
}

// coordinator is the broker that coordinates a group.
func (w *world) coordinator(group string) *caller { return w.calls[w.coordinatorOf(w.any(), group)] }

func (w *world) coordinatorOf(c *caller, group string) int {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{group}
	resp, err := ask[*kmsg.FindCoordinatorResponse](c, req, 4)
	if err != nil || resp.Coordinators[0].ErrorCode != 0 {
		return 0
	}
	return int(resp.Coordinators[0].NodeID) - 1
}
