package member

// Candidate is one member of the group as the assignor sees it.
type Candidate struct {
	ID         string
	InstanceID string
	Rack       string
	Topics     []string
	Owned      []TopicPartition // claims of the highest generation only
	Generation int32            // of the claim, -1 when none
	UserData   []byte
}

// Placement is what the assignor gives one member.
type Placement struct {
	Partitions []TopicPartition
	UserData   []byte
}

// Assignor shares the partitions of the group's topics among its members. It
// runs on the leader. The two-phase rule of the cooperative protocol is not
// its business: it says who should own what, and the member withholds what
// another one must revoke first.
type Assignor interface {
	// Name is the protocol name that all members of a group must share.
	Name() string
	// Assign places every partition of counts (topic to number of partitions)
	// on one member that subscribes to its topic.
	Assign(members []Candidate, counts map[string]int32) map[string]Placement
}
