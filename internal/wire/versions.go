package wire

import "fmt"

// None marks an API that has no flexible version: its headers and bodies are
// never written in the compact form of KIP-482.
const None int16 = 1<<15 - 1

// API is one row of the table of APIs: its key, the versions that Apache Kafka
// 4.2 advertises, and the first version with compact strings, compact arrays
// and tagged fields (KIP-482).
type API struct {
	Key      int16
	Min, Max int16
	Flexible int16 // first flexible version, or None
	Name     string
}

// String is the name and the key: "Fetch(1)".
func (a API) String() string { return fmt.Sprintf("%s(%d)", a.Name, a.Key) }

// The keys of the APIs that this project speaks, as the protocol numbers them.
const (
	Produce                      int16 = 0
	Fetch                        int16 = 1
	ListOffsets                  int16 = 2
	Metadata                     int16 = 3
	OffsetCommit                 int16 = 8
	OffsetFetch                  int16 = 9
	FindCoordinator              int16 = 10
	JoinGroup                    int16 = 11
	Heartbeat                    int16 = 12
	LeaveGroup                   int16 = 13
	SyncGroup                    int16 = 14
	DescribeGroups               int16 = 15
	ListGroups                   int16 = 16
	SASLHandshake                int16 = 17
	APIVersions                  int16 = 18
	CreateTopics                 int16 = 19
	DeleteTopics                 int16 = 20
	DeleteRecords                int16 = 21
	InitProducerID               int16 = 22
	OffsetForLeaderEpoch         int16 = 23
	DescribeACLs                 int16 = 29
	CreateACLs                   int16 = 30
	DeleteACLs                   int16 = 31
	DescribeConfigs              int16 = 32
	AlterConfigs                 int16 = 33
	AlterReplicaLogDirs          int16 = 34
	DescribeLogDirs              int16 = 35
	SASLAuthenticate             int16 = 36
	CreatePartitions             int16 = 37
	CreateDelegationToken        int16 = 38
	RenewDelegationToken         int16 = 39
	ExpireDelegationToken        int16 = 40
	DescribeDelegationToken      int16 = 41
	DeleteGroups                 int16 = 42
	ElectLeaders                 int16 = 43
	IncrementalAlterConfigs      int16 = 44
	AlterPartitionReassignments  int16 = 45
	ListPartitionReassignments   int16 = 46
	OffsetDelete                 int16 = 47
	DescribeClientQuotas         int16 = 48
	DescribeUserSCRAMCredentials int16 = 50
	DescribeQuorum               int16 = 55
	UpdateFeatures               int16 = 57
	DescribeCluster              int16 = 60
	DescribeProducers            int16 = 61
	DescribeTransactions         int16 = 65
	ListTransactions             int16 = 66
	ConsumerGroupDescribe        int16 = 69
	ListConfigResources          int16 = 74
	DescribeTopicPartitions      int16 = 75
	StreamsGroupDescribe         int16 = 89
)

// Kafka42 is what a broker of Apache Kafka 4.2.0 advertises on a plaintext
// listener, in key order. A broker of ours advertises the rows that it has
// handlers for, and no other.
func Kafka42() []API { return append(clientAPIs(), adminAPIs()...) }

// clientAPIs are what producers, consumers and members of groups use.
func clientAPIs() []API {
	return []API{
		{0, 0, 13, 9, "Produce"},
		{1, 4, 18, 12, "Fetch"},
		{2, 1, 11, 6, "ListOffsets"},
		{3, 0, 13, 9, "Metadata"},
		{8, 2, 10, 8, "OffsetCommit"},
		{9, 1, 10, 6, "OffsetFetch"},
		{10, 0, 6, 3, "FindCoordinator"},
		{11, 0, 9, 6, "JoinGroup"},
		{12, 0, 4, 4, "Heartbeat"},
		{13, 0, 5, 4, "LeaveGroup"},
		{14, 0, 5, 4, "SyncGroup"},
		{15, 0, 6, 5, "DescribeGroups"},
		{16, 0, 5, 3, "ListGroups"},
		{17, 0, 1, None, "SaslHandshake"},
		{18, 0, 4, 3, "ApiVersions"},
		{19, 2, 7, 5, "CreateTopics"},
		{20, 1, 6, 4, "DeleteTopics"},
		{21, 0, 2, 2, "DeleteRecords"},
		{22, 0, 5, 2, "InitProducerId"},
		{23, 2, 4, 4, "OffsetForLeaderEpoch"},
		{24, 0, 5, 3, "AddPartitionsToTxn"},
		{25, 0, 4, 3, "AddOffsetsToTxn"},
		{26, 0, 5, 3, "EndTxn"},
		{27, 1, 2, 1, "WriteTxnMarkers"},
		{28, 0, 5, 3, "TxnOffsetCommit"},
	}
}

