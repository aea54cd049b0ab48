package broker

import (
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleAlterReplicaLogDirs moves nothing: there is one directory, and whoever
// asks for it has what was asked for.
func (b *Broker) handleAlterReplicaLogDirs(rq *request) {
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	at := map[string]int{}
	c := b.catalog()
	for _, d := range rq.msg.(*kmsg.AlterReplicaLogDirsRequest).Dirs {
		for _, asked := range d.Topics {
			i, ok := at[asked.Topic]
			if !ok {
				i = len(resp.Topics)
				at[asked.Topic] = i
				t := kmsg.NewAlterReplicaLogDirsResponseTopic()
				t.Topic = asked.Topic
				resp.Topics = append(resp.Topics, t)
			}
			for _, n := range asked.Partitions {
				p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				p.Partition = n
				switch {
				case filepath.Clean(d.Dir) != filepath.Clean(b.config.Dir):
					p.ErrorCode = kerr.LogDirNotFound.Code
				case c.topic(asked.Topic).partition(n) == nil:
					p.ErrorCode = kerr.UnknownTopicOrPartition.Code
				}
				resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, p)
			}
		}
	}
	rq.reply(resp)
}
