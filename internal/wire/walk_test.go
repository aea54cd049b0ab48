package wire

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func produceBody(version int16, topics, partitions int) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(version)
	req.TransactionID = kmsg.StringPtr("x")
	for range topics {
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic = "topic"
		for p := range partitions {
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition = int32(p)
			if p > 0 {
				rp.Records = []byte("records")
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	return req.AppendTo(nil)
}

func TestWalkProduce(t *testing.T) {
	for v := int16(3); v <= 13; v++ {
		body := produceBody(v, 3, 4)
		if err := WalkProduce(body, v, v >= 9); err != nil {
			t.Errorf("version %d: %v", v, err)
		}
		for cut := range body {
			if err := WalkProduce(body[:cut], v, v >= 9); !errors.Is(err, ErrFrame) {
				t.Errorf("version %d cut to %d of %d bytes: %v", v, cut, len(body), err)
			}
		}
	}
	if err := WalkProduce(produceBody(9, 1, MaxElements), 9, true); !errors.Is(err, ErrFrame) {
		t.Errorf("more than MaxElements: %v", err)
	}
}

// What the walker lets through, the codec can decode.
func FuzzWalkProduce(f *testing.F) {
	for v := int16(3); v <= 13; v++ {
		f.Add(v, produceBody(v, 2, 2))
		f.Add(v, produceBody(v, 0, 0))
	}
	f.Fuzz(func(t *testing.T, v int16, body []byte) {
		if v < 3 || v > 13 || len(body) > 10_000 {
			return
		}
		walked := WalkProduce(body, v, v >= 9)
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(v)
		if decoded := req.ReadFrom(body); walked == nil && decoded != nil {
			t.Fatalf("the walker lets through what the codec refuses: %v", decoded)
		}
	})
}
