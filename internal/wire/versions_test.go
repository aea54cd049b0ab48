package wire

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The table must agree with the codec: every version has a struct to decode
// it into, and both know from which version on an API is flexible.
func TestVersionsAgreeWithCodec(t *testing.T) {
	table := Kafka42()
	if !slices.IsSortedFunc(table, func(a, b API) int { return int(a.Key) - int(b.Key) }) {
		t.Error("the table is not in the order of its keys")
	}
	for _, a := range table {
		req := kmsg.RequestForKey(a.Key)
		if req == nil {
			t.Errorf("%v: the codec does not know it", a)
			continue
		}
		if req.MaxVersion() < a.Max {
			t.Errorf("%v: the codec ends at version %d, the table at %d", a, req.MaxVersion(), a.Max)
		}
		for v := a.Min; v <= a.Max; v++ {
			req.SetVersion(v)
			if want := v >= a.Flexible; req.IsFlexible() != want {
				t.Errorf("%v version %d: flexible is %v in the table and %v in the codec", a, v, want, req.IsFlexible())
			}
		}
	}
}
