package call

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Strike says that one record held the poll clock to its end, or nearly, and
// cost its owner the lease.
type Strike struct {
	Offset int64
	Call   string // name of the call that held it; empty for user code outside of calls
	Times  int    // leases it has cost
}

// The note is how strikes travel with a partition: it is the metadata of an
// offset commit, which every Kafka keeps and hands to the next owner.
//
//	rondo held 41 call:model 1, 47 code 2
//
// Each entry is an offset, the work that held it ("call:" and the call's name
// in the escapes of a URL's path, or "code" for user code outside of calls),
// and the leases that it has cost. Kafka refuses metadata above
// offset.metadata.max.bytes (4,096 unless it was changed).
const (
	notePrefix = "rondo held "
	noteMax    = 2000 // bytes
	noteCall   = "call:"
	noteCode   = "code"
)

// Note writes strikes in the order of their offsets. Those that do not fit are
// left out, the highest offsets first: the lowest will be run first.
func Note(strikes []Strike) string {
	strikes = slices.SortedFunc(slices.Values(strikes), func(a, b Strike) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Call, b.Call))
	})
	note := ""
	for _, s := range strikes {
		work := noteCode
		if s.Call != "" {
			work = noteCall + url.PathEscape(s.Call)
		}
		entry := fmt.Sprintf("%d %s %d", s.Offset, work, s.Times)
		lead := ", "
		if note == "" {
			lead = notePrefix
		}
		if len(note)+len(lead)+len(entry) <= noteMax {
			note += lead + entry
		}
	}
	return note
}

// ParseNote reads a note. Metadata that somebody else wrote holds no strikes
// and is no error.
func ParseNote(metadata string) ([]Strike, error) {
	list, ours := strings.CutPrefix(metadata, notePrefix)
	if !ours {
		return nil, nil
	}
	if len(metadata) > noteMax {
		return nil, fmt.Errorf("note of %d bytes, the bound is %d", len(metadata), noteMax)
	}
	var strikes []Strike
	for entry := range strings.SplitSeq(list, ", ") {
		s, err := parseStrike(entry)
		if err != nil {
			return nil, fmt.Errorf("note %.100q: entry %.100q: %w", metadata, entry, err)
		}
		strikes = append(strikes, s)
	}
	return strikes, nil
}

func parseStrike(entry string) (s Strike, err error) {
	fields := strings.Split(entry, " ")
	if len(fields) != 3 {
		return s, errors.New("want an offset, the work and a count")
	}
	if s.Offset, err = strconv.ParseInt(fields[0], 10, 64); err != nil || s.Offset < 0 {
		return s, errors.New("want an offset from 0 on")
	}
	if s.Times, err = strconv.Atoi(fields[2]); err != nil || s.Times < 1 {
		return s, errors.New("want a count from 1 on")
	}
	if fields[1] == noteCode {
		return s, nil
	}
	name, ok := strings.CutPrefix(fields[1], noteCall)
	if s.Call, err = url.PathUnescape(name); !ok || err != nil || s.Call == "" {
		return s, errors.New("want call:NAME or code")
	}
	return s, nil
}