// adminAPIs are those of administration, and of the groups that came later.
func adminAPIs() []API {
	return []API{
		{29, 1, 3, 2, "DescribeAcls"},
		{30, 1, 3, 2, "CreateAcls"},
		{31, 1, 3, 2, "DeleteAcls"},
		{32, 1, 4, 4, "DescribeConfigs"},
		{33, 0, 2, 2, "AlterConfigs"},
		{34, 1, 2, 2, "AlterReplicaLogDirs"},
		{35, 1, 4, 2, "DescribeLogDirs"},
		{36, 0, 2, 2, "SaslAuthenticate"},
		{37, 0, 3, 2, "CreatePartitions"},
		{38, 1, 3, 2, "CreateDelegationToken"},
		{39, 1, 2, 2, "RenewDelegationToken"},
		{40, 1, 2, 2, "ExpireDelegationToken"},
		{41, 1, 3, 2, "DescribeDelegationToken"},
		{42, 0, 2, 2, "DeleteGroups"},
		{43, 0, 2, 2, "ElectLeaders"},
		{44, 0, 1, 1, "IncrementalAlterConfigs"},
		{45, 0, 1, 0, "AlterPartitionReassignments"},
		{46, 0, 0, 0, "ListPartitionReassignments"},
		{47, 0, 0, None, "OffsetDelete"},
		{48, 0, 1, 1, "DescribeClientQuotas"},
		{49, 0, 1, 1, "AlterClientQuotas"},
		{50, 0, 0, 0, "DescribeUserScramCredentials"},
		{51, 0, 0, 0, "AlterUserScramCredentials"},
		{55, 0, 2, 0, "DescribeQuorum"},
		{57, 0, 2, 0, "UpdateFeatures"},
		{60, 0, 2, 0, "DescribeCluster"},
		{61, 0, 0, 0, "DescribeProducers"},
		{64, 0, 0, 0, "UnregisterBroker"},
		{65, 0, 0, 0, "DescribeTransactions"},
		{66, 0, 2, 0, "ListTransactions"},
		{68, 0, 1, 0, "ConsumerGroupHeartbeat"},
		{69, 0, 1, 0, "ConsumerGroupDescribe"},
		{74, 0, 1, 0, "ListConfigResources"},
		{75, 0, 0, 0, "DescribeTopicPartitions"},
		{76, 1, 1, 0, "ShareGroupHeartbeat"},
		{77, 1, 1, 0, "ShareGroupDescribe"},
		{78, 1, 2, 0, "ShareFetch"},
		{79, 1, 2, 0, "ShareAcknowledge"},
		{80, 0, 1, 0, "AddRaftVoter"},
		{81, 0, 0, 0, "RemoveRaftVoter"},
		{83, 0, 0, 0, "InitializeShareGroupState"},
		{84, 0, 0, 0, "ReadShareGroupState"},
		{85, 0, 1, 0, "WriteShareGroupState"},
		{86, 0, 0, 0, "DeleteShareGroupState"},
		{87, 0, 1, 0, "ReadShareGroupStateSummary"},
		{88, 0, 0, 0, "StreamsGroupHeartbeat"},
		{89, 0, 0, 0, "StreamsGroupDescribe"},
		{90, 0, 1, 0, "DescribeShareGroupOffsets"},
		{91, 0, 0, 0, "AlterShareGroupOffsets"},
		{92, 0, 0, 0, "DeleteShareGroupOffsets"},
	}
}
