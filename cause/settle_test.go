package cause

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What the history has of an event comes in pieces, and pieces may be missing: each
// row is records, as "from>to at stage", and the events that they tell of.
func TestSettle(t *testing.T) {
	for _, row := range []struct{ records, want string }{
		{"1>2@5begun 1>2@5", "1>2@5"},
		{"1>2@5begun", "1>2@5begun"},                                                         // killed, or it goes on
		{"1>2@5 1>2@5begun", "1>2@5"},                                                        // the end was written first
		{"1>2@5begun 1>2@5taken", ""},                                                        // could not be written
		{"1>2@5begun 1>2@9begun 1>2@9", "1>2@9"},                                             // nor could that it was not
		{"1>2@5begun 1>2@5taken 1>2@9begun", "1>2@9begun"},                                   // written at the second attempt
		{"1>2@5 1>2@5taken", "1>2@5"},                                                        // in memory it was
		{"1>2@5begun 2>3@6begun 1>2@5 2>3@6", "1>2@5 2>3@6"},                                 // two at a time
		{"0>1@1begun 0>1@1 1>2@2 0>1@7begun 0>1@7", "0>1@1 1>2@2 0>1@7"},                     // a group that was deleted
		{"0>2@1begun 0>2@1 2>3@2begun 2>3@4begun 3>4@5begun", "0>2@1 2>3@4begun 3>4@5begun"}, // and killed again and again
	} {
		var events []Event
		for _, text := range strings.Fields(row.records) {
			e, at := Event{Group: "g", Cause: PollClock}, 0
			stage := ""
			if n, _ := fmt.Sscanf(text, "%d>%d@%d%s", &e.From, &e.To, &at, &stage); n < 3 {
				t.Fatal(text)
			}
			e.At = time.Unix(int64(at), 0)
			e.Stage = map[string]Stage{"": Whole, "begun": Begun, "taken": TakenBack}[stage]
			events = append(events, e)
		}
		var got []string
		for _, e := range Settle(events) {
			got = append(got, fmt.Sprintf("%d>%d@%d%s", e.From, e.To, e.At.Unix(), e.Stage))
		}
		if text := strings.Join(got, " "); text != row.want {
			t.Errorf("%s: %s, want %s", row.records, text, row.want)
		}
	}
}
