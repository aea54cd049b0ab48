package group

import "github.com/twmb/franz-go/pkg/kerr"

// settle is what hangs on records: it runs once they are durable (code 0) or
// lost (the code of the append).
type settle func(code int16)

// write is the records of one Step on their way into the log.
type write struct {
	seq    uint64
	settle []settle
}

// log adds records to the batch of the Step at hand. What hangs on them runs
// in the order in which it was logged when the batch is durable, and in the
// opposite order when it is lost, so that it can be taken back.
func (s *Shard) log(then settle, records ...Record) {
	s.out.Records = append(s.out.Records, records...)
	s.settle = append(s.settle, then)
}

// change adds a record whose change was already made; undo takes the change back
// should the append fail.
func (s *Shard) change(r Record, undo func()) {
	s.log(func(code int16) {
		if code != 0 {
			undo()
		}
	}, r)
}

// restore takes a change of a map back.
func restore[V any](m map[string]V, key string, was V, had bool) {
	if had {
		m[key] = was
		return
	}
	delete(m, key)
}

// after runs something once everything that has been written so far is durable:
// what an answer is read from must not be lost when it has left.
func (s *Shard) after(then settle) {
	switch last := len(s.writes) - 1; {
	case len(s.out.Records) > 0:
		s.settle = append(s.settle, then)
	case last >= 0:
		s.writes[last].settle = append(s.writes[last].settle, then)
	default:
		then(0)
	}
}

// seal gives the records of the Step at hand their sequence number.
func (s *Shard) seal() {
	if len(s.out.Records) == 0 {
		return
	}
	s.seq++
	s.out.Seq = s.seq
	s.writes = append(s.writes, write{seq: s.seq, settle: s.settle})
}

func (s *Shard) appended(a Appended) {
	if a.Code != 0 {
		s.failWrites(a.Seq, a.Code)
		return
	}
	for len(s.writes) > 0 && s.writes[0].seq <= a.Seq {
		w := s.writes[0]
		s.writes = s.writes[1:]
		for _, then := range w.settle {
			then(0)
		}
	}
}

// failWrites takes back every write from seq on, the newest first.
func (s *Shard) failWrites(seq uint64, code int16) {
	var failed []write
	for len(s.writes) > 0 && s.writes[len(s.writes)-1].seq >= seq {
		failed = append(failed, s.writes[len(s.writes)-1])
		s.writes = s.writes[:len(s.writes)-1]
	}
	for _, w := range failed {
		for i := len(w.settle) - 1; i >= 0; i-- {
			w.settle[i](code)
		}
	}
}

// appendError is what a client is told when the append behind its request
// failed (GroupMetadataManager.appendGroupMetadataErrorToResponseError).
func appendError(code int16) int16 {
	switch code {
	case kerr.UnknownTopicOrPartition.Code, kerr.NotEnoughReplicas.Code, kerr.RequestTimedOut.Code:
		return kerr.CoordinatorNotAvailable.Code
	case kerr.NotLeaderForPartition.Code, kerr.KafkaStorageError.Code:
		return kerr.NotCoordinator.Code
	case kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code, kerr.InvalidFetchSize.Code:
		return kerr.UnknownServerError.Code
	}
	return code
}
