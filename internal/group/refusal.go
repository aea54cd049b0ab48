package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// needsGroupID says whether the request has an empty group id that its API
// does not take. Offsets may be committed, fetched, described and deleted
// under the empty id: clients without a group did so for years.
func needsGroupID(req kmsg.Request) bool {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		return req.Group == ""
	case *kmsg.SyncGroupRequest:
		return req.Group == ""
	case *kmsg.HeartbeatRequest:
		return req.Group == ""
	case *kmsg.LeaveGroupRequest:
		return req.Group == ""
	case *kmsg.OffsetDeleteRequest:
		return req.Group == ""
	case *kmsg.TxnOffsetCommitRequest:
		return req.Group == ""
	}
	return false
}

// ErrorResponse is the answer to a request of a group API that failed as a
// whole, with the error where that API and version carry it. A shell uses it
// for requests that never reach a shard.
func ErrorResponse(req kmsg.Request, code int16) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		return joinError(req, req.MemberID, code)
	case *kmsg.SyncGroupRequest:
		return syncError(req, code)
	case *kmsg.HeartbeatRequest:
		return heartbeatResponse(req, code)
	case *kmsg.LeaveGroupRequest:
		resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
		resp.ErrorCode = code
		return resp
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return consumerError(req, &refused{code: code})
	case *kmsg.ConsumerGroupDescribeRequest:
		resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
		for _, id := range req.Groups {
			row := kmsg.NewConsumerGroupDescribeResponseGroup()
			row.Group, row.ErrorCode = id, code
			resp.Groups = append(resp.Groups, row)
		}
		return resp
	case *kmsg.StreamsGroupHeartbeatRequest:
		return streamsError(req, &refused{code: code})
	case *kmsg.StreamsGroupDescribeRequest:
		resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
		for _, id := range req.Groups {
			row := kmsg.NewStreamsGroupDescribeResponseGroup()
			row.Group, row.ErrorCode = id, code
			resp.Groups = append(resp.Groups, row)
		}
		return resp
	case *kmsg.OffsetCommitRequest:
		return commitError(req, code)
	case *kmsg.TxnOffsetCommitRequest:
		return txnCommitError(req, code)
	case *kmsg.OffsetFetchRequest:
		return fetchError(req, code)
	case *kmsg.OffsetDeleteRequest:
		resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
		resp.ErrorCode = code
		return resp
	case *kmsg.DescribeGroupsRequest:
		resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		for _, id := range req.Groups {
			row := kmsg.NewDescribeGroupsResponseGroup()
			row.Group, row.ErrorCode = id, code
			resp.Groups = append(resp.Groups, row)
		}
		return resp
	case *kmsg.ListGroupsRequest:
		resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
		resp.ErrorCode = code
		return resp
	case *kmsg.DeleteGroupsRequest:
		resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
		for _, id := range req.Groups {
			row := kmsg.NewDeleteGroupsResponseGroup()
			row.Group, row.ErrorCode = id, code
			resp.Groups = append(resp.Groups, row)
		}
		return resp
	}
	return req.ResponseKind()
}

func commitError(req *kmsg.OffsetCommitRequest, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func txnCommitError(req *kmsg.TxnOffsetCommitRequest, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewTxnOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// fetchError carries the error of the whole group: at the top in v2 to v7, on
// the group from v8, and on every partition in v1, which has no better place.
// A coordinator that is not available is told as NOT_COORDINATOR: consumers
// before 3.9 do not know the other one here.
func fetchError(req *kmsg.OffsetFetchRequest, code int16) kmsg.Response {
	if code == kerr.CoordinatorNotAvailable.Code {
		code = kerr.NotCoordinator.Code
	}
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	resp.ErrorCode = code
	for _, g := range req.Groups {
		row := kmsg.NewOffsetFetchResponseGroup()
		row.Group, row.ErrorCode = g.Group, code
		resp.Groups = append(resp.Groups, row)
	}
	if req.Version >= 2 {
		return resp
	}
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.ErrorCode = p, -1, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
